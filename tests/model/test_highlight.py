"""What is highlighted is what was found, in the characters of the text as it was given."""

import re
import unicodedata
from itertools import pairwise, product
from typing import Any

import pytest
import re2
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin import Analyzer, Matcher
from tocsin.model.highlight import spans
from tocsin.model.predicate import AnyPattern, Wildcard
from tocsin.model.text import compose, fold, folded_places, like, like_pattern

ANALYZERS = [
    Analyzer(),
    Analyzer(accents=False),
    Analyzer(stem="english", accents=False, synonyms=[["car", "automobile"]]),
    Analyzer(segment=True),
    Analyzer(case=True),
]
WORDS = ["running", "Runs", "run", "CAR", "automobiles", "crème", "CRE\u0300ME", "creme", "Straße", "STRASSE"]
WORDS += ["ﬁx", "FIX", "İ", "x_1", "\u1112\u1161\u11ab", "한", "हिन्दी", "𠮷"]
GAPS = [" ", ", ", " - ", "\u2028", " 😀 ", "<\u0338 "]
PIECES = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)), max_size=8)


Highlights = dict[str, list[tuple[int, int]]]


def highlighted(where: str, event: dict[str, Any], analyzer: Analyzer | None = None) -> Highlights:
    matcher = Matcher(analyzers={} if analyzer is None else {"body": analyzer})
    matcher.subscribe("it", where)
    found = matcher.match(event, highlight=True).highlights
    assert matcher.explain(event, "it").highlights == found.get("it", {})
    return {name: [*there] for name, there in found.get("it", {}).items()}


def placed(pieces: list[tuple[str, str]]) -> tuple[str, list[tuple[str, tuple[int, int]]]]:
    """A text of words and gaps, and where each word stands in it."""
    text, words = "", []
    for word, gap in pieces:
        words.append((word, (len(text), len(text) + len(word))))
        text += word + gap
    return text, words


@given(st.sampled_from(ANALYZERS), st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), PIECES, st.integers(1, 3))
@example(ANALYZERS[2], ["creme", "car"], [("CRE\u0300ME", ", "), ("automobiles", " ")], 1)
@example(ANALYZERS[0], ["STRASSE"], [("İ", " "), ("Straße", " "), ("ﬁx", "")], 1)
def test_words_stand_where_they_were_put(
    analyzer: Analyzer, wanted: list[str], pieces: list[tuple[str, str]], number: int
) -> None:
    text, words = placed(pieces)
    forms = [analyzer.words(word)[0] for word in wanted]
    there = [(analyzer.words(word)[0], span) for word, span in words]
    options = ", exact_case => TRUE" if analyzer.case else ""
    event, asked = {"body": text}, " ".join(wanted)

    places = {form: [n for n, (one, _) in enumerate(there) if one == form] for form in forms}
    every = sorted(n for several in places.values() for n in several) if all(places.values()) else []
    found = highlighted(f"has_words(body, '{asked}'{options})", event, analyzer)
    assert found.get("body", []) == [there[n][1] for n in every]

    near = {
        n
        for chosen in product(*(places[form] for form in dict.fromkeys(forms)))
        if max(chosen) - min(chosen) <= number
        for n in chosen
    }
    found = highlighted(f"has_words(body, '{asked}', near => {number}{options})", event, analyzer)
    assert found.get("body", []) == [there[n][1] for n in sorted(near)]

    some = {n for n, (form, _) in enumerate(there) if form in forms}
    found = highlighted(f"has_words(body, '{asked}', min_words => 1{options})", event, analyzer)
    assert found.get("body", []) == [there[n][1] for n in sorted(some)]

    begins = [n for n in range(len(there)) if [form for form, _ in there[n : n + len(forms)]] == forms]
    whole = [(there[n][1][0], there[n + len(forms) - 1][1][1]) for n in begins]
    if not analyzer.case:
        assert highlighted(f"has_phrase(body, '{asked}')", event, analyzer).get("body", []) == whole

    loose = set()
    for start in places[forms[0]]:
        following = [n for n in places[forms[-1]] if n > start][:1]
        chain = [start, *following] if len(forms) == 2 else [start]
        if len(chain) == len(forms) and chain[-1] - start - len(forms) + 1 <= number:
            loose |= set(chain)
    found = highlighted(f"has_phrase(body, '{asked}', slop => {number}{options})", event, analyzer)
    assert found.get("body", []) == [there[n][1] for n in sorted(loose)]


def test_a_beginning_highlights_the_word() -> None:
    assert highlighted("has_words(body, 'runni*')", {"body": "He, running"}, ANALYZERS[2]) == {"body": [(4, 11)]}


def test_segments_are_highlighted() -> None:
    event = {"body": "私は東京都に"}
    assert highlighted("has_words(body, '東京')", event, Analyzer(segment=True)) == {"body": [(2, 4)]}
    event = {"body": "😀𠮷 東京都"}
    assert highlighted("has_phrase(body, '東京都')", event, Analyzer(segment=True)) == {"body": [(3, 6)]}


@given(st.text(max_size=20) | PIECES.map(lambda pieces: placed(pieces)[0]), st.booleans())
@example("\u0301<\u0338\u1112\u1161\u11abA\u030aﬁ", False)
@example("\u0dd9\u0dcf\u0dca \u0b47\u0b3e", False)
def test_a_folded_text_knows_where_it_came_from(text: str, exact: bool) -> None:
    folded, origin = folded_places(text, exact)
    assert folded == (compose(text) if exact else fold(text))
    assert len(origin) == len(folded)
    for place, (start, end) in enumerate(origin):
        assert folded[place] in (compose if exact else fold)(text[start:end])


def test_what_composes_with_what_stands_before_it_is_known() -> None:
    """Everything that canonical composition joins to a character is a mark, or a vowel or final of Hangul."""
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            assert unicodedata.category(chr(int(parts[1], 16)))[0] == "M"
        if unicodedata.combining(chr(code)):
            assert unicodedata.category(chr(code))[0] == "M"


PATTERN_PARTS = ["a", "b", "ab", "É", "%", "_", "%_", "x"]


@given(
    st.lists(st.sampled_from(PATTERN_PARTS), min_size=1, max_size=6).map("".join),
    st.booleans(),
    st.text(st.sampled_from("abAéÉx%😀\n"), max_size=12),
)
@example("%a%ab", False, "aab")
@example("a_%b", True, "AxxB")
def test_patterns_highlight_what_they_say_literally(text: str, ignore_case: bool, value: str) -> None:
    if not like(text, None, ignore_case)(value):
        return
    pattern = like_pattern(text, None, ignore_case)
    found = spans(AnyPattern("body", (pattern,)), value, value)
    shown = value.lower() if ignore_case else value
    runs: list[list[str | Wildcard]] = [[]]
    gaps = [0]
    for part in pattern.parts:
        if isinstance(part, Wildcard) and part.many:
            runs.append([])
            gaps.append(part.least)
        else:
            runs[-1].append(part)
    if len(runs) == 3 and runs[0] == runs[2] == [] and gaps == [0, 0, 0] and any(isinstance(p, str) for p in runs[1]):
        # Everywhere, from left to right, none over another.
        alone, place, expected = as_like(runs[1]), 0, []
        size = sum(len(part) if isinstance(part, str) else part.least for part in runs[1])
        while place + size <= len(shown):
            is_one = like(alone, "\\")(shown[place : place + size])
            expected += [(place, place + size)] * is_one
            place += size if is_one else 1
        assert found == expected
        return
    named = [run for run in runs if any(isinstance(part, str) for part in run)]
    assert len(found) == len(named)
    for (start, end), run in zip(found, named, strict=True):
        assert like(as_like(run), "\\")(shown[start:end])
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    if runs[0] in named:
        assert found[0][0] == 0
    if runs[-1] in named and found:
        assert found[-1][1] == len(value)


def as_like(run: list[str | Wildcard]) -> str:
    escaped = (re.sub(r"[\\%_]", r"\\\g<0>", part) if isinstance(part, str) else "_" * part.least for part in run)
    return "".join(escaped)


@pytest.mark.parametrize(
    "expression", ["a+", "(?i)A.", r"\bab\b", "^a|b$", "a(b|1)+", "x*", "é|😀", r"\d+\.\d+", "(?s)a.b", "[^a]{2}"]
)
@given(st.text(st.sampled_from("ab xé😀1.\n"), max_size=15))
def test_expressions_highlight_each_match(expression: str, value: str) -> None:
    expected = [found.span() for found in re2.finditer(expression, value) if found.end() > found.start()]
    condition = f"regexp_matches(body, '{expression}')"
    if re2.search(expression, value) is not None:
        assert highlighted(f"{condition} OR body = 'no'", {"body": value}).get("body", []) == expected
    else:
        assert highlighted(condition, {"body": value}) == {}


def test_what_fails_or_is_negated_is_not_highlighted() -> None:
    event = {"body": "new york", "title": "York"}
    assert highlighted("has_words(body, 'york') AND price > 5", event) == {}
    assert highlighted("NOT has_words(body, 'paris') AND has_words(title, 'york')", event) == {"title": [(0, 4)]}
    where = "has_words(body, 'new') AND has_words(title, 'paris') OR has_words(body, 'york')"
    assert highlighted(where, event) == {"body": [(4, 8)]}


def test_a_tree_highlights_all_that_hold() -> None:
    alternatives = " AND ".join(f"(has_words(body, 'w{n}') OR has_words(title, 'v{n}') OR n = {n})" for n in range(8))
    event = {"body": "w0 w1 w2 w3 w4 w5 w6", "title": "v7 v0"}
    found = highlighted(alternatives, event)
    assert found == {"body": [(3 * n, 3 * n + 2) for n in range(7)], "title": [(0, 2), (3, 5)]}


def test_elements_are_named() -> None:
    event = {"items": [{"t": "a"}, {"t": "the CAR", "n": 1}, {"t": "car"}]}
    where = "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE has_words(i.t, 'car') AND i.n = 1)"
    assert highlighted(where, event) == {"items[1].t": [(4, 7)]}


def test_texts_in_lower_case_are_as_long() -> None:
    assert highlighted("lower(body) LIKE '%straße'", {"body": "İ STRAßE"}) == {"body": [(2, 8)]}
    assert highlighted("trim(body) LIKE 'a%'", {"body": " a"}) == {}


def test_a_match_without_highlight_has_none() -> None:
    matcher = Matcher()
    matcher.subscribe("it", "has_words(body, 'x')")
    assert matcher.match({"body": "x"}).highlights == {}


def test_an_explanation_tells_the_places() -> None:
    matcher = Matcher()
    matcher.subscribe("it", "has_words(body, 'x') AND a = 1")
    said = str(matcher.explain({"body": "x y x x x x x", "a": 1}, "it"))
    assert "(body is 'x y x x x x x', at 0:1, 4:5, 6:7, 8:9, 10:11, …)" in said
    assert re.search("holds  a = 1  \\(a is 1\\)", said)
