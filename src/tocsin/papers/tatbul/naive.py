"""Naive and Lazy: no index.

Naive evaluates every predicate on every value; Lazy only those whose conjunctions held so far.
"""

from pyroaring import BitMap

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.kernels import CODE_MAX, scan_probe
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.protocol import CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, Structure, count_and_fill


class Scan(Structure):
    """The entries as they are."""

    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code. O(n) each."""
        lo, hi, _ = self.entries
        return count_and_fill(lambda *batch: scan_probe(lo, hi, *batch), codes)

    @property
    def nodes(self) -> int:
        """The number of nodes: one for each entry."""
        return len(self.entries.lo)

    @property
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """Nothing besides the entries."""
        return ()

    def check(self) -> None:
        """Assert nothing more than the entries do."""

    def drawing(self, names: CodeNames, depth: int) -> Drawing:
        """Return the first entries as children of one root, 2 to the `depth` at most."""
        lo, hi, predicate = (column[: 2**depth].tolist() for column in self.entries)
        shown = (Drawing(0, CODE_MAX, f"P{p}: {names(a, b)}") for a, b, p in zip(lo, hi, predicate, strict=True))
        return Drawing(0, CODE_MAX, f"scan of {self.nodes}", children=tuple(shown))


class NaiveIndex(LayeredIndex):
    """Evaluate every predicate on every value: n evaluations.

    >>> index = NaiveIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.probe(5).tolist(), index.evaluations
    ([0, 1], 3)
    """

    def _freeze(self, entries: Entries) -> Structure:
        return Scan(entries)


class LazyIndex(NaiveIndex):
    """Evaluate the predicates that the attributes before left alive: between one for each conjunction and all.

    Laziness is a matter of several attributes: on one alone, `probe` is that of `NaiveIndex`. `Conjunctions` calls
    `narrow`, attribute by attribute, so that each conjunction stops at its first predicate that does not hold.

    >>> index = LazyIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.narrow(5, BitMap([1, 2])), index.evaluations
    (BitMap([1]), 2)
    """

    def narrow(self, code: int, alive: BitMap) -> BitMap:
        """Return those of `alive` that hold for `code`, evaluating no others."""
        return self.evaluate(code, alive)
