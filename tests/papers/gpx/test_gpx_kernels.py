"""The loops of GPX-Matcher, YFilter and BPA, one by one, against plain Python."""

import itertools

import numpy as np
import pytest
from lxml import etree

from tocsin.papers.gpx.bpa import BPAIndex
from tocsin.papers.gpx.bpa_kernels import build_chains, run_chains
from tocsin.papers.gpx.cluster_kernels import build_clusters, match_clusters
from tocsin.papers.gpx.conjunctions import Access, ConjunctionMatcher
from tocsin.papers.gpx.counting_kernels import Conjunctions, Postings, match_counting, write_long
from tocsin.papers.gpx.gpx import GPXIndex
from tocsin.papers.gpx.publications import (
    distinct_paths,
    load_path,
    publish,
    publish_documents,
    repeats,
    unload_path,
)
from tocsin.papers.gpx.yfilter import YFilterIndex
from tocsin.papers.gpx.yfilter_kernels import build_automaton, run_automaton
from tocsin.predicates.xpath import parse_xpath
from tocsin.predicates.xpath.kernels.guards import PathTree
from tocsin.predicates.xpath.kernels.paths import distinct_nodes
from tocsin.predicates.xpath.structure_index import StructureIndex

Steps = list[tuple[int, int]]
NO_BOOLS = np.empty(0, np.bool_)


def expressions() -> list[str]:
    """One to five steps over three tags and wildcards, each text once."""
    random = np.random.default_rng(1)
    texts = []
    for _ in range(150):
        steps = random.choice(["a", "b", "c", "*"], random.integers(1, 6))
        axes = random.choice(["/", "/", "//"], len(steps))
        texts.append("".join(axis + step for axis, step in zip(axes, steps, strict=True)))
    return list(dict.fromkeys(texts))


def documents() -> list[str]:
    """Trees of up to seven levels; the tag d is in no expression, and tags repeat on a path."""
    random = np.random.default_rng(2)

    def element(levels: int) -> str:
        tag = random.choice(["a", "b", "c", "d"])
        inner = "".join(element(levels - 1) for _ in range(random.integers(levels > 2, 3 if levels else 1)))
        return f"<{tag}>{inner}</{tag}>"

    return [element(levels) for levels in (0, 1, 2, 3, 4, 5, 6, 6, 6)]


def holds(steps: Steps, path: list[int], place: int = 0) -> bool:
    """Whether steps (tag, or -1 for any; 2 * distance + exact) lead down a path of tags from a place on."""
    if not steps:
        return True
    (tag, gap), *rest = steps
    first = place + gap // 2
    places = range(first, first + 1 if gap & 1 else len(path) + 1)
    return any(p <= len(path) and tag in (-1, path[p - 1]) and holds(rest, path, p) for p in places)


class Case:
    """An index of some class over the expressions, the documents as it reads them, and what holds by definition."""

    def __init__(self, index: StructureIndex) -> None:
        self.index = index
        index.build([parse_xpath(text) for text in expressions()])
        self.arrays = index.encode(documents()).arrays
        catalog = index.catalog
        bounds, flat = catalog.tables.structure_offsets.tolist(), catalog.tables.structures.tolist()
        self.chosen = np.arange(len(bounds) - 1, dtype=np.int32)
        self.structures: list[Steps] = [
            list(zip(flat[a:b:2], flat[a + 1 : b : 2], strict=True)) for a, b in itertools.pairwise(bounds)
        ]
        self.data = catalog.tables.structures, catalog.tables.structure_offsets, self.chosen
        self.evidence = np.zeros(6, np.int64)
        self.tags = index._tag_count

    def paths(self, document: str) -> list[list[int]]:
        names = self.index.catalog.names
        leaves = [element for element in etree.fromstring(document).iter() if not len(element)]
        return [[names.get(one.tag, 0) for one in [*reversed([*leaf.iterancestors()]), leaf]] for leaf in leaves]

    def expected(self) -> list[list[int]]:
        return [
            [n for n, steps in enumerate(self.structures) if any(holds(steps, path) for path in self.paths(document))]
            for document in documents()
        ]

    def agrees(self, offsets: np.ndarray, found: np.ndarray) -> None:
        assert [sorted(part.tolist()) for part in np.split(found, offsets[1:-1])] == self.expected()
        assert self.evidence[1:3].all(), "the work is counted"


def test_chains() -> None:
    case = Case(index := BPAIndex())
    tag, gap, parent, final = build_chains(*case.data)
    prefixes = {tuple(steps[:size]) for steps in case.structures for size in range(len(steps) + 1)}
    assert len(tag) == len(prefixes), "a prefix has one node"
    for steps, node in zip(case.structures, final.tolist(), strict=True):
        back = []
        while node:
            back.append((int(tag[node]), int(gap[node])))
            node = int(parent[node])
        assert back[::-1] == steps
    paths, rows = distinct_paths(case.arrays, NO_BOOLS)
    chains = index._chains
    case.agrees(*run_chains(case.arrays, paths, rows, chains, len(chains.accepts), case.tags, case.evidence))


def test_automaton() -> None:
    case = Case(index := YFilterIndex())
    edges, star, below, final, states = build_automaton(*case.data)
    assert len(star) == len(below) == states
    on_tag = {(state, tag): target for state, tag, target in edges.tolist() if state >= 0}
    loops = set(below[below >= 0].tolist())

    def closure(some: set[int]) -> set[int]:
        return some | {int(below[state]) for state in some if below[state] >= 0}

    for path in case.paths(documents()[-1]):
        active, accepted = closure({0}), set()
        for tag in path:
            moved = {on_tag.get((state, tag), -1) for state in active} | {int(star[state]) for state in active}
            active = closure((moved - {-1}) | (active & loops))
            accepted |= active
        found = [n for n, state in enumerate(final.tolist()) if state in accepted]
        assert found == [n for n, steps in enumerate(case.structures) if holds(steps, path)]
    automaton = index._automaton
    case.agrees(*run_automaton(case.arrays, automaton, len(automaton.accepts), case.evidence))


def part_of(index: GPXIndex) -> ConjunctionMatcher:
    (part,) = index._parts
    assert isinstance(part, ConjunctionMatcher)
    return part


def test_counting() -> None:
    case = Case(index := GPXIndex("all"))
    part, tables = part_of(index), index.catalog.tables
    assert isinstance(part.filed, Postings)
    published = publish_documents(case.arrays, part.predicates, case.tags)
    found = match_counting(
        case.arrays,
        published,
        part.conjunctions,
        tables.structures,
        tables.structure_offsets,
        part.filed,
        len(part.predicates.keys),
        case.tags,
        case.evidence,
    )
    case.agrees(*found)


@pytest.mark.parametrize("access", ["first", "last"])
def test_access_predicates(access: Access) -> None:
    case = Case(index := GPXIndex(access))
    part, tables = part_of(index), index.catalog.tables
    assert not isinstance(part.filed, Postings)
    nodes = PathTree(*distinct_nodes(case.arrays, NO_BOOLS), np.zeros(1, np.int64), np.empty(0, np.int32))
    found = match_clusters(
        case.arrays,
        nodes,
        part.conjunctions,
        tables.structures,
        tables.structure_offsets,
        part.filed,
        part.predicates,
        case.tags,
        access == "last",
        case.evidence,
    )
    case.agrees(*found)


def test_clusters() -> None:
    """Many conjunctions of table 3, more distinct predicates than a word has bits, and one too long for a block."""
    random = np.random.default_rng(3)
    conjunctions = [random.choice(200, 4, replace=False).tolist() for _ in range(150)]
    conjunctions += [list(range(70)), [7, 8]]
    tables = np.array([3] * 150 + [9, 9], np.int32)
    offsets = np.cumsum([0, *map(len, conjunctions)]).astype(np.int32)
    flat = np.concatenate([np.array(c, np.int32) for c in conjunctions])
    blocks, members, first_bit, bits, cut, words = build_clusters(offsets, flat, tables, 200)
    assert members[-1] == len(conjunctions)
    for block in range(len(cut)):
        own = bits[first_bit[block] : first_bit[block + 1]].tolist()
        assert len(set(own)) == len(own) <= 64
        of_block = range(members[block], members[block + 1])
        assert 0 < len(of_block) <= 64
        for place in of_block:
            assert blocks[tables[place]] <= block < blocks[tables[place] + 1]
            named = {predicate for bit, predicate in enumerate(own) if int(words[place]) >> bit & 1}
            assert named == set(conjunctions[place][:64] if cut[block] else conjunctions[place])
    assert [place for block in np.flatnonzero(cut) for place in range(members[block], members[block + 1])] == [150]


def test_write_long() -> None:
    nothing = np.empty(0, np.int32)
    conjunctions = Conjunctions(
        nothing, nothing, nothing, np.array([1, 3, 3, 5], np.int32), np.arange(4, dtype=np.int32)
    )
    out = np.full(5, -1, np.int32)
    assert [write_long(conjunctions, depth, out, 1) for depth in (0, 1, 2, 4, 9)] == [1, 2, 2, 4, 5]
    assert out.tolist() == [-1, 0, 1, 2, 3]


def test_paths_are_loaded_and_unloaded() -> None:
    case = Case(BPAIndex())
    _, rows = distinct_paths(case.arrays, NO_BOOLS)
    positions, tags = np.zeros(case.tags, np.uint64), np.zeros(case.tags, np.int32)
    for row in rows.tolist():
        above, path = row, []
        while case.arrays.level[above] > 0:
            path.append((int(case.arrays.tag[above]), int(case.arrays.level[above])))
            above = int(case.arrays.parent[above])
        found = load_path(case.arrays, row, positions, tags)
        known = {tag for tag, _ in path if tag > 0}
        assert set(tags[:found].tolist()) == known
        for tag in known:
            levels = [level for of, level in path if of == tag]
            assert int(positions[tag]).bit_count() == len(levels)
            assert bool(repeats(positions[tag])) == (len(levels) > 1)
        unload_path(positions, tags, found)
        assert not positions.any()


def test_a_path_publishes_the_predicates_that_hold_on_it() -> None:
    case = Case(index := GPXIndex("all"))
    part = part_of(index)
    published = publish_documents(case.arrays, part.predicates, case.tags)
    offsets, ids, tested = publish(case.arrays, published.rows, part.predicates, case.tags)
    assert offsets.tolist() == published.offsets.tolist()
    assert ids.tolist() == published.ids.tolist()
    assert tested >= len(ids)
