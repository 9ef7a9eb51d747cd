"""A condition as the user wrote it: the tree that the parser makes and the reference matcher evaluates.

Every node is immutable. A *template* is a condition whose constants are `Slot`s: the shape of many subscriptions,
parsed once and bound to the literals of each (see `tocsin.language`).
"""

from dataclasses import dataclass
from enum import Enum

from tocsin.model.record import record
from tocsin.model.values import Constant, identity


class Op(Enum):
    """One of the six comparisons."""

    LT = "<"
    LE = "<="
    EQ = "="
    NE = "<>"
    GE = ">="
    GT = ">"

    # Comparisons with words are remembered by it, and the hash of an Enum is a function in Python.
    __hash__ = object.__hash__

    @property
    def negated(self) -> "Op":
        """The comparison that is TRUE where this one is FALSE."""
        return _NEGATED[self]

    @property
    def flipped(self) -> "Op":
        """The same comparison with its sides exchanged."""
        return _FLIPPED[self]

    def holds(self, sign: int) -> bool:
        """Tell whether the comparison holds when left minus right has this sign."""
        return sign in _SIGNS[self]


_NEGATED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.EQ: Op.NE, Op.NE: Op.EQ, Op.GE: Op.LT, Op.GT: Op.LE}
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.EQ: Op.EQ, Op.NE: Op.NE, Op.GE: Op.LE, Op.GT: Op.LT}
_SIGNS = {Op.LT: {-1}, Op.LE: {-1, 0}, Op.EQ: {0}, Op.NE: {-1, 1}, Op.GE: {0, 1}, Op.GT: {1}}


class Aggregate(Enum):
    """What is computed of the old values; the least and the greatest are ANY and ALL."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"


class Quantifier(Enum):
    """How a comparison ranges over the history."""

    ANY = "ANY"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a constant in a template; `index` is its number."""

    index: int


Value = Constant | Slot
Text = str | Slot


class _HoldsConstants:
    """Equality by the meaning of constants: `= 1` and `= TRUE` differ, `= 0.1` and `= Decimal("0.1")` do not."""

    __slots__: tuple[str, ...] = ()

    def _identity(self) -> object:
        return tuple([identity(getattr(self, name)) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE, FALSE or NULL, as written or as folded from constants."""

    value: bool | None


@record
class Comparison(_HoldsConstants):
    """`attribute op constant`. A bare boolean attribute is `attribute = TRUE`."""

    attribute: str
    op: Op
    constant: Value


@record
class Between(_HoldsConstants):
    """`attribute BETWEEN low AND high`."""

    attribute: str
    low: Value
    high: Value


@record
class InList(_HoldsConstants):
    """`attribute IN (constants)`; None among the constants is NULL."""

    attribute: str
    constants: tuple[Value | None, ...]


@record
class IsNull:
    """`attribute IS NULL`: missing, NULL or NaN. Never NULL itself."""

    attribute: str


@dataclass(frozen=True, slots=True)
class AttributeComparison:
    """`left op right` between two attributes of one event."""

    left: str
    op: Op
    right: str


@dataclass(frozen=True, slots=True)
class Like:
    """`attribute [I]LIKE pattern [ESCAPE escape]`."""

    attribute: str
    pattern: Text
    escape: Text | None
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class RegexpMatches:
    """`regexp_matches(attribute, expression [, flags])`; `whole`: the expression must match the whole text."""

    attribute: str
    expression: Text
    flags: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ArrayContains(_HoldsConstants):
    """`array_contains(attribute, constant)`."""

    attribute: str
    constant: Value


@dataclass(frozen=True, slots=True)
class WithinDistance:
    """`within_distance(latitude, longitude, …)`: a point, which is a derived attribute, is so near to another one."""

    attribute: str
    latitude: Value
    longitude: Value
    metres: Value


@dataclass(frozen=True, slots=True)
class WithinPolygon:
    """`within_polygon(latitude, longitude, polygon)`: a point, which is a derived attribute, lies in a polygon."""

    attribute: str
    polygon: Text


@dataclass(frozen=True, slots=True)
class HasWords:
    """`has_words(attribute, text)`: every word of `text` occurs; `'chok*'` is a word prefix."""

    attribute: str
    text: Text
    near: int | None = None
    """How many words the last of them may stand behind the first; None: any number."""
    min_words: int | None = None
    """How many of the words must occur; None: all of them."""
    exact_case: bool = False
    """Whether words are compared as written."""


@dataclass(frozen=True, slots=True)
class HasPhrase:
    """`has_phrase(attribute, text)`: the words of `text` occur one after the other."""

    attribute: str
    text: Text
    slop: int = 0
    """How many other words may stand between them, all together."""
    exact_case: bool = False
    """Whether words are compared as written."""


@dataclass(frozen=True, slots=True)
class XPathExists:
    """`xpath_exists(attribute, path)`: the path selects something in the XML document."""

    attribute: str
    path: Text


@dataclass(frozen=True, slots=True)
class OldComparedToNew:
    """`h.old op event.new` inside a subquery on history."""

    old: str
    op: Op
    new: str


@dataclass(frozen=True, slots=True, eq=False)
class OldComparedToConstant(_HoldsConstants):
    """`h.old op constant` inside a subquery on history."""

    old: str
    op: Op
    constant: Value


@dataclass(frozen=True, slots=True)
class OldIsNull:
    """`h.old IS [NOT] NULL` inside a subquery on history."""

    old: str
    negated: bool


HistoryTerm = OldComparedToNew | OldComparedToConstant | OldIsNull


@dataclass(frozen=True, slots=True)
class Exists:
    """`EXISTS (SELECT … FROM history h WHERE terms)`: some earlier event makes all terms TRUE. Never NULL."""

    terms: tuple[HistoryTerm, ...]


@dataclass(frozen=True, slots=True)
class UnnestExists:
    """`EXISTS (SELECT … FROM UNNEST(attribute) i WHERE condition)`: the condition is TRUE of an element. Never NULL.

    In the condition the element is the attribute ELEMENT, and its fields are below it; other names are the event's.
    """

    attribute: str
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Quantified:
    """`attribute op ANY|ALL (SELECT old FROM history [h WHERE terms])`, by SQL's rules for NULL."""

    attribute: str
    op: Op
    quantifier: Quantifier
    old: str
    terms: tuple[HistoryTerm, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated(_HoldsConstants):
    """`value op (SELECT aggregate(old) FROM history h WHERE …)`, where the WHERE is an OR of ANDs of terms.

    The value is an attribute of the new event, or a constant. Without `old` it is `count(*)`.
    """

    attribute: str | None
    constant: Value | None
    op: Op
    aggregate: Aggregate
    old: str | None
    alternatives: tuple[tuple[HistoryTerm, ...], ...] = ((),)

    @property
    def terms(self) -> tuple[HistoryTerm, ...]:
        """The terms of all alternatives."""
        return tuple(term for alternative in self.alternatives for term in alternative)


HistoryTest = Exists | Quantified | Aggregated
"""A condition on earlier events."""


@record
class And:
    """Every operand."""

    operands: tuple["Condition", ...]


@record
class Or:
    """Some operand."""

    operands: tuple["Condition", ...]


@record
class Not:
    """NULL stays NULL."""

    operand: "Condition"


@dataclass(frozen=True, slots=True)
class IsTruth:
    """`(operand) IS [NOT] TRUE|FALSE`. Never NULL."""

    operand: "Condition"
    value: bool
    negated: bool


Atom = (
    Truth
    | Comparison
    | Between
    | InList
    | IsNull
    | AttributeComparison
    | Like
    | RegexpMatches
    | ArrayContains
    | WithinDistance
    | WithinPolygon
    | HasWords
    | HasPhrase
    | XPathExists
    | Exists
    | UnnestExists
    | Quantified
    | Aggregated
)
Condition = Atom | And | Or | Not | IsTruth
