"""`tocsin import …`: subscriptions from other systems."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import errors, facts, interruptible, rejected_table
from tocsin.cli.progress import Stage, stage
from tocsin.errors import MissingDependencyError, OptionError

if TYPE_CHECKING:
    from tocsin.importers.imported import Imported

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
    from tocsin.importers.percolator import Fields
    from tocsin.importers.stored_queries import import_queries

    fields = Fields.of_mapping(_read_json(mapping) if mapping else {}, lists or ())
    _write(output, overwrite, lambda progress: import_queries(files, fields, query_field, progress))


def sigma(
    rules: Annotated[list[Path], typer.Argument(metavar="RULES...", help="Sigma rules: .yml files, or folders.")],
    output: Annotated[Path, typer.Option(help="The subscriptions to write: .jsonl, .csv or .parquet.")],
    pipeline: Annotated[
        list[Path] | None, typer.Option(help="A processing pipeline of pySigma, as YAML; may be repeated.")
    ] = None,
    raw: Annotated[str | None, typer.Option(help="The attribute that keywords without a field are in.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Translate Sigma rules: the level becomes the score; title, log source and tags become tags.

    What has no exact equivalent is reported with the reason and left out; then the exit code is 1.
    """
    try:
        from tocsin.importers.sigma import import_rules
    except ModuleNotFoundError as error:
        if error.name != "sigma":
            raise
        raise MissingDependencyError(
            "pySigma is not installed", "Install it with: pip install 'tocsin[sigma]'"
        ) from error
    _write(output, overwrite, lambda progress: import_rules(rules, pipeline or (), raw, progress))


def _write(output: Path, overwrite: bool, translate: Callable[[Stage], "Imported"]) -> None:
    """Translate the rules, write the subscriptions and report what was left out."""
    from tocsin.files.subscription_files import WRITERS
    from tocsin.storage.atomic_files import whole_file

    if output.suffix not in WRITERS:
        raise OptionError(f"the format of {output} cannot be told", f"Name it with one of {', '.join(WRITERS)}")
    with whole_file(output, overwrite) as target:
        with stage("translating", "rules") as progress:
            imported = translate(progress)
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


for _command in (percolator, sigma):
    app.command()(interruptible(_command))
