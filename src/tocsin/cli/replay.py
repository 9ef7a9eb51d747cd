"""`tocsin replay`: what the audit found, asked again."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tocsin.cli.console import output
from tocsin.errors import EventError


def replay(file: Annotated[Path, typer.Argument(help="Disagreements as the audit wrote them, a line each.")]) -> None:
    """Match each disagreement of an audit again, alone, and compare it with the reference; exit code 1 if they differ.

    If index and reference agree here, the disagreement needs the other subscriptions of its index, or is mended.
    """
    from tocsin.matcher import Matcher
    from tocsin.model.codec import decode_value

    table = Table("subscription", "said then", "says now", "reference")
    differ = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found = json.loads(line)
            id, where, namespaces = str(found["id"]), str(found["where"]), dict(found["namespaces"])
            event = {str(name): decode_value(value) for name, value in found["event"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EventError(f"line {number} of {file} is not a disagreement", "Pass the file of audit_log") from error
        said = []
        for alone in (Matcher(namespaces=namespaces), Matcher(namespaces=namespaces, matcher="reference")):
            alone.subscribe(id, where)
            said.append(len(alone.match_batch([event])) > 0)
        table.add_row(Text(id), *(("matches" if one else "does not") for one in (bool(found["said"]), *said)))
        differ |= said[0] != said[1]
    output().print(table)
    if differ:
        raise typer.Exit(1)
