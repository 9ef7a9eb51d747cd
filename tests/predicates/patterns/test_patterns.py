"""The index of patterns equals LIKE, pattern by pattern and text by text, and compares few of them."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.model.text import like
from tocsin.model.text import like_pattern as pattern
from tocsin.predicates.patterns.index import Patterns

ALPHABET = "abAB\n.é\u0301ÉİΣς中👍"
TEXT = st.text(alphabet=ALPHABET, max_size=24)
LIKE = st.tuples(st.text(alphabet=ALPHABET + "%_%", max_size=24), st.booleans())


def answers(index: Patterns, column: pa.Array) -> list[list[int]]:
    offsets, predicates = index.probe_batch(column)
    return [part.tolist() for part in np.split(predicates, offsets[1:-1])] if len(column) else []


def expected(predicates: list[list[tuple[str, bool]]], text: str | None) -> list[int]:
    return [
        number
        for number, patterns in enumerate(predicates)
        if text is not None and any(like(each, None, ignore_case)(text) for each, ignore_case in patterns)
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(LIKE, max_size=3), max_size=8), st.lists(st.none() | TEXT, max_size=4))
@example([[("%", False)], [("", False)], [("_", True)]], [None, "", "é"])
@example([[("%ab%ab%", False)], [("a%a", False)], [("_b", False)]], ["ab", "aba", "a", "👍b"])
@example([[("%\u0301", False), ("é_", True)]], ["e\u0301", "É\n", "é"])
def test_equals_the_definition(predicates: list[list[tuple[str, bool]]], texts: list[str | None]) -> None:
    index = Patterns.build([[pattern(each, None, ignore) for each, ignore in patterns] for patterns in predicates])
    index.check()
    assert index.predicate_count == len(predicates)
    wanted = [expected(predicates, text) for text in texts]
    assert answers(index, pa.array(texts, pa.string())) == wanted
    copy = Patterns(index.arrays())
    assert copy.nbytes == index.nbytes > 0
    assert answers(copy, pa.array(texts, pa.large_string())) == wanted


@settings(max_examples=100, deadline=None)
@given(TEXT.filter(bool), st.data())
def test_patterns_made_from_a_text_are_found(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    made = [
        f"%{text[begin:end]}%",
        f"%{text[begin:]}",
        f"{text[:end]}%",
        text,
        f"%{text[begin:end]}" + "_" * (len(text) - end),
    ]
    assert answers(Patterns.build([[pattern(each)] for each in made]), pa.array([text])) == [list(range(len(made)))]


def test_a_fragment_across_the_chunks_of_a_long_text_is_found() -> None:
    index = Patterns.build([[pattern(f"%{'needle' * 5}%")], [pattern("%x")], [pattern("y%")]])
    for before in range(4060, 4100):
        assert answers(index, pa.array(["y" * before + "needle" * 5 + "x", "x" * before])) == [[0, 1, 2], [1]]


def test_only_patterns_whose_fragment_occurs_are_compared() -> None:
    index = Patterns.build([[pattern(f"%common{n:05}suffix%")] for n in range(10_000)])
    found = index.search(pa.array(["a common00077suffix here", "common and suffix"]))
    assert found.predicates.tolist() == [77]
    assert found.verified == 1


def test_a_single_line_of_fifty_megabytes() -> None:
    line = "GET /index.html HTTP/1.1 200 " * 1_800_000 + "powershell -enc"
    assert len(line) > 50_000_000
    index = Patterns.build([[pattern("%PowerShell%", ignore_case=True)], [pattern("%-enc")], [pattern("%-dec%")]])
    assert answers(index, pa.array([line])) == [[0, 1]]


def test_a_column_of_nothing() -> None:
    assert answers(Patterns.build([[pattern("%a%")]]), pa.array([], pa.string())) == []
    assert answers(Patterns.build([[pattern("%")]]), pa.nulls(2)) == [[], []]
    assert answers(Patterns.build([]), pa.array(["a"])) == [[]]
