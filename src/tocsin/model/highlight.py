"""Where in a text of the user's what a test looked for stands: the characters that a page highlights.

A span is (start, end) in the characters of the text as it was given, whatever was folded, cut or stemmed to compare it.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.analyzer import analyzed_source, analyzer_of
from tocsin.model.condition import RegexpMatches
from tocsin.model.expression_tree import AttributeValue, Call, expression_of
from tocsin.model.predicate import AnyPattern, AnyWord, Pattern, Phrase, Wildcard, WordWindow
from tocsin.model.regexp import canonical
from tocsin.model.text import LONG_PATTERN, folded_places, lower, run_places, split_runs, word_places

Span = tuple[int, int]
TextTest = AnyWord | Phrase | WordWindow | AnyPattern | RegexpMatches
"""A test that finds something in a text."""


def highlighted_attribute(test: TextTest) -> str | None:
    """Return the attribute whose text a test highlights; None if that is computed from several, or changed."""
    source = expression_of(analyzed_source(test.attribute))
    while isinstance(source, Call) and source.function in ("lower", "upper"):
        # They change characters one by one.
        [source] = source.operands
    return source.name if isinstance(source, AttributeValue) else None


def spans(test: TextTest, text: str, given: str) -> list[Span]:
    """Return where what a test found in the value `text` of its attribute stands in the text as it was given, in order.

    Words: each occurrence. Phrases: from the first word to the last. Words near each other and phrases with gaps: the
    words of each stretch. LIKE: what stands between its ``%``, where it is found first, or everywhere if it stands
    between two of them. Expressions: each match; one that is as good as a LIKE pattern is that pattern.

    >>> from tocsin.model.predicate import Word
    >>> spans(AnyWord("body", (Word("york"),)), "New York, old York", "New York, old York")
    [(4, 8), (14, 18)]
    >>> spans(RegexpMatches("body", "[A-Z]+"), "New York", "New York")
    [(0, 1), (4, 5)]
    """
    return sorted(set(_SPANS[type(test)](test, text, given)))


def _of_words(test: AnyWord, text: str, given: str) -> list[Span]:
    where, places = word_spans_of(test.attribute, given), word_places(text)
    return [where[place] for word in test.words for place in places.of(word)]


def _of_phrase(test: Phrase, text: str, given: str) -> list[Span]:
    where = word_spans_of(test.attribute, given)
    begins = word_places(text).of_phrase(test.words)
    return [(where[begin][0], where[begin + len(test.words) - 1][1]) for begin in begins]


def _of_window(test: WordWindow, text: str, given: str) -> list[Span]:
    where = word_spans_of(test.attribute, given, test.exact_case)
    return [where[place] for place in word_places(text).of_window(test)]


@lru_cache(maxsize=8)
def word_spans_of(attribute: str, given: str, exact_case: bool = False) -> list[Span]:
    """Return where the words of an attribute's text, cut by its analyzer, stand in the text as it was given."""
    analyzer = analyzer_of(attribute)
    folded, origin = folded_places(given, exact_case or analyzer.case)
    return [
        (origin[run + start][0], origin[run + end - 1][1])
        for run, stop in split_runs(folded)
        for start, end in analyzer.segments(folded[run:stop])
    ]


def _of_patterns(test: AnyPattern, text: str, given: str) -> list[Span]:  # noqa: ARG001  # as long as the given one
    found: list[Span] = []
    for pattern in test.patterns:
        shown = lower(text) if pattern.ignore_case else text
        if len(pattern.parts) > LONG_PATTERN:
            found += run_places(pattern, shown) or []
            continue
        whole, alone = _runs(pattern)
        if alone is not None:
            found += [each.span() for each in alone.finditer(shown)]
        elif (matched := whole.fullmatch(shown)) is not None:
            found += [matched.span(group) for group in range(1, whole.groups + 1)]
    return found


@lru_cache(maxsize=1_000)
def _runs(pattern: Pattern) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Return a pattern with a group for each of its runs between ``%``, and the run if it may stand anywhere.

    A run, once found, is never moved, as in `model/text.py`.
    """
    runs, literal, gaps = [""], [False], [""]
    for part in pattern.parts:
        if isinstance(part, Wildcard) and part.many:
            runs.append("")
            literal.append(False)
            gaps.append(f".{{{part.least},}}")
        else:
            literal[-1] |= isinstance(part, str)
            runs[-1] += re.escape(part) if isinstance(part, str) else f".{{{part.least}}}"
    is_alone = (
        len(runs) == 3 and literal == [False, True, False] and runs[0] == runs[2] == "" and gaps[1:] == [_ANY, _ANY]
    )
    grouped = [f"({run})" if some else run for run, some in zip(runs, literal, strict=True)]
    middle = "".join(f"(?>{gap}?{run})" for gap, run in zip(gaps[1:-1], grouped[1:-1], strict=True))
    last = f"{gaps[-1]}{grouped[-1]}" if len(runs) > 1 else ""
    whole = re.compile(f"{grouped[0]}{middle}{last}", re.DOTALL)
    return whole, re.compile(runs[1], re.DOTALL) if is_alone else None


_ANY = ".{0,}"


def _of_expression(test: RegexpMatches, text: str, given: str) -> list[Span]:  # noqa: ARG001  # as long as the given one
    # RE2 in Arrow does not tell places: it marks them, by characters that the text does not have.
    begin, end = [mark for mark in map(chr, range(0xE000, 0xF8FF)) if mark not in text][:2]
    expression = canonical(str(test.expression), test.flags, test.whole)
    marked = pc.replace_substring_regex(pa.array([text]), pattern=expression, replacement=f"{begin}\\0{end}")
    found, place, start = [], 0, 0
    for piece in re.split(f"([{begin}{end}])", marked[0].as_py()):
        if piece == begin:
            start = place
        elif piece == end:
            found += [(start, place)] * (start < place)
        else:
            place += len(piece)
    return found


_SPANS: dict[type, Callable[[Any, str, str], list[Span]]] = {
    AnyWord: _of_words,
    Phrase: _of_phrase,
    WordWindow: _of_window,
    AnyPattern: _of_patterns,
    RegexpMatches: _of_expression,
}
