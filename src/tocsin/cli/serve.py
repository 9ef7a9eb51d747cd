"""`tocsin serve`: match, publish and deliver over HTTP."""

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.console import errors
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.errors import MissingDependencyError, OptionError


def serve(
    index: Annotated[Path | None, typer.Argument(help="The folder of the index; made if it is not there.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; others than loopback need keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Matching processes.")] = 2,
    state: Annotated[Path | None, typer.Option(help="Inboxes and keys; by default in the index folder.")] = None,
    keys: Annotated[Path | None, typer.Option(help="The file of keys; by default among the state.")] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of Parquet files that may be back-tested.")] = None,
    max_body_mb: Annotated[int, typer.Option(min=1, max=1024, help="The largest request.")] = 32,
    body_seconds: Annotated[float, typer.Option(min=0.1, help="The longest time to send a request.")] = 20.0,
    allow_private_webhooks: Annotated[
        bool, typer.Option("--allow-private-webhooks", help="Tenants may name webhooks in this network.")
    ] = False,
    audit: Annotated[
        float, typer.Option(min=0, max=1, help="The share of pairs of event and subscription to judge a second time.")
    ] = 0.0,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a running example from a temporary folder.")] = False,
    *,
    options: MatcherOptions,
) -> None:
    """Serve an index: one writer process, several matching processes, inboxes, and a page to look at.

    The options of the matcher are for an index that is made, whose history keeps 100,000 events unless they say
    otherwise; one that is there has its own.
    """
    if (index is None) != demo:
        raise OptionError("give the folder of an index, or --demo", "Such as tocsin serve index")
    if index is not None:
        _check_place(index)
    try:
        from tocsin.serve.settings import ServerSettings
        from tocsin.serve.supervisor import serve as run
        from tocsin.serve.worker import run as _  # noqa: F401 (are all parts installed?)
    except ImportError as error:
        raise MissingDependencyError(
            f"the server needs {error.name}", "Install it with pip install 'tocsin[serve]'"
        ) from error
    with contextlib.ExitStack() as stack:
        folder = index or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-demo-")), "index")
        if options.given:
            _make(folder, options)
        elif index is not None:
            _check(index)
        state = state or folder / "serve"
        _check_place(state)
        settings = ServerSettings(
            index=str(folder),
            state=str(state),
            runtime="",
            workers=workers,
            keys=str(keys or state / "keys.json"),
            data=None if data is None else str(data),
            max_body=max_body_mb << 20,
            body_seconds=body_seconds,
            allow_private_webhooks=allow_private_webhooks,
            audit=audit,
        )

        def ready(address: str) -> None:
            errors().print(f"serving {folder} on {address}", highlight=False, soft_wrap=True)
            if demo:
                from tocsin.serve.sample import play

                play(address)

        run(settings, host, port, ready)


def _check_place(folder: Path) -> None:
    """Raise what is wrong with a folder now: its writer would fail, and be started again and again."""
    from tocsin.storage.atomic_files import check_place

    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is not a folder", "Give the folder of an index, or the name of a new one")
    check_place(folder / "new" if folder.is_dir() else folder)


def _check(folder: Path) -> None:
    """Raise what is wrong with an index now: it is damaged, cannot be written, or another process writes it."""
    from tocsin.matcher import Matcher
    from tocsin.storage.folder import Folder

    place = Folder(folder)
    place.lock()
    place.unlock()
    if place.newest() is not None:
        Matcher.open(folder, mode="read").close()


def _make(folder: Path, options: MatcherOptions) -> None:
    """Make an index with these options. Raises OptionError if there is one already."""
    from tocsin.matcher import Matcher
    from tocsin.serve.writer import RETAINED
    from tocsin.storage.folder import Folder

    if Folder(folder).newest() is not None:
        options.refuse_for(folder)
    keywords = options.keywords()
    if options.retain_age is None and options.retain_events is None:
        keywords["retain_events"] = RETAINED
    with Matcher(**keywords) as matcher:
        matcher.save(folder)
