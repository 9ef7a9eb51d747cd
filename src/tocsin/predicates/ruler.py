"""Rulers: short codes of numbers that do not depend on the constants, so that segments can share them.

A ruler lays even marks on the number line, or on the line of logarithms; the short code of a value is the mark below
it. Its ends leave out the few smallest and largest constants and are rounded so far that sets of similar constants get
the same ruler, whoever builds them. A column has one if its constants are spread evenly enough; otherwise its short
codes are ranks among its constants.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin._kernels.codes import codes_by_ruler
from tocsin._kernels.pairs_grid import OUTSIDE
from tocsin.model.values import Kind, kind_of
from tocsin.predicates.domain import Domain, floats_of

Floats = npt.NDArray[np.float64]
Short = npt.NDArray[np.uint16]

EVEN = 4096
"""Two constants share a short code no more often than if there were so many codes, all equally filled."""
LAST = OUTSIDE - 1
"""The largest short code."""
_MOST = 1e300
"""The arithmetic of rulers needs no infinite number as long as spans are within this."""
_BEYOND = 10
"""One constant in two to the power of this may lie beyond either end."""
_STEPS = 8
"""The ends of a ruler are multiples of a power of two that fits so often into the span of the constants."""


@dataclass(frozen=True)
class ShortCodes:
    """What the short codes of a column say of its codes; NULL is short code 0.

    The values with code c have short codes from `lowest[c + 1]` to `highest[c + 1]`, and neither array falls. A value
    whose short code is that of an end of a range may lie on either side of the end.
    """

    lowest: Short
    highest: Short


@dataclass(frozen=True)
class Ruler:
    """Even marks from `origin` on.

    A logarithmic one reads the bits of a float as an integer: they rise with the number, and between two powers of two
    evenly.

    >>> ruler = Ruler.of(Domain(Kind.NUMBER, np.linspace(-0.04, 1.03, 10_000)))
    >>> ruler
    Ruler(origin=-0.125, marks_a_unit=52424.8, logarithmic=False)
    >>> ruler.codes_of_values([-5, -0.125, 0, 1.125, 99, None, "x"]).tolist()
    [1, 2, 6555, 65533, 65534, 0, 0]
    """

    origin: float
    marks_a_unit: float
    logarithmic: bool = False

    @classmethod
    def of(cls, domain: Domain) -> "Ruler | None":
        """The ruler for a domain; None if its constants are no numbers, too few or spread unevenly."""
        constants: Any = domain.constants
        if domain.kind is not Kind.NUMBER or domain.exact or len(constants) < EVEN:
            return None
        for logarithmic in (False, True):
            ruler = cls.between(constants, logarithmic)
            if ruler is not None:
                share = np.bincount(ruler._codes(constants)) / len(constants)
                if (share**2).sum() <= 1 / EVEN:
                    return ruler
        return None

    @classmethod
    def between(cls, constants: Floats, logarithmic: bool) -> "Ruler | None":
        """A ruler from nearly the first to nearly the last constant, or a little further."""
        beyond = constants.size >> _BEYOND
        first, last = _on_line(constants[[beyond, -1 - beyond]], logarithmic).tolist()
        if not 1 / _MOST < last - first < _MOST:
            return None
        unit = 2.0 ** math.floor(math.log2(last - first)) / _STEPS
        origin, end = math.floor(first / unit) * unit, math.ceil(last / unit) * unit
        return cls(origin, (LAST - 3) / (end - origin), logarithmic)

    def _codes(self, values: Floats) -> Short:
        short = np.empty(values.size, np.uint16)
        codes_by_ruler(self.origin, self.marks_a_unit, LAST, _on_line(values, self.logarithmic), short)
        return short

    def codes_of_values(self, values: pa.Array | list[Any] | None, count: int = 0) -> Short:
        """The short codes of a column of events; `count` says how many there are if no event has a value."""
        if values is None:
            return np.zeros(count, np.uint16)
        if isinstance(values, list):
            return self._codes(np.array([_nearest(value) for value in values], np.float64))
        return self._codes(floats_of(values))

    def of_codes(self, domain: Domain) -> ShortCodes:
        """What short codes say of the codes of the domain."""
        constants: Any = domain.constants
        marks = self._codes(constants)
        lowest, highest = np.empty(domain.last + 2, np.uint16), np.empty(domain.last + 2, np.uint16)
        lowest[0] = highest[0] = 0
        lowest[2::2] = highest[2::2] = marks
        lowest[1], lowest[3::2] = 1, marks
        highest[1:-1:2], highest[-1] = marks, LAST
        return ShortCodes(lowest, highest)


def _on_line(values: Floats, logarithmic: bool) -> Floats:
    """The values where a ruler measures them; NaN stays NaN."""
    if not logarithmic:
        return values
    bits = np.ascontiguousarray(values).view(np.int64)
    line = np.where(bits >= 0, bits, np.iinfo(np.int64).min - bits).astype(np.float64)
    line[np.isnan(values)] = np.nan
    return line


def _nearest(value: Any) -> float:
    if kind_of(value) is not Kind.NUMBER:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
