"""Predicates in normal form: what the rewriter makes of a condition and the indexes are built from.

A subscription is an OR of *conjunctions*; a conjunction is an AND of *predicates*; a predicate holds or does not hold,
and is never NULL. Equal predicates are equal objects, so that each distinct predicate is stored and evaluated once.
"""

from dataclasses import dataclass
from enum import Flag

from tocsin.model.condition import (
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
from tocsin.model.values import Kind, Scalar


class Accepts(Flag):
    """The truth values of a test under which its predicate holds."""

    TRUE = 1
    FALSE = 2
    NULL = 4


@dataclass(frozen=True, slots=True)
class Range:
    """The values between two ends; an end that is None is open to infinity."""

    low: Scalar | None
    low_closed: bool
    high: Scalar | None
    high_closed: bool


EVERYTHING = Range(None, False, None, False)


@dataclass(frozen=True, slots=True)
class Ranges:
    """The attribute's value is of `kind` and in one of the ranges; or it is NULL for that kind, if `or_null`.

    The ranges are sorted, disjoint and do not touch. `IS NOT NULL` is everything of `Kind.ANY`; `IS NULL` has no
    ranges of `Kind.ANY`, and `or_null`.
    """

    attribute: str
    kind: Kind
    ranges: tuple[Range, ...]
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
