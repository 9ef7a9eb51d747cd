"""Read the operands of a sqlglot tree: attributes of the new or an old event, and constants."""

from dataclasses import dataclass, field

from sqlglot import exp

from tocsin.errors import SubscriptionError
from tocsin.language.constants import LiteralSource, Reading, read, unquote
from tocsin.language.shape import Shape, string_format
from tocsin.model.condition import Slot, Value
from tocsin.model.expression_tree import ELEMENT
from tocsin.model.values import Constant

FUNCTIONS = (
    "regexp_matches",
    "ip_in",
    "within_distance",
    "within_box",
    "within_polygon",
    "array_contains",
    "has_words",
    "has_phrase",
    "xpath_exists",
)
"""The functions of the language."""

_TYPES = {
    exp.DType.DATE: Reading.DATE,
    exp.DType.TIMESTAMP: Reading.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: Reading.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: Reading.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class EventAttribute:
    """An attribute of the new event."""

    name: str


@dataclass(frozen=True, slots=True)
class OldAttribute:
    """An attribute of an event of the history."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: Value | None


Operand = EventAttribute | OldAttribute | Literal


def strip(node: exp.Expr) -> exp.Expr:
    """Return the expression inside any parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def chain(node: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    """Return the operands of a chain of AND or OR, from left to right."""
    found, waiting = [], [node]
    while waiting:
        inner = strip(waiting.pop())
        if isinstance(inner, connector):
            waiting += [inner.expression, inner.this]
        else:
            found.append(inner)
    return found


_SIGNS = {
    "bitwiseand": "&",
    "bitwiseor": "|",
    "bitwisexor": "^",
    "bitwisenot": "~",
    "bitwiseleftshift": "<<",
    "bitwiserightshift": ">>",
}
"""How operators are written that sqlglot reads."""


@dataclass
class Reader:
    """Read the operands of one shape and collect their slots.

    A literal whose value was used is fixed: the condition is valid for the texts of the shape that have the same one.
    """

    shape: Shape
    sources: list[LiteralSource] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    """The literals, by number, whose values the condition depends on."""
    element: tuple[str, ...] = ()
    """Inside EXISTS on the elements of a list, what they are called: a name, or a table and a column."""
    quoted_element: bool = False
    """Whether that name was given in quotes; if it was not, a quoted name is an attribute of the event."""

    def refuse(self, node: exp.Expr, message: str, hint: str) -> SubscriptionError:
        """Return the error that names the place of `node` in the user's text."""
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        if not starts and node.parent is not None:
            # The node itself has no position: that of its parent is near enough.
            starts = [n.meta["start"] for n in node.parent.walk() if "start" in n.meta]
        return SubscriptionError(message, hint, position=self.shape.position(min(starts)) if starts else None)

    def operand(self, node: exp.Expr, history: str | None) -> Operand:
        """Read one side of a comparison; `history` is the alias of the history inside a subquery on it."""
        node = strip(node)
        if isinstance(node, (exp.Column, exp.Dot)):
            return self._name(node, history)
        if isinstance(node, exp.Null):
            return Literal(None)
        if isinstance(node, exp.Boolean):
            return Literal(bool(node.this))
        if isinstance(node, exp.Cast):
            return self._typed(node)
        negative, inner = False, node
        while isinstance(inner, (exp.Neg, exp.Paren)):
            negative ^= isinstance(inner, exp.Neg)
            inner = inner.this
        if isinstance(inner, exp.Literal) and not (inner is not node and inner.is_string):
            reading = Reading.STRING if inner.is_string else Reading.NEGATIVE if negative else Reading.NUMBER
            return Literal(self._slot(inner, reading))
        raise self.unknown(node)

    def _slot(self, literal: exp.Literal, reading: Reading) -> Slot:
        self.sources.append(LiteralSource(self._number(literal), reading))
        return Slot(len(self.sources) - 1)

    def _number(self, literal: exp.Literal) -> int:
        """Return the number of a literal, which is what the text that sqlglot reads has in its place."""
        # sqlglot joins what we keep apart: `. 1` to .1, and `1e3_5` to a number with an underscore.
        if not literal.this.isdecimal() or int(literal.this) >= len(self.shape.literals):
            raise self.refuse(literal, "a number cannot be read", "Write it as 12, 0.5 or 1e3")
        return int(literal.this)

    def _typed(self, node: exp.Cast) -> Literal:
        reading, inner = _TYPES.get(node.args["to"].this), strip(node.this)
        if reading is None or not (isinstance(inner, exp.Literal) and inner.is_string):
            raise self.refuse(
                node,
                "only a string can be cast, to DATE, TIMESTAMP or TIMESTAMPTZ",
                "Write DATE '2026-01-31', or no cast",
            )
        return Literal(self._slot(inner, reading))

    def _name(self, node: exp.Expr, history: str | None) -> EventAttribute | OldAttribute:
        parts: list[exp.Expr] = []
        while isinstance(node, exp.Dot):
            parts.append(node.expression)
            node = node.this
        if not isinstance(node, exp.Column):
            raise self.unknown(node)
        parts += reversed(node.parts)
        parts.reverse()
        if not all(isinstance(part, exp.Identifier) for part in parts):
            if self.shape.has_sign("@"):
                raise self.refuse(node, "'@' does not begin a name", 'Quote the name, as in user."@id"')
            raise self.refuse(node, "'*' is not an attribute", "Name one attribute")
        names = [part.name for part in parts]
        if self.element and (self.quoted_element or not parts[0].args.get("quoted")):
            below = self._below_element(node, names)
            if below is not None:
                return EventAttribute(".".join([ELEMENT, *below]))
        qualifier = names[0].lower() if len(names) > 1 and not parts[0].args.get("quoted") else ""
        if qualifier == "event":
            return EventAttribute(".".join(names[1:]))
        if history is None:
            return EventAttribute(".".join(names))
        return OldAttribute(".".join(names[1:] if qualifier == history else names))

    def _below_element(self, node: exp.Expr, names: list[str]) -> list[str] | None:
        """Return the path below the element that a name leads to; None if it is one of the event."""
        *tables, element = self.element
        lower = [name.lower() for name in names[:2]]
        if lower[0] == element:
            return names[1:]
        if lower[0] not in tables:
            return None
        if lower[1:] != [element]:
            raise self.refuse(node, f"{names[0]!r} has one column, {element!r}", f"Write {element}, or {element}.field")
        return names[2:]

    def unknown(self, node: exp.Expr) -> SubscriptionError:
        """Return the error for an expression that the language does not have."""
        if isinstance(node, exp.AggFunc):
            return self.refuse(
                node,
                f"{node.sql_name().lower()} is an aggregate",
                "A condition is on one event; compare with earlier events by ANY, ALL or EXISTS on history",
            )
        if isinstance(node, (exp.Subquery, exp.Query)):
            return self.refuse(
                node, "a subquery stands where a value must be", "Subqueries follow ANY, ALL, EXISTS or IN, on history"
            )
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            return self.refuse(node, "parameters have no values here", "Write :name and give params={…}, or a constant")
        if isinstance(node, exp.Func) and not isinstance(node, (exp.And, exp.Or)):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if name in FUNCTIONS:
                return self.refuse(node, f"{name} is a condition, not a value", "Use it alone, under AND, OR and NOT")
            if "start" in node.meta:
                # sqlglot has other names for some functions than those that users write.
                name = self.shape.culprit(self.shape.position(node.meta["start"])).lower()
            return self.refuse(node, f"there is no function {name}", "See docs/language.md for those that there are")
        if isinstance(node, (exp.Connector, exp.Predicate, exp.Not)):
            return self.refuse(
                node, "a condition stands where a value must be", "Compare attributes and constants; join by AND and OR"
            )
        if isinstance(node, (exp.Binary, exp.Unary)):
            sign = _SIGNS.get(node.key, node.key)
            return self.refuse(node, f"there is no operator {sign}", "Numbers have +, -, *, / and %, texts have ||")
        if isinstance(node, exp.Bracket):
            return self.refuse(
                node, "elements are not taken by their number", "Ask for any element: array_contains(…), or UNNEST"
            )
        return self.refuse(
            node, f"{type(node).__name__} is not part of the language", "Compare attributes and constants"
        )

    def value(self, slot: Value) -> Constant:
        """Return the constant of this text; the condition is then valid for this text alone."""
        if not isinstance(slot, Slot):
            return slot
        return self._read_now(self.sources[slot.index])

    def constant(self, literal: exp.Literal) -> Constant:
        """Return the constant of a literal inside an expression, which is fixed."""
        reading = Reading.STRING if literal.is_string else Reading.NUMBER
        return self._read_now(LiteralSource(self._number(literal), reading))

    def string_format(self, value: Value | None) -> str:
        """Return the format of a string that reads as another kind (see shapes); "" for other constants."""
        if not isinstance(value, Slot) or self.sources[value.index].reading is not Reading.STRING:
            return ""
        return string_format(self.shape.literals[self.sources[value.index].literal])

    def literal_text(self, literal: exp.Literal) -> str:
        """Return a literal as written, without quotes; it is fixed."""
        number = self._number(literal)
        self.fixed.add(number)
        written = self.shape.literals[number]
        return unquote(written) if written[0] == "'" else written

    def _read_now(self, source: LiteralSource) -> Constant:
        self.fixed.add(source.literal)
        try:
            return read(self.shape.literals[source.literal], source.reading)
        except SubscriptionError as error:
            error.position = self.shape.literal_position(source.literal) + (error.position or 0)
            raise

    def text(self, node: exp.Expr, what: str, reading: Reading = Reading.STRING) -> Slot | None:
        """Read a string literal, or NULL."""
        node = strip(node)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Literal) and node.is_string:
            return self._slot(node, reading)
        raise self.refuse(node, f"{what} must be a string", "Write it in single quotes")
