"""The index of regular expressions: which of many match each text, found by the LIKE patterns that cover them.

Measured on lines of 300 bytes, in microseconds a line: google-re2's Set 12 for 100 expressions, 945 for 2,000 (its
automaton grows with them); its Filter 45 for 2,000; hyperscan 8 for 10,000, after 5 seconds of compiling, on x86 alone
and with the syntax of PCRE, so that RE2 must verify; this index 40 for 10,000. It needs no library but Arrow, which
contains RE2. Arrow compiles an expression at each call, in 15 microseconds, if a batch has a candidate for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Int32s, Int64s, Strings
from tocsin.errors import SubscriptionError
from tocsin.invariants import BrokenInvariantError, check_strings, demand, under
from tocsin.model.regexp import LONG_S, check_expression, cover, finder
from tocsin.predicates.patterns.index import Patterns
from tocsin.predicates.texts import TextIndex

TAKEN_PAIRS = 16_384
"""Pairs of an expression and a text whose texts are copied at a time: some megabytes of lines."""


class FoundExpressions(NamedTuple):
    """The expressions that match: those of text r are ``expressions[offsets[r]:offsets[r + 1]]``, ascending."""

    offsets: Int64s
    expressions: Int32s
    verified: int
    """How many pairs of an expression and a text RE2 has judged."""


class Regexps(TextIndex):
    """Find the expressions that match each text of a column.

    A probe costs what that of the covering patterns costs, and RE2's time for each expression whose cover matches. An
    expression without any literal, such as ``\\d+``, is judged for every text.

    >>> index = Regexps.build([r"GET /\\w+\\.php", "(?i)error [45]", r"^\\d+$"])
    >>> offsets, expressions = index.probe_batch(pa.array(["GET /a.php: ERROR 4", "17", "GET /", None]))
    >>> offsets.tolist(), expressions.tolist()
    ([0, 2, 3, 3, 3], [0, 1, 2])
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__(arrays)
        self._expressions = Strings(self._arrays["offsets"], self._arrays["bytes"])
        prefix = "cover_"
        self._cover = Patterns({k.removeprefix(prefix): v for k, v in self._arrays.items() if k.startswith(prefix)})

    @classmethod
    def build(cls, expressions: Sequence[str]) -> Self:
        """Build for expressions that RE2 can read; about linear in the length of all."""
        texts = Strings.of(expressions)
        covers = Patterns.build([cover(expression).patterns for expression in expressions])
        arrays = {f"cover_{name}": array for name, array in covers.arrays().items()}
        return cls({"offsets": texts.offsets, "bytes": texts.data, **arrays})

    @property
    def predicate_count(self) -> int:
        """The number of expressions."""
        return len(self._expressions)

    def probe_texts(self, texts: pa.Array) -> tuple[Int64s, Int32s]:
        """Return where the expressions that match each text start, and these, ascending; no text is NULL."""
        return self.search(texts)[:2]

    def search(self, texts: pa.Array) -> FoundExpressions:
        """Do what `probe_texts` does, and count the pairs that RE2 has judged."""
        starts, candidates = self._cover.probe_texts(_searched(texts))
        row = np.repeat(np.arange(len(texts)), np.diff(starts))
        order = np.argsort(candidates, kind="stable")
        distinct, first = np.unique(candidates[order], return_index=True)
        matches = np.zeros(len(candidates), np.bool_)
        ends = np.append(first[1:], len(order))
        place = 0
        while place < distinct.size:
            # The texts of several expressions are taken at once: to take those of each costs more than to judge them.
            last = max(place + 1, int(np.searchsorted(ends, first[place] + TAKEN_PAIRS, side="right")))
            taken = texts.take(pa.array(row[order[first[place] : ends[last - 1]]]))
            for each in range(place, last):
                judged = taken.slice(first[each] - first[place], ends[each] - first[each])
                found = pc.match_substring_regex(judged, pattern=self._expressions[int(distinct[each])])
                matches[order[first[each] : ends[each]]] = found.to_numpy(zero_copy_only=False)
            place = last
        offsets = np.searchsorted(row[matches], np.arange(len(texts) + 1))
        return FoundExpressions(offsets, candidates[matches], len(candidates))

    def probe_text(self, text: str) -> Int32s:
        """Return the expressions that match one text, ascending."""
        candidates = self._cover.probe_text(text.replace(LONG_S, "s"))
        judged = [finder(self._expressions[expression])(text) for expression in candidates.tolist()]
        return candidates[np.array(judged, np.bool_)]

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays, and expressions that RE2 can read."""
        demand(self._cover.predicate_count == self.predicate_count, "cover_predicate_count", "it is not that of all")
        with under("cover_"):
            self._cover.check_arrays()
        check_strings("", self._expressions, joint="")
        for expression in self._expressions.arrow().to_pylist():
            try:
                check_expression(expression)
            except SubscriptionError as error:
                raise BrokenInvariantError("bytes", error.message) from None

    def check(self) -> None:
        """Assert what must be true of the arrays."""
        self._cover.check()
        assert self._cover.predicate_count == self.predicate_count, "each expression has a cover"


def _searched(texts: pa.Array) -> pa.Array:
    """Return texts as covers read them: the long s is an s, as it is to RE2 where case does not matter."""
    return pc.replace_substring(texts, LONG_S, "s") if pc.any(pc.match_substring(texts, LONG_S)).as_py() else texts
