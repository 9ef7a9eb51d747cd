"""Plain subscriptions are read back from a segment as their texts say."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import conditions
from tocsin import Matcher
from tocsin.index.build import code_columns, conjunctions_of, number_tests
from tocsin.ranking.plain import Plain, plain_subscriptions

Rows = list[tuple[int, int, int]]

COMPARED = st.sampled_from(
    [
        *("i <> 3 AND j <> 4", "i IN (1, 2, 5) AND j < 3 AND d > 1.5", "i > 2", "TRUE", "i > 5 AND i < 2"),
        *("i = 1 OR (i = 1 AND j = 2)", "x IN (1, 'a') AND x = 1", "(i > 1 AND j > 1) IS FALSE"),
        *("i BETWEEN 1 AND 4 AND j > 2 AND d < 3 AND s = 'a'", "has_words(body, 'a') AND i > 1", "s LIKE 'a%'"),
        "i <> 1 AND i <> 2 AND j <> 3 AND d <> 4 AND s <> 'a'",
    ]
)


def read_back(texts: list[str], **options: str) -> tuple[Plain, dict[int, list[Rows]]]:
    """What is plain among some texts; and the ranges of its conjunctions, derived from each text that has no test."""
    matcher = Matcher.from_table(pa.table({"id": [f"{n:04}" for n in range(len(texts))], "where": texts}), **options)
    segment = matcher._current().views[0].segment
    form = matcher._options.normalise(texts, texts)
    coded = code_columns(form)
    conjunctions, _ = conjunctions_of(form, coded, number_tests(form, matcher._options))
    derived: dict[int, list[Rows]] = {}
    for number, owner in enumerate(form.owner.tolist()):
        if number in conjunctions.test_conjunction:
            # What no plain subscription has: two conjunctions.
            derived.setdefault(owner, []).extend([[], []])
            continue
        mine = conjunctions.conjunction == number
        ranges = (conjunctions.column[mine], conjunctions.low[mine], conjunctions.high[mine])
        derived.setdefault(owner, []).append(list(zip(*(part.tolist() for part in ranges), strict=True)))
    return plain_subscriptions(segment), derived


@settings(max_examples=100, deadline=None)
@given(st.lists(conditions() | COMPARED, min_size=1, max_size=12))
def test_what_is_read_back_is_what_the_texts_say(texts: list[str]) -> None:
    plain, derived = read_back(texts)
    assert np.all(np.diff(plain.members) > 0)
    found = plain.conjunctions
    for number, member in enumerate(plain.members.tolist()):
        mine = found.conjunction == number
        ranges = (found.column[mine], found.low[mine], found.high[mine])
        assert derived[member] == [list(zip(*(part.tolist() for part in ranges), strict=True))]


def test_what_is_plain() -> None:
    texts = {
        "a > 1 AND b < 2": True,
        "b < 2 AND a > 1": True,
        "a <> 3 AND b <> 4 AND c IN (1, 2, 3)": True,
        "a > 1 AND b < 2 AND c = 'x' AND d >= 5": True,
        "a = 1 OR b = 2": False,
        "a = 1 OR (a = 1 AND b = 2)": False,
        "has_words(t, 'x') AND a > 1": False,
        "a > 5 AND a < 2": False,
    }
    plain, _ = read_back(list(texts))
    assert plain.members.tolist() == [place for place, is_plain in enumerate(texts.values()) if is_plain]


@pytest.mark.parametrize("texts", [["a > 5 AND a < 2"], ["a LIKE '%x%'"]])
def test_nothing_may_be_plain(texts: list[str]) -> None:
    plain, _ = read_back(texts)
    assert (plain.members.size, plain.conjunctions.count) == (0, 0)


def test_nothing_is_read_back_from_the_papers_matchers() -> None:
    assert read_back(["a > 1"], matcher="count")[0].members.size == 0
