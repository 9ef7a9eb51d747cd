"""Each kernel of the index of patterns against plain Python; `tests/test_kernels.py` runs this uncompiled."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.predicate import Wildcard
from tocsin.model.text import like, like_pattern
from tocsin.predicates.patterns.index import Patterns
from tocsin.predicates.patterns.kernels import (
    EIGHT,
    FIRST_OWNER,
    FOUR,
    KIND,
    LAST_OWNER,
    LENGTH,
    LENGTHS,
    LEVELS,
    LITERAL,
    MANY,
    ONE,
    PATTERN,
    WINDOW,
    candidates_of,
    choose_windows,
    fill_buckets,
    final_hash,
    find_pair,
    hash_at,
    hash_windows,
    is_continuation,
    level_of,
    lower_ascii,
    matches_program,
    merge_lists,
    prepare_scan,
)
from tocsin.predicates.texts import DistinctTexts, repeat_lists
from tocsin.tuning import TUNING

TEXT = st.text("abAé👍", max_size=10)
LIKE = st.text("abAé%_%", max_size=8)


def as_array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


def all_hashes(data: bytes, room: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    hashes = np.zeros((LEVELS, room), np.uint32)
    for level in range(LEVELS):
        hash_windows(as_array(data), 0, len(data), level, hashes)
    return hashes


def window_hashes(data: bytes) -> list[list[int]]:
    """The final hash of each window, level by level."""
    hashes = np.zeros((LEVELS, max(len(data), 1)), np.uint32)
    for level in range(LEVELS):
        hash_windows(as_array(data), 0, len(data), level, hashes)
    return [
        [int(final_hash(hashes[level, i])) for i in range(len(data) - LENGTHS[level] + 1)] for level in range(LEVELS)
    ]


@given(st.binary(max_size=30))
def test_bytes_are_lowered_and_continued_as_in_python(data: bytes) -> None:
    assert lower_ascii(as_array(data)).tobytes() == data.lower()
    assert [bool(is_continuation(byte)) for byte in data] == [0x80 <= byte < 0xC0 for byte in data]


@given(st.lists(st.sampled_from([b"a", b"b", b"ab", b"abcdefgh"]), max_size=8).map(b"".join))
def test_equal_windows_have_equal_hashes_and_others_differ(data: bytes) -> None:
    for length, hashes in zip(LENGTHS.tolist(), window_hashes(data), strict=True):
        windows = [data[i : i + length] for i in range(len(data) - length + 1)]
        assert len(windows) == len(hashes)
        assert len(set(zip(windows, hashes, strict=True))) == len(set(windows)) == len(set(hashes))


@given(st.lists(st.lists(st.text("ab", min_size=1, max_size=9).map(str.encode), max_size=2), max_size=5))
def test_the_rarest_of_the_longest_windows_is_chosen(patterns: list[list[bytes]]) -> None:
    literals = [literal for own in patterns for literal in own]
    data, offsets = as_array(b"".join(literals)), np.cumsum([0, *map(len, literals)])
    bounds = np.cumsum([0, *map(len, patterns)])
    literal, window, level, hashes = choose_windows(data, offsets, bounds)
    counts = Counter(h for each in literals for row in window_hashes(each) for h in row)
    for number, own in enumerate(patterns):
        if not own:
            assert literal[number] == -1
            continue
        longest = max(level for level in range(LEVELS) if LENGTHS[level] <= max(map(len, own)))
        assert level[number] == longest
        chosen = literals[literal[number]]
        assert bounds[number] <= literal[number] < bounds[number + 1]
        assert window_hashes(chosen)[longest][window[number]] == hashes[number]
        assert counts[hashes[number]] == min(counts[h] for each in own for h in window_hashes(each)[longest])


@given(st.sets(st.integers(0, 2**31 - 1), max_size=60))
def test_every_bucket_is_in_the_filter_and_in_the_table(numbers: set[int]) -> None:
    hashes = np.array(sorted(numbers), np.int64)
    bits, table = fill_buckets(hashes)
    mask = len(table) - 1
    assert len(bits) == len(table) >= 2 * len(hashes)
    for bucket, h in enumerate(hashes.tolist()):
        assert bits[h >> 3 & mask] >> (h & 7) & 1
        place = h & mask
        while table[place] >> 32 != h:
            assert table[place] != 0
            place = (place + 1) & mask
        assert table[place] & 0xFFFFFFFF == bucket + 1
    assert np.count_nonzero(table) == len(hashes)
    assert sum(int(byte).bit_count() for byte in bits) <= len(hashes)


@given(LIKE, TEXT)
def test_a_program_is_like(pattern: str, text: str) -> None:
    program = [
        code
        for part in like_pattern(pattern).parts
        for code in ([ONE] * part.least + [MANY] * part.many if isinstance(part, Wildcard) else part.encode())
    ]
    data = as_array(b"xx" + text.encode() + b"y")
    found = matches_program(np.array(program, np.int16), 0, len(program), data, 2, len(data) - 1)
    assert found == like(pattern, None, False)(text)


@given(st.lists(st.tuples(LIKE, st.booleans()), min_size=1, max_size=6), st.lists(TEXT, min_size=1, max_size=3))
def test_patterns_are_found_as_by_like(patterns: list[tuple[str, bool]], texts: list[str]) -> None:
    index = Patterns.build([[like_pattern(each, None, ignore_case)] for each, ignore_case in patterns])
    for _ in range(2):
        offsets, predicates = index.probe_batch(pa.array(texts))
        for text, (begin, end) in zip(texts, pairwise(offsets), strict=True):
            holds = [like(each, None, ignore_case)(text) for each, ignore_case in patterns]
            assert predicates[begin:end].tolist() == np.flatnonzero(holds).tolist()
            for long_text in (TUNING.long_text, 0):
                with patch("tocsin.predicates.patterns.index.TUNING", replace(TUNING, long_text=long_text)):
                    assert index.probe_text(text).tolist() == np.flatnonzero(holds).tolist()


@given(st.integers(0, 40))
def test_the_level_of_a_length_is_the_longest_that_fits(length: int) -> None:
    assert level_of(length) == max((level for level in range(LEVELS) if LENGTHS[level] <= length), default=-1)


@given(st.binary(min_size=1, max_size=40))
def test_a_hash_is_the_same_at_its_place(data: bytes) -> None:
    hashes = all_hashes(data, 64)
    for level in range(LEVELS):
        for i in range(len(data) - LENGTHS[level] + 1):
            assert hash_at(level, hashes, i) == hashes[level, i]


@given(st.lists(st.text("abc", max_size=20), min_size=1, max_size=6), st.text("abc", min_size=1, max_size=60))
def test_a_candidate_is_where_a_filed_window_begins(literals: list[str], text: str) -> None:
    index = Patterns.build([[like_pattern(f"%{each}%")] for each in literals])
    arrays, scan = index._index["exact"], index._scans["exact"]
    distinct = list(dict.fromkeys(literals))
    filed = {}
    for posting in scan.postings.tolist():
        literal = distinct[posting[PATTERN]].encode()
        start, length, window = posting[LITERAL], posting[LENGTH], posting[WINDOW]
        assert arrays.literal_data[start : start + length].tobytes() == literal
        assert posting[KIND] == arrays.kind[posting[PATTERN]]
        owners = index.arrays()["exact_owners"][posting[FIRST_OWNER] : posting[LAST_OWNER]]
        assert owners.tolist() == [n for n, each in enumerate(literals) if each.encode() == literal]
        level = int(level_of(length))
        filed[literal[window : window + LENGTHS[level]]] = level
    assert set(filed) == set() or scan.short.any() or min(filed.values()) < FOUR
    again = prepare_scan(arrays, index.arrays()["exact_owner_offsets"])
    assert [a.tolist() for a in again] == [a.tolist() for a in scan]
    data = text.encode()
    wanted, places = np.empty(64, np.uint8), np.empty(64, np.int32)
    count = candidates_of(
        all_hashes(data, 80), len(data), arrays.levels, arrays.filter, scan.short, scan.long, wanted, places
    )
    chosen = places[:count].tolist()
    assert chosen == np.flatnonzero(wanted[: len(data)]).tolist()
    for i in range(len(data)):
        for window, level in filed.items():
            if data.startswith(window, i):
                assert wanted[i] >> level & 1
    assert all(int(bits) & 31 == 31 for bits in scan.long), "windows shorter than eight bytes pass all heads of eight"
    assert EIGHT == 5


@given(st.binary(max_size=120).map(lambda data: bytes(byte % 4 for byte in data)), st.integers(0, 5))
def test_a_pair_of_bytes_is_found_where_it_stands_first(data: bytes, start: int) -> None:
    start = min(start, len(data))
    for stop in (len(data), max(start, len(data) - 3)):
        place = data.find(b"\x01\x02", start, stop)
        assert find_pair(as_array(data), start, stop, 1, 2) == (place if place >= 0 else stop)


LISTS = st.lists(st.sets(st.integers(0, 9)).map(sorted), min_size=3, max_size=3)


def ragged(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, lists)]), np.array([n for each in lists for n in each], np.int32)


@given(LISTS, LISTS)
def test_lists_are_merged_row_by_row(one: list[list[int]], two: list[list[int]]) -> None:
    starts, values = merge_lists(ragged(one), ragged(two))
    wanted = ragged([sorted({*a, *b}) for a, b in zip(one, two, strict=True)])
    assert (starts.tolist(), values.tolist()) == (wanted[0].tolist(), wanted[1].tolist())


@given(LISTS, st.lists(st.integers(-1, 2), max_size=6))
def test_lists_are_repeated_at_their_places(lists: list[list[int]], places: list[int]) -> None:
    starts, values = repeat_lists(*ragged(lists), np.array(places, np.int32))
    wanted = ragged([lists[place] if place >= 0 else [] for place in places])
    assert (starts.tolist(), values.tolist()) == (wanted[0].tolist(), wanted[1].tolist())


@given(st.lists(TEXT | st.none(), max_size=8), st.integers(0, 3))
def test_distinct_texts_are_those_of_the_column(texts: list[str | None], start: int) -> None:
    distinct, place = DistinctTexts.of(pa.array(texts, pa.string())[start:])
    values = [*distinct.to_pylist(), None]
    assert len(set(values)) == len(values)
    assert [values[p] for p in place] == texts[start:]
