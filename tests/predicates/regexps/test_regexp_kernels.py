"""Each kernel of the index of regular expressions against plain Python."""

import re
import string

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.regexp_strands import Assertion, bits_of
from tocsin.predicates.regexps.index import Regexps
from tocsin.predicates.regexps.kernels import (
    ASSERTION,
    CERTAIN,
    CHARACTER,
    COLUMNS,
    ITEM_BITS,
    ONE_OF,
    OPTIONAL,
    POSSIBLE,
    STAR,
    WIDE,
    code_point,
    find_expressions,
    holds_at,
    is_word_byte,
    lower_byte,
    next_pair,
    run_items,
)

CLASSES = ["ab", "b\u00e9\u4e2d", "ab \u00e9\u4e2d\n"]
"""Sets that have all characters beyond ASCII, of those that the tests use, or none."""
ITEMS = st.one_of(
    st.sampled_from("ab\u00e9").map(lambda sign: (CHARACTER, ord(sign), re.escape(sign))),
    st.tuples(st.sampled_from([(ONE_OF, ""), (STAR, "*"), (OPTIONAL, "?")]), st.sampled_from(range(len(CLASSES)))).map(
        lambda made: (made[0][0], made[1], f"[{CLASSES[made[1]]}]{made[0][1]}")
    ),
    st.sampled_from(
        [
            (Assertion.BEGIN, r"\A"),
            (Assertion.END, r"\Z"),
            (Assertion.WORD_EDGE, r"(?a:\b)"),
            (Assertion.NO_WORD_EDGE, r"(?!(?a:\b))"),
            (Assertion.LINE_BEGIN, "(?m:^)"),
            (Assertion.LINE_END, "(?m:$)"),
        ]
    ).map(lambda made: (ASSERTION, int(made[0]), made[1])),
)
TEXT = st.text("ab \u00e9\u4e2d\n", max_size=8)


def table() -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    made = np.zeros((len(CLASSES), COLUMNS), np.uint8)
    for number, members in enumerate(CLASSES):
        for sign in members:
            made[number, min(ord(sign), WIDE)] = 1
    return made


def test_bytes() -> None:
    for byte in range(256):
        assert lower_byte(byte) == (bytes([byte]).lower()[0])
        assert is_word_byte(byte) == (chr(byte) in string.ascii_letters + string.digits + "_")
    assert bits_of("ab") == 3 << 97


@given(st.characters(exclude_categories=["Cs"]))
def test_code_points(character: str) -> None:
    data = np.frombuffer(b"x" + character.encode() + b"y", np.uint8)
    assert code_point(data, 1, len(data) - 1) == ord(character)


@given(st.lists(ITEMS, max_size=3))
def test_pairs_of_characters(items: list[tuple[int, int, str]]) -> None:
    made = np.array([operand << ITEM_BITS | kind for kind, operand, _ in items], np.int32)
    plain = [operand if kind == CHARACTER and operand < WIDE else -1 for kind, operand, _ in items[:2]]
    wanted = tuple(plain) if len(plain) == 2 and -1 not in plain else (-1, -1)
    assert next_pair(made, 0, len(made)) == wanted


@given(TEXT)
def test_assertions_hold_where_python_says(text: str) -> None:
    data = np.frombuffer(b"a" + text.encode() + b"b", np.uint8)
    said = {Assertion.BEGIN: r"\A", Assertion.END: r"\Z", Assertion.LINE_BEGIN: "(?m:^)", Assertion.LINE_END: "(?m:$)"}
    said |= {Assertion.WORD_EDGE: r"(?a:\b)", Assertion.NO_WORD_EDGE: r"(?!(?a:\b))"}
    for assertion, written in said.items():
        at = 1
        for place in range(len(text) + 1):
            wanted = re.compile(written).match(text, place) is not None
            # `\A` of a match from a place on holds at the beginning of the text only.
            assert holds_at(int(assertion), data, at, 1, len(data) - 1) == wanted
            at += len(text[place : place + 1].encode())


@given(st.lists(ITEMS, max_size=6), TEXT, TEXT)
def test_items_run_as_python_runs_an_expression(items: list[tuple[int, int, str]], left: str, right: str) -> None:
    made = np.array([operand << ITEM_BITS | kind for kind, operand, _ in items], np.int32)
    written = "".join(text for _, _, text in items)
    text = left + right
    data, at = np.frombuffer(text.encode(), np.uint8), len(left.encode())
    forward = run_items(made, 0, len(made), table(), data, at, 0, len(data), 1)
    assert (forward >= 0) == (re.compile(written).match(text, len(left)) is not None)
    backward = run_items(made[::-1].copy(), 0, len(made), table(), data, at, 0, len(data), -1)
    ends_here = any(re.compile(f"(?:{written})").fullmatch(text, n, len(left)) for n in range(len(left) + 1))
    if not any(kind == ASSERTION for kind, _, _ in items):
        # Python takes the end of what it searches for the end of the text.
        assert (backward >= 0) == ends_here


def test_what_is_found_is_certain_or_possible() -> None:
    index = Regexps.build([r"ab\d", r"ab\pL", "(?i)K1"])
    texts = [b"xab1", b"abc", b"k1", b""]
    offsets, data = np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)
    read, seen = np.zeros(3, np.int64), np.zeros(3, np.uint8)

    def found(has_variants: bool) -> tuple[list[int], list[int], list[int], int]:
        variants = np.full(len(texts), has_variants)
        starts, expressions, states, compared = find_expressions(
            offsets, data, variants, index._windows, index._items, index._scan, read, seen
        )
        assert not read.any()
        assert not seen.any()
        return starts.tolist(), expressions.tolist(), states.tolist(), compared

    assert found(False) == ([0, 2, 3, 4, 4], [0, 1, 1, 2], [CERTAIN, POSSIBLE, POSSIBLE, CERTAIN], 5)
    assert found(True) == ([0, 2, 4, 5, 5], [0, 1, 0, 1, 2], [POSSIBLE] * 5, 5), "only literals are searched for"


def test_a_strand_that_reads_too_much_is_left_to_re2() -> None:
    index = Regexps.build(["a[^x]*b"])
    judged = [index.search(pa.array(["a" * length])).judged for length in (3_000, 30)]
    assert judged == [1, 0]
