"""`tocsin replay`: what the audit found, asked again."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tocsin.cli.console import AsJson, output, print_json
from tocsin.cli.inputs import read_text
from tocsin.errors import EventError
from tocsin.registry import MatcherName


def replay(
    file: Annotated[Path, typer.Argument(help="Disagreements as the audit wrote them, a line each.")],
    as_json: AsJson = False,
) -> None:
    """Match each disagreement of an audit again, alone, and compare it with the reference; exit code 1 if they differ.

    If index and reference agree here, the disagreement needs the other subscriptions of its index, or is mended.
    """
    lines = read_text(file, "Pass the file of audit_log").splitlines()
    from tocsin.matcher import Matcher
    from tocsin.model.analyzer import Analyzer
    from tocsin.model.codec import decode_value

    answers: list[dict[str, object]] = []
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            id, where, namespaces = str(found["id"]), str(found["where"]), dict(found["namespaces"])
            analyzers = {name: Analyzer(**given) for name, given in found.get("analyzers", {}).items()}
            event = {str(name): decode_value(value) for name, value in found["event"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EventError(f"line {number} of {file} is not a disagreement", "Pass the file of audit_log") from error
        said = []
        matchers: list[MatcherName] = ["auto", "reference"]
        for alone in [Matcher(namespaces=namespaces, analyzers=analyzers, matcher=one) for one in matchers]:
            alone.subscribe(id, where)
            said.append(len(alone.match_batch([event])) > 0)
        then = {"subscription": id, "said_then": bool(found["said"])}
        answers.append(then | {"says_now": said[0], "reference": said[1]})
    if as_json:
        print_json(answers)
    else:
        table = Table("subscription", "said then", "says now", "reference")
        for name, *truths in (answer.values() for answer in answers):
            table.add_row(Text(str(name)), *("matches" if truth else "does not" for truth in truths))
        output().print(table)
    if any(answer["says_now"] != answer["reference"] for answer in answers):
        raise typer.Exit(1)
