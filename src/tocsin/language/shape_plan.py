"""Plan how to bind all texts of one shape at once.

A shape is *regular* if its template is a few conjunctions that cannot merge, each of comparisons with constants, which
become vector operations, and of other leaves on other attributes, which are bound one by one and remembered. All other
shapes keep a tree of goals that is bound text by text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tocsin.language.constants import Reading
from tocsin.language.normal_form import ColumnKey
from tocsin.language.normalise import always, never, predicate_count
from tocsin.language.rewrite import STRUCTURAL, VALUES, All, Goal, Node, Some, rewrite
from tocsin.language.template import Template, fill_atom
from tocsin.model.condition import Comparison, Exists, InList, Op, Quantified, Slot
from tocsin.model.predicate import Accepts, Predicate, Ranges

MAX_CONJUNCTIONS = 16
"""Shapes with more conjunctions than this are rare: they are bound text by text."""


@dataclass(slots=True)
class VectorConjunction:
    """One conjunction of a regular shape."""

    bounds: dict[ColumnKey, list[tuple[Op, Slot]]] = field(default_factory=dict)
    """Comparisons by column, of which all must hold."""
    points: dict[ColumnKey, list[Slot]] = field(default_factory=dict)
    """Constants by column, of which one must be equal."""
    leaves: list[Goal] = field(default_factory=list)
    """Conditions that are bound for each distinct literal."""
    constant: list[Predicate] = field(default_factory=list)
    """Predicates without a slot."""

    def names(self) -> list[object]:
        """Return the subject of each part; parts with the same subject could merge."""
        columns = [*self.bounds, *self.points]
        return [attribute for attribute, _ in columns] + [_about(leaf) for leaf in [*self.leaves, *self.constant]]


@dataclass(slots=True)
class ShapePlan:
    """What to do with the texts of one shape: `vector` conjunctions if it is regular, else bind the `tree`."""

    template: Template
    tree: Node
    predicates: int
    """How many predicates each text has."""
    vector: list[VectorConjunction] | None


def plan(template: Template) -> ShapePlan:
    """Plan the texts of a shape, once."""
    tree = rewrite(Goal(template.condition), STRUCTURAL)
    alternatives = _alternatives(tree)
    readings = [source.reading for source in template.sources]
    vectors = None if alternatives is None else [_vector(leaves, readings) for leaves in alternatives]
    regular = None if vectors is None or None in vectors else [vector for vector in vectors if vector is not None]
    return ShapePlan(template, tree, predicate_count(tree), regular)


def slots(goal: Goal) -> list[Slot]:
    """Return the slots of a goal without logic."""
    found: list[Slot] = []

    def note(value: object) -> object:
        if isinstance(value, Slot):
            found.append(value)
        return value

    fill_atom(goal.condition, note)
    return found


def _about(leaf: Goal | Predicate) -> object:
    """Return the subject of a leaf: its attribute, or the leaf itself if it is on history or on two attributes."""
    subject = leaf.condition if isinstance(leaf, Goal) else leaf if isinstance(leaf, Ranges) else leaf.test
    return subject if isinstance(subject, (Exists, Quantified)) else getattr(subject, "attribute", subject)


def _alternatives(root: Node) -> list[tuple[Goal | Predicate, ...]] | None:
    """Return the disjunctive normal form over leaves; None if it is large, or if alternatives could merge."""
    waiting: list[tuple[Node, bool]] = [(root, False)]
    done: list[list[tuple[Goal | Predicate, ...]]] = []
    while waiting:
        node, ready = waiting.pop()
        if not isinstance(node, (All, Some)):
            settled = node if not isinstance(node, Goal) or slots(node) else rewrite(node, VALUES)
            if isinstance(settled, (All, Some)):
                waiting.append((settled, False))
            else:
                done.append([(settled,)])
        elif not ready:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
        else:
            start = len(done) - len(node.children)
            parts, done[start:] = done[start:], []
            combined = _product(parts) if isinstance(node, All) else _sum(parts)
            if combined is None or len(combined) > MAX_CONJUNCTIONS:
                return None
            done.append(combined)
    return done.pop()


def _product(parts: list[list[tuple[Goal | Predicate, ...]]]) -> list[tuple[Goal | Predicate, ...]]:
    product: list[tuple[Goal | Predicate, ...]] = [()]
    for part in parts:
        product = [(*left, *right) for left in product for right in part][: MAX_CONJUNCTIONS + 1]
    return product


def _sum(parts: list[list[tuple[Goal | Predicate, ...]]]) -> list[tuple[Goal | Predicate, ...]] | None:
    total = [leaves for part in parts for leaves in part]
    subjects = [{_about(leaf) for leaf in leaves} for leaves in total]
    alone = [subject.pop() for subject in subjects if len(subject) == 1]
    return total if len(set(alone)) == len(alone) and all(total) else None


def _vector(leaves: Sequence[Goal | Predicate], readings: list[Reading]) -> VectorConjunction | None:
    vector = VectorConjunction()
    for leaf in leaves:
        if not isinstance(leaf, Goal):
            if never(leaf) or always(leaf):
                return None
            vector.constant.append(leaf)
        elif not _add_comparison(vector, leaf, readings):
            vector.leaves.append(leaf)
    names = vector.names()
    return vector if len(set(names)) == len(names) else None


def _add_comparison(vector: VectorConjunction, goal: Goal, readings: list[Reading]) -> bool:
    """Add a goal to the bounds or points, if it is one."""
    condition = goal.condition
    if Accepts.NULL in goal.accepts:
        return False
    if isinstance(condition, Comparison) and isinstance(condition.constant, Slot):
        op = condition.op if Accepts.TRUE in goal.accepts else condition.op.negated
        if op is not Op.NE:
            key = condition.attribute, readings[condition.constant.index].kind
            vector.bounds.setdefault(key, []).append((op, condition.constant))
            return True
    if isinstance(condition, InList) and Accepts.TRUE in goal.accepts:
        constants = [constant for constant in condition.constants if isinstance(constant, Slot)]
        kinds = {readings[slot.index].kind for slot in constants}
        if len(constants) == len(condition.constants) and len(kinds) == 1:
            key = condition.attribute, kinds.pop()
            if key not in vector.points:
                vector.points[key] = constants
                return True
    return False
