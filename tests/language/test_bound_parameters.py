"""Parameters of conditions become literals, and nothing but literals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Matcher, SubscriptionError
from tocsin.language.parameters import bind_parameters

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(TEXTS)
def test_a_text_matches_itself_whatever_it_contains(text: str) -> None:
    matcher = Matcher()
    matcher.subscribe("a", bind_parameters("x = :value", {"value": text}))
    assert matcher.match({"x": text}).ids == ["a"]
    assert matcher.match({"x": text + "!"}).ids == []


@given(st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_matches_itself(number: float) -> None:
    matcher = Matcher()
    matcher.subscribe("a", bind_parameters("x = :value", {"value": number}))
    assert matcher.match({"x": number}).ids == ["a"]


def test_lists_and_nulls() -> None:
    assert bind_parameters("x IN (:many) OR y = :none OR z IS :yes", {"many": ["a", 1], "none": None, "yes": True}) == (
        "x IN ('a', 1) OR y = NULL OR z IS TRUE"
    )


@pytest.mark.parametrize(
    ("where", "params", "position"),
    [("x < :y", {}, 4), ("x < 1", {"y": 1}, None), ("x < :y", {"y": {}}, 4), ("x < :y", {"y": float("inf")}, 4)],
)
def test_what_cannot_be_bound_is_refused(where: str, params: dict[str, object], position: int | None) -> None:
    with pytest.raises(SubscriptionError) as raised:
        bind_parameters(where, params)
    assert raised.value.position == position
