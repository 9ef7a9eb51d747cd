"""Define the words of a text, and LIKE. Every index must agree with these definitions.

Words. A text is folded (canonical composition, full case folding) and cut into maximal runs of word characters:
letters, numbers, combining marks and the underscore. Subscriptions and events are cut by the same function, so that
``Straße`` and ``STRASSE``, or ``é`` in one and in two code points, are the same word, and a Devanagari word does not
fall apart at its vowel signs.

Patterns. LIKE compares code points, as DuckDB does: ``%`` is any run of them, ``_`` is exactly one, line ends included.
ILIKE is LIKE on `lower` of the text and of what the pattern says literally. The escape is the character as written, as
in PostgreSQL and SQLite; DuckDB takes both cases of a letter for it.
"""

import re
import sys
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence
from functools import cache, lru_cache
from itertools import islice, takewhile
from typing import NamedTuple

from tocsin.errors import SubscriptionError
from tocsin.model.predicate import Pattern, Wildcard, Word, WordWindow

# Every combining mark of Unicode lies in one of these ranges (a test looks at all code points).
_MARK_RANGES = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))
_ASCII_WORDS = re.compile(r"\w+", re.ASCII)


@cache
def _marks() -> str:
    """Return the combining marks: they belong to the words that they stand in."""
    return "".join(chr(code) for codes in _MARK_RANGES for code in codes if unicodedata.category(chr(code))[0] == "M")


@cache
def _words() -> re.Pattern[str]:
    return re.compile(rf"[\w{_marks()}]+")


@cache
def _marks_as_letters() -> dict[int, str]:
    return dict.fromkeys(map(ord, _marks()), "_")


def word_spans() -> list[tuple[int, int]]:
    """Return the runs of code points that are word characters, as (first, one after the last)."""
    every = array("I", range(sys.maxunicode + 1)).tobytes().decode("utf-32", "surrogatepass")
    # The expression with all marks would take 1.3 s here.
    marked = every.translate(_marks_as_letters())
    return [match.span() for match in re.finditer(r"\w+", marked)]


def fold(text: str) -> str:
    """Return `text` with case and canonical variants removed: what words are compared by.

    >>> fold("Straße") == fold("STRASSE")
    True
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def compose(text: str) -> str:
    """Return `text` with canonical variants removed, as it is written otherwise."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded_places(text: str, exact_case: bool = False) -> tuple[str, list[tuple[int, int]]]:
    """Return a folded text, and for each of its characters where what it came from begins and ends in `text`.

    >>> folded_places("Cre\u0300")
    ('crè', [(0, 1), (1, 2), (2, 4)])
    """
    fold_one = compose if exact_case else fold
    if text.isascii():
        return fold_one(text), [(place, place + 1) for place in range(len(text))]
    pieces = [(fold_one(found.group()), found.span()) for found in _clusters().finditer(text)]
    return "".join(piece for piece, _ in pieces), [span for piece, span in pieces for _ in piece]


@cache
def _clusters() -> re.Pattern[str]:
    """A character with all that may be composed with it: marks, and the vowels and finals of Hangul."""
    return re.compile(rf"(?s:.)[{_marks()}\u1160-\u11ff]*")


def split_words(folded: str) -> list[str]:
    """Return the runs of word characters of a folded text."""
    return (_ASCII_WORDS if folded.isascii() else _words()).findall(folded)


def split_runs(folded: str) -> list[tuple[int, int]]:
    """Return where the runs of word characters of a folded text begin and end."""
    return [found.span() for found in (_ASCII_WORDS if folded.isascii() else _words()).finditer(folded)]


def tokens(text: str) -> list[str]:
    """Return the words of `text`, folded, in their order, repeated words repeated; linear in the text.

    >>> tokens("During a recent holiday in Milos, I stayed ...")
    ['during', 'a', 'recent', 'holiday', 'in', 'milos', 'i', 'stayed']
    """
    return split_words(fold(text))


def exact_tokens(text: str) -> list[str]:
    """Return the words of `text` as they are written, canonical variants alone removed.

    >>> exact_tokens("US, us")
    ['US', 'us']
    """
    return split_words(compose(text))


_OPERATORS = re.compile(
    r"""(?P<minus>(?<!\S)[-+](?=\w))|(?P<star>(?<!\w)\*|\*(?=\w))|(?P<near>(?<=\w)~)|(?P<quote>")|(?P<mark>(?<=\w)\?(?=\w))""",
    re.X,
)
_WAYS_OUT = {
    "minus": "Write NOT has_words(…), and no sign before words that must occur",
    "star": "A * stands at the end of a word, as in 'holi*'; other patterns are written with LIKE",
    "near": "Name the words themselves; has_words has no fuzzy search",
    "quote": "Write has_phrase(…) for words in a row",
    "mark": "Patterns are written with LIKE",
    "logic": "Join several has_words(…) by AND, OR and NOT; a word of this name is written in small letters",
}
_STAR = re.compile(r"(?P<star>\*)")


_LOGIC = re.compile(r"(?<=\w\s)(?P<logic>AND|OR|NOT)(?=\s\w)")
"""Between words, in capitals: an operator of search engines. In a phrase they are words."""


def check_words(text: str, function: str, prefixes: bool = False) -> None:
    """Refuse what looks like an operator of a search engine and would be read as a gap between words."""
    # To `re`, a mark is not a part of its word.
    plain = text if text.isascii() else text.translate(_marks_as_letters())
    found = _OPERATORS.search(plain) or (_LOGIC if prefixes else _STAR).search(plain)
    if found is not None:
        way_out = _WAYS_OUT[str(found.lastgroup)] if prefixes else "A phrase has whole words, and no operators"
        raise SubscriptionError(f"{function}(…, {text!r}) has no operator {found.group()!r}", way_out)


def missing_words(text: str, wanted: Iterable[Word]) -> list[Word]:
    """Return those of `wanted` that do not occur in `text`: none of them exactly if `has_words` holds.

    >>> missing_words("a holiday in Milos", [Word("holiday"), Word("cret", prefix=True)])
    [Word(text='cret', prefix=True)]
    """
    places = word_places(text)
    return [word for word in wanted if not places.of(word)]


def has_phrase(text: str, phrase: Sequence[str]) -> bool:
    """Tell whether the words `phrase` stand in `text` one after the other; an empty phrase always does.

    >>> has_phrase("He moved to New York.", tokens("new york"))
    True
    """
    return not phrase or bool(word_places(text).of_phrase(phrase))


class WordPlaces:
    """Where each word of a text stands, counted in words.

    >>> window = WordWindow("body", (Word("new"), Word("york")), 2, 3)
    >>> WordPlaces("New, old, York").have(window), WordPlaces("York is not so new").have(window)
    (True, False)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: dict[bool, tuple[list[str], dict[str, list[int]]]] = {}
        self._in_order: dict[bool, list[str]] = {}
        """The distinct words, sorted; made for the first prefix."""

    @property
    def distinct(self) -> KeysView[str]:
        """The words of the text, folded, each once."""
        return self._read(False)[1].keys()

    def of(self, word: Word, exact_case: bool = False) -> Sequence[int]:
        """Return the places of a word, or of all that begin with a prefix, ascending."""
        _, places = self._read(exact_case)
        if not word.prefix:
            return places.get(word.text, ())
        if exact_case not in self._in_order:
            self._in_order[exact_case] = sorted(places)
        in_order = self._in_order[exact_case]
        first = bisect_left(in_order, word.text)
        beginning = takewhile(lambda each: each.startswith(word.text), islice(in_order, first, None))
        return sorted(place for each in beginning for place in places[each])

    def of_phrase(self, phrase: Sequence[str]) -> list[int]:
        """Return where a phrase of one or more words begins, ascending."""
        words, places = self._read(False)
        rarest = min(range(len(phrase)), key=lambda number: len(places.get(phrase[number], ())))
        begins = (place - rarest for place in places.get(phrase[rarest], ()))
        wanted = list(phrase)
        return [begin for begin in begins if begin >= 0 and words[begin : begin + len(wanted)] == wanted]

    def have(self, window: WordWindow) -> bool:
        """Tell whether the words of a window occur as it demands."""
        return next(self._stretches(window), None) is not None

    def of_window(self, window: WordWindow) -> list[int]:
        """Return the places of the words that make up a window, wherever it occurs, ascending."""
        return sorted({place for stretch in self._stretches(window) for place in stretch})

    def _stretches(self, window: WordWindow) -> Iterator[list[int]]:
        """Return the places of the words of each stretch that is as the window demands."""
        places = [self.of(word, window.exact_case) for word in window.words]
        if sum(map(bool, places)) < window.least:
            return
        if window.reach is None:
            yield [place for several in places for place in several]
        elif window.ordered:
            for start in places[0]:
                chain = _chain(places, start)
                if chain and chain[-1] - start <= window.reach:
                    yield chain
        else:
            yield from _near(places, window.reach, window.least)

    def _read(self, exact_case: bool) -> tuple[list[str], dict[str, list[int]]]:
        """Return the words in their order, and the places of each."""
        if exact_case not in self._words:
            words = exact_tokens(self._text) if exact_case else tokens(self._text)
            places: dict[str, list[int]] = {}
            for place, each in enumerate(words):
                places.setdefault(each, []).append(place)
            self._words[exact_case] = words, places
        return self._words[exact_case]


@lru_cache(maxsize=8)
def word_places(text: str) -> WordPlaces:
    """Return the places of the words of a text, which many predicates in a row ask for."""
    return WordPlaces(text)


def _near(places: Sequence[Sequence[int]], reach: int, least: int) -> Iterator[list[int]]:
    """Return each stretch of words, at most `reach` behind its first, that has `least` of those at some places."""
    in_order = sorted((place, word) for word, several in enumerate(places) for place in several)
    near: Counter[int] = Counter()
    first = 0
    for last, (place, word) in enumerate(in_order):
        near[word] += 1
        while place - in_order[first][0] > reach:
            near[in_order[first][1]] -= 1
            first += 1
        if len(+near) >= least:
            yield [place for place, _ in in_order[first : last + 1]]


def _chain(places: Sequence[Sequence[int]], start: int) -> list[int]:
    """Return the places of words that follow each other, each as early as possible; none if they do not."""
    chain = [start]
    for several in places[1:]:
        following = bisect_right(several, chain[-1])
        if following == len(several):
            return []
        chain.append(several[following])
    return chain


def lower(text: str) -> str:
    """Return `text` in lower case, code point by code point, as DuckDB's lower() does.

    Python differs in two places: it lets a final sigma depend on its neighbours, and makes two code points of ``İ``.
    """
    return text.lower() if text.isascii() else text.replace("Σ", "σ").replace("İ", "i").lower()


# The runs between the "%" of a pattern, each a list of code points with None for "_". The first run is anchored at the
# start of the text and the last one at its end; a pattern without "%" is a single run.
Runs = list[list[str | None]]


def like_runs(pattern: str, escape: str | None = None, ignore_case: bool = False) -> Runs:
    """Return the runs of a LIKE pattern between its ``%``, ``None`` standing for ``_``; linear in the pattern.

    Those of ILIKE are in lower case; the escape is looked for as written.

    >>> like_runs("a_%100$%", "$")
    [['a', None], ['1', '0', '0', '%']]
    """
    if escape is not None and len(escape) > 1:
        raise SubscriptionError(f"the escape {escape!r} has {len(escape)} characters", "Give one character")
    runs: Runs = [[]]
    characters = zip(pattern, lower(pattern) if ignore_case else pattern, strict=True)
    for written, character in characters:
        if escape and written == escape:
            _, literal = next(characters, (None, None))
            if literal is None:
                raise SubscriptionError(
                    f"the pattern {pattern!r} ends with its escape character",
                    f"Write {escape * 2!r} for the character itself",
                )
            runs[-1].append(literal)
        elif character == "%":
            runs.append([])
        else:
            runs[-1].append(None if character == "_" else character)
    return runs


def like_pattern(text: str, escape: str | None = None, ignore_case: bool = False) -> Pattern:
    """Return a LIKE pattern, ILIKE if `ignore_case`, with its wildcards apart from its text.

    >>> like_pattern("%100$%_", "$")
    Pattern(parts=(Wildcard(least=0, many=True), '100%', Wildcard(least=1, many=False)), ignore_case=False)
    """
    parts: list[str | Wildcard] = []
    for number, run in enumerate(like_runs(text, escape, ignore_case)):
        marks: list[str | Wildcard] = [Wildcard(0, True)] if number else []
        for part in [*marks, *(Wildcard(1, False) if character is None else character for character in run)]:
            last = parts[-1] if parts else None
            if isinstance(part, str) and isinstance(last, str):
                parts[-1] = last + part
            elif isinstance(part, Wildcard) and isinstance(last, Wildcard):
                parts[-1] = Wildcard(last.least + part.least, last.many or part.many)
            else:
                parts.append(part)
    return Pattern(tuple(parts), ignore_case)


def pattern_text(pattern: Pattern) -> str:
    """Return a pattern as it is written with a backslash for its escape.

    >>> print(pattern_text(like_pattern("%100$%_", "$")))
    %100\\%_
    """
    return "".join(
        re.sub(r"[\\%_]", r"\\\g<0>", part) if isinstance(part, str) else "_" * part.least + "%" * part.many
        for part in pattern.parts
    )


def pattern_order(pattern: Pattern) -> tuple[object, ...]:
    """Return what patterns are sorted by."""
    parts = ((0, part) if isinstance(part, str) else (1, part.least, part.many) for part in pattern.parts)
    return pattern.ignore_case, *parts


LONG_PATTERN = 100
"""Patterns of more runs are not compiled: that takes 30 µs a run, and looking for the runs one by one 0.3 µs."""


class _Run(NamedTuple):
    """What stands between two ``%``: texts at fixed places."""

    texts: tuple[tuple[int, str], ...]
    """With their places from the start, the longest first."""
    length: int

    def is_at(self, place: int, text: str) -> bool:
        return all(text.startswith(part, place + at) for at, part in self.texts)

    def find(self, text: str, start: int) -> int:
        """Return the first place from `start` on; -1 if there is none."""
        if not self.texts:
            return start if start + self.length <= len(text) else -1
        at, longest = self.texts[0]
        place = text.find(longest, start + at)
        while place >= 0 and not (self.is_at(place - at, text) and place - at + self.length <= len(text)):
            place = text.find(longest, place + 1)
        return -1 if place < 0 else place - at


@lru_cache(maxsize=64)
def _runs_of(pattern: Pattern) -> tuple[list[_Run], list[tuple[int, str, _Run]]]:
    """Return the runs of a pattern, and for those between two ``%`` the characters in front and the text, if alone."""
    runs: list[_Run] = []
    texts: list[tuple[int, str]] = []
    gaps, length = [0], 0
    for part in (*pattern.parts, Wildcard(0, True)):
        if isinstance(part, str):
            texts.append((length, part))
            length += len(part)
        elif part.many:
            runs.append(_Run(tuple(sorted(texts, key=lambda one: -len(one[1]))), length))
            gaps.append(part.least)
            texts, length = [], 0
        else:
            length += part.least
    between = [
        (gap, run.texts[0][1] if run.texts and len(run.texts[0][1]) == run.length else "", run)
        for gap, run in zip(gaps[1:-2], runs[1:-1], strict=True)
    ]
    return runs, [*between, (gaps[-2], "", runs[-1])]


def run_places(pattern: Pattern, text: str) -> list[tuple[int, int]] | None:
    """Return where each run of a pattern that has text stands in a text that it matches, None if it does not match.

    A run, once found, is never moved. The text must be in lower case for a pattern without regard to case.

    >>> run_places(like_pattern("%er_or%!"), "an error, an error!")
    [(3, 8), (18, 19)]
    """
    runs, (*between, (last_gap, _, last)) = _runs_of(pattern)
    end, start, find = runs[0].length, len(text) - last.length, text.find
    if not runs[0].is_at(0, text) or end > len(text) or (len(runs) == 1 and end < len(text)):
        return None
    found = [(0, end)] if runs[0].texts else []
    for gap, alone, run in between:
        place = find(alone, end + gap) if alone else run.find(text, end + gap)
        if place < 0:
            return None
        end = place + run.length
        if run.texts:
            found.append((place, end))
    if len(runs) == 1:
        return found
    if start < end + last_gap or not last.is_at(start, text):
        return None
    return [*found, (start, len(text))] if last.texts else found


@lru_cache(maxsize=10_000)
def like(pattern: str, escape: str | None = None, ignore_case: bool = False) -> Callable[[str], bool]:
    """Return the test that ``LIKE pattern ESCAPE escape`` (ILIKE if `ignore_case`) makes of a text.

    A test costs at most the length of the text times that of the longest run: a run, once found, is never moved.

    >>> like("%error_")("an error!"), like("%ERROR%")("an error!"), like("%ERROR%", ignore_case=True)("an error!")
    (True, False, True)
    """
    runs = like_runs(pattern, escape, ignore_case)
    if len(runs) > LONG_PATTERN:
        parsed = like_pattern(pattern, escape, ignore_case)
        return lambda text: run_places(parsed, lower(text) if ignore_case else text) is not None
    first, *rest = ("".join("." if c is None else re.escape(c) for c in run) for run in runs)
    last = f".*{rest.pop()}" if rest else ""
    middle = "".join(f"(?>.*?{run})" for run in rest if run)
    matches = re.compile(f"{first}{middle}{last}", re.DOTALL).fullmatch
    if ignore_case:
        return lambda text: matches(lower(text)) is not None
    return lambda text: matches(text) is not None
