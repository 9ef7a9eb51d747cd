"""The index of words: which of the words, word prefixes and phrases that predicates name occur in each text."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin._compile import AddressTable
from tocsin.arrays import Bools, Int8s, Int32s, Int64s
from tocsin.forks import cached
from tocsin.invariants import check_fields, check_slots, check_starts, check_type, check_within, demand, under
from tocsin.model.predicate import Word
from tocsin.model.text import fold, word_spans
from tocsin.predicates.folding import ASCII, FOLD
from tocsin.predicates.protocol import Arrays
from tocsin.predicates.texts import TextBytes, TextIndex, as_bytes
from tocsin.predicates.words.kernels import (
    STRING_BITS,
    NamedWords,
    WordTable,
    fill_table,
    find_words,
    find_words_in_one,
)
from tocsin.tuning import TUNING

_NO_CHARACTERS = np.zeros(0, np.bool_)


class Vocabulary(TextIndex):
    """Find, in one pass over a column of texts, the predicates on words that hold for each text.

    Predicates are numbered: first those on words (one of several words or prefixes occurs), then phrases. A probe
    costs one step per byte of text and one table look-up per word; a word that no predicate names costs nothing more.
    A prefix is looked up when the hash of a word passes its length. A phrase is looked at when the longest of its
    words occurs, and its words are compared in their places only when all of them occur.

    >>> vocabulary = Vocabulary.build([[Word("milos")], [Word("holi", prefix=True)]], [["in", "milos"]])
    >>> offsets, predicates = vocabulary.probe_batch(pa.array(["Holidays in Milos", "Milos", None]))
    >>> offsets.tolist(), predicates.tolist()
    ([0, 3, 4, 4], [0, 1, 2, 0])
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__(arrays)
        self._index = NamedWords(
            words=WordTable(*(self._arrays[f"word_{part}"] for part in WordTable._fields)),
            prefixes=WordTable(*(self._arrays[f"prefix_{part}"] for part in WordTable._fields)),
            first_phrase=int(self._arrays["predicate_counts"][0]),
            **{name: self._arrays[name] for name in _FLAT_NAMES},
        )
        # Work arrays that a probe takes, or makes, and gives back as they were.
        self._scratch: list[tuple[Int8s, Int32s]] = []

    @classmethod
    def build(cls, any_words: Sequence[Iterable[Word]], phrases: Sequence[Sequence[str]] = ()) -> Self:
        """Build for predicates on words and phrases, all folded; sorts the words once.

        A phrase has at least one word; the language refuses `has_phrase(text, '')`.
        """
        named = [(word, predicate) for predicate, words in enumerate(any_words) for word in words]
        whole = [(word.text, predicate) for word, predicate in named if not word.prefix]
        prefixes = [(word.text, predicate) for word, predicate in named if word.prefix]
        in_phrases = [word for phrase in phrases for word in phrase]
        strings = sorted({text for text, _ in whole} | set(in_phrases), key=str.encode)
        starts = sorted({text for text, _ in prefixes}, key=str.encode)
        number = {text: s for s, text in enumerate(strings)}
        prefix_number = {text: s for s, text in enumerate(starts)}
        lengths = np.zeros(1 + max((len(text.encode()) for text in starts), default=-1), np.bool_)
        lengths[[len(text.encode()) for text in starts]] = True
        place = [max(range(len(phrase)), key=lambda i: len(phrase[i])) for phrase in phrases]
        keys = [(number[phrase[i]], f) for f, (phrase, i) in enumerate(zip(phrases, place, strict=True))]
        arrays: Arrays = {
            **_strings("word", strings),
            **_strings("prefix", starts),
            **_slices("word_starts", "word_predicates", [(number[text], p) for text, p in whole], len(strings)),
            **_slices(
                "prefix_starts", "prefix_predicates", [(prefix_number[text], p) for text, p in prefixes], len(starts)
            ),
            "prefix_lengths": lengths,
            "phrase_offsets": np.cumsum([0, *map(len, phrases)]).astype(np.int64),
            "phrase_words": np.array([number[word] for word in in_phrases], np.int32),
            "phrase_place": np.array(place, np.int32),
            **_slices("filed_starts", "filed", keys, len(strings)),
            "predicate_counts": np.array([len(any_words), len(phrases)], np.int64),
        }
        return cls(arrays)

    @property
    def predicate_count(self) -> int:
        """The number of predicates on words and phrases."""
        return int(self._arrays["predicate_counts"].sum())

    def __len__(self) -> int:
        return len(self._arrays["word_offsets"]) - 1

    def probe_texts(self, texts: pa.Array) -> tuple[Int64s, Int32s]:
        """Return where the predicates that hold for each text start, and these, ascending; no text is NULL."""
        read = as_bytes(texts, FOLD)
        return self._find(read, bool(len(read.data)) and int(read.data.max()) >= ASCII)

    def probe_text(self, text: str) -> Int32s:
        """Return the predicates that hold for one text, ascending."""
        is_ascii = text.isascii()
        data = np.frombuffer((text if is_ascii else fold(text)).encode(), np.uint8)
        if len(text) > TUNING.long_text:
            return self._find(TextBytes(np.array([0, data.size]), data), not is_ascii)[1]
        is_word = _NO_CHARACTERS if is_ascii else _word_characters()
        seen, last_at = self._work_arrays()
        table, first_phrase = self._addresses.rows, self._index.first_phrase
        found: Int32s = find_words_in_one(table, first_phrase, data, is_word, seen, last_at)
        self._scratch.append((seen, last_at))
        return found

    @cached
    def _addresses(self) -> AddressTable:
        """The arrays of the index, for `find_words_in_one`."""
        parts = (part if isinstance(part, tuple) else (part,) for part in self._index if not isinstance(part, int))
        return AddressTable(*chain.from_iterable(parts))

    def _work_arrays(self) -> tuple[Int8s, Int32s]:
        try:
            return self._scratch.pop()
        except IndexError:
            return np.zeros(self._index.first_phrase, np.int8), np.full(len(self), -1, np.int32)

    def _find(self, read: TextBytes, beyond_ascii: bool) -> tuple[Int64s, Int32s]:
        """Find the predicates of texts; only those with bytes beyond ASCII need the table of characters."""
        is_word = _word_characters() if beyond_ascii else _NO_CHARACTERS
        seen, last_at = self._work_arrays()
        found = find_words(read.offsets, read.data, is_word, self._index, seen, last_at)
        self._scratch.append((seen, last_at))
        return found

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays."""
        index, counts = self._index, self._arrays["predicate_counts"]
        check_type("predicate_counts", counts, np.int64)
        phrases = index.phrase_place.size
        counted = counts.size == 2 and counts[0] >= 0 and counts[1] == phrases
        demand(counted, "predicate_counts", "it does not count the predicates on words and phrases")
        check_fields(NamedWords, index)
        for kind, table in (("word", index.words), ("prefix", index.prefixes)):
            strings = table.offsets.size - 1
            with under(f"{kind}_"):
                check_fields(WordTable, table)
                check_starts("offsets", table.offsets, strings, table.data.size)
                # What a slot has besides the number of its string is compared, and leads nowhere.
                check_slots("table", table.table & STRING_BITS, strings, 0)
            starts, predicates = self._arrays[f"{kind}_starts"], self._arrays[f"{kind}_predicates"]
            check_starts(f"{kind}_starts", starts, strings, predicates.size)
            check_within(f"{kind}_predicates", predicates, 0, index.first_phrase)
        words = len(self)
        check_starts("phrase_offsets", index.phrase_offsets, phrases, index.phrase_words.size)
        check_within("phrase_words", index.phrase_words, 0, words)
        within = (index.phrase_place >= 0) & (index.phrase_place < np.diff(index.phrase_offsets))
        demand(within, "phrase_place", "a phrase is filed under a word that it does not have")
        check_starts("filed_starts", index.filed_starts, words, index.filed.size)
        check_within("filed", index.filed, 0, phrases)
        demand(np.bincount(index.filed, minlength=phrases) == 1, "filed", "a phrase is not filed once")

    def check(self) -> None:
        """Assert what must be true of the arrays."""
        for kind in ("word", "prefix"):
            data, offsets, table = (self._arrays[f"{kind}_{part}"] for part in WordTable._fields)
            texts = [data[a:b].tobytes() for a, b in pairwise(offsets)]
            assert texts == sorted(set(texts)), "strings are sorted and distinct"
            assert np.count_nonzero(table) == len(texts), "each string has a slot"
            assert 2 * len(texts) <= len(table), "a probe of the table soon meets an empty slot"
            assert len(self._arrays[f"{kind}_starts"]) == len(texts) + 1, "each string has its predicates"
            assert self._arrays[f"{kind}_predicates"].max(initial=-1) < self._index.first_phrase, "they are on words"
        lengths = np.flatnonzero(self._arrays["prefix_lengths"])
        assert set(lengths) == set(np.diff(self._arrays["prefix_offsets"])), "a prefix is looked up at its length"
        assert sorted(self._arrays["filed"]) == list(range(len(self._arrays["phrase_place"]))), "a phrase is filed once"


_FLAT_NAMES = tuple(name for name in NamedWords._fields if name not in ("words", "prefixes", "first_phrase"))


@cache
def _word_characters() -> Bools:
    table = np.zeros(0x110000, np.bool_)
    for start, stop in word_spans():
        table[start:stop] = True
    return table


def _strings(kind: str, strings: list[str]) -> Arrays:
    texts = as_bytes(pa.array(strings, pa.large_string()))
    offsets, data = texts.offsets.copy(), texts.data.copy()
    return {f"{kind}_data": data, f"{kind}_offsets": offsets, f"{kind}_table": fill_table(data, offsets)}


def _slices(starts: str, values: str, pairs: list[tuple[int, int]], rows: int) -> Arrays:
    """Return the values of each row, ascending, and where they start, under two names."""
    row = np.fromiter((row for row, _ in pairs), np.int64, len(pairs))
    value = np.fromiter((value for _, value in pairs), np.int32, len(pairs))
    counts = np.bincount(row, minlength=rows)
    order = np.lexsort((value, row))
    return {
        starts: np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        values: value[order],
    }
