"""Short codes: 16 bits for a value, so that many are compared at once.

By rank, a short code is the code of the value, shifted until it fits. A column of many numbers that are spread evenly
enough has a *quantizer* instead: it cuts the number line, or the line of logarithms, into equal steps, and the short
code of a value is the number of its step. That does not depend on the single constants. The ends of a quantizer leave
out the few smallest and largest constants and are rounded, so that segments with similar constants get the same
quantizer, although they are built apart, and share the short codes of events.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays import Float64s, Int32s, UInt16s
from tocsin.model.values import Kind, kind_of, nearest_float
from tocsin.predicates.ranges.domain import Domain, floats_of
from tocsin.predicates.ranges.kernels import quantize_values
from tocsin.tuning import TUNING

NO_SHORT = 65_535
"""A short code that no value has."""
LAST_SHORT = NO_SHORT - 1
"""The largest short code."""
_MAX_SPAN = 1e300
"""Spans up to this cannot overflow in the arithmetic of quantizers."""


@dataclass(frozen=True)
class ShortCodes:
    """What the short codes of a column say of its codes; NULL is short code 0.

    The values with code c have short codes from `lowest[c + 1]` to `highest[c + 1]`, and neither array falls. A value
    whose short code is that of an end of a range may lie on either side of the end.
    """

    lowest: UInt16s
    highest: UInt16s


def shifts_by_rank(last_code: Int32s) -> Int32s:
    """Return how far the codes of each column must be shifted so that (code >> shift) + 1 is a short code.

    >>> shifts_by_rank(np.array([10, 65_533, 65_534, 1_000_000], np.int32)).tolist()
    [0, 0, 1, 4]
    """
    shift = np.zeros(last_code.size, np.int32)
    while (too_long := (last_code >> shift) + 1 > LAST_SHORT).any():
        shift[too_long] += 1
    return shift


@dataclass(frozen=True)
class Quantizer:
    """Equal steps from `origin` on.

    A logarithmic one reads the bits of a float as an integer: they rise with the number, and between two powers of two
    evenly.

    >>> quantizer = Quantizer.of(Domain(Kind.NUMBER, np.linspace(-0.04, 1.03, 10_000)))
    >>> quantizer
    Quantizer(origin=-0.125, steps_per_unit=52424.8, logarithmic=False)
    >>> quantizer.codes_of_values([-5, -0.125, 0, 1.125, 99, None, "x"]).tolist()
    [1, 2, 6555, 65533, 65534, 0, 0]
    """

    origin: float
    steps_per_unit: float
    logarithmic: bool = False

    @classmethod
    def stored(cls, steps: Any) -> "Quantizer":
        """Return the quantizer whose fields a file has; raise ValueError if they are none."""
        origin, steps_per_unit, logarithmic = steps
        if not all(isinstance(number, float) and math.isfinite(number) for number in (origin, steps_per_unit)):
            raise ValueError(f"{steps} is not a quantizer")
        return cls(origin, steps_per_unit, bool(logarithmic))

    @classmethod
    def of(cls, domain: Domain) -> "Quantizer | None":
        """Return the quantizer for a domain; None if its constants are not numbers, too few or spread unevenly."""
        constants: Any = domain.constants
        if domain.kind is not Kind.NUMBER or len(constants) < TUNING.min_even_codes:
            return None
        for logarithmic in (False, True):
            quantizer = cls.between(constants, logarithmic)
            if quantizer is not None:
                share = np.bincount(quantizer._codes(constants)) / len(constants)
                if (share**2).sum() <= 1 / TUNING.min_even_codes:
                    return quantizer
        return None

    @classmethod
    def between(cls, constants: Float64s, logarithmic: bool) -> "Quantizer | None":
        """Return a quantizer from nearly the first to nearly the last constant, or a little further."""
        beyond = constants.size >> TUNING.tail_bits
        first, last = _on_line(constants[[beyond, -1 - beyond]], logarithmic).tolist()
        if not 1 / _MAX_SPAN < last - first < _MAX_SPAN:
            return None
        unit = 2.0 ** math.floor(math.log2(last - first)) / TUNING.end_steps
        origin, end = math.floor(first / unit) * unit, math.ceil(last / unit) * unit
        return cls(origin, (LAST_SHORT - 3) / (end - origin), logarithmic)

    def _codes(self, values: Float64s) -> UInt16s:
        short = np.empty(values.size, np.uint16)
        quantize_values(self.origin, self.steps_per_unit, LAST_SHORT, _on_line(values, self.logarithmic), short)
        return short

    def codes_of_values(self, values: pa.Array | list[Any] | None, count: int = 0) -> UInt16s:
        """Return the short codes of a column of events; `count` says how many there are if no event has a value."""
        if values is None:
            return np.zeros(count, np.uint16)
        if isinstance(values, list):
            return self._codes(np.array([nearest_number(value) for value in values], np.float64))
        return self._codes(floats_of(values))

    def of_codes(self, domain: Domain) -> ShortCodes:
        """Return what short codes say of the codes of the domain."""
        constants: Any = domain.constants
        of_constants = self._codes(constants)
        lowest, highest = np.empty(domain.last + 2, np.uint16), np.empty(domain.last + 2, np.uint16)
        lowest[0] = highest[0] = 0
        lowest[2::2] = highest[2::2] = of_constants
        lowest[1], lowest[3::2] = 1, of_constants
        highest[1:-1:2], highest[-1] = of_constants, LAST_SHORT
        return ShortCodes(lowest, highest)


def _on_line(values: Float64s, logarithmic: bool) -> Float64s:
    """Return where values lie on the line that is cut into steps; NaN stays NaN."""
    if not logarithmic:
        return values
    bits = np.ascontiguousarray(values).view(np.int64)
    line = np.where(bits >= 0, bits, np.iinfo(np.int64).min - bits).astype(np.float64)
    line[np.isnan(values)] = np.nan
    return line


def nearest_number(value: Any) -> float:
    """Return the float nearest to a number; NaN for what is not a number."""
    return nearest_float(value) if kind_of(value) is Kind.NUMBER else math.nan
