"""Plans: how all texts of one shape become rows at once.

A shape is *regular* if its template is one conjunction, or several that cannot merge, of comparisons with constants and
of predicates without slots. Then every conjunction is some vector comparisons. All other shapes keep a tree of goals
that is bound text by text.
"""

from dataclasses import dataclass, field

from tocsin.language.constants import Reading
from tocsin.language.normal_form import ColumnKey
from tocsin.language.rewrite import STRUCTURAL, VALUES, All, Goal, Node, Some, rewrite
from tocsin.language.template import Template, fill_atom
from tocsin.model.condition import And, Comparison, InList, IsTruth, Not, Op, Or, Slot
from tocsin.model.predicate import Accepts, Predicate, Ranges


@dataclass(slots=True)
class VectorConjunction:
    """One conjunction of a regular shape."""

    bounds: dict[ColumnKey, list[tuple[Op, Slot]]] = field(default_factory=dict)
    """Comparisons by column, of which all must hold."""
    points: dict[ColumnKey, list[Slot]] = field(default_factory=dict)
    """Constants by column, of which one must be equal."""
    constant: list[Predicate] = field(default_factory=list)
    """What holds no slot."""

    def columns(self) -> list[ColumnKey]:
        """The columns of each part, so that one in two parts appears twice."""
        fixed = [(p.attribute, p.kind) for p in self.constant if isinstance(p, Ranges)]
        return [*self.bounds, *self.points, *fixed]


@dataclass(slots=True)
class Plan:
    """What to do with the texts of one shape: `vector` conjunctions if it is regular, else bind the `tree`."""

    template: Template
    tree: Node
    vector: list[VectorConjunction] | None


def plan(template: Template) -> Plan:
    """Plan the texts of a shape, once."""
    tree = _rewrite_constants(rewrite(Goal(template.condition), STRUCTURAL))
    readings = [source.reading for source in template.sources]
    return Plan(template, tree, _vectors(tree, readings))


def _rewrite_constants(root: Node) -> Node:
    """Rewrite to the end what holds no slot."""
    waiting: list[tuple[Node, bool]] = [(root, False)]
    done: list[Node] = []
    while waiting:
        node, ready = waiting.pop()
        if isinstance(node, (All, Some)) and node.children:
            if ready:
                count = len(node.children)
                done[-count:] = [type(node)(tuple(done[-count:]))]
            else:
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))
        elif isinstance(node, Goal) and not _has_slots(node):
            done.append(rewrite(node, VALUES))
        else:
            done.append(node)
    return done.pop()


def _has_slots(goal: Goal) -> bool:
    slots = []

    def note(value: object) -> object:
        if isinstance(value, Slot):
            slots.append(value)
        return value

    assert not isinstance(goal.condition, (And, Or, Not, IsTruth)), "logic was rewritten before"
    fill_atom(goal.condition, note)
    return bool(slots)


def _vectors(tree: Node, readings: list[Reading]) -> list[VectorConjunction] | None:
    alternatives = tree.children if isinstance(tree, Some) else (tree,)
    vectors = []
    for alternative in alternatives:
        vector = _vector(alternative, readings)
        if vector is None:
            return None
        vectors.append(vector)
    # Alternatives of one predicate each on one column are one predicate: that is left to the general way.
    alone = [v.columns()[0] for v in vectors if len(v.columns()) == 1 and len(v.constant) <= 1]
    return vectors if len(alone) == len(set(alone)) and len(vectors) <= 64 else None


def _vector(tree: Node, readings: list[Reading]) -> VectorConjunction | None:
    vector = VectorConjunction()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, All):
            waiting += reversed(node.children)
        elif isinstance(node, Some):
            return None
        elif not isinstance(node, Goal):
            vector.constant.append(node)
        elif not _add(vector, node, readings):
            return None
    columns = vector.columns()
    tests = [p for p in vector.constant if not isinstance(p, Ranges)]
    one_kind_each = len({attribute for attribute, _ in columns}) == len(columns)
    return vector if one_kind_each and len(set(tests)) == len(tests) else None


def _add(vector: VectorConjunction, goal: Goal, readings: list[Reading]) -> bool:
    condition = goal.condition
    if Accepts.NULL in goal.accepts:
        return False
    if isinstance(condition, Comparison) and isinstance(condition.constant, Slot):
        op = condition.op if Accepts.TRUE in goal.accepts else condition.op.negated
        if op is Op.NE:
            return False
        key = condition.attribute, readings[condition.constant.index].kind
        vector.bounds.setdefault(key, []).append((op, condition.constant))
        return True
    if isinstance(condition, InList) and Accepts.TRUE in goal.accepts:
        slots = [constant for constant in condition.constants if isinstance(constant, Slot)]
        kinds = {readings[slot.index].kind for slot in slots}
        if len(slots) == len(condition.constants) and len(kinds) == 1:
            key = condition.attribute, kinds.pop()
            if key not in vector.points:
                vector.points[key] = slots
                return True
    return False
