"""`tocsin plan-capacity`: the hosts that subscriptions and events need."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tocsin.capacity import Capacity, Demand, Host, Units, capacity, document_of, plan_capacity
from tocsin.cli.console import AsJson, output, print_json, titled
from tocsin.errors import OptionError


def plan(
    subscriptions: Annotated[float, typer.Option(min=1, help="How many subscriptions, such as 1e9.")],
    events: Annotated[float, typer.Option(min=0, help="Events a second, such as 1e6.")],
    matches: Annotated[float, typer.Option(min=0, help="Matches of an event.")] = Demand.matches,
    candidates: Annotated[
        float | None, typer.Option(min=0, help="Candidates of an event; as many a match as were measured if not given.")
    ] = None,
    family: Annotated[str, typer.Option(help="What most conditions are: ranges, equality, words, …")] = Demand.family,
    event_bytes: Annotated[float, typer.Option(min=0, help="The bytes of an event.")] = Demand.event_bytes,
    cores: Annotated[int, typer.Option(min=1, help="The cores of a host.")] = Host.cores,
    memory: Annotated[float, typer.Option(min=1, help="The memory of a host in gigabytes.")] = Host.memory / 1e9,
    network: Annotated[float, typer.Option(min=0.001, help="The network of a host in gigabits a second.")] = (
        Host.network / 1e9
    ),
    busy: Annotated[float, typer.Option(min=0.01, max=1, help="The share of a host that may be used.")] = Host.busy,
    shards: Annotated[int | None, typer.Option(min=1, help="So many shards; else the fewest hosts.")] = None,
    units: Annotated[
        Path | None, typer.Option(help="Unit costs of your machine, written by `tocsin bench units --units`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the shards, replicas, hosts, memory and network that a load needs, by measured unit costs."""
    costs = Units.read() if units is None else Units.read(units)
    demand = Demand(subscriptions, events, matches, candidates, family, event_bytes)
    host = Host(cores, memory * 1e9, network * 1e9, busy)
    chosen = plan_capacity(demand, host, costs) if shards is None else capacity(demand, host, costs, shards)
    if as_json:
        print_json(document_of(chosen))
        return
    table = Table("", "shards", "replicas", "hosts", "memory a host", "cores busy", "network a host", "bound by")
    for column in table.columns[1:-1]:
        column.justify = "right"
    rows = {"best" if shards is None else "as asked": chosen}
    with contextlib.suppress(OptionError):  # the index may not fit a host
        rows["replicas alone"] = capacity(demand, host, costs, 1)
    for name, one in rows.items():
        table.add_row(name, *figures(one))
    title = f"{subscriptions:,.0f} subscriptions ({family}), {events:,.0f} events a second, {matches:,.0f} matches each"
    output().print(titled(title, table))
    output().print(
        f"index {chosen.index_bytes / 1e9:,.1f} GB, built in {chosen.build_core_s / 3600:,.1f} core hours; "
        f"an event takes {chosen.event_us:,.1f} µs in a shard; "
        f"a new index is on all hosts of a shard in {chosen.ship_s:,.0f} s",
        highlight=False,
        soft_wrap=True,
    )


def figures(one: Capacity) -> list[str]:
    """Return the cells of a plan."""
    return [
        f"{one.shards:,}",
        f"{one.replicas:,}",
        f"{one.hosts:,}",
        f"{one.host_bytes / 1e9:,.1f} GB",
        f"{one.cores:,.1f}",
        f"{one.network / 1e9:,.2f} Gb/s",
        one.bound,
    ]
