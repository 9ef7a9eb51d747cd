"""From the syntax tree of an expression to the paths that an index knows.

An expression becomes alternatives, ``or`` and ``|`` multiplied out, each of them one path whose filters all must hold.
An alternative that is `sure` is equal to its part of the expression. Otherwise it is a necessary condition, a guard:
what cannot be told by a path is left out, such as positions and negations, and lxml evaluates the expression where
the guard holds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

from tocsin.predicates.xpath.expression import ANY, Filter, Rest, Step, Steps, XPath, selectivity, trunk_first
from tocsin.predicates.xpath.syntax import (
    ANY_NODE,
    COMPARISONS,
    TEXT_NODE,
    Constant,
    FunctionCall,
    Location,
    LocationStep,
    Node,
    Operation,
    to_number,
    type_of,
)

MAX_ALTERNATIVES: Final = 16
"""More of them are not multiplied out: the condition that would make them is left to lxml."""
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OF_NOTHING: Final[dict[str, float | str]] = {
    "count": 0.0, "sum": 0.0, "string-length": 0.0, "number": float("nan"), "string": "", "normalize-space": "",
    "name": "", "local-name": "", "namespace-uri": "",
}  # fmt: skip
"""What functions of one argument return for no nodes."""
_ANYTHING: Final = (Step(ANY, False, 1),)
"""The path that every document has."""


@dataclass(frozen=True, slots=True)
class _Alternative:
    """Filters that all must hold on one element, or on the document; `sure` if that is all that is asked for."""

    filters: tuple[Filter, ...] = ()
    sure: bool = True


_Alternatives = Sequence[_Alternative]
_UNKNOWN: Final = (_Alternative(sure=False),)


class _Walk(NamedTuple):
    """A path as far as it was read: steps, and the gap to the element at hand, if that has no tag and no filter yet.

    `end` is the attribute or the text that the path ended at. A walk is `loose` behind ``//``, where the node at hand
    may be of any kind, such as a text. One that `stopped` came to a step that no path tells.
    """

    steps: Steps = ()
    exact: bool = True
    distance: int = 0
    sure: bool = True
    end: Filter | None = None
    loose: bool = False
    stopped: bool = False

    def stop(self) -> "_Walk":
        return self._replace(stopped=True, sure=False)


def to_paths(tree: Node, rest: Rest) -> XPath:
    """Return the expression in canonical form; `rest` is its text for lxml, kept if it is needed."""
    paths: list[Steps] = []
    guards: list[Steps] = []
    for alternative in _condition(tree, outer=True):
        # Of several paths that all must hold one is the guard.
        found = [condition.path for condition in alternative.filters] or [_ANYTHING]
        sure = alternative.sure and len(found) == 1
        (paths if sure else guards).append(trunk_first(max(found, key=selectivity)))
    paths = list(dict.fromkeys(paths))
    guards = [guard for guard in dict.fromkeys(guards) if guard not in paths]
    return XPath(tuple(paths), tuple(guards), rest if guards else None)


def _condition(node: Node, *, outer: bool = False) -> _Alternatives:
    """Return when an expression is true, or selects anything, on an element, or with `outer` on the document."""
    if isinstance(node, Location):
        return _location(node, outer)
    if isinstance(node, Constant):
        return [_Alternative()] if node.value and node.value == node.value else []
    if isinstance(node, FunctionCall):
        return _call(node, outer)
    if node.operator in ("or", "|"):
        either = [*_condition(node.left, outer=outer), *_condition(node.right, outer=outer)]
        return either if len(either) <= MAX_ALTERNATIVES else _UNKNOWN
    if node.operator == "and":
        return _both(_condition(node.left, outer=outer), _condition(node.right, outer=outer))
    if node.operator in COMPARISONS:
        return _comparison(node.operator, node.left, node.right, outer)
    return _UNKNOWN


def _both(left: _Alternatives, right: _Alternatives) -> _Alternatives:
    if len(left) * len(right) > MAX_ALTERNATIVES:
        return _unsure(left if len(left) <= len(right) else right)
    return [_Alternative((*a.filters, *b.filters), a.sure and b.sure) for a, b in product(left, right)]


def _unsure(alternatives: Iterable[_Alternative]) -> _Alternatives:
    return [replace(alternative, sure=False) for alternative in alternatives]


def _call(node: FunctionCall, outer: bool) -> _Alternatives:
    if node.name in ("boolean", "count", "string", "string-length", "normalize-space") and node.arguments:
        # Each is false for no nodes; boolean() and count() are true for any.
        known = _condition(node.arguments[0], outer=outer) if type_of(node.arguments[0]) == "nodes" else _UNKNOWN
        return known if node.name in ("boolean", "count") else _unsure(known)
    if node.name == "true":
        return [_Alternative()]
    if node.name == "false":
        return []
    if node.name in ("contains", "starts-with"):
        text, part = node.arguments
        if isinstance(text, Location) and isinstance(part, Constant) and part.value != "":
            return _unsure(_condition(text, outer=outer))
    return _UNKNOWN


def _comparison(operator: str, left: Node, right: Node, outer: bool) -> _Alternatives:
    if isinstance(left, Constant) and not isinstance(right, Constant):
        return _comparison(_MIRRORED[operator], right, left, outer)
    if isinstance(left, Location) and isinstance(right, Constant):
        return _location(left, outer, Filter("string", "", operator, _constant(operator, right.value)))
    if isinstance(left, Operation) and left.operator == "|" and isinstance(right, Constant):
        either = [*_comparison(operator, left.left, right, outer), *_comparison(operator, left.right, right, outer)]
        return either if len(either) <= MAX_ALTERNATIVES else _UNKNOWN
    if isinstance(left, FunctionCall) and isinstance(right, Constant) and left.name in _OF_NOTHING and left.arguments:
        argument = left.arguments[0]
        if isinstance(argument, Location) and not _compares(_OF_NOTHING[left.name], operator, right.value):
            return _unsure(_condition(argument, outer=outer))
        return _UNKNOWN
    if "boolean" in (type_of(left), type_of(right)):
        return _UNKNOWN
    # Without nodes on one side, no comparison holds.
    known: _Alternatives = _UNKNOWN
    for side in (left, right):
        if isinstance(side, Location):
            known = _both(known, _condition(side, outer=outer))
    return known


def _constant(operator: str, value: float | str) -> float | str:
    """Return what a filter compares with: a string in an order is the number that it holds, if any."""
    if isinstance(value, float) or operator in ("=", "!="):
        return value
    number = to_number(value)
    return value if number != number else number


def _compares(left: float | str, operator: str, right: float | str) -> bool:
    """Compare two values as XPath does: as numbers if one is, or for an order."""
    if operator in ("=", "!=") and isinstance(left, str) and isinstance(right, str):
        return (left == right) == (operator == "=")
    a, b = (value if isinstance(value, float) else to_number(value) for value in (left, right))
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def _location(node: Location, outer: bool, comparison: Filter | None = None) -> _Alternatives:
    """Return when a path selects a node, or with a `comparison` one whose value compares so."""
    if node.start is not None:
        return _unsure(_condition(node.start, outer=outer))
    if node.absolute and not outer:
        return _UNKNOWN
    walks = [_Walk()]
    for step in node.steps:
        if not walks:
            break
        walks = [after for walk in walks for after in _step(walk, step, outer, MAX_ALTERNATIVES // len(walks))]
    return [_finished(walk, outer, comparison) for walk in walks]


def _finished(walk: _Walk, outer: bool, comparison: Filter | None) -> _Alternative:
    """Return the filter that a path is, on the element or document where it begins."""
    owner, sure = walk.end, walk.sure
    if comparison is not None and (walk.stopped or (owner is None and walk.loose)):
        sure = False
    elif comparison is not None:
        owner = replace(comparison, kind=owner.kind, name=owner.name) if owner else comparison
    steps = walk.steps
    if owner is None:
        if walk.distance:
            steps = (*steps, Step(ANY, False, walk.distance))
    elif walk.exact and walk.distance == 0:
        if not steps:
            # The element itself; a document has neither attributes nor texts, and its value is nobody's.
            return _Alternative((), False) if outer else _Alternative((owner,), sure)
        steps = (*steps[:-1], _filtered(steps[-1], (owner,)))
    else:
        steps = (*steps, Step(ANY, walk.exact, walk.distance, (owner,)))
    if not steps:
        return _Alternative((), sure)
    if steps[0].exact and steps[0].distance == 0:
        if outer:
            return _Alternative((), False)
        below = (Filter("path", path=steps[1:]),) if steps[1:] else ()
        return _Alternative((*steps[0].filters, *below), sure)
    if outer and steps[0].distance == 0:
        steps = (replace(steps[0], distance=1), *steps[1:])
    return _Alternative((Filter("path", path=steps),), sure)


def _filtered(step: Step, filters: Sequence[Filter]) -> Step:
    if len(filters) <= 1 and not step.filters:
        return Step(step.tag, step.exact, step.distance, tuple(filters))
    return replace(step, filters=tuple(sorted({*step.filters, *filters}, key=Filter.sort_key)))


def _step(walk: _Walk, step: LocationStep, outer: bool, room: int) -> list[_Walk]:
    """Return the walk one step further, as several if the predicates of the step have alternatives, `room` at most."""
    if walk.stopped or walk.end is not None:
        return [walk.stop()]
    if step.test == ANY_NODE and not step.predicates:
        if step.axis == "self":
            return [walk]
        if step.axis == "descendant-or-self":
            return [walk._replace(exact=False, loose=True)]
    is_element = not step.test.endswith("()")
    if step.axis == "attribute":
        if not is_element or step.test.endswith("*"):
            return [walk.stop()]
        found = walk._replace(end=Filter("attribute", step.test))
        return [found.stop() if step.predicates else found]
    if step.test == TEXT_NODE and step.axis in ("child", "descendant"):
        found = walk._replace(end=Filter("text"), exact=walk.exact and step.axis == "child")
        return [found.stop() if step.predicates else found]
    if not is_element and not (step.test == ANY_NODE and step.axis == "parent"):
        return [walk.stop()]
    moved = _moved(walk, step.axis, outer)
    if moved is None:
        return [walk.stop()]
    if step.test.endswith("}*"):
        moved = moved._replace(sure=False)
    tag = ANY if not is_element or step.test.endswith("*") else step.test
    return _entered(moved, tag, step.predicates, room)


def _moved(walk: _Walk, axis: str, outer: bool) -> _Walk | None:
    """Return the walk at the elements of an axis, any tag; None if no path tells where they are."""
    if axis == "child":
        return walk._replace(distance=walk.distance + 1, loose=False)
    if axis == "descendant":
        return walk._replace(distance=walk.distance + 1, exact=False, loose=False)
    if axis in ("self", "descendant-or-self"):
        exact = walk.exact and axis == "self"
        if walk.distance or exact:
            return walk._replace(exact=exact, loose=False)
        # An element or its descendant; below the document that is any element.
        return walk._replace(exact=False, distance=1, loose=False) if outer and not walk.steps else None
    if axis == "parent":
        return _parent(walk)
    if axis in ("following-sibling", "preceding-sibling"):
        parent = _parent(walk)
        return None if parent is None else parent._replace(distance=parent.distance + 1, sure=False)
    return None


def _parent(walk: _Walk) -> _Walk | None:
    """Return the walk at the parents of its elements: those that have one as a child."""
    if walk.loose:
        return None
    steps, distance, exact = walk.steps, walk.distance, walk.exact
    child = Step(ANY, False, 1)
    if distance == 0:
        if not steps or not exact:
            return None
        *before, last = steps
        steps, distance, exact = tuple(before), last.distance, last.exact
        child = replace(last, distance=1, exact=True)
    has_child = Filter("path", path=(child,))
    if distance == 0 or (distance == 1 and not steps):
        return None
    if distance == 1 and exact:
        return walk._replace(steps=(*steps[:-1], _filtered(steps[-1], (has_child,))), distance=0, exact=True)
    above = Step(ANY, exact, distance - 1, (has_child,))
    return walk._replace(steps=(*steps, above), distance=0, exact=True)


def _entered(walk: _Walk, tag: str, predicates: Sequence[Node], room: int) -> list[_Walk]:
    """Return the walk at elements with a tag and predicates."""
    alternatives: _Alternatives = [_Alternative()]
    for predicate in predicates:
        # A number is a position.
        known = _UNKNOWN if type_of(predicate) == "number" else _condition(predicate)
        if len(alternatives) * len(known) > max(room, 1):
            known = _UNKNOWN
        alternatives = _both(alternatives, known)
    walks = []
    for alternative in alternatives:
        own, filters = tag, list[Filter]()
        contradicts = False
        for condition in alternative.filters:
            if condition.kind == "tag":
                contradicts |= own not in (ANY, condition.name)
                own = condition.name
            else:
                filters.append(condition)
        if contradicts:
            continue
        sure = walk.sure and alternative.sure
        if walk.distance == 0 and walk.exact and walk.steps:
            last = walk.steps[-1]
            if own != ANY and last.tag not in (ANY, own):
                continue
            last = _filtered(replace(last, tag=own if last.tag == ANY else last.tag), filters)
            walks.append(walk._replace(steps=(*walk.steps[:-1], last), sure=sure))
        elif walk.distance == 0 and walk.exact:
            # The context itself: its tag is a condition on the step that has this filter.
            filters += [Filter("tag", own)] if own != ANY else []
            walks.append(walk._replace(steps=(Step(ANY, True, 0, tuple(filters)),), sure=sure))
        elif own == ANY and not filters:
            walks.append(walk._replace(sure=sure))
        else:
            reached = _filtered(Step(own, walk.exact, walk.distance), filters)
            walks.append(_Walk((*walk.steps, reached), sure=sure))
    return walks
