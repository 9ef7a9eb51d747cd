"""`tocsin import …`: subscriptions from other systems."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.console import errors, facts, interruptible, rejected_table
from tocsin.errors import OptionError

app = typer.Typer(no_args_is_help=True, help="Translate the rules of other systems to subscriptions.")


def percolator(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Exported documents with their queries.")],
    output: Annotated[Path, typer.Option(help="The subscriptions to write: .jsonl, .csv or .parquet.")],
    mapping: Annotated[
        Path | None, typer.Option(help="The mapping of the index, as GET INDEX/_mapping gives it.")
    ] = None,
    lists: Annotated[list[str] | None, typer.Option(help="A field that holds lists; may be repeated.")] = None,
    query_field: Annotated[str, typer.Option(help="The field that holds the query.")] = "query",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Translate stored queries of Elasticsearch's or OpenSearch's percolator.

    What has no exact equivalent is reported with the reason and left out; then the exit code is 1.
    """
    from tocsin.files.subscription_files import WRITERS
    from tocsin.importers.percolator import Fields
    from tocsin.importers.stored_queries import Imported, import_queries
    from tocsin.storage.atomic_files import whole_file

    if output.suffix not in WRITERS:
        raise OptionError(f"the format of {output} cannot be told", f"Name it with one of {', '.join(WRITERS)}")
    fields = Fields.of_mapping(_read_json(mapping) if mapping else {}, lists or ())
    imported = Imported()
    for file in files:
        found = import_queries(file, fields, query_field)
        imported.subscriptions += found.subscriptions
        imported.rejected += found.rejected
    with whole_file(output, overwrite) as target:
        WRITERS[output.suffix](imported.subscriptions, target)
    if imported.rejected:
        errors().print(rejected_table(imported.rejected))
    errors().print(facts(str(output), [("subscriptions", f"{len(imported.subscriptions):,}")]))
    if imported.rejected:
        raise typer.Exit(1)


def _read_json(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot read {path}: {error}", "Save what GET INDEX/_mapping gives") from error
    if not isinstance(found, dict):
        raise OptionError(f"{path} is not a mapping", "Save what GET INDEX/_mapping gives")
    return found


app.command()(interruptible(percolator))


@app.callback()
def _group() -> None:
    """One command for each system, also while there is only one."""
