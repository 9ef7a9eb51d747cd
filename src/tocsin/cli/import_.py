"""`tocsin import …`: subscriptions from other systems."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import AsJson, Quiet, interruptible, report
from tocsin.cli.inputs import read_text
from tocsin.cli.progress import Stage, stage
from tocsin.errors import MissingDependencyError, OptionError

if TYPE_CHECKING:
    from tocsin.importers.imported import Imported

app = typer.Typer(no_args_is_help=True, help="Translate the rules of other systems to subscriptions.")
Output = Annotated[
    Path, typer.Option(help="The subscriptions to write: .jsonl, .csv, .parquet or .arrow; .gz or .zst may follow.")
]


def percolator(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Exported documents with their queries.")],
    output: Annotated[
        Path, typer.Option(help="The subscriptions to write: .jsonl, .csv, .parquet or .arrow; may end in .gz or .zst.")
    ],
    mapping: Annotated[
        Path | None, typer.Option(help="The mapping of the index, as GET INDEX/_mapping gives it.")
    ] = None,
    lists: Annotated[list[str] | None, typer.Option(help="A field that holds lists; may be repeated.")] = None,
    query_field: Annotated[str, typer.Option(help="The field that holds the query.")] = "query",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Translate stored queries of Elasticsearch's or OpenSearch's percolator.

    What has no exact equivalent is reported with the reason and left out; then the exit code is 1.
    """
    from tocsin.importers.percolator import Fields
    from tocsin.importers.stored_queries import import_queries

    fields = Fields.of_mapping(_read_json(mapping) if mapping else {}, lists or ())
    _write(output, overwrite, as_json, quiet, lambda progress: import_queries(files, fields, query_field, progress))


def sigma(
    rules: Annotated[list[Path], typer.Argument(metavar="RULES...", help="Sigma rules: .yml files, or folders.")],
    output: Annotated[
        Path, typer.Option(help="The subscriptions to write: .jsonl, .csv, .parquet or .arrow; may end in .gz or .zst.")
    ],
    pipeline: Annotated[
        list[Path] | None, typer.Option(help="A processing pipeline of pySigma, as YAML; may be repeated.")
    ] = None,
    raw: Annotated[str | None, typer.Option(help="The attribute that keywords without a field are in.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
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
    _write(output, overwrite, as_json, quiet, lambda progress: import_rules(rules, pipeline or (), raw, progress))


def _write(output: Path, overwrite: bool, as_json: bool, quiet: bool, translate: Callable[[Stage], "Imported"]) -> None:
    """Translate the rules, write the subscriptions and report what was left out."""
    from tocsin.files.formats import format_of
    from tocsin.files.subscription_files import write_subscriptions
    from tocsin.storage.atomic_files import whole_file

    format_of(output)
    with whole_file(output, overwrite) as target:
        with stage("translating", "rules", quiet=quiet) as progress:
            imported = translate(progress)
        write_subscriptions(imported.subscriptions, target, output)
    figures = {"subscriptions": len(imported.subscriptions)}
    report(str(output), figures, imported.rejected, as_json=as_json, quiet=quiet)


def _read_json(path: Path) -> dict[str, object]:
    way_out = "Save what GET INDEX/_mapping gives"
    text = read_text(path, way_out)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{path} is not JSON: {error}", way_out) from error
    if not isinstance(found, dict):
        raise OptionError(f"{path} is not a mapping", way_out)
    return found


for _command in (percolator, sigma):
    app.command()(interruptible(_command))
