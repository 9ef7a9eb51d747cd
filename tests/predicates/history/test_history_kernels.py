"""Each kernel of the history against plain Python, compiled and as Python."""

import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s
from tocsin.predicates.history import kernels
from tocsin.predicates.history.encode import Lane
from tocsin.predicates.history.kernels import EXACT, LANES, STRING, WORD, Bounds, Groups, OldValues

Run = Callable[..., Any]
ENDS = np.iinfo(np.int64)
SEEDS = range(20)


@pytest.fixture(scope="module", params=["compiled", "python"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Calls a kernel by its name. As Python, the kernels that it calls are Python as well."""
    compiled = {name: value for name, value in vars(kernels).items() if is_kernel(value)}
    if request.param == "python":
        for name, value in compiled.items():
            setattr(kernels, name, getattr(value, "py_func", value))
    yield lambda name, *arguments: getattr(kernels, name)(*arguments)
    for name, value in compiled.items():
        setattr(kernels, name, value)


def is_kernel(value: object) -> bool:
    """Whether it was made by the decorator, in this module."""
    function = getattr(value, "py_func", value)
    return value is not kernel and inspect.isfunction(function) and function.__module__ == kernels.__name__


class Case(NamedTuple):
    """Old values, their keys, and a condition on them."""

    old: OldValues
    keys: Int64s
    bounds: Bounds

    def satisfies(self, at: int) -> bool:
        """Whether the old value at a position satisfies the condition."""
        return holds(self.bounds, int(self.old.lanes[at]), int(self.keys[at]))


def holds(bounds: Bounds, lane: int, key: int, index: tuple[int, ...] = ()) -> bool:
    """The definition of a condition."""
    low, high, outside = (array[(*index, lane)] for array in bounds)
    return bool(not low <= key <= high if outside else low <= key <= high)


def case(seed: int, size: int = 60) -> Case:
    """Values of a few lanes with few distinct payloads, and a condition with every form of interval."""
    random = np.random.default_rng(seed)
    lanes = random.choice([Lane.NULL, Lane.INTEGER, Lane.EXACT, Lane.STRING], size).astype(np.uint8)
    payloads = random.integers(0, 8, size)
    strings, exacts = random.permutation(8) * 10 - 40, random.permutation(8) * 7
    keys = np.where(lanes == STRING, strings[payloads], np.where(lanes == EXACT, exacts[payloads], payloads))
    return Case(OldValues(payloads, lanes, strings, exacts), keys, conditions(random, ()))


def conditions(random: np.random.Generator, shape: tuple[int, ...]) -> Bounds:
    """Intervals that are empty, open to one side, points, or pairs; some of them turned inside out."""
    low, high = random.integers(-40, 60, (2, *shape, LANES))
    form = random.integers(0, 5, (*shape, LANES))
    low = np.where(form == 0, ENDS.min, np.where(form == 1, 1, low))
    high = np.where(form == 2, ENDS.max, np.where(form == 1, 0, np.where(form == 3, low, high)))
    return Bounds(low, high, random.random((*shape, LANES)) < 0.3)


def sorted_runs(case: Case, starts: list[int]) -> tuple[Int32s, Int64s]:
    """The positions of each run by lane, key and position, and where the lanes of each begin."""
    order, lane_starts = [], []
    for start, stop in pairwise(starts):
        run = sorted(range(start, stop), key=lambda at: (case.old.lanes[at], case.keys[at], at))
        order += run
        lane_starts.append([start + sum(case.old.lanes[at] < lane for at in run) for lane in range(LANES + 1)])
    return np.array(order, np.int32), np.array(lane_starts, np.int64).reshape(-1, LANES + 1)


def empty_groups(count: int) -> Groups:
    return Groups(*(np.full((count, LANES), -1, np.int64) for _ in Groups._fields))


def aggregate(case: Case, positions: list[int], base: int) -> dict[int, tuple[int, ...]]:
    """By lane: least and greatest payload, the latest event with each, the latest event."""
    found = {}
    for lane in {int(case.old.lanes[at]) for at in positions}:
        inside = [at for at in positions if case.old.lanes[at] == lane]
        least, greatest = (pick(inside, key=lambda at: case.keys[at]) for pick in (min, max))
        latest = [max(a for a in inside if case.keys[a] == case.keys[at]) + base for at in (least, greatest)]
        payloads = (int(case.old.payloads[at]) for at in (least, greatest))
        found[lane] = (*payloads, *latest, max(inside) + base)
    return found


def groups_as_dict(groups: Groups, group: int) -> dict[int, tuple[int, ...]]:
    lanes = np.flatnonzero(groups.latest[group] >= 0).tolist()
    return {lane: tuple(int(array[group, lane]) for array in groups) for lane in lanes}


def test_every_kernel_is_tested_here() -> None:
    text = inspect.getsource(inspect.getmodule(test_every_kernel_is_tested_here))  # type: ignore[arg-type]  # this file
    names = [name for name, value in vars(kernels).items() if is_kernel(value)]
    assert len(names) > 10
    assert [name for name in names if f'run("{name}"' not in text] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_and_narrowing(run: Run, seed: int) -> None:
    made = case(seed)
    positions = np.random.default_rng(seed).permutation(60)[:40].astype(np.int32)
    one = int(positions[0])
    assert run("key_of", int(made.old.lanes[one]), int(made.old.payloads[one]), made.old) == made.keys[one]
    assert (run("keys_at", positions, made.old) == made.keys[positions]).all()
    expected = [at for at in positions.tolist() if made.satisfies(at)]
    assert run("narrow", positions, made.old, made.bounds).tolist() == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_tally_adds_counts_and_ends(run: Run, seed: int) -> None:
    made = case(seed)
    counts, least, greatest = np.zeros((3, LANES), np.int64)
    for start, stop in ((5, 30), (30, 55)):
        run("tally", start, stop, made.old, counts, least, greatest)
    for lane in range(LANES):
        inside = [at for at in range(5, 55) if made.old.lanes[at] == lane]
        assert counts[lane] == len(inside)
        if inside:
            keys = [made.keys[at] for at in inside]
            assert run("key_of", lane, int(least[lane]), made.old) == min(keys)
            assert run("key_of", lane, int(greatest[lane]), made.old) == max(keys)


@pytest.mark.parametrize("seed", SEEDS)
def test_slices_of_sorted_runs(run: Run, seed: int) -> None:
    made = case(seed)
    order, lane_starts = sorted_runs(made, [0, 40, 60])
    start, stop = (int(bound) for bound in lane_starts[0, STRING : STRING + 2])
    for key in (-100, 0, 25, 100):
        below = sum(made.keys[at] < key for at in order[start:stop])
        assert run("first_not_below", order, start, stop, key, made.old) == start + below
    found = run("slices", order, lane_starts, made.old, made.bounds)
    selected = [at for low, high in found.tolist() for at in order[low:high].tolist()]
    assert sorted(selected) == [at for at in range(60) if made.satisfies(at)]
    assert (found[:, 0] < found[:, 1]).all()
    assert run("gather", order, found, 20).tolist() == [at for at in selected if at >= 20]


@pytest.mark.parametrize("seed", SEEDS)
def test_contains_finds_what_has_not_expired(run: Run, seed: int) -> None:
    made = case(seed)
    order, lane_starts = sorted_runs(made, [0, 32, 48])
    for value in range(8):
        key = {STRING: int(made.old.strings[value]), EXACT: int(made.old.exacts[value])}
        points = np.array([key.get(lane, value) for lane in range(LANES)])
        # A value equals those of one kind only: here of the lanes up to EXACT, or of STRING.
        for lanes in (range(Lane.INTEGER, EXACT + 1), [STRING]):
            low, high = np.ones(LANES, np.int64), np.zeros(LANES, np.int64)
            low[list(lanes)] = high[list(lanes)] = points[list(lanes)]
            equality = Bounds(low, high, np.zeros(LANES, np.bool_))
            for first in (0, 30, 55):
                wanted = any(holds(equality, int(made.old.lanes[at]), int(made.keys[at])) for at in range(first, 60))
                assert run("contains", order, lane_starts, made.old, equality, first, 48, 60) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_many_conditions_at_once(run: Run, seed: int) -> None:
    random = np.random.default_rng(seed)
    terms, count, events = 2, 15, 12
    columns = [case(100 * seed + term, events) for term in range(terms)]
    bounds = conditions(random, (terms, count))

    def satisfied(condition: int, event: int) -> bool:
        values = [(int(column.old.lanes[event]), int(column.keys[event])) for column in columns]
        return all(holds(bounds, lane, key, (term, condition)) for term, (lane, key) in enumerate(values))

    wanted = random.random(count) < 0.8
    keys, lanes = np.stack([column.keys for column in columns]), np.stack([column.old.lanes for column in columns])
    expected = [max((e for e in range(events) if wanted[c] and satisfied(c, e)), default=-1) for c in range(count)]
    assert run("last_satisfying", keys, lanes, bounds, wanted).tolist() == expected

    some = [any(satisfied(c, e) for e in range(events)) for c in range(count)]
    for pivot in range(terms):
        order = np.lexsort((keys[pivot], lanes[pivot]))
        starts = np.searchsorted(lanes[pivot][order], np.arange(LANES + 1))
        by_key = keys.take(order, axis=1), lanes.take(order, axis=1)
        assert run("any_satisfying", *by_key, starts, pivot, bounds).tolist() == some
    order = np.lexsort((keys[0], lanes[0]))
    starts = np.searchsorted(lanes[0][order], np.arange(LANES + 1))
    single = Bounds(*(array[0] for array in bounds))
    first = [any(holds(single, int(lanes[0, e]), int(keys[0, e]), (c,)) for e in range(events)) for c in range(count)]
    assert run("any_within", keys[0][order], starts, single).tolist() == first


@pytest.mark.parametrize("seed", SEEDS)
def test_fences_and_their_positions(run: Run, seed: int) -> None:
    start, size = 3 * WORD, 4 * WORD
    order = (start + np.random.default_rng(seed).permutation(size)).astype(np.int32)
    before = np.array([0, 10, 10, 100, size])
    bitmaps = np.zeros((before.size, size // WORD), np.uint64)
    run("fill_fences", order, start, before, bitmaps)
    for fence, count in enumerate(before.tolist()):
        bits = np.unpackbits(bitmaps[fence].view(np.uint8), bitorder="little")
        assert (np.flatnonzero(bits) + start).tolist() == sorted(order[:count].tolist())
    first, stop = start + 50, start + 200
    expected = [at for at in sorted(order[:100].tolist()) if first <= at < stop]
    assert run("marked_positions", bitmaps[3], start, first, stop).tolist() == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_keep_their_ends(run: Run, seed: int) -> None:
    made, base = case(seed), 1000
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(60)[:25]).astype(np.int32)
    groups = empty_groups(2)
    run("fill_group", 1, chosen, base, made.old, groups)
    assert groups_as_dict(groups, 1) == aggregate(made, chosen.tolist(), base)
    assert groups_as_dict(groups, 0) == {}
    at = int(chosen[0])
    run("add_to_group", 0, int(made.old.lanes[at]), int(made.old.payloads[at]), base + at, made.old, groups)
    assert groups_as_dict(groups, 0) == aggregate(made, [at], base)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_take_the_events_with_their_constants(run: Run, seed: int) -> None:
    made, other, base, count = case(seed), case(seed + 1000), 1000, 6
    bounds = conditions(np.random.default_rng(seed), (1, count))
    groups = empty_groups(count)
    for at in range(40):
        run("extend_groups", at, base, other.keys[at : at + 1], other.old.lanes[at : at + 1], bounds, made.old, groups)
    for group in range(count):
        inside = [at for at in range(40) if holds(bounds, int(other.old.lanes[at]), int(other.keys[at]), (0, group))]
        assert groups_as_dict(groups, group) == aggregate(made, inside, base)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["<=", ">=", "<>"])
def test_groups_reach_a_condition_by_their_ends(run: Run, seed: int, form: str) -> None:
    made, base = case(seed), 1000
    random = np.random.default_rng(seed)
    members = [np.sort(random.permutation(60)[:size]).astype(np.int32) for size in (0, 1, 5, 20)]
    groups = empty_groups(len(members))
    for group, positions in enumerate(members):
        run("fill_group", group, positions, base, made.old, groups)
    key = random.integers(-40, 60, LANES)
    low = np.full(LANES, ENDS.min) if form == "<=" else key
    high = np.full(LANES, ENDS.max) if form == ">=" else key
    bounds = Bounds(low.astype(np.int64), high.astype(np.int64), np.full(LANES, form == "<>"))
    for lane in (Lane.NULL, Lane.EXACT):
        bounds.low[lane], bounds.high[lane], bounds.outside[lane] = 1, 0, False
    expected = [any(holds(bounds, int(made.old.lanes[at]), int(made.keys[at])) for at in p) for p in members]
    assert run("groups_reaching", groups, base, made.old, bounds).tolist() == expected
    assert not run("groups_reaching", groups, base + 60, made.old, bounds).any(), "every event has expired"
