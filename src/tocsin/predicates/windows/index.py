"""The index of word windows: words near each other, phrases with gaps, some of many words, words of one case."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Int32s, Int64s
from tocsin.invariants import demand, under
from tocsin.model.predicate import Word, WordWindow
from tocsin.model.text import WordPlaces, fold
from tocsin.predicates.definitions import decode_tests, encode_tests
from tocsin.predicates.texts import TextIndex
from tocsin.predicates.words.index import Vocabulary

_FILED = "filed."
"""Before the names of the arrays of the vocabulary."""


class Windows(TextIndex):
    """Find the windows that could hold by a vocabulary of some of their words, and judge those by definition.

    A window of which k of n words must occur has one of any n - k + 1 of them: it is filed under the longest.

    >>> windows = Windows.build([WordWindow("", (Word("new"), Word("york")), 2, 3)])
    >>> [windows.probe_text(text).tolist() for text in ("new in york", "york", "york: what is it? new")]
    [[0], [], []]
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__(arrays)
        self._windows = [test for test in decode_tests(arrays) if isinstance(test, WordWindow)]
        filed = {name.removeprefix(_FILED): array for name, array in arrays.items() if name.startswith(_FILED)}
        self._vocabulary = Vocabulary(filed)

    @classmethod
    def build(cls, windows: Sequence[WordWindow]) -> Self:
        """Build for windows, which are numbered from 0 in this order."""
        filed = Vocabulary.build([_filed_under(window) for window in windows]).arrays()
        return cls({**encode_tests(windows), **{f"{_FILED}{name}": array for name, array in filed.items()}})

    def check_arrays(self) -> None:
        """Demand what keeps the kernels of the vocabulary within their arrays."""
        with under(_FILED):
            self._vocabulary.check_arrays()
            count = self._vocabulary.predicate_count
            demand(count == len(self._windows), "predicate_counts", "it does not count the windows")

    @property
    def predicate_count(self) -> int:
        """The number of windows."""
        return len(self._windows)

    def probe_texts(self, texts: pa.Array) -> tuple[Int64s, Int32s]:
        """Return where the windows that hold for each text start, and these, ascending; no text is NULL."""
        starts, candidates = self._vocabulary.probe_texts(texts)
        stands = np.zeros(candidates.size, bool)
        for row in np.flatnonzero(np.diff(starts)).tolist():
            text = WordPlaces(texts[row].as_py())
            for place in range(starts[row], starts[row + 1]):
                stands[place] = text.have(self._windows[candidates[place]])
        return np.append(0, np.cumsum(stands))[starts], candidates[stands]

    def probe_text(self, text: str) -> Int32s:
        """Return the windows that hold for one text, ascending."""
        candidates, places = self._vocabulary.probe_text(text), WordPlaces(text)
        return candidates[[places.have(self._windows[number]) for number in candidates.tolist()]]


def _filed_under(window: WordWindow) -> list[Word]:
    """Return the words of which one must occur in every text that has the window, folded as texts are."""
    count = 1 if window.ordered else len(window.words) - window.least + 1
    longest = sorted(window.words, key=lambda word: len(word.text), reverse=True)[:count]
    return [Word(fold(word.text), word.prefix) for word in longest]
