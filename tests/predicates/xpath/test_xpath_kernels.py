"""Each kernel of the XPath index against plain Python or lxml; `tests/test_kernels.py` runs this uncompiled."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from tocsin.predicates.xpath import XPath, XPathIndex, parse_xpath
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.document import encode_documents
from tocsin.predicates.xpath.expression import Steps
from tocsin.predicates.xpath.filtered_paths import (
    FilteredPaths,
    encode_attributes,
    encode_tags,
    last_on_tags,
    paths_apart,
    tables_of,
)
from tocsin.predicates.xpath.kernels import CANDIDATES, MEMO_HITS, MEMO_MISSES, MEMO_RESETS
from tocsin.predicates.xpath.kernels.characters import decode, number_of
from tocsin.predicates.xpath.kernels.collect import GROUP_PATH, ResultGroups, collect
from tocsin.predicates.xpath.kernels.filters import evaluate_paths, sort_by_tag
from tocsin.predicates.xpath.kernels.guards import MOST_OPEN, choose_guards, enter, leave
from tocsin.predicates.xpath.kernels.hashing import hash_bytes, hash_table, key_slot, with_room
from tocsin.predicates.xpath.kernels.memo import LAST_SHIFT, NO_TAG, TRAILING_SHIFT, access_parts, recall
from tocsin.predicates.xpath.kernels.paths import (
    LEVELS,
    distinct_nodes,
    first_step,
    follow,
    highest_bit,
    structure_ends,
    up_to,
)
from tocsin.predicates.xpath.kernels.predicate_tables import (
    DISTANCE_EXACT,
    DISTANCE_FROM,
    END_FROM,
    FIRST_OCCURRENCE,
    FIRST_SHIFT,
    LENGTH_FROM,
    MAX_OCCURRENCE,
    MAX_TAG,
    MAX_VALUE,
    POSITION_EXACT,
    SECOND_OCCURRENCE,
    SECOND_SHIFT,
    find_table,
    hold_attributes,
    inline_filters,
    judge_table,
    kind_of,
    pack,
    text_hashes,
)
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.structure_index import offsets_of, side_by_side

FEW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
NAMESPACES = {"p": "urn:p", "q": "urn:q?a&b"}
SPARE = 8

WORDS = st.integers(0, 2**64 - 1) | st.integers(0, 63).map(lambda place: 1 << place)
GAPS = st.builds(lambda distance, exact: 2 * distance + exact, st.integers(1, 70), st.booleans())
TAGS = st.lists(st.integers(0, 3), min_size=1, max_size=12)
STEPS = st.lists(st.tuples(st.sampled_from(["/", "//"]), st.sampled_from("ab*")), min_size=1, max_size=5)
PLAIN = st.lists(STEPS.map(lambda steps: "".join(axis + tag for axis, tag in steps)), min_size=1, max_size=10)
PATHS = st.text("abc", min_size=1, max_size=8)
VALUE = st.sampled_from(["", "1", "2", "2.0", " 3 ", "abc", "x"])
CONSTANT = st.sampled_from(["1", "2", "-1", "'abc'", "''", "'2'", "'x'"])
TEST = st.sampled_from(["@x", "@y"]) | st.builds(
    lambda name, op, value: f"@{name} {op} {value}",
    st.sampled_from("xy"),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    CONSTANT,
)


def tree_of(tags: str, values: Sequence[str] = ()) -> str:
    """A document with one path; element i has the attribute x with value i, if there is one."""
    attributes = [f' x="{value}"' for value in values] + [""] * len(tags)
    return "".join(f"<{tag}{own}>" for tag, own in zip(tags, attributes, strict=False)) + "".join(
        f"</{tag}>" for tag in reversed(tags)
    )


def positions_of(bits: int) -> set[int]:
    return {place + 1 for place in range(64) if bits >> place & 1}


def bits_of(positions: set[int]) -> int:
    return sum(1 << (position - 1) for position in positions if position <= 64)


def gapped(positions: set[int], gap: int) -> set[int]:
    distance, exact = gap >> 1, gap & 1
    return {
        q for q in range(1, 65) if any(q - p == distance if exact else q - p >= distance for p in positions)
    }  # fmt: skip


def ends_by_the_book(structure: Sequence[tuple[int, int]], tags: Sequence[int]) -> set[int]:
    """Where the last step may stand on a path of tags."""
    here = {0}
    for tag, gap in structure:
        here = {q for q in gapped(here, gap) if q <= len(tags) and tag in (-1, tags[q - 1])}
    return here


def structures_of(catalog: Catalog) -> list[list[tuple[int, int]]]:
    data, offsets = catalog.tables.structures.tolist(), catalog.tables.structure_offsets.tolist()
    return [list(zip(data[a:b:2], data[a + 1 : b : 2], strict=True)) for a, b in pairwise(offsets)]


def parsed(texts: Sequence[str]) -> list[XPath]:
    return [parse_xpath(text, NAMESPACES) for text in texts]


def single_paths(texts: Sequence[str]) -> list[Steps]:
    return [xpath.paths[0] for xpath in parsed(texts)]


# Hash tables


@given(st.lists(st.integers(0, 2**40), unique=True, max_size=60), st.sampled_from([0, 3, 22]))
def test_a_key_is_found_in_its_first_row(numbers: list[int], shift: int) -> None:
    keys = np.array(sorted(numbers), np.int64)
    slots = hash_table(keys, shift)
    first = {int(key) >> shift: row for row, key in reversed(list(enumerate(keys)))}
    for key in {*first, 1, 2**39 + 5}:
        assert slots[key_slot(keys, slots, key, shift)] == first.get(key, -1)


@given(st.binary(max_size=20), st.integers(0, 10))
def test_a_hash_goes_on_where_it_stopped(data: bytes, cut: int) -> None:
    code = 0
    for byte in data:
        code = (code ^ byte) * 16777619 % 2**32
    values = np.frombuffer(data, np.uint8)
    cut = min(cut, len(data))
    assert hash_bytes(values, cut, len(data), hash_bytes(values, 0, cut, 0)) == code


def test_room_is_made_only_if_it_is_needed() -> None:
    out = np.arange(4, dtype=np.int32)
    assert with_room(out, 2, 2) is out or np.shares_memory(with_room(out, 2, 2), out)
    larger = with_room(out, 3, 2)
    assert larger[:3].tolist() == [0, 1, 2]
    assert len(larger) >= 5


# Characters


NUMBER = st.from_regex(r"\A[ \n]?-?[0-9]{0,4}(\.[0-9]{0,25})?(e[+-]?[0-9]{1,3})?[ \n]?\Z")


@given(st.text("0123456789.-+eE \n", max_size=10) | NUMBER)
def test_numbers_are_those_of_libxml2(text: str) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    expected: Any = etree.fromstring("<a/>").xpath("number($text)", text=text)
    found = number_of(data, len(data))
    assert found == expected or (math.isnan(found) and math.isnan(expected))


RAW = st.lists(
    st.sampled_from(["a", "é", "\U0001f600", " ", "\n", "\t", "&lt;", "&gt;", "&amp;", "&apos;", "&quot;", "&#65;"])
    | st.sampled_from(["&#10;", "&#xe9;", "&#x1F600;", "&#x7ff;", "&#xFFFD;", "&#9;"]),
    max_size=8,
).map("".join)


@given(RAW, st.booleans())
def test_references_are_decoded_as_lxml_does(raw: str, attribute: bool) -> None:
    data = np.frombuffer(raw.encode(), np.uint8)
    out = np.zeros(len(data) + 3 + SPARE, np.uint8)
    end = decode(data, 0, len(data), attribute, out, 3)
    root = etree.fromstring(f'<a x="{raw}">{raw}</a>')
    expected = root.get("x") if attribute else root.text
    assert out[3:end].tobytes().decode() == (expected or "")


# Tokens


def decoded(documents: Documents, start: int, stop: int, attribute: bool) -> str:
    out = np.zeros(stop - start + SPARE, np.uint8)
    return out[: decode(documents.data, start, stop, attribute, out, 0)].tobytes().decode()


def test_arrays_are_lxmls_tree(random_documents: st.SearchStrategy[str]) -> None:
    names = parsed(["/a/b/c", "/p:a[@x][@p:x]", "//q:b[@xml:lang]"])
    catalog, _ = Catalog.build([name.paths[0] for name in names])

    @FEW
    @given(st.lists(random_documents, min_size=1, max_size=3))
    def run(texts: list[str]) -> None:
        documents = encode_documents(texts, catalog).arrays
        for place, text in enumerate(texts):
            root = etree.fromstring(text)
            elements = list(root.iter(etree.Element))
            first, last = documents.bounds[place], documents.bounds[place + 1]
            assert last - first == len(elements) + 1
            rows = {element: first + 1 + number for number, element in enumerate(elements)}
            for element, row in rows.items():
                assert documents.tag[row] == catalog.names.get(element.tag, 0)
                parent = element.getparent()
                assert documents.parent[row] == (first if parent is None else rows[parent])
                assert documents.level[row] == len(list(element.iterancestors())) + 1
                attributes = {
                    documents.attribute_name[i]: decoded(
                        documents, documents.attribute_start[i], documents.attribute_stop[i], True
                    )
                    for i in range(documents.attributes[row], documents.attributes[row + 1])
                }
                expected = {catalog.names.get(str(name), 0): value for name, value in element.attrib.items()}
                expected.pop(0, None)
                assert attributes == expected
                below = range(documents.text_first[row], documents.text_stop[row])
                texts_below = [decoded(documents, documents.text_start[i], documents.text_end[i], False) for i in below]
                assert "".join(texts_below) == element.xpath("string()")
                own = [text for i, text in zip(below, texts_below, strict=True) if documents.text_parent[i] == row]
                children: Any = element.xpath("text()")
                assert "".join(own) == "".join(children)

    run()


# Paths


@given(WORDS, GAPS, st.integers(0, 70))
def test_positions_are_bits(word: int, gap: int, count: int) -> None:
    bits, positions = np.uint64(word), positions_of(word)
    assert highest_bit(bits) == max(positions, default=0) - 1
    assert up_to(count) == bits_of(set(range(1, min(count, 64) + 1)))
    assert follow(bits, gap) == bits_of(gapped(positions, gap))
    assert first_step(gap) == bits_of(gapped({0}, gap))


@FEW
@given(PLAIN, PATHS)
def test_a_structure_ends_where_it_should(texts: list[str], path: str) -> None:
    catalog, _ = Catalog.build(single_paths(texts))
    tags = [catalog.names.get(tag, 0) for tag in path]
    positions = np.zeros(len(catalog.names) + 1, np.uint64)
    for level, tag in enumerate(tags):
        positions[tag] |= np.uint64(1 << level)
    tables = catalog.tables
    for number, structure in enumerate(structures_of(catalog)):
        start, stop = tables.structure_offsets[number], tables.structure_offsets[number + 1]
        ends = structure_ends(tables.structures, start, stop, positions, len(path))
        assert ends == bits_of(ends_by_the_book(structure, tags))


def test_nodes_are_the_distinct_paths(random_documents: st.SearchStrategy[str]) -> None:
    catalog, _ = Catalog.build(single_paths(["/a/b[@x]", "//p:a"]))

    @FEW
    @given(st.lists(random_documents, max_size=3), st.booleans())
    def run(texts: list[str], apart: bool) -> None:
        documents = encode_documents(texts, catalog).arrays
        alone = np.diff(documents.attributes) > 0 if apart else np.empty(0, np.bool_)
        offsets, rows, heights = distinct_nodes(documents, alone)

        def path_of(row: int) -> tuple[tuple[int, int], ...]:
            own = (int(documents.tag[row]), row if apart and alone[row] else -1)
            return (*path_of(int(documents.parent[row])), own) if documents.level[row] > 0 else ()

        for place in range(len(texts)):
            nodes = [path_of(int(row)) for row in rows[offsets[place] : offsets[place + 1]]]
            every = {path_of(row) for row in range(documents.bounds[place] + 1, documents.bounds[place + 1])}
            assert len(nodes) == len(set(nodes))
            assert set(nodes) == every
            for number, node in enumerate(nodes):
                assert not node[:-1] or node[:-1] in nodes[:number], "a path comes before those below it"
                below = [len(other) - len(node) for other in nodes if other[: len(node)] == node]
                assert heights[offsets[place] + number] == max(below)

    run()


# The memo


@FEW
@given(PLAIN)
def test_access_keys_are_the_last_two_tags(texts: list[str]) -> None:
    catalog, _ = Catalog.build(single_paths(texts))
    structures = structures_of(catalog)
    keys, gaps, least = access_parts(catalog.tables, np.arange(len(structures), dtype=np.int32))
    for structure, key, gap, shortest in zip(structures, keys.tolist(), gaps, least.tolist(), strict=True):
        tagged = [place for place, (tag, _) in enumerate(structure) if tag >= 0]
        tags = [NO_TAG, NO_TAG, *(structure[place][0] for place in tagged)]
        trailing = structure[tagged[-1] + 1 :] if tagged else structure
        assert key >> TRAILING_SHIFT == sum(gap >> 1 for _, gap in trailing)
        assert (key >> LAST_SHIFT & NO_TAG, key & NO_TAG) == (tags[-1], tags[-2])
        if tagged:
            between = structure[tagged[-2] + 1 if len(tagged) > 1 else 0 : tagged[-1] + 1]
            assert gap == 2 * sum(gap >> 1 for _, gap in between) + all(gap & 1 for _, gap in between)
        assert shortest == 2 * sum(gap >> 1 for _, gap in structure) + all(gap & 1 for _, gap in structure)


@FEW
@given(PLAIN, st.lists(PATHS, min_size=1, max_size=4), st.sampled_from([1, 32_000_000]))
def test_the_memo_recalls_what_matches(texts: list[str], paths: list[str], memory_bytes: int) -> None:
    index = XPathIndex(memory_bytes)
    index.build(parsed(texts))
    documents = index.encode([tree_of(path) for path in paths]).arrays
    structures = structures_of(index.catalog)
    evidence = np.zeros(6, np.int64)
    for _ in range(2):
        offsets, found = recall(
            documents, index._access, index.catalog.tables, index._memo, len(index.catalog.names) + 1, evidence
        )
        for place, path in enumerate(paths):
            tags = [index.catalog.names.get(tag, 0) for tag in path]
            expected = {number for number, each in enumerate(structures) if ends_by_the_book(each, tags)}
            assert set(found[offsets[place] : offsets[place + 1]].tolist()) == expected
    distinct = {path[:length] for path in paths for length in range(1, len(path) + 1)}
    known = {"".join(tag if tag in index.catalog.names else "?" for tag in path) for path in distinct}
    if not evidence[MEMO_RESETS]:
        assert evidence[MEMO_MISSES] == len(known)
        assert evidence[MEMO_HITS] == 2 * sum(map(len, paths)) - len(known)
    assert evidence[MEMO_RESETS] == 0 or memory_bytes == 1


# Predicates on tags


def holds_by_the_book(key: int, tags: Sequence[int]) -> bool:
    def places(shift: int, occurrence: int) -> list[int]:
        tag = key >> shift & MAX_TAG
        return [place for place, each in enumerate(tags, 1) if each == tag][(key >> occurrence & MAX_OCCURRENCE) - 1 :]

    kind, value, first = kind_of(key), key & MAX_VALUE, places(FIRST_SHIFT, FIRST_OCCURRENCE)
    if kind in (DISTANCE_EXACT, DISTANCE_FROM):
        second = places(SECOND_SHIFT, SECOND_OCCURRENCE)
        distances = [q - p for p in first for q in second]
        return value in distances if kind == DISTANCE_EXACT else max(distances, default=-1) >= value
    if kind == END_FROM:
        return any(len(tags) - p >= value for p in first)
    if kind == POSITION_EXACT:
        return value in first
    return any(p >= value for p in first)


@st.composite
def predicates(draw: st.DrawFn) -> int:
    """A predicate on one of three tags, or on two of them."""
    kind, small = draw(st.integers(0, LENGTH_FROM - 1)), st.integers(1, 3)
    first, occurrence, second, second_occurrence = (draw(small) for _ in range(4))
    if kind not in (DISTANCE_EXACT, DISTANCE_FROM):
        second = second_occurrence = 0
    return pack(kind, first, occurrence, second, second_occurrence, draw(st.integers(1, 12)))


def test_a_key_holds_its_parts() -> None:
    key = pack(DISTANCE_FROM, 5, 70, MAX_TAG, 2, 500)
    assert kind_of(key) == DISTANCE_FROM
    assert (key >> FIRST_SHIFT & MAX_TAG, key >> SECOND_SHIFT & MAX_TAG) == (5, MAX_TAG)
    occurrences = key >> FIRST_OCCURRENCE & MAX_OCCURRENCE, key >> SECOND_OCCURRENCE & MAX_OCCURRENCE
    assert (*occurrences, key & MAX_VALUE) == (MAX_OCCURRENCE, 2, MAX_VALUE)


@FEW
@given(st.sets(predicates(), min_size=1, max_size=25), TAGS)
def test_a_walk_makes_predicates_true_and_takes_them_back(chosen: set[int], tags: list[int]) -> None:
    keys = np.array(sorted(chosen), np.int64)
    slots = hash_table(keys, SECOND_SHIFT)
    tables = {key >> SECOND_SHIFT: row for row, key in reversed(list(enumerate(keys.tolist())))}
    positions, path = np.zeros(4, np.uint64), np.zeros(LEVELS, np.int32)
    stack, opened = np.empty(100 * len(keys), np.int32), np.empty(MOST_OPEN, np.int32)
    filed = np.arange(len(keys) + 1, dtype=np.int32)
    held = np.zeros(len(keys), np.uint8)
    starts, top = [0], 0
    for level, tag in enumerate(tags, 1):
        path[level] = tag
        below = top
        if tag > 0:
            top, count, _ = enter(keys, slots, filed, path, level, len(tags), positions, stack, below, opened, 0)
            pairs = {(other, tag) for other in tags[: level - 1] if other > 0}
            wanted = {(tag << 20, 0), *((other << 20, own) for other, own in pairs)}
            assert set(opened[:count].tolist()) == {tables[a | b] for a, b in wanted if a | b in tables}
        starts.append(top)
        np.add.at(held, stack[below:top], 1)
        so_far = tags[:level] + [0] * (len(tags) - level)
        assert set(np.flatnonzero(held)) == {row for row, key in enumerate(keys) if holds_by_the_book(int(key), so_far)}
    for tag in (1, 2, 3):
        table = find_table(keys, slots, tag, 0)
        assert table == tables.get(tag << 20, -1)
        if table >= 0:
            out = np.empty(len(keys), np.int32)
            used, end = judge_table(keys, table, positions[tag], np.uint64(0), len(tags), out, 0)
            expected = [row for row in range(table, end) if holds_by_the_book(int(keys[row]), tags)]
            assert out[:used].tolist() == expected
            assert {int(key) >> SECOND_SHIFT for key in keys[table:end]} == {tag << 20}
    for level in range(len(tags), 0, -1):
        again = leave(path, level, positions, held, stack, starts[level - 1], starts[level])
        assert again == int(tags[level - 1] > 0 and tags[level - 1] in tags[: level - 1])
    assert not held.any()
    assert not positions.any()


# Predicates on attributes


@FEW
@given(st.lists(st.tuples(st.sampled_from("ab*"), TEST), min_size=1, max_size=12), st.lists(VALUE, max_size=3))
def test_predicates_on_attributes_are_lxmls(wanted: list[tuple[str, str]], values: list[str]) -> None:
    expressions = parsed([f"//{tag}[{test}]" for tag, test in wanted])
    catalog, paths = Catalog.build([expression.paths[0] for expression in expressions])
    elements = "".join(f'<{tag} x="{value}"/>' for tag in "abc" for value in values)
    text = f"<r>{elements}<a y='2' x='1'/></r>"
    documents = encode_documents([text], catalog).arrays
    encoded = encode_attributes(catalog.tables, paths, wildcards=True)
    assert encoded.whole.all()
    offsets, held = hold_attributes(documents, encoded.tables, catalog.tables)
    for row, element in enumerate(etree.fromstring(text).iter(), 1):
        found = held[offsets[row] : offsets[row + 1]]
        assert len(set(found.tolist())) == len(found)
        for number, (tag, test) in enumerate(wanted):
            own = encoded.filters.ids[encoded.filters.offsets[number]]
            assert (own in found) == bool(element.xpath(f"self::{tag}[{test}]")), (tag, test, element.attrib)
    assert not held[: offsets[1]].size, "the row of the document has no attributes"


@FEW
@given(
    st.lists(st.tuples(st.sampled_from("ab*"), st.sampled_from([".", "text()"]), TEST), min_size=1, max_size=12),
    st.lists(st.lists(VALUE, min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_predicates_on_values_are_lxmls_and_each_once(
    wanted: list[tuple[str, str, str]], values: list[list[str]]
) -> None:
    """Texts parted by an element that has none: the value is all of them, a text child is one."""
    tests = [(tag, test.replace("@x", subject)) for tag, subject, test in wanted]
    tests = [(tag, test) for tag, test in tests if test != "."]
    catalog, paths = Catalog.build(single_paths([f"//{tag}[{test}]" for tag, test in tests]))
    text = "<r>" + "".join(f"<{tag}>{'<c/>'.join(each)}</{tag}>" for tag in "abd" for each in values) + "</r>"
    documents = encode_documents([text], catalog).arrays
    encoded = encode_attributes(catalog.tables, paths, wildcards=True)
    assert encoded.whole.all()
    offsets, held = hold_attributes(documents, encoded.tables, catalog.tables)
    for row, element in enumerate(etree.fromstring(text).iter(), 1):
        found = held[offsets[row] : offsets[row + 1]]
        assert len(set(found.tolist())) == len(found)
        for number, (tag, test) in enumerate(tests):
            own = encoded.filters.ids[encoded.filters.offsets[number]]
            assert (own in found) == bool(element.xpath(f"self::{tag}[{test}]")), (tag, test, etree.tostring(element))


def test_inline_filters_are_those_on_values() -> None:
    catalog, paths = Catalog.build(single_paths(["/a[@x = 'q']/b[@y][. = 1]", "//*[@x > 2]", "/a[b]/c", "/a"]))
    tables = catalog.tables
    owners, steps, keys, whole = inline_filters(tables, paths, True)
    assert (owners.tolist(), steps.tolist(), whole.tolist()) == ([0, 0, 0, 1], [0, 1, 1, 0], [True, True, False, True])
    assert (keys >> 32).tolist() == [catalog.names["a"], catalog.names["b"], catalog.names["b"], 0]
    assert inline_filters(tables, paths, False)[0].tolist() == [0, 0, 0]
    assert inline_filters(tables, paths, False)[3].tolist() == [True, False, False, True]
    hashes = text_hashes(tables, (keys[:2] & 0xFFFFFFFF).astype(np.int32))
    assert hashes.tolist() == [float(hash_bytes(np.frombuffer(b"q", np.uint8), 0, 1, 0)), 0.0]


# Guards

FILTERED_STEP = st.builds(
    lambda axis, tag, tests: axis + tag + "".join(f"[{test}]" for test in tests),
    st.sampled_from(["/", "//"]),
    st.sampled_from("ab*"),
    st.lists(TEST, max_size=2),
)
FILTERED = st.lists(st.lists(FILTERED_STEP, min_size=1, max_size=4).map("".join), min_size=1, max_size=8)


@FEW
@given(FILTERED)
def test_guards_are_predicates_of_their_path(texts: list[str]) -> None:
    catalog, paths = Catalog.build(single_paths(texts))
    structures = catalog.structure_of_paths()[paths]
    conjunctions = encode_tags(catalog, structures)
    keys = conjunctions.predicates.keys
    filters = encode_attributes(catalog.tables, paths, wildcards=True).filters
    tables, access = tables_of(keys), last_on_tags(conjunctions)
    filed, guards, others = choose_guards(catalog.tables, structures, conjunctions, tables, access, filters, len(keys))
    for i in range(len(texts)):
        on_tags = conjunctions.ids[conjunctions.offsets[i] : conjunctions.offsets[i + 1]].tolist()
        own = range(filters.offsets[i], filters.offsets[i + 1])
        on_attributes = [len(keys) + int(filters.ids[k]) for k in own]
        wild = kind_of(keys[on_tags[0]]) == LENGTH_FROM
        if wild and not on_attributes:
            assert filed[i] == -1
            continue
        assert {guards[i], others[i]} <= {*on_tags, *on_attributes}
        assert filed[i] in {*on_attributes, tables[conjunctions.ids[access[i]]]}
        if on_attributes:
            best = min(filters.ranks[k] for k in own)
            assert guards[i] in [len(keys) + filters.ids[k] for k in own if filters.ranks[k] == best]


@FEW
@given(FILTERED, st.lists(st.tuples(PATHS, st.lists(VALUE, max_size=3)), min_size=1, max_size=3))
def test_guarded_paths_are_lxmls(texts: list[str], written: list[tuple[str, list[str]]]) -> None:
    texts = [text for text in texts if "[" in text]
    index = XPathIndex()
    index.build(parsed(texts))
    documents = [tree_of(path, values) for path, values in written]
    arrays, tables = index.encode(documents).arrays, index.catalog.tables
    evidence = np.zeros(6, np.int64)
    offsets, found = index._filtered.match(arrays, tables, len(index.catalog.names) + 1, evidence)
    groups = index._groups
    for place, document in enumerate(documents):
        held = found[offsets[place] : offsets[place + 1]].tolist()
        assert len(set(held)) == len(held), "each is found once"
        members = [k for number in held for k in groups.members[groups.plain[number] : groups.plain[number + 1]]]
        tree = etree.fromstring(document).getroottree()
        assert sorted(members) == [i for i, text in enumerate(texts) if tree.xpath(text)]
    assert not texts or evidence[CANDIDATES] >= len(found) - len(texts) * len(documents)


# Filters and ids


def test_paths_with_filters_are_evaluated_as_lxml_does(
    random_documents: st.SearchStrategy[str],
    random_expressions: st.SearchStrategy[str],
    lxml_says: Callable[[str, str], bool],
) -> None:
    @FEW
    @given(random_documents, st.lists(random_expressions, min_size=1, max_size=6))
    def run(document: str, texts: list[str]) -> None:
        index = XPathIndex()
        index.build(parsed(texts))
        filtered = index._groups.filtered
        batch = index.encode([document])
        scratch = index._scratch(batch.arrays)
        for _ in range(2):
            sort_by_tag(batch.arrays, 0, scratch)
            scratch.wanted[:] = np.arange(len(filtered))
            kept = evaluate_paths(index.catalog.tables, filtered, len(filtered), batch.arrays, 0, scratch)
            paths = set(filtered[scratch.wanted[:kept], GROUP_PATH].tolist())
            for text, path in zip(texts, index._path_of.tolist(), strict=True):
                if path in filtered[:, GROUP_PATH]:
                    assert (path in paths) == lxml_says(text, document), text

    run()


def test_rows_are_sorted_by_tag() -> None:
    index = XPathIndex()
    index.build(parsed(["/a/b[. = 1]", "/a[@x = 2]"]))
    arrays = index.encode(['<a x="1e1"><b/><c/><b x="q"/><a/></a>']).arrays
    scratch = index._scratch(arrays)
    sort_by_tag(arrays, 0, scratch)
    names = index.catalog.names
    for tag in range(len(names) + 1):
        rows = scratch.by_tag[scratch.tag_start[tag] : scratch.tag_start[tag + 1]].tolist()
        assert rows == np.flatnonzero(arrays.tag == tag).tolist()
    assert scratch.numbers[0] == 10
    assert np.isnan(scratch.numbers[1])


@FEW
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=1, max_size=3),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.booleans(),
)
def test_ids_are_collected_sorted_and_room_is_asked_for(
    found: list[list[int]], sizes: list[int], ordered: bool
) -> None:
    plain = np.cumsum([0, *sizes]).astype(np.int32)
    members = np.arange(sum(sizes), dtype=np.int32) if ordered else np.arange(sum(sizes), dtype=np.int32)[::-1].copy()
    same = ordered and sizes == [1] * 6
    none = np.empty(0, np.int32)
    groups = ResultGroups(plain, none, np.empty((0, 3), np.int32), members, ordered, same)
    index = XPathIndex()
    arrays = index.encode(["<a/>"] * len(found)).arrays
    offsets = np.cumsum([0, *map(len, found)])
    structures = np.array([each for one in found for each in one], np.int32)
    seen, bits = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    expected = [sorted(members[k] for s in set(one) for k in range(plain[s], plain[s + 1])) for one in found]
    scratch, tables, evidence = index._scratch(arrays), index.catalog.tables, np.zeros(6, np.int64)
    for room in (64 * len(found) + 64, 0):
        out, out_offsets = np.empty(room, np.int32), np.zeros(len(found) + 1, np.int64)
        done = collect(
            arrays, offsets, structures, tables, groups, scratch, seen, bits, out, out_offsets, 0, evidence
        )  # fmt: skip
        full = [place for place, ids in enumerate(expected) if ids]
        assert done == (len(found) if room or not full else full[0])
        for place in range(done):
            assert out[out_offsets[place] : out_offsets[place + 1]].tolist() == expected[place]
        assert not seen.any()
        assert not bits.any()


@pytest.mark.parametrize("doubts", [False, True])
def test_paths_with_filters_are_numbered_behind_structures(doubts: bool) -> None:
    catalog, paths = Catalog.build(single_paths(["/a", "/a[@x]", "/b[@x]", "/a[@x]"]))
    plain = np.array([0, 1, 1], np.int32)
    filtered = np.array([[paths[1], 1, 3], [paths[2], 3, 4]], np.int32)
    members = np.array([0, 1, 3, 2], np.int32)
    groups = ResultGroups(plain, np.array([0, 1, 2], np.int32), filtered, members, False, False)
    apart = paths_apart(groups, doubts=doubts)
    assert apart.plain.tolist() == [0, 1, 1, 3, 4] + [4, 4] * doubts
    assert apart.filtered_first.tolist() == ([0, 0, 0, 0, 0, 1, 2] if doubts else [])
    built, again = FilteredPaths.build(catalog, groups)
    built.check()
    assert again.plain.tolist() == [0, 1, 1, 3, 4]


def test_results_are_joined_document_by_document() -> None:
    left = np.array([0, 1, 1, 3]), np.array([5, 6, 7], np.int32)
    right = np.array([0, 2, 3, 3]), np.array([1, 2, 3], np.int32)
    offsets, ids = side_by_side(left, right)
    assert offsets.tolist() == [0, 3, 4, 6]
    assert ids.tolist() == [5, 1, 2, 3, 6, 7]
    assert offsets_of(np.array([2, 0, 2], np.int32), 4).tolist() == [0, 1, 1, 3, 3]
