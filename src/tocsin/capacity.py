"""The capacity model: the hosts, memory and network that subscriptions and events need, from measured unit costs.

An index of N subscriptions has N b bytes. It is divided into s shards, each of which is on r hosts. Every event goes to
one host of each shard, and costs there

    event + (candidates * candidate + matches * match) / s

of processor time: each shard has its part of the candidates and matches of an event, but reads the event as a whole. So
shards make memory smaller and the total work larger; replicas share the events and nothing else. Hence the plan: the
fewest shards that fit a host, then as many replicas as the events need. `tocsin bench units` measures the unit costs,
`tocsin bench scale` compares what is predicted here with runs.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tocsin.errors import OptionError

SHIPPED = Path(__file__).parent / "capacity_units.json"
"""The units that come with the package, as `tocsin bench units` measured them."""

ROW_BYTES = 20
"""A match as it leaves a worker: the number of the event, of the subscription, the score."""


@dataclass(frozen=True)
class Units:
    """Unit costs, as measured on one core; times are processor time."""

    index_bytes: Mapping[str, float]
    """The bytes of a subscription in the files of an index, which are mapped, by family of predicates."""
    event_us: Mapping[str, float]
    """Microseconds to read and encode an event, in each shard, by family."""
    candidate_us: float
    match_us: float
    """Microseconds to verify a candidate, and to write a match."""
    build_us: float
    """Microseconds to parse and index a subscription."""
    build_bytes: float
    """Memory that a task takes for each subscription that it builds an index of."""
    process_bytes: float
    """Memory of a worker process besides the mapped index."""
    commit_ms: float
    """Milliseconds to subscribe and commit."""
    open_ms: float
    """Milliseconds to open a segment."""
    open_us: float
    """Microseconds more for each of its subscriptions."""
    ship_s: float
    """Seconds to pack a gigabyte of index for the workers."""
    shard_ms: float
    """Milliseconds that a batch takes more for each shard on Spark: its task, and reading the events again."""
    candidates_a_match: float
    """Candidates that are verified for each match, on the ranges that were measured."""

    @classmethod
    def read(cls, file: Path = SHIPPED) -> "Units":
        """Read units that `tocsin bench units` wrote; raises OptionError if the file is something else.

        >>> Units.read().candidate_us > 0
        True
        """
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            return cls(**document)
        except (OSError, ValueError, TypeError) as error:
            raise OptionError(
                f"{file} has no unit costs: {error}", "Write it with `tocsin bench units --units`"
            ) from error

    def to_json(self) -> str:
        """Return the units as the file that `read` reads."""
        return json.dumps(asdict(self), indent=2) + "\n"


@dataclass(frozen=True)
class Demand:
    """What is asked for."""

    subscriptions: float
    events: float
    """A second."""
    matches: float = 100.0
    """Of an event, in all shards."""
    candidates: float | None = None
    """Of an event; None: as many for each match as the units say. The evidence of a match counts them."""
    family: str = "ranges"
    event_bytes: float = 200.0


@dataclass(frozen=True)
class Host:
    """A machine."""

    cores: int = 16
    memory: float = 64e9
    network: float = 10e9
    """Bits a second."""
    busy: float = 0.7
    """The share of its cores, memory and network that may be used."""


@dataclass(frozen=True)
class Capacity:
    """A plan: shards, replicas, and what each host has to do."""

    shards: int
    replicas: int
    """Hosts of each shard."""
    index_bytes: float
    """Of all shards together."""
    host_bytes: float
    """Memory that is used on a host: its shard, mapped once, and a worker process a core."""
    event_us: float
    """Processor time of an event in one shard."""
    cores: float
    """Cores that are busy in all, on average."""
    network: float
    """Bits a second into and out of a host: events in, matches out."""
    ship_s: float
    """Seconds until a new index is on all hosts of a shard, one after the other, by the network of one of them."""
    build_core_s: float
    """Processor time to build the index."""
    bound: str = field(default="")
    """What decides on the number of hosts: memory, cores or network, if one is not enough."""

    @property
    def hosts(self) -> int:
        """All hosts."""
        return self.shards * self.replicas


def capacity(demand: Demand, host: Host, units: Units, shards: int) -> Capacity:
    """Return what a number of shards needs; raises OptionError if a shard does not fit a host.

    >>> units = Units({"ranges": 400}, {"ranges": 1.0}, 0.002, 0.01, 30, 800, 2e8, 10, 10, 0, 1, 50, 47)
    >>> plan = capacity(Demand(1e8, 1e5, matches=100, candidates=5000), Host(), units, shards=1)
    >>> plan.index_bytes, plan.event_us, plan.cores, plan.replicas, plan.bound
    (40000000000.0, 12.0, 1.2, 1, 'one host is enough')
    >>> faster = capacity(Demand(1e8, 1e6, matches=100, candidates=5000), Host(), units, shards=2)
    >>> faster.event_us, faster.replicas, faster.bound
    (6.5, 2, 'network')
    """
    if demand.family not in units.index_bytes:
        raise OptionError(f"there is no family {demand.family!r}", f"Choose from {', '.join(units.index_bytes)}")
    candidates = units.candidates_a_match * demand.matches if demand.candidates is None else demand.candidates
    index_bytes = demand.subscriptions * units.index_bytes[demand.family]
    host_bytes = index_bytes / shards + host.cores * units.process_bytes
    if host_bytes > host.busy * host.memory:
        raise OptionError(
            f"a shard of {index_bytes / shards:,.0f} bytes does not fit a host of {host.memory:,.0f}",
            f"Take at least {least_shards(demand, host, units)} shards",
        )
    work_us = candidates * units.candidate_us + demand.matches * units.match_us
    event_us = units.event_us[demand.family] + work_us / shards
    by_cores = demand.events * event_us / 1e6 / (host.busy * host.cores)
    # Of a shard: every event comes in, and its part of the matches goes out.
    bits = 8 * demand.events * (demand.event_bytes + demand.matches * ROW_BYTES / shards)
    by_network = bits / (host.busy * host.network)
    replicas = max(math.ceil(by_cores), math.ceil(by_network), 1)
    if replicas == 1:
        bound = "one host is enough" if shards == 1 else "memory"
    else:
        bound = "cores" if by_cores >= by_network else "network"
    return Capacity(
        shards,
        replicas,
        index_bytes,
        host_bytes,
        event_us,
        shards * demand.events * event_us / 1e6,
        bits / replicas,
        replicas * 8 * index_bytes / shards / (host.busy * host.network),
        demand.subscriptions * units.build_us / 1e6,
        bound,
    )


def least_shards(demand: Demand, host: Host, units: Units) -> int:
    """Return the fewest shards that fit a host; raises OptionError if even its processes do not."""
    free = host.busy * host.memory - host.cores * units.process_bytes
    if free <= 0:
        raise OptionError(
            f"{host.cores} processes alone take more than a host of {host.memory:,.0f} bytes may",
            "Give hosts more memory, or fewer cores",
        )
    return max(math.ceil(demand.subscriptions * units.index_bytes[demand.family] / free), 1)


def plan_capacity(demand: Demand, host: Host | None = None, units: Units | None = None) -> Capacity:
    """Return the plan with the fewest hosts, and of these the fewest shards.

    That is mostly the fewest shards that fit; more of them help only where replicas would have to be rounded up.

    >>> plan = plan_capacity(Demand(subscriptions=1e7, events=1e4))
    >>> plan.shards, plan.hosts
    (1, 1)
    >>> large = plan_capacity(Demand(subscriptions=1e9, events=1e4))
    >>> large.shards > 1, large.host_bytes < 0.7 * 64e9
    (True, True)
    """
    host, units = host or Host(), units or Units.read()
    if demand.family not in units.index_bytes:
        raise OptionError(f"there is no family {demand.family!r}", f"Choose from {', '.join(units.index_bytes)}")
    shards = least_shards(demand, host, units)
    best = capacity(demand, host, units, shards)
    while (shards := shards + 1) < best.hosts:  # a plan has at least a host for each shard
        plan = capacity(demand, host, units, shards)
        best = plan if plan.hosts < best.hosts else best
    return best


SIZES, RATES = (1e7, 1e8, 1e9), (1e4, 1e5, 1e6)


def table(units: Units, host: Host | None = None) -> str:
    """Return the plans of ten million to a billion subscriptions as Markdown, as docs/scale.md has them.

    >>> print(table(Units.read()).splitlines()[1])
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
    """
    host = host or Host()
    head = (
        "subscriptions",
        "events/s",
        "index",
        "shards",
        "replicas",
        "hosts",
        "cores busy",
        "network a host",
        "bound by",
    )
    lines = [f"| {' | '.join(head)} |", f"| --- | --- |{' ---: |' * 6} --- |"]
    for subscriptions in SIZES:
        for events in RATES:
            plan = plan_capacity(Demand(subscriptions, events), host, units)
            cells = [
                f"{subscriptions:,.0f}",
                f"{events:,.0f}",
                f"{plan.index_bytes / 1e9:,.0f} GB",
                f"{plan.shards}",
                f"{plan.replicas}",
                f"{plan.hosts}",
                f"{plan.cores:,.1f}",
                f"{plan.network / 1e9:,.2f} Gb/s",
                plan.bound,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def document_of(plan: Capacity) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {"hosts": plan.hosts, **asdict(plan)}
