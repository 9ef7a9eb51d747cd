"""Define the words of a text, and LIKE. Every index must agree with these definitions.

Words. A text is folded (canonical composition, full case folding) and cut into maximal runs of word characters:
letters, numbers, combining marks and the underscore. Subscriptions and events are cut by the same function, so that
``Straße`` and ``STRASSE``, or ``é`` in one and in two code points, are the same word, and a Devanagari word does not
fall apart at its vowel signs.

Patterns. LIKE compares code points, as DuckDB does: ``%`` is any run of them, ``_`` is exactly one, line ends included.
ILIKE is LIKE on `lower` of the text and of what the pattern says literally. The escape is the character as written, as
in PostgreSQL and SQLite; DuckDB takes both cases of a letter for it.
"""

import math
import re
import sys
import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

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


def word_spans() -> list[tuple[int, int]]:
    """Return the runs of code points that are word characters, as (first, one after the last)."""
    every = array("I", range(sys.maxunicode + 1)).tobytes().decode("utf-32", "surrogatepass")
    # The expression with all marks would take 1.3 s here.
    marked = every.translate(dict.fromkeys(map(ord, _marks()), "_"))
    return [match.span() for match in re.finditer(r"\w+", marked)]


def fold(text: str) -> str:
    """Return `text` with case and canonical variants removed: what words are compared by.

    >>> fold("Straße") == fold("STRASSE")
    True
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _split(folded: str) -> list[str]:
    return (_ASCII_WORDS if folded.isascii() else _words()).findall(folded)


def tokens(text: str) -> list[str]:
    """Return the words of `text`, folded, in their order, repeated words repeated; linear in the text.

    >>> tokens("During a recent holiday in Milos, I stayed ...")
    ['during', 'a', 'recent', 'holiday', 'in', 'milos', 'i', 'stayed']
    """
    return _split(fold(text))


def exact_tokens(text: str) -> list[str]:
    """Return the words of `text` as they are written, canonical variants alone removed.

    >>> exact_tokens("US, us")
    ['US', 'us']
    """
    return _split(text if text.isascii() else unicodedata.normalize("NFC", text))


def parse_words(text: str, exact_case: bool = False) -> tuple[Word, ...]:
    """Return the distinct words that `has_words` demands; one right before ``*`` is a prefix.

    >>> parse_words("Holiday chok* holiday")
    (Word(text='holiday', prefix=False), Word(text='chok', prefix=True))
    """
    found: dict[Word, None] = {}
    # After each "*" a new piece begins; the last word of a piece is a prefix if the piece ended in that word.
    *starred, rest = (unicodedata.normalize("NFC", text) if exact_case else fold(text)).split("*")
    for piece in starred:
        words = _split(piece)
        ends_in_word = bool(words) and piece.endswith(words[-1])
        whole = words[:-1] if ends_in_word else words
        found.update((Word(word), None) for word in whole)
        if ends_in_word:
            found[Word(words[-1], prefix=True)] = None
    found.update((Word(word), None) for word in _split(rest))
    return tuple(found)


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
}


def check_words(text: str, function: str, prefixes: bool = False) -> None:
    """Refuse what looks like an operator of a search engine and would be read as a gap between words."""
    found = _OPERATORS.search(text) or (None if prefixes else re.search(r"(?P<star>\*)", text))
    if found is not None:
        way_out = _WAYS_OUT[str(found.lastgroup)] if prefixes else "A phrase has whole words, and no operators"
        raise SubscriptionError(f"{function}(…, {text!r}) has no operator {found.group()!r}", way_out)


@lru_cache(maxsize=8)
def _distinct_words(text: str) -> frozenset[str]:
    """Return the words of a text, which many predicates in a row ask for."""
    return frozenset(tokens(text))


def missing_words(text: str, wanted: Iterable[Word]) -> list[Word]:
    """Return those of `wanted` that do not occur in `text`: none of them exactly if `has_words` holds.

    >>> missing_words("a holiday in Milos", parse_words("holiday cret*"))
    [Word(text='cret', prefix=True)]
    """
    present = _distinct_words(text)
    return [
        word
        for word in wanted
        if not (any(p.startswith(word.text) for p in present) if word.prefix else word.text in present)
    ]


def has_phrase(text: str, phrase: list[str]) -> bool:
    """Tell whether the words `phrase` stand in `text` one after the other; an empty phrase always does.

    >>> has_phrase("He moved to New York.", tokens("new york"))
    True
    """
    words, length = tokens(text), len(phrase)
    return any(words[start : start + length] == phrase for start in range(len(words) - length + 1))


class WordPlaces:
    """Where each word of a text stands.

    >>> window = WordWindow("body", (Word("new"), Word("york")), 2, 3)
    >>> WordPlaces("New, old, York").have(window), WordPlaces("York is not so new").have(window)
    (True, False)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[bool, dict[str, list[int]]] = {}

    def have(self, window: WordWindow) -> bool:
        """Tell whether the words of a window occur as it demands."""
        places = [self._of(word, window.exact_case) for word in window.words]
        if sum(map(bool, places)) < window.least:
            return False
        if window.reach is None:
            return True
        if window.ordered:
            return any(_end(places, start) - start <= window.reach for start in places[0])
        in_order = sorted((place, word) for word, several in enumerate(places) for place in several)
        near: Counter[int] = Counter()
        first = 0
        for place, word in in_order:
            near[word] += 1
            while place - in_order[first][0] > window.reach:
                near[in_order[first][1]] -= 1
                first += 1
            if len(+near) >= window.least:
                return True
        return False

    def _of(self, word: Word, exact_case: bool) -> list[int]:
        there = self._places.get(exact_case)
        if there is None:
            there = self._places[exact_case] = {}
            for place, each in enumerate(exact_tokens(self._text) if exact_case else tokens(self._text)):
                there.setdefault(each, []).append(place)
        if word.prefix:
            return sorted(place for each, several in there.items() if each.startswith(word.text) for place in several)
        return there.get(word.text, [])


def _end(places: list[list[int]], start: int) -> float:
    """Return where words that follow each other end, each as early as possible; infinity if they do not."""
    for several in places[1:]:
        following = bisect_right(several, start)
        if following == len(several):
            return math.inf
        start = several[following]
    return start


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


@lru_cache(maxsize=10_000)
def like(pattern: str, escape: str | None = None, ignore_case: bool = False) -> Callable[[str], bool]:
    """Return the test that ``LIKE pattern ESCAPE escape`` (ILIKE if `ignore_case`) makes of a text.

    A test costs at most the length of the text times that of the longest run: a run, once found, is never moved.

    >>> like("%error_")("an error!"), like("%ERROR%")("an error!"), like("%ERROR%", ignore_case=True)("an error!")
    (True, False, True)
    """
    runs = like_runs(pattern, escape, ignore_case)
    first, *rest = ("".join("." if c is None else re.escape(c) for c in run) for run in runs)
    last = f".*{rest.pop()}" if rest else ""
    middle = "".join(f"(?>.*?{run})" for run in rest if run)
    matches = re.compile(f"{first}{middle}{last}", re.DOTALL).fullmatch
    if ignore_case:
        return lambda text: matches(lower(text)) is not None
    return lambda text: matches(text) is not None
