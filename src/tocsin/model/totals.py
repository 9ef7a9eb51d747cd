"""Add numbers exactly: ten times 0.1 is 1, whatever the order, and what was added can be taken away again.

A float counts as the shortest decimal that reads as it, as in every comparison (see `tocsin.model.values`).
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from tocsin.model.condition import Aggregate
from tocsin.model.values import Number, kind_of

Exact = int | float | Fraction
"""A finite number, or an infinity as a float."""


class Total:
    """How many values there are, and the sum of those that are numbers.

    >>> total = Total([0.1] * 10)
    >>> total.value(Aggregate.SUM), total.value(Aggregate.AVG), total.value(Aggregate.COUNT)
    (Fraction(1, 1), Fraction(1, 10), 10)
    """

    __slots__ = ("_fractions", "_infinities", "_integers", "numbers", "values")

    def __init__(self, values: Iterable[object] = ()) -> None:
        self.values = 0
        """How many there are, whatever their kind."""
        self.numbers = 0
        self._integers = 0
        self._fractions: Fraction | int = 0
        self._infinities = [0, 0]
        for value in values:
            self.add(value)

    def add(self, value: object, times: int = 1) -> None:
        """Add a value that is not NULL so many times; with a negative number it is taken away again."""
        self.values += times
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return
        self.numbers += times
        if isinstance(value, int):
            self._integers += value * times
        elif math.isinf(value):
            self._infinities[value > 0] += times
        else:
            exact = Number(value).exact
            if isinstance(exact, int):
                self._integers += exact * times
            else:
                self._fractions += Fraction(exact) * times

    def value(self, aggregate: Aggregate) -> Exact | None:
        """Return the count, the sum or the average; NULL is the sum of no number, and that of both infinities."""
        if aggregate is Aggregate.COUNT:
            return self.values
        if self.numbers == 0 or all(self._infinities):
            return None
        if any(self._infinities):
            return math.inf if self._infinities[1] else -math.inf
        total = self._integers + self._fractions
        return total if aggregate is Aggregate.SUM else Fraction(total) / self.numbers


def compare_to_total(value: object, total: Exact | None) -> int | None:
    """Return the sign of a value minus a total; None if one of them is NULL, or the value is not a number.

    >>> compare_to_total(Decimal("0.3"), Total([0.1, 0.2]).value(Aggregate.SUM))
    0
    """
    if (
        total is None
        or isinstance(value, bool)
        or not isinstance(value, (int, float, Decimal))
        or kind_of(value) is None
    ):
        return None
    exact = value if isinstance(value, int) else float(value) if math.isinf(value) else Fraction(Number(value).exact)
    return (exact > total) - (exact < total)
