"""Find what is allowed in a condition and probably not meant: a subscription that never matches, and nobody is told.

What events have is known from a schema, or from events. Everything here is advice: the subscription is taken.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from difflib import get_close_matches
from typing import Any, NamedTuple

from tocsin.errors import SubscriptionError
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.shape import split
from tocsin.model.condition import (
    And,
    ArrayContains,
    AttributeComparison,
    Between,
    Comparison,
    Condition,
    Exists,
    HasPhrase,
    HasWords,
    HistoryTest,
    InList,
    IsTruth,
    Like,
    Not,
    OldComparedToNew,
    Or,
    UnnestExists,
    XPathExists,
)
from tocsin.model.expression_tree import ELEMENT, NOW, expression_of, is_derived, is_of_element, leaves
from tocsin.model.functions import operand_kinds
from tocsin.model.predicate import Conjunction, Ranges
from tocsin.model.schema import EventSchema, Kinds
from tocsin.model.subscription import SubscriptionWarning
from tocsin.model.untyped import is_untyped, readings, source_of
from tocsin.model.values import Kind, kind_of

_TEXTS = (Like, HasWords, HasPhrase)


class _Demand(NamedTuple):
    """An attribute in a condition, and the kinds of values that do something there; None: all of them."""

    attribute: str
    kinds: Kinds | None = None


def lint(text: str, schema: EventSchema | None = None, subscription: str | None = None) -> list[SubscriptionWarning]:
    """Return what is probably not meant in a condition; raise SubscriptionError if it cannot be read.

    >>> lint("prize < 10", EventSchema.of({"price": "number"}))[0].hint
    "Did you mean 'price'?"
    """
    condition = parse(text)
    found: dict[str, SubscriptionWarning] = {}

    def warn(code: str, attribute: str, message: str, hint: str) -> None:
        place = position_of(text, attribute)
        found.setdefault(attribute, SubscriptionWarning(code, message, hint, subscription, place))

    if schema is not None:
        for atom, list_ in _atoms(condition):
            for attribute, kinds in _demands(atom):
                complaint = _complaint_within(text, attribute, kinds, schema, list_)
                if complaint is not None:
                    warn(complaint[0], attribute.removeprefix(f"{ELEMENT}."), *complaint[1:])
            if isinstance(atom, AttributeComparison) and not is_derived(atom.left + atom.right):
                left, right = schema.kinds.get(atom.left), schema.kinds.get(atom.right)
                if left and right and not left & right:
                    message = f"{atom.left} is a {_named(left)}, and {atom.right} a {_named(right)}"
                    warn("kind", atom.left, message, "Values of two kinds do not compare: CAST one of them")
    warnings = sorted(found.values(), key=lambda warning: (warning.position is None, warning.position))
    if not _can_hold(condition):
        message = "it can never match: its predicates contradict each other"
        warnings.append(SubscriptionWarning("never", message, "Look for AND in place of OR", subscription))
    return warnings


def _can_hold(condition: Condition) -> bool:
    form = normalise(condition)
    if form.nesting:
        return True
    return any(not _has_two_kinds(conjunction) for conjunction in form.leaves)


def _has_two_kinds(conjunction: Conjunction) -> bool:
    """Tell whether a conjunction wants values of two kinds in one attribute."""
    wanted: dict[str, set[Kind]] = {}
    for predicate in conjunction:
        if isinstance(predicate, Ranges) and predicate.kind is not Kind.ANY and not predicate.or_null:
            wanted.setdefault(predicate.attribute, set()).add(predicate.kind)
    return any(len(kinds) > 1 for kinds in wanted.values())


def _atoms(condition: Condition) -> Iterator[tuple[Condition, str]]:
    """Return the atoms of a condition, each with the list whose elements it is about, if it is inside EXISTS."""
    waiting = [(condition, "")]
    while waiting:
        node, list_ = waiting.pop()
        if isinstance(node, (And, Or)):
            waiting += [(operand, list_) for operand in node.operands]
        elif isinstance(node, (Not, IsTruth)):
            waiting.append((node.operand, list_))
        else:
            if isinstance(node, UnnestExists):
                waiting.append((node.condition, node.attribute))
            yield node, list_


def _demands(atom: Any) -> Iterator[_Demand]:
    if isinstance(atom, AttributeComparison):
        names: Iterable[str] = (atom.left, atom.right)
    elif isinstance(atom, HistoryTest):
        names = [name for term in atom.terms for name in (term.old, *_new_of(term))]
        names += [] if isinstance(atom, Exists) else [name for name in (atom.attribute, atom.old) if name is not None]
    else:
        names = (atom.attribute,) if hasattr(atom, "attribute") else ()
    for name in names:
        if is_untyped(name):
            name = source_of(name)
        if not is_derived(name):
            if name not in (NOW, ELEMENT):
                yield _Demand(name, _kinds_in(atom))
            continue
        wanted = operand_kinds(expression_of(name))
        for leaf in leaves(expression_of(name)):
            if leaf.name not in (NOW, ELEMENT):
                kinds = wanted.get(leaf.name)
                # A sum or a difference is of numbers, or of times.
                yield _Demand(leaf.name, None if not kinds else frozenset(kind.value for kind in kinds) | {"time"})


def _new_of(term: Any) -> list[str]:
    return [term.new] if isinstance(term, OldComparedToNew) else []


def _kinds_in(atom: Any) -> Kinds | None:
    """Return the kinds of values of its attribute for which an atom is not NULL."""
    if isinstance(atom, _TEXTS):
        return frozenset(["string"])
    if isinstance(atom, XPathExists):
        return frozenset(["string", "other"])
    if isinstance(atom, (ArrayContains, UnnestExists)):
        return frozenset(["list"])
    if isinstance(atom, Comparison):
        constants: tuple[Any, ...] = (atom.constant,)
    elif isinstance(atom, Between):
        constants = (atom.low, atom.high)
    elif isinstance(atom, InList):
        constants = atom.constants
    else:
        return None
    found: set[str] = set()
    for constant in constants:
        if constant is not None:
            kind = kind_of(constant)
            found |= {read.value for read in readings(constant)} if kind is Kind.STRING else {str(kind and kind.value)}
    return frozenset(found) or None


_Complaint = tuple[str, str, str]
"""A code, what is wrong, and the way out."""


def _complaint_within(
    text: str, attribute: str, kinds: Kinds | None, schema: EventSchema, list_: str
) -> _Complaint | None:
    """Say what is wrong with an attribute inside EXISTS on the elements of a list; outside, `list_` is empty."""
    fields = schema.elements.get(list_)
    if is_of_element(attribute):
        name = attribute.removeprefix(f"{ELEMENT}.")
        return None if fields is None else _complaint(text, name, kinds, fields, f"element of {list_!r}")
    if fields is not None and fields.has(attribute) and not schema.has(attribute):
        hint = f"Elements of {list_!r} have it: write i.{attribute} for those of i"
        return "unknown", f"no event has {attribute!r}", hint
    return _complaint(text, attribute, kinds, schema)


def _complaint(
    text: str, attribute: str, kinds: Kinds | None, schema: EventSchema, whose: str = "event"
) -> _Complaint | None:
    if not schema.has(attribute):
        if _is_quoted(text, attribute) and "." not in attribute:
            return "quoted", f"no {whose} has {attribute!r}: in double quotes it is a name", f"Write '{attribute}'"
        lower = {name.lower(): name for name in schema.kinds}
        near = (
            [lower[attribute.lower()]] if attribute.lower() in lower else get_close_matches(attribute, schema.kinds, 1)
        )
        names = ", ".join(sorted(schema.kinds)[:10])
        hint = f"Did you mean {near[0]!r}?" if near else f"There are {names}" if names else "Events have no attribute"
        return "unknown", f"no {whose} has {attribute!r}", hint
    present = schema.kinds.get(attribute)
    if present is None:
        return None
    if not present:
        return "absent", f"{attribute!r} never has a value", "Only IS NULL holds for it"
    if kinds is not None and not kinds & present:
        message = f"{attribute!r} is a {_named(present)}, and is compared with a {_named(kinds)}"
        return "kind", message, "Write a constant of its kind, or CAST the attribute"
    return None


def lint_attributes(
    attributes: Iterable[str], compared: Mapping[str, Set[Kind]], schema: EventSchema
) -> list[SubscriptionWarning]:
    """Return what is probably not meant by attributes, given the kinds that they are compared with; parses nothing.

    >>> schema = EventSchema.of({"price": "number", "author": "string"})
    >>> found = lint_attributes(["prize", "author"], {"author": {Kind.NUMBER}}, schema)
    >>> [warning.message for warning in found]
    ["'author' is a string, and is compared with a number", "no event has 'prize'"]
    """
    found = []
    for attribute in sorted(attributes):
        kinds = frozenset(kind.value for kind in compared.get(attribute, ()) if kind is not Kind.ANY)
        complaint = _complaint("", attribute, kinds or None, schema)
        if complaint is not None:
            found.append(SubscriptionWarning(*complaint))
    return found


def _named(kinds: Kinds) -> str:
    return " or ".join(sorted(kinds))


def _pattern(attribute: str) -> re.Pattern[str]:
    def written(name: str) -> str:
        return re.escape('"' + name.replace('"', '""') + '"')

    parts = [f"(?:{written(part)}|{re.escape(part)})" for part in attribute.split(".")]
    dotted = r"\s*\.\s*".join(parts)
    return re.compile(rf'(?<![\w"])(?:{written(attribute)}|{dotted})(?!\w)')


def position_of(text: str, attribute: str) -> int | None:
    """Return where an attribute stands in a text, outside its literals; None if it is not found as written."""
    start = 0
    for place, piece in enumerate(split(text)):
        found = None if place % 2 else _pattern(attribute).search(piece)
        if found is not None:
            return start + found.start()
        start += len(piece)
    return None


def _is_quoted(text: str, attribute: str) -> bool:
    place = position_of(text, attribute)
    return place is not None and text[place] == '"'


def lint_all(rows: Iterable[tuple[str, str]], schema: EventSchema | None) -> list[SubscriptionWarning]:
    """Return the warnings of subscriptions, given by id and text; those in error have none."""
    found: list[SubscriptionWarning] = []
    for id, text in rows:
        try:
            found += lint(text, schema, id)
        except SubscriptionError:
            continue
    return found
