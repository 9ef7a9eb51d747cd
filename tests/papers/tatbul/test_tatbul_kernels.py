"""The loops of the interval structures, one by one, against plain NumPy."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tocsin.papers.tatbul.cluster_kernels import best_key, build_clusters, cluster_probe, find_leaf, grown
from tocsin.papers.tatbul.elementary_kernels import (
    build_elementary,
    build_hybrid,
    build_segments,
    elementary_probe,
    find_row,
    hybrid_probe,
    real_node,
    segment_probe,
    store_segments,
)
from tocsin.papers.tatbul.interval_tree_kernels import build_centred, centred_probe
from tocsin.papers.tatbul.kernels import CODE_MAX, cut, distinct_ends, fill_rows, merge_entries, scan_probe
from tocsin.papers.tatbul.narrowing_kernels import (
    Ranges,
    count_clusters,
    evaluate_lazily,
    match_lazily,
    verify_counted,
)
from tocsin.papers.tatbul.structure import count_and_fill

Ints = np.ndarray
LAST = 60


def intervals(seed: int, count: int) -> tuple[Ints, Ints]:
    random = np.random.default_rng(seed)
    lo = random.integers(0, LAST, count).astype(np.int32)
    return lo, np.minimum(lo + random.integers(0, 12, count), LAST).astype(np.int32)


SETS = [
    intervals(1, 0),
    intervals(2, 1),
    intervals(3, 2),
    intervals(4, 40),
    (np.array([0, 5, CODE_MAX], np.int32), np.array([CODE_MAX, 5, CODE_MAX], np.int32)),
]
every_set = pytest.mark.parametrize(("lo", "hi"), SETS)
CODES = np.array([*range(LAST + 3), -1, CODE_MAX - 1, CODE_MAX], np.int32)


def over(lo: Ints, hi: Ints, code: int) -> list[int]:
    return np.flatnonzero((lo <= code) & (code <= hi)).tolist() if code >= 0 else []


def probes(lo: Ints, hi: Ints) -> dict[str, Callable[..., int]]:
    clusters, elementary = build_clusters(lo, hi, 2), build_elementary(lo, hi)
    hybrid, segments, centred = build_hybrid(lo, hi, clusters), build_segments(lo, hi), build_centred(lo, hi)
    return {
        "scan": lambda *batch: scan_probe(lo, hi, *batch),
        "cluster": lambda *batch: cluster_probe(lo, hi, clusters, *batch),
        "elementary": lambda *batch: elementary_probe(elementary, *batch),
        "hybrid": lambda *batch: hybrid_probe(lo, hi, clusters, hybrid, *batch),
        "segment": lambda *batch: segment_probe(segments, *batch),
        "centred": lambda *batch: centred_probe(centred, *batch),
    }


@every_set
def test_probes_find_what_contains_a_code(lo: Ints, hi: Ints) -> None:
    for name, probe in probes(lo, hi).items():
        found = count_and_fill(probe, CODES)
        answers = [part.tolist() for part in np.split(found.positions, found.offsets[1:-1])]
        assert answers == [over(lo, hi, code) for code in CODES.tolist()], name
        assert found.evaluations >= 0
    assert count_and_fill(probes(lo, hi)["scan"], CODES).evaluations == len(lo) * int((CODES >= 0).sum())


@pytest.mark.parametrize("seed", range(5))
def test_merge_entries(seed: int) -> None:
    lo, hi = intervals(seed, 25)
    owner = np.random.default_rng(seed).integers(0, 4, 25).astype(np.int32)
    order = np.lexsort((lo, owner))
    merged = merge_entries(lo[order], hi[order], owner[order])
    codes = {o: {c for i in range(25) if owner[i] == o for c in range(lo[i], hi[i] + 1)} for o in set(owner.tolist())}
    assert {
        o: {c for a, b, of in zip(*merged, strict=True) if of == o for c in range(a, b + 1)} for o in codes
    } == codes
    for (_, end, one), (begin, _, other) in itertools.pairwise(zip(*(m.tolist() for m in merged), strict=True)):
        assert one < other or (one == other and begin > end + 1), "ranges of one owner stay apart"


@every_set
def test_ends_and_elementary_intervals(lo: Ints, hi: Ints) -> None:
    ends = distinct_ends(np.sort(lo), np.sort(hi))
    assert ends.tolist() == np.union1d(lo, hi).tolist()
    for whole in (False, True):
        first, last = cut(lo, hi, whole)
        assert (first[1:] == last[:-1] + 1).all(), "one behind the other"
        assert not len(lo) or set(ends.tolist()) <= set(first.tolist()) & set(last.tolist()), "each end by itself"
        if len(lo):
            reach = (0, CODE_MAX) if whole else (ends[0], ends[-1])
            assert (first[0], last[-1]) == reach
    row, offsets, ids = fill_rows(first, lo, hi)
    for number, code in enumerate(first.tolist()):
        assert ids[offsets[row[number]] : offsets[row[number] + 1]].tolist() == over(lo, hi, code)


@pytest.mark.parametrize("seed", range(5))
def test_best_key(seed: int) -> None:
    lo, hi = intervals(seed, 12)

    def score(key: int) -> int:
        left, right = int((lo < key).sum()), int((hi >= key).sum())
        return abs(left - right) + left + right - 12

    key, least = best_key(np.sort(lo), np.sort(hi))
    assert least == min(12, *(score(end) for end in np.union1d(lo, hi)))
    assert least == 12 or least == score(key)


@every_set
@pytest.mark.parametrize("minimum", [1, 4])
def test_clusters(lo: Ints, hi: Ints, minimum: int) -> None:
    tree = build_clusters(lo, hi, minimum)
    for code in CODES[CODES >= 0].tolist():
        leaf, compared = find_leaf(tree, code)
        cluster = tree.ids[tree.offsets[leaf] : tree.offsets[leaf + 1]]
        assert set(over(lo, hi, code)) <= set(cluster.tolist())
        assert len(cluster) <= minimum or lo[cluster].max() <= hi[cluster].min(), "what is left shares a code"
        assert 0 <= compared < len(tree.key)
    assert grown(np.arange(3, dtype=np.int32), 2).tolist() == [0, 1, 2]
    assert len(grown(np.arange(3, dtype=np.int32), 4)) >= 4


@every_set
def test_rows_of_search_trees(lo: Ints, hi: Ints) -> None:
    tree = build_elementary(lo, hi)
    for code in CODES[CODES >= 0].tolist():
        row, _ = find_row(tree, 0, code)
        found = [] if row < 0 else tree.ids[tree.offsets[row] : tree.offsets[row + 1]].tolist()
        assert found == over(lo, hi, code)
    clusters = build_clusters(lo, hi, 3)
    hybrid = build_hybrid(lo, hi, clusters)
    for leaf, size in enumerate(np.diff(clusters.offsets).tolist()):
        has_tree = hybrid.trees[leaf + 1] > hybrid.trees[leaf]
        assert has_tree == (size > 1), "a cluster of one is evaluated"


def test_segments() -> None:
    """Five leaves: 0 to 4, their pairs, (0..3) and a place that stands for leaf 4, the root."""
    width, start = np.array([5, 3, 2, 1]), np.array([0, 5, 8, 10, 11])
    assert [real_node(width, *place) for place in ((1, 1), (1, 2), (2, 1), (3, 0))] == [(1, 1), (0, 4), (0, 4), (3, 0)]
    begins, ends = np.array([0, 1, 4, 0]), np.array([3, 4, 4, 4])
    counts = np.zeros(12, np.int64)
    store_segments(begins, ends, width, start, counts, np.empty(0, np.int32), False)
    assert np.flatnonzero(counts[1:]).tolist() == [1, 4, 6, 8, 10], "leaves 1 and 4, pair 1, the four, the root"
    offsets = np.cumsum(counts)
    ids = np.empty(offsets[-1], np.int32)
    store_segments(begins, ends, width, start, offsets.copy(), ids, True)
    stored = [ids[offsets[v] : offsets[v + 1]].tolist() for v in (1, 4, 6, 8, 10)]
    assert stored == [[1], [1, 2], [1], [0], [3]]


@every_set
def test_centred_tree(lo: Ints, hi: Ints) -> None:
    tree = build_centred(lo, hi)
    assert sorted(tree.by_lo.tolist()) == sorted(tree.by_hi.tolist()) == list(range(len(lo)))
    assert (tree.lo == lo[tree.by_lo]).all()
    assert (tree.hi == hi[tree.by_hi]).all()
    for node, key in enumerate(tree.key.tolist()):
        here = slice(tree.offsets[node], tree.offsets[node + 1])
        own = tree.by_lo[here]
        assert ((lo[own] <= key) & (key <= hi[own])).all(), "an interval contains the key of its node"
        assert (np.diff(tree.lo[here]) >= 0).all()
        assert (np.diff(tree.hi[here]) <= 0).all()


def conjunctions_of_two_columns() -> tuple[Ranges, Ints]:
    """Conjunction 0 has two ranges on column 0 and one on column 1, 1 accepts NULL, 2 asks for nothing; 4 events."""
    columns = np.array([0, 0, 1, 1], np.int32), np.array([1, 7, 2, -1], np.int32), np.array([3, 9, 5, 4], np.int32)
    return Ranges(np.array([0, 3, 4, 4]), *columns), np.array([[8, 5, -1, 2], [3, 3, -1, 6]], np.int32)


def test_lazy_evaluation_stops_at_the_first_failure() -> None:
    ranges, codes = conjunctions_of_two_columns()
    judged = [[evaluate_lazily(ranges, c, codes, event) for c in range(3)] for event in range(4)]
    assert [[bool(holds) for holds, _ in event] for event in judged] == [
        [True, True, True],
        [False, True, True],
        [False, True, True],
        [False, False, True],
    ]
    assert [[evaluations for _, evaluations in event] for event in judged] == [
        [3, 1, 0],
        [2, 1, 0],
        [0, 0, 0],
        [3, 1, 0],
    ]
    events, conjunctions, evaluations = match_lazily(ranges, codes)
    expected = [(e, c) for e in range(4) for c in range(3) if judged[e][c][0]]
    assert list(zip(events.tolist(), conjunctions.tolist(), strict=True)) == expected
    assert evaluations == 4 + 3 + 0 + 4


def test_clusters_count_a_conjunction_once_a_column() -> None:
    lo, hi = intervals(5, 60)
    conjunction = np.arange(60, dtype=np.int32) // 2
    tree = build_clusters(lo, hi, 1)
    counts = np.zeros((len(CODES), 30), np.uint16)
    compared = count_clusters(tree, conjunction, CODES, counts)
    assert compared == sum(find_leaf(tree, code)[1] for code in CODES if code >= 0)
    for code, row in zip(CODES, counts, strict=True):
        holding = conjunction[over(lo, hi, code)]
        assert (row[holding] == 1).all(), "a cluster has whatever holds"
        assert row.max() <= 1
        assert row.sum() >= len(set(holding.tolist()))
    assert not counts[CODES < 0].any()


def test_only_what_every_column_counted_is_verified() -> None:
    ranges, codes = conjunctions_of_two_columns()
    counts = np.array([[2, 1, 0], [2, 0, 0], [1, 1, 0], [2, 1, 0]], np.uint16)
    events, conjunctions, candidates, evaluations = verify_counted(
        ranges, codes, counts, np.array([2, 1, 0], np.uint16)
    )
    assert list(zip(events.tolist(), conjunctions.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 2),
    ]
    assert candidates == 3 + 2 + 2 + 3
    assert evaluations == (3 + 1) + 2 + 0 + (3 + 1)
