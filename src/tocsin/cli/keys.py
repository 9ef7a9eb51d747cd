"""`tocsin keys`: the keys of a server's tenants."""

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from tocsin.cli.console import AsJson, errors, interruptible, output, print_json
from tocsin.errors import OptionError

app = typer.Typer(no_args_is_help=True, help="Add, list and revoke the keys of a server's tenants.")
File = Annotated[Path, typer.Argument(metavar="KEYS", help="The file of keys, such as index/serve/keys.json.")]


@app.command("add")
@interruptible
def add(
    file: File,
    tenant: Annotated[str, typer.Argument(help="Whose key it is.")],
    tag: Annotated[list[str] | None, typer.Option(help="A tag that the key is bound to, as name=value.")] = None,
    admin: Annotated[bool, typer.Option("--admin", help="A key to everything, without limits.")] = False,
    subscriptions: Annotated[int, typer.Option(min=0, help="The most subscriptions.")] = 100_000,
    predicates: Annotated[int, typer.Option(min=1, help="The most predicates of a subscription.")] = 200,
    text_bytes: Annotated[int, typer.Option(min=1, help="The most bytes of a condition.")] = 20_000,
    attributes: Annotated[int, typer.Option(min=1, help="The most distinct attributes, in all.")] = 10_000,
    always_true: Annotated[int, typer.Option(min=0, help="The most that every event satisfies.")] = 100,
    matches: Annotated[int, typer.Option(min=1, help="The most matches of an event.")] = 10_000,
    requests: Annotated[float, typer.Option(min=0.01, help="The most requests a second.")] = 1000.0,
) -> None:
    """Make a key and print it; it is stored as a hash and cannot be shown again."""
    from tocsin.model.limits import Limits
    from tocsin.serve.tenants import KeyFile

    tags = {}
    for given in tag or []:
        name, sign, value = given.partition("=")
        if not sign or not name:
            raise OptionError(f"the tag is {given!r}", "Write it as name=value")
        tags[name] = value
    limits = Limits(
        predicates=predicates,
        text_bytes=text_bytes,
        subscriptions=subscriptions,
        tenant_attributes=attributes,
        tenant_always_true=always_true,
        matches=matches,
        requests=requests,
    )
    typer.echo(KeyFile(file).add(tenant, tags, limits, admin=admin))
    errors().print("keep it: only its hash is stored")


@app.command("list")
@interruptible
def list_keys(file: File, as_json: AsJson = False) -> None:
    """List the keys by their ids, with the limits that are not those of a key added without options."""
    from tocsin.serve.tenants import TENANT_LIMITS, KeyFile

    if not file.exists():
        raise OptionError(f"there is no file {file}", "tocsin keys add makes one")
    if as_json:
        kept = ("id", "name", "admin", "tags", "limits", "added")
        print_json([{name: entry[name] for name in kept} for entry in KeyFile(file).entries()])
        return
    table = Table("id", "tenant", Column("tags", max_width=30), Column("limits", max_width=40), "added")
    usual = dataclasses.asdict(TENANT_LIMITS)
    for entry in KeyFile(file).entries():
        own = {name: value for name, value in entry["limits"].items() if value != usual[name]}
        limits = ", ".join(f"{name} {'none' if value is None else f'{value:,}'}" for name, value in own.items())
        limits = "none" if entry["admin"] else limits or "as usual"
        tags = ", ".join(f"{name}={value}" for name, value in entry["tags"].items())
        added = dt.datetime.fromtimestamp(entry["added"], dt.UTC).isoformat(" ", "minutes")
        table.add_row(entry["id"], entry["name"] + (" (admin)" if entry["admin"] else ""), tags, limits, added)
    output().print(table)


@app.command("revoke")
@interruptible
def revoke(file: File, id: Annotated[str, typer.Argument(help="The id that `list` shows.")]) -> None:
    """Remove a key; a running server knows within a second."""
    from tocsin.serve.tenants import KeyFile

    KeyFile(file).revoke(id)
