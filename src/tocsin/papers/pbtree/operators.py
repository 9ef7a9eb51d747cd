"""The six operators: where a predicate's entry goes, and its tag there."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int64s
from tocsin.errors import OptionError
from tocsin.papers.pbtree.lists import GT, INEQ, LT


class Operator(NamedTuple):
    """One operator. A non-strict one stands twice, as in the paper: in its list and in the SidSet of its leaf item."""

    symbol: str
    number: int
    in_leaf: bool
    list: int | None
    tag: int


OPERATORS: Final = (
    Operator("<", 0, False, LT, 3),
    Operator("<=", 1, True, LT, 1),
    Operator("=", 2, True, None, 0),
    Operator("!=", 3, False, INEQ, 3),
    Operator(">=", 4, True, GT, 2),
    Operator(">", 5, False, GT, 3),
)
BY_SYMBOL: Final = {operator.symbol: operator for operator in OPERATORS}

TAG_BITS: Final = 2
TAG_MASK: Final = 3
SID_LIMIT: Final = 2**61


def operator_of(symbol: str) -> Operator:
    found = BY_SYMBOL.get(symbol)
    if found is None:
        raise OptionError(f"operator {symbol!r} is unknown", f"Use one of {' '.join(BY_SYMBOL)}")
    return found


def operator_numbers(symbols: npt.ArrayLike) -> Int64s:
    """The numbers of many operators, given as their symbols (a sequence, or one for all)."""
    array = np.atleast_1d(np.asarray(symbols, np.str_))
    distinct, inverse = np.unique(array, return_inverse=True)
    return np.array([operator_of(str(symbol)).number for symbol in distinct], np.int64)[inverse]


def entry_of(operator: Operator, sid: int) -> int:
    if not 0 <= sid < SID_LIMIT:
        raise OptionError(f"id {sid} is outside 0 to 2**61 - 1", "Number the predicates from 0")
    return (int(sid) << TAG_BITS) | operator.tag
