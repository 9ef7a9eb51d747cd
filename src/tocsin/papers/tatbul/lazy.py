"""Lazy: no index; a predicate is evaluated only where the ones before it in its conjunction held."""

from pyroaring import BitMap

from tocsin.papers.tatbul.naive import NaiveIndex


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
