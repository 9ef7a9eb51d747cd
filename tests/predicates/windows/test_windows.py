"""Words near each other, phrases with gaps, some of many words, words of one case: judged by plain Python."""

import re
import unicodedata
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.reference import evaluate

WORDS = ["new", "New", "york", "YORK", "yorker", "é", "É", "straße", "STRASSE", "a", "b"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" - ".join) | st.none()
OPTIONS = st.fixed_dictionaries(
    {}, optional={"near": st.integers(1, 5), "min_words": st.integers(1, 2), "exact_case": st.booleans()}
)
GAPS = st.fixed_dictionaries({}, optional={"slop": st.integers(0, 3), "exact_case": st.booleans()})


def written(function: str, text: str, options: dict[str, Any]) -> str:
    return f"{function}(body, '{text}'{''.join(f', {key} => {value}' for key, value in options.items())})"


def places(text: str, word: str, exact: bool) -> list[int]:
    """Where a word stands in a text, by a regular expression for words."""
    there = re.findall(r"\w+", unicodedata.normalize("NFC", text))
    if not exact:
        there, word = [each.casefold() for each in there], word.casefold()
    start = word.removesuffix("*")
    return [n for n, each in enumerate(there) if (each.startswith(start) if word.endswith("*") else each == word)]


def has_words(text: str, words: list[str], near: int = 10**9, min_words: int = 0, exact_case: bool = False) -> bool:
    """Whether some places, one for each of so many words, lie near each other."""
    distinct = list(dict.fromkeys(word if exact_case else word.casefold() for word in words))
    found = [places(text, word, exact_case) for word in distinct]
    return any(
        max(chosen) - min(chosen) <= near
        for several in combinations(found, min_words or len(distinct))
        for chosen in product(*several)
    )


def has_phrase(text: str, words: list[str], slop: int = 0, exact_case: bool = False) -> bool:
    """Whether some places ascend, with few words between them."""
    return any(
        list(chosen) == sorted(set(chosen)) and chosen[-1] - chosen[0] - len(words) + 1 <= slop
        for chosen in product(*(places(text, word, exact_case) for word in words))
    )


def negated(judge: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: not judge(text)


@given(
    st.lists(st.sampled_from([*WORDS, "yor*", "N*"]), min_size=2, max_size=3),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    OPTIONS,
    GAPS,
    st.lists(TEXTS, min_size=1, max_size=10),
)
@example(["new", "New"], ["a"], {"min_words": 2, "exact_case": True}, {"slop": 1}, ["New - new", "New"])
def test_every_way_equals_plain_python(
    words: list[str], phrase: list[str], options: dict[str, Any], gaps: dict[str, Any], texts: list[str | None]
) -> None:
    if len({word if options.get("exact_case") else word.casefold() for word in words}) < 2:
        words = ["new", "york"]
    asked: dict[str, Callable[[str], bool]] = {
        written("has_words", " ".join(words), options): lambda text: has_words(text, words, **options),
        written("has_phrase", " ".join(phrase), gaps): lambda text: has_phrase(text, phrase, **gaps),
    }
    asked |= {f"NOT {where}": negated(judge) for where, judge in asked.items()}
    matcher = Matcher.from_table(pa.table({"id": list(asked), "where": list(asked)}))
    assert matcher.rejected == []
    events = [{"body": text} for text in texts]
    expected = [{id for id, judge in asked.items() if text is not None and judge(text)} for text in texts]
    found: list[set[str]] = [set() for _ in events]
    for row in matcher.match_batch(events).to_pylist():
        found[row["event"]].add(row["subscription"])
    assert found == expected
    for event, ids in zip(events, expected, strict=True):
        assert set(matcher.match(event).ids) == ids
        for where in asked:
            assert (evaluate(parse(where), event) is True) == (where in ids)
            assert matcher.explain(event, where).matches == (where in ids)
    for where in asked:
        assert parse(to_sql(parse(where), as_written=True)) == parse(where)


def test_windows_are_kept_in_files(tmp_path: Path) -> None:
    where = "has_words(body, 'new york bike', near => 4, min_words => 2)"
    matcher = Matcher()
    matcher.subscribe("a", where)
    matcher.save(tmp_path / "index")
    matcher.close()
    with Matcher.open(tmp_path / "index") as opened:
        assert opened.match({"body": "A bike in York"}).ids == ["a"]
        assert opened.match({"body": "A bike, and what is it that one sees in York?"}).ids == []
        assert where.replace("body", '"body"') in str(opened.explain({"body": "a bike"}, "a"))
        assert "windows on body: 1 distinct tests" in opened.plan().details()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("has_words(body, 'a b', close => 5)", "no option 'close'"),
        ("has_words(body, 'a b', near => 'x')", "near takes an integer"),
        ("has_words(body, 'a b', near => 0)", "near => 0"),
        ("has_words(body, 'a b', min_words => 3)", "min_words => 3 of has_words is not 1 to 2"),
        ("has_words(body, 'a b', exact_case => 1)", "exact_case takes TRUE or FALSE"),
        ("has_words(body, 'a b', near => 1, near => 2)", "takes 2 arguments"),
        ("has_phrase(body, 'a b', near => 5)", "no option 'near'"),
        ("has_phrase(body, 'a b', slop => -1)", "slop => -1"),
        ("xpath_exists(body, '/a', near => 5)", "no option 'near'"),
    ],
)
def test_refused(where: str, message: str) -> None:
    with pytest.raises(SubscriptionError, match=re.escape(message)):
        Matcher().subscribe("a", where)
