"""Views keep what they saw, and a change costs the change: no copy of a large part, no segment of the whole buffer."""

import itertools
import threading
import weakref
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.arrays import Bools
from tocsin.index.array_pool import SPARE, ArrayPool
from tocsin.index.buffer import FACTOR
from tocsin.index.segment import Segment
from tocsin.index.snapshot import Tags
from tocsin.language.normal_form import NormalForm
from tocsin.model.subscription import Subscription

CHANGES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.5, 2.0, 3.0])))


def filled(count: int) -> Matcher:
    matcher = Matcher(background_merge=False)
    for number in range(count):
        matcher.subscribe(f"s{number}", f"x >= {number}")
    matcher.compact()
    return matcher


@given(st.lists(st.tuples(CHANGES, st.booleans())))
def test_every_reader_keeps_the_version_it_was_lent(steps: list[tuple[list[tuple[int, float]], bool]]) -> None:
    """Readers come after some changes each, and some of them leave."""
    pool: ArrayPool[float] = ArrayPool(lambda: np.ones(5), {})
    now = np.ones(5)
    readers = []
    for changes, leaves in steps:
        for place, score in changes:
            pool.change(place, score)
            now[place] = score
        array, give_back = pool.lend()
        readers.append((array, now.copy(), give_back))
        for lent, expected, _ in readers:
            assert lent.tolist() == expected.tolist()
        if leaves:
            _, _, give_back = readers.pop(0)
            give_back()


def test_a_long_log_is_written_anew() -> None:
    pool: ArrayPool[float] = ArrayPool(lambda: np.ones(3), {})
    pool.change(0, 5.0)
    old, give_back = pool.lend()
    for number in range(2 * SPARE):
        pool.change(1, float(number))
    new, _ = pool.lend()
    give_back()
    assert pool.lend()[0] is not old, "a copy that follows the old log is not lent again"
    assert new.tolist() == [5.0, 2 * SPARE - 1, 1.0]


def test_a_change_between_matches_copies_nothing() -> None:
    matcher = filled(10)
    matcher.unsubscribe("s3")
    matcher.rescore("s4", 2.0)
    assert list(matcher.match({"x": 4})) == [("s0", 1), ("s1", 1), ("s2", 1), ("s4", 2)]
    (state,) = matcher._subscriptions.current().states
    arrays, gone = (id(state.dropped), id(state.scores)), weakref.ref(state)
    del state
    matcher.unsubscribe("s0")
    matcher.rescore("s4", 3.0)
    assert gone() is None, "nothing but the snapshot keeps a state, so that its arrays go to the next"
    assert list(matcher.match({"x": 4})) == [("s1", 1), ("s2", 1), ("s4", 3)]
    (state,) = matcher._subscriptions.current().states
    assert (id(state.dropped), id(state.scores)) == arrays


def test_the_segments_keep_their_snapshot_until_one_of_them_changes() -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many([{"id": f"{n:03}", "where": f"x > {n}"} for n in range(100)])
    before, _ = matcher._subscriptions.current_for_one()
    matcher.subscribe("new", "x > 1")
    kept, view = matcher._subscriptions.current_for_one()
    assert kept is before
    assert view is not None
    assert len(matcher.match({"x": 50})) == 51
    matcher.unsubscribe("007")
    after, _ = matcher._subscriptions.current_for_one()
    assert after is not before
    assert len(matcher.match({"x": 50})) == 50
    # A batch has the new one built into a segment.
    assert matcher.match_batch([{"x": 50}]).num_rows == 50
    assert len(matcher._subscriptions.current().states) == 2


def test_a_match_under_way_keeps_its_view() -> None:
    matcher = filled(10)
    matcher.unsubscribe("s3")
    held = matcher._subscriptions.current()
    matcher.unsubscribe("s4")
    matcher.rescore("s5", 9.0)
    assert held.states[0].dropped.nonzero()[0].tolist() == [3]
    assert held.states[0].scores.tolist() == [1.0] * 10
    assert matcher._subscriptions.current().states[0].dropped.nonzero()[0].tolist() == [3, 4]


def test_who_lacks_tags_is_found_once_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher(background_merge=False)
    for number in range(4):
        matcher.subscribe(f"s{number}", "x > 0", tags={"tenant": "acme" if number % 2 else "zeta"})
    matcher.compact()
    looked = []
    tagged = Segment.tagged

    def counted(segment: Segment, tags: Tags) -> Bools:
        looked.append(tags)
        return tagged(segment, tags)

    monkeypatch.setattr(Segment, "tagged", counted)
    assert matcher.match({"x": 1}, tags={"tenant": "acme"}).ids == ["s1", "s3"]
    matcher.unsubscribe("s1")
    assert matcher.match({"x": 1}, tags={"tenant": "acme"}).ids == ["s3"]
    assert looked == [(("tenant", "acme"),)]


def test_new_subscriptions_are_built_a_few_times_each_into_few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 32
    monkeypatch.setattr("tocsin.index.buffer.MOST_ROWS", size)
    monkeypatch.setattr("tocsin.index.buffer.MOST_OTHERS", size)
    matcher = Matcher(background_merge=False)
    built = []
    build = matcher._subscriptions._build

    def counted(taken: Sequence[Subscription], forms: Sequence[NormalForm]) -> Segment:
        built.append(len(taken))
        return build(taken, forms)

    monkeypatch.setattr(matcher._subscriptions, "_build", counted)
    for number in range(size - 1):
        matcher.subscribe(f"s{number}", f"x >= {number}")
        assert len(matcher.match({"x": number})) == number + 1
        sizes = [len(state.segment) for state in matcher._subscriptions.current().states]
        assert all(large > FACTOR * small for large, small in itertools.pairwise(sizes)), "so there are few"
        assert sum(sizes) == number + 1
    assert sum(built) < 6 * size, "a subscription is built a few times"
    assert matcher.stats().buffered == size - 1
    matcher.subscribe("last", "x >= 0")
    assert (matcher.stats().segments, matcher.stats().buffered) == ((size,), 0)


def test_a_large_list_is_not_built_again_for_small_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("list", f"x IN ({', '.join(map(str, range(0, 1_000, 2)))})")
    matcher.match_batch([{"x": 1}])
    built: list[str] = []
    build = matcher._subscriptions._build

    def noted(taken: Sequence[Subscription], forms: Sequence[NormalForm]) -> Segment:
        built.extend(one.id for one in taken)
        return build(taken, forms)

    monkeypatch.setattr(matcher._subscriptions, "_build", noted)
    for number in range(20):
        matcher.subscribe(f"s{number}", f"x >= {number}")
        assert len(matcher.match_batch([{"x": 998}])) == number + 2
    assert "list" not in built
    assert {f"s{number}" for number in range(20)} == set(built)


def test_a_match_beside_changes_sees_none_of_them_half() -> None:
    """Each pair of replaced and rescored subscriptions stands once in every answer, whatever is being changed."""
    matcher = filled(20)
    matcher.match_batch([{"x": 100}])  # what must be compiled is compiled
    done = threading.Event()

    answers = 0

    def change() -> None:
        # Until there were some answers beside it: on a busy machine the first may take as long as all changes.
        while answers < 2:
            for number in range(80):
                matcher.subscribe(f"s{number % 20}", "x >= 0", score=float(number))
                matcher.rescore(f"s{(number + 7) % 20}", -1.0)
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not done.is_set():
        assert sorted(matcher.match({"x": 100}).ids) == sorted(f"s{number}" for number in range(20))
        table = matcher.match_batch([{"x": 100}, {"x": 200}])
        assert sorted(table["subscription"].to_pylist()) == sorted(2 * [f"s{number}" for number in range(20)])
        answers += 1
    thread.join()
    assert dict(matcher.match({"x": 100}))["s19"] == 79.0
