"""`tocsin bench NAME`: one command for each workload in `tocsin.bench` and for the experiments of each paper.

The options of a command are the keyword parameters of its `run(...) -> Report`, plus `--json` and `--output`.
"""

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, get_type_hints

import typer

from tocsin._compile import load_compiler
from tocsin.bench.runner import Report, show
from tocsin.cli.console import errors, interruptible, output
from tocsin.cli.progress import stage

PACKAGE = Path(__file__).parent.parent

app = typer.Typer(no_args_is_help=True, help="Run a benchmark: workloads of the papers and of users, against rivals.")


def benchmarks() -> dict[str, str]:
    """The benchmarks by name, each with the first line of what it says about itself. Imports none of them."""
    texts = {name: file.read_text(encoding="utf-8") for name, file in sorted(_files().items())}
    return {
        name: text.removeprefix('"""').partition("\n")[0].removesuffix('"""')
        for name, text in texts.items()
        if "\ndef run(" in text
    }


def _files() -> dict[str, Path]:
    """The modules of users' workloads, and the experiments of each paper under the name of its folder."""
    workloads = {file.stem.replace("_", "-"): file for file in (PACKAGE / "bench").glob("*.py")}
    return workloads | {file.parent.name: file for file in (PACKAGE / "papers").glob("*/experiments.py")}


def command_of(name: str) -> Callable[..., None]:
    """The command of a benchmark, with the parameters of its `run` as options."""
    is_paper = (PACKAGE / "papers" / name).is_dir()
    module = f"papers.{name}.experiments" if is_paper else f"bench.{name.replace('-', '_')}"
    run = importlib.import_module(f"tocsin.{module}").run

    def command(json: bool, output_folder: Path | None, **parameters: object) -> None:
        # What is measured is compiled code, in whatever warms up with little data, too.
        load_compiler()
        with stage(f"bench {name}", told=False, detail=_last_result):
            report = run(**parameters)
        if json:
            typer.echo(report.to_json())
        else:
            report.print(output())
        if output_folder is not None:
            for file in report.write(output_folder):
                errors().print(f"wrote {file}", highlight=False, soft_wrap=True)
        if report.disagreements:
            for disagreement in report.disagreements:
                errors().print(f"engines disagree: {disagreement}", markup=False, soft_wrap=True)
            raise typer.Exit(1)

    json_flag = Annotated[bool, typer.Option("--json", help="Print the report as JSON and nothing else.")]
    folder = Annotated[Path | None, typer.Option("--output", help="Write JSON, CSV and SVG there.")]
    hints = get_type_hints(run)
    options = [
        *(
            parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            for parameter in inspect.signature(run).parameters.values()
        ),
        inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=json_flag),
        inspect.Parameter("output_folder", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=folder),
    ]
    # Typer reads the options of a command from its signature and its annotations.
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # inspect looks for it
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in options}
    command.__doc__ = run.__doc__
    return command


def _last_result() -> str:
    """What the benchmark under way measured last."""
    if Report.latest is None or not Report.latest.results:
        return ""
    done = Report.latest.results
    rate = "" if done[-1].events_per_s is None else f" {show(done[-1].events_per_s)} events/s"
    return f"{len(done)} results, the last {done[-1].engine}{rate}"


def _register(name: str, summary: str) -> None:
    """Add a command that imports its benchmark only when it runs, and then hands all arguments on to it."""

    @app.command(
        name,
        help=summary,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def _(context: typer.Context) -> None:
        inner = typer.Typer(add_completion=False)
        inner.command(name)(interruptible(command_of(name)))
        inner(context.args, prog_name=f"tocsin bench {name}")


for _name, _summary in benchmarks().items():
    _register(_name, _summary)


@app.command("report")
@interruptible
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that --output wrote reports to.")],
    chart: Annotated[bool, typer.Option("--chart", help="Print the bar chart of the README instead, as SVG.")] = False,
) -> None:
    """Print the reports of a folder as one page of Markdown, as docs/performance.md is."""
    from tocsin.bench.page import page
    from tocsin.bench.rivals_chart import rivals_chart

    typer.echo(rivals_chart(folder) if chart else page(folder), nl=False)
