"""Texts fall into code and literals, and what the parser could not survive is refused before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import SubscriptionError
from tocsin.language.shape import MAX_DEPTH, Shape, split


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a < 10", ["a < ", "10", ""]),
        ("a1 < b_2", ["a1 < b_2"]),
        ("a.b1 = 1.5e-3", ["a.b1 = ", "1.5e-3", ""]),
        ("a=-5 AND b>.5", ["a=", "-5", " AND b>", ".5", ""]),
        ("a = 'it''s 5'", ["a = ", "'it''s 5'", ""]),
        ("a = '' AND b = 'x'", ["a = ", "''", " AND b = ", "'x'", ""]),
        ('"5 \'x" = 5', ['"5 \'x" = ', "5", ""]),
        ("a = 1 -- it's 5\nAND b = 2", ["a = ", "1", "            \nAND b = ".replace(" " * 12, " " * 10), "2", ""]),
        ("a /* '1' */ = 2", ["a           = ", "2", ""]),
        ("a = 12ab", ["a = ", "12ab", ""]),
        ("IN (1,2)", ["IN (", "1", ",", "2", ")"]),
    ],
)
def test_split(text: str, pieces: list[str]) -> None:
    assert split(text) == pieces
    assert sum(map(len, pieces)) == len(text)


@given(st.text(alphabet="ab1.'\"-/* \n()é=", max_size=30))
def test_pieces_keep_every_place(text: str) -> None:
    pieces = split(text)
    assert len(pieces) % 2 == 1
    assert sum(map(len, pieces)) == len(text)
    assert all(literal[0] in "'-.0123456789" for literal in pieces[1::2])


def test_positions_lead_back_to_the_text() -> None:
    shape = Shape(split("author = 'Somebody' AND price > 1000 AND x"))
    assert shape.text == "author = '0' AND price > 1 AND x"
    assert shape.position(shape.text.index("price")) == "author = 'Somebody' AND price".index("price")
    assert shape.position(shape.text.index("x")) == len("author = 'Somebody' AND price > 1000 AND ")
    assert shape.literal_position(1) == len("author = 'Somebody' AND price > ")


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "empty", 0),
        ("  \n", "empty", 0),
        ("-- nothing", "empty", 0),
        ("a = 'x", "string is not closed", 4),
        ("a = 'x' OR b = '", "string is not closed", 15),
        ('"a = 1', "name is not closed", 0),
        ("(a = 1", "'(' is not closed", 0),
        ("a = 1)", "')' closes nothing", 5),
        ("(a = 1]", "']' closes nothing", 6),
        ("a = '\0'", "NUL", 5),
        ("a = '\ud800'", "surrogate", None),
        ("(" * 10_000 + "a = 1" + ")" * 10_000, "nested more than", MAX_DEPTH),
        ("NOT " * 10_000 + "a", "nested more than", 4 * MAX_DEPTH),
        ("a > " + "- " * 10_000 + "1", "nested more than", 4 + 2 * MAX_DEPTH),
        ("NOT (" * 100 + "a" + ")" * 100, "nested more than", None),
    ],
)
def test_refused_before_parsing(text: str, message: str, position: int | None) -> None:
    with pytest.raises(SubscriptionError, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        Shape(split(text)).check()
    assert caught.value.hint
    if position is not None:
        assert caught.value.position == position


def test_nesting_up_to_the_limit_is_accepted() -> None:
    Shape(split("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH)).check()
    Shape(split(" AND ".join(["NOT (a = 1)"] * 1000))).check()


@pytest.mark.parametrize("text", [None, 5, b"a = 1", ["a = 1"]])
def test_only_text_is_text(text: object) -> None:
    with pytest.raises(SubscriptionError, match=f"is a {type(text).__name__}"):
        split(text)
