"""Batches of few and of many events for a bucket, and more columns than a vector has codes: the same matches."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from tocsin import Matcher
from tocsin._compile import VECTOR_WIDTH
from tocsin.arrays import Bools
from tocsin.conjunctions.choose import CombinedIndex
from tocsin.conjunctions.protocol import Filing

SUBSCRIPTIONS, EVENTS = 12_000, 2_500


@pytest.fixture(scope="module", params=["pairs", "bitmaps"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """All conjunctions are filed in one way, whatever the estimates say."""

    def build(cls: type[CombinedIndex], filing: Filing) -> CombinedIndex:
        return cls.by_one_way(filing, in_bitmaps=request.param == "bitmaps")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CombinedIndex, "build", classmethod(build))
        yield request.param


@pytest.fixture(scope="module", params=[(4, 2), (4, 15), (40, 2), (40, 15)], ids=str)
def workload(request: pytest.FixtureRequest, way: str) -> tuple[Matcher, pa.Table, Bools]:  # noqa: ARG001 (is set)
    """Three ranges for each subscription, events of which half lie on their ends, and who matches whom.

    Of numbers with two digits there are so few that each has a code of its own.
    """
    columns, digits = request.param
    random = np.random.default_rng(23)
    column = random.permuted(np.tile(np.arange(columns), (SUBSCRIPTIONS, 1)), axis=1)[:, :3]
    centre, half = random.random((SUBSCRIPTIONS, 3)), random.random((SUBSCRIPTIONS, 3)) / 5
    low, high = (centre - half).round(digits), (centre + half).round(digits)
    events = random.random((columns, EVENTS)).round(digits)
    events[:, ::2] = random.choice(np.concatenate([low.ravel(), high.ravel()]), (columns, EVENTS // 2))
    events[:, 5::50] = np.nan
    holds = np.ones((EVENTS, SUBSCRIPTIONS), bool)
    for side in range(3):
        values = events[column[:, side]].T
        holds &= (values >= low[:, side]) & (values <= high[:, side])
    texts = [
        " AND ".join(f"x{n} BETWEEN {first!r} AND {last!r}" for n, first, last in zip(*row, strict=True))
        for row in zip(column.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many(pa.table({"id": list(map(str, range(SUBSCRIPTIONS))), "where": texts}))
    return matcher, pa.table({f"x{n}": values for n, values in enumerate(events)}), holds


@pytest.mark.parametrize("size", [1, 30, 500, EVENTS])
def test_a_batch_of_any_size(workload: tuple[Matcher, pa.Table, Bools], size: int) -> None:
    matcher, events, holds = workload
    for start in range(0, min(EVENTS, 10 * size), size):
        found = matcher.match_batch(events.slice(start, size))
        pairs = np.zeros_like(holds[start : start + size])
        pairs[found["event"].to_numpy(), found["subscription"].cast(pa.string()).to_numpy().astype(int)] = True
        assert pairs.sum() == len(found)
        assert np.array_equal(pairs, holds[start : start + size])


def test_some_buckets_fill_a_vector_and_some_do_not(workload: tuple[Matcher, pa.Table, Bools], way: str) -> None:
    if way == "bitmaps":
        pytest.skip("bitmaps have no buckets")
    (state,) = workload[0]._subscriptions.current().states
    assert isinstance(state.segment.index, CombinedIndex)
    sizes = np.diff(state.segment.index.pairs.postings.starts)
    assert (sizes >= VECTOR_WIDTH).any()
    assert ((sizes > 0) & (sizes < VECTOR_WIDTH)).any()
