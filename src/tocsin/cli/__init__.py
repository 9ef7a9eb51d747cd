"""The command `tocsin`. Each command is thin and imports what it needs when it runs, so that help comes at once.

Exit codes: 0 all well; 1 finished, but something was rejected, or engines disagreed; 2 did not run; 130 interrupted.
"""

import re
import sys
from typing import Annotated, cast

import typer
from rich.markup import escape

from tocsin.cli import (
    backtest,
    bench,
    check,
    demo,
    draw,
    explain,
    import_,
    index,
    keys,
    match,
    plan_capacity,
    replay,
    serve,
    stream,
    top_k,
    warm,
)
from tocsin.cli.console import Process, errors, interruptible, leave_out_py4j, tell_of_compilation
from tocsin.cli.matcher_options import with_matcher_options
from tocsin.errors import TocsinError

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
"""What is raised for options that cannot be read: a class of Click's, which Typer brings under a private name."""

app = typer.Typer(
    no_args_is_help=True,
    help="Match events against millions of standing subscriptions.",
    epilog="Exit codes: 0 all well, 1 something was rejected or disagreed, 2 did not run, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tocsin {version('tocsin')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("match")(interruptible(with_matcher_options(match.match)))
app.command("backtest")(interruptible(with_matcher_options(backtest.backtest)))
app.command("top-k")(interruptible(with_matcher_options(top_k.top_k)))
app.command("stream")(interruptible(stream.stream))
app.command("check")(interruptible(with_matcher_options(check.check)))
app.command("explain")(interruptible(with_matcher_options(explain.explain)))
app.command("replay")(interruptible(replay.replay))
app.command("plan-capacity")(interruptible(plan_capacity.plan))
app.command("warm")(interruptible(warm.warm))
app.command("demo")(interruptible(demo.demo))
app.command("draw")(interruptible(draw.draw))
app.command("serve")(interruptible(with_matcher_options(serve.serve)))
app.add_typer(keys.app, name="keys")
app.add_typer(index.app, name="index")
app.add_typer(import_.app, name="import")
app.add_typer(bench.app, name="bench")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    Process.is_ours = arguments is None
    if Process.is_ours:
        leave_out_py4j()
    tell_of_compilation(is_wanted="--quiet" not in (sys.argv[1:] if arguments is None else arguments))
    try:
        # Not by itself: it would say in a box of several lines, cut at 80 characters, what is wrong with an option.
        return app(arguments, prog_name="tocsin", standalone_mode=False) or 0
    except UsageError as error:
        return _tell_of_usage(error)
    except TocsinError as error:
        # Escaped: what a user wrote may look like markup.
        errors().print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        for note in getattr(error, "__notes__", ()):
            errors().print(note, highlight=False, markup=False, soft_wrap=True)
        return 2
    except OSError as error:
        # A folder that cannot be written, a full disk: what the system says is what helps.
        named = f": {error.filename}" if error.filename else ""
        errors().print(
            f"[bold red]error:[/] {escape((error.strerror or str(error)) + named)}", highlight=False, soft_wrap=True
        )
        return 2
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            errors().print_exception()
            return 2
        reason = " ".join(["Spark failed:", reason_of_spark(str(error)), *getattr(error, "__notes__", ())])
        errors().print(f"[bold red]error:[/] {escape(reason)}", highlight=False, soft_wrap=True)
        return 2
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)


def reason_of_spark(text: str) -> str:
    """The line that says why, of an error of Spark's, which brings the tracebacks of two languages and a plan.

    >>> reason_of_spark("[STREAM_FAILED] Query terminated\\nTraceback …\\nOSError: no space left\\n\\nLogical Plan: …")
    'OSError: no space left.'
    >>> reason_of_spark("[PATH_NOT_FOUND] Path does not exist: /e. SQLSTATE: 42K03;\\n'UnresolvedRelation")
    '[PATH_NOT_FOUND] Path does not exist: /e. SQLSTATE: 42K03;.'
    """
    raised = re.findall(r"^(?:\w+\.)*(\w*(?:Error|Exception): .+)", text, re.MULTILINE)
    return (raised[-1] if "Traceback" in text and raised else text.strip().split("\n")[0]).rstrip(".") + "."


def _tell_of_usage(error: typer.BadParameter) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return error.exit_code
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    command = "tocsin" if error.ctx is None else error.ctx.command_path
    end = "" if message.endswith("?") else "."
    errors().print(f"[bold red]error:[/] {escape(message)}{end} See {command} --help", highlight=False, soft_wrap=True)
    return error.exit_code
