"""Predicates in normal form: what the rewriter makes of a condition and the indexes are built from.

A subscription is an OR of *conjunctions*; a conjunction is an AND of *predicates*; a predicate holds or does not hold,
and is never NULL. Equal predicates are equal objects, so that each distinct predicate is stored and evaluated once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Flag

import numpy as np

from tocsin.arrays import Float64s
from tocsin.forks import cached
from tocsin.model.condition import (
    Aggregated,
    ArrayContains,
    AttributeComparison,
    Exists,
    Quantified,
    RegexpMatches,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.record import record
from tocsin.model.values import Kind, Number, Scalar


class Accepts(Flag):
    """The truth values of a test under which its predicate holds."""

    TRUE = 1
    FALSE = 2
    NULL = 4

    # Comparisons with words are remembered by it, and the hash of a Flag is a function in Python.
    __hash__ = object.__hash__


@record
class Range:
    """The values between two ends; an end that is None is open to infinity."""

    low: Scalar | None
    low_closed: bool
    high: Scalar | None
    high_closed: bool


EVERYTHING = Range(None, False, None, False)

EXACT_FLOAT = 2**53
"""Every integer up to this one is a float64."""

MANY_POINTS = 64
"""Single values from this number on are `Points`."""


class Points(Sequence[Range]):
    """Many single values, as ranges that are made only where they are asked for: an IN list may have a million.

    It equals the tuple of its ranges.

    >>> Points(Kind.NUMBER, (1, 2))[1]
    Range(low=Number(2), low_closed=True, high=Number(2), high_closed=True)
    """

    def __init__(self, kind: Kind, values: tuple[int | Decimal | str, ...]) -> None:
        self.kind = kind
        self.values = values
        """Sorted and distinct: strings, microseconds, or the `exact` values of numbers."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Range:  # type: ignore[override]  # nobody takes slices
        constant = self.scalar(self.values[place])
        return Range(constant, True, constant, True)

    def __iter__(self) -> Iterator[Range]:
        return (Range(constant, True, constant, True) for constant in map(self.scalar, self.values))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Points):
            return self.kind is other.kind and self.values == other.values
        return isinstance(other, tuple) and len(self) == len(other) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Points({self.kind}, {len(self):,} values)"

    def scalar(self, value: int | Decimal | str) -> Scalar:
        """Return a value in the form in which it is compared."""
        return Number(value) if self.kind is Kind.NUMBER else value  # type: ignore[arg-type, return-value]  # the kind says so

    @cached
    def floats(self) -> Float64s | None:
        """The values as float64, if they are numbers that are one, and at most 2**53."""
        if self.kind is not Kind.NUMBER or self.values[0] < -EXACT_FLOAT or self.values[-1] > EXACT_FLOAT:  # type: ignore[operator]
            return None
        fractions = [value for value in self.values if isinstance(value, Decimal)]
        return np.array(self.values, np.float64) if all(Number(value).is_float for value in fractions) else None


@record
class Ranges:
    """The attribute's value is of `kind` and in one of the ranges; or it is NULL for that kind, if `or_null`.

    The ranges are sorted, disjoint and do not touch. `IS NOT NULL` is everything of `Kind.ANY`; `IS NULL` has no
    ranges of `Kind.ANY`, and `or_null`.
    """

    attribute: str
    kind: Kind
    ranges: tuple[Range, ...] | Points
    or_null: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word, folded as the tokeniser folds it, or the beginning of one."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class AnyWord:
    """One of the words occurs in the text of the attribute. The words are sorted and distinct."""

    attribute: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """The words occur in the text of the attribute, one after the other."""

    attribute: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WordWindow:
    """Some of the words occur within a stretch of the text of the attribute."""

    attribute: str
    words: tuple[Word, ...]
    """Distinct, unless they are ordered."""
    least: int
    """How many of them must occur."""
    reach: int | None
    """How many words the last of them may stand behind the first; None: any number."""
    ordered: bool = False
    """Whether they must follow each other in this order, each at a place of its own."""
    exact_case: bool = False
    """Whether they are compared as written, not folded."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A LIKE pattern, with its wildcards apart from its literal text."""

    parts: tuple["str | Wildcard", ...]
    ignore_case: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Wildcard:
    """A run of wildcards in a pattern: at least `least` characters, and any number more if `many`."""

    least: int
    many: bool


@dataclass(frozen=True, slots=True)
class AnyPattern:
    """One of the patterns matches the whole text of the attribute. The patterns are sorted and distinct."""

    attribute: str
    patterns: tuple[Pattern, ...]


Test = (
    AnyWord
    | Phrase
    | WordWindow
    | AnyPattern
    | RegexpMatches
    | ArrayContains
    | WithinDistance
    | WithinPolygon
    | AttributeComparison
    | XPathExists
    | Exists
    | UnnestExists
    | Quantified
    | Aggregated
)
"""An expression with three truth values that is not a range of one attribute."""


@dataclass(frozen=True, slots=True)
class Tested:
    """The predicate that holds when the test has an accepted truth value."""

    test: Test
    accepts: Accepts = Accepts.TRUE


Predicate = Ranges | Tested
Conjunction = tuple[Predicate, ...]
"""An AND of distinct predicates, at most one `Ranges` per attribute and kind; empty: holds for every event."""
