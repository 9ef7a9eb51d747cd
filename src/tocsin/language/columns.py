"""Read one literal of many texts of a shape at once, as an array in the form in which constants are compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import SubscriptionError
from tocsin.language.constants import LiteralSource, Reading, number, read, unquote
from tocsin.language.normal_form import EXACT_FLOAT, Values
from tocsin.model.condition import Slot
from tocsin.model.values import Number, Scalar, scalar

_SAFE_LENGTH = 15
"""A decimal of so many digits is the shortest one that reads as its float64."""


class Unreadable(Exception):  # noqa: N818  # a signal to do these rows otherwise, no error of the user's
    """Some rows hold literals that mean no constant, or need the general way."""

    def __init__(self, rows: set[int]) -> None:
        super().__init__()
        self.rows = rows


class Columns:
    """The literals of the texts of one shape, by slot."""

    def __init__(self, sources: Sequence[LiteralSource], literals: list[list[str]]) -> None:
        self.sources = sources
        self._literals = list(zip(*literals, strict=True))
        self._read: dict[int, Values] = {}

    def __getitem__(self, slot: Slot) -> Values:
        """The constants of a slot: float64, microseconds, or objects."""
        if slot.index not in self._read:
            source = self.sources[slot.index]
            self._read[slot.index] = _column(self._literals[source.literal], source.reading)
        return self._read[slot.index]

    def literals(self, number: int) -> Sequence[str]:
        """One literal of every text, as written."""
        return self._literals[number]


def together(arrays: list[Values]) -> list[Values]:
    """Arrays of one kind in one representation: floats become Numbers beside Numbers."""
    if len({array.dtype for array in arrays}) == 1:
        return arrays
    return [array if array.dtype == object else _objects([Number(v) for v in array.tolist()]) for array in arrays]


def _column(literals: Sequence[str], reading: Reading) -> Values:
    if reading is Reading.STRING:
        return _objects([unquote(literal) for literal in literals])
    if reading in (Reading.NUMBER, Reading.NEGATIVE):
        floats = _floats(literals)
        if floats is not None:
            return -floats if reading is Reading.NEGATIVE else floats
        return _objects(_each(literals, reading))
    return np.array(_each(literals, reading), np.int64)


def _floats(literals: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """The literals as float64, if each means exactly that. Arrow reads and prints them faster than Python."""
    texts = pa.array(literals, pa.string())
    try:
        read_back = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    floats: npt.NDArray[np.float64] = read_back.to_numpy()
    if not bool((np.abs(floats) <= EXACT_FLOAT).all()):
        return None
    if max(map(len, literals)) > _SAFE_LENGTH:
        differing = np.flatnonzero(~pc.equal(texts, read_back.cast(pa.string())).to_numpy(zero_copy_only=False))
        if not all(len(literals[row]) <= _SAFE_LENGTH or _is_float(literals[row]) for row in differing.tolist()):
            return None
    return floats


def _is_float(literal: str) -> bool:
    try:
        return Number(number(literal)).is_float
    except SubscriptionError:
        return False


def _each(literals: Sequence[str], reading: Reading) -> list[Scalar]:
    """Read one literal after the other, each distinct one once."""
    known: dict[str, Scalar | None] = {}
    for literal in set(literals):
        try:
            known[literal] = scalar(read(literal, reading))
        except SubscriptionError:
            known[literal] = None
    values = [known[literal] for literal in literals]
    unreadable = {row for row, value in enumerate(values) if value is None}
    if unreadable:
        raise Unreadable(unreadable)
    return [value for value in values if value is not None]


def _objects(values: Sequence[Any]) -> Values:
    array = np.empty(len(values), object)
    array[:] = values
    return array
