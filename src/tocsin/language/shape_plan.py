"""Plan how the texts of many shapes become conjunctions, column by column.

A text is *regular* if it is a few conjunctions that cannot merge, each of *parts*: comparisons of one column with
constants, which become vector operations, and other leaves on other attributes, which are bound for each distinct
literal. Texts that are clauses joined by AND are planned clause by clause: 100,000 texts may have as many shapes, and
their clauses few. All other texts are bound one by one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from tocsin.errors import SubscriptionError
from tocsin.language.constants import Reading
from tocsin.language.declared_words import with_analyzers
from tocsin.language.normal_form import ColumnKey
from tocsin.language.normalise import always, never
from tocsin.language.parse import Key, fixed_places, has_known_literals, parse_shape
from tocsin.language.rewrite import STRUCTURAL, VALUES, All, Goal, Node, Some, rewrite
from tocsin.language.shape import Shape, literal_types
from tocsin.language.template import Template, fill_atom
from tocsin.model.analyzer import Analyzers
from tocsin.model.condition import Comparison, HistoryTest, InList, Op, Slot, UnnestExists
from tocsin.model.predicate import Accepts, Predicate, Ranges
from tocsin.model.untyped import is_untyped

MAX_CONJUNCTIONS = 16
"""Shapes with more conjunctions than this are rare: they are bound text by text."""

REMEMBERED = 16_384
"""How many pieces of code, clauses and shapes are remembered, each."""

SHORT = 512
"""Characters of a text whose parts are remembered, so that all of them take some tens of MB at most."""
MAX_LITERALS = 1_000
"""Texts with more literals are rare: they are bound text by text, which takes less than planning their clauses."""
MIN_FIXED = 4
"""A clause whose template contains literals is planned when it is met so often: each other literal needs a plan."""
MAX_BOUNDS = 16
"""Bounds on one column that are planned together. Each join is remembered, so that n bounds would take n² memory."""

_plans: dict[tuple[tuple[str, str], ...], "Plans"] = {}
"""By the names of the analyzers."""
_K = TypeVar("_K")
_V = TypeVar("_V")
_CLAUSE = re.compile(r"[\w\s.<>=!(),*/%+-]*")
_AND = re.compile(r"\bAND\b", re.I)
_AND_OF_BETWEEN = re.compile(r"\s*AND\s*", re.I)
_NO_CLAUSE = re.compile(r"\b(?:OR|SELECT)\b", re.I)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What the literals of one part of a conjunction demand: bounds, points, a leaf, or a constant predicate.

    Slots are numbered from 0 in each part.
    """

    subject: object
    """Parts with the same subject could merge."""
    readings: tuple[Reading, ...] = ()
    """How the literal of each slot is read."""
    column: ColumnKey | None = None
    """Of bounds and points."""
    bounds: tuple[tuple[Op, Slot], ...] = ()
    """Comparisons of which all must hold."""
    points: tuple[Slot, ...] = ()
    """Constants of which one must be equal."""
    leaf: Goal | None = None
    """A condition that is bound for each distinct literal."""
    constant: Predicate | None = None
    """A predicate without a slot."""


Placed = tuple[Part, tuple[int, ...], int]
"""A part, the literal of each of its slots, numbered within a clause, and the number of the clause's first literal."""
Alternatives = list[list[Placed]]
"""The conjunctions of a regular shape."""


def plans_of(analyzers: Analyzers) -> "Plans":
    """Return the plans that are kept for these analyzers."""
    name = tuple(sorted((attribute, one.name) for attribute, one in analyzers.items()))
    plans = _plans.get(name)
    return _plans.setdefault(name, Plans(analyzers)) if plans is None else plans


class Plans:
    """The plans of clauses and shapes, kept for the texts to come with the same analyzers."""

    def __init__(self, analyzers: Analyzers) -> None:
        self._analyzers = analyzers
        self._clauses: dict[Key, list[Placed] | None] = {}
        self._met: dict[Key, int] = {}
        """How often a clause was met that is not planned yet."""
        self._shapes: dict[Key, Alternatives | None] = {}
        self._texts: dict[tuple[tuple[str, ...], tuple[bool | str, ...]], list[Placed]] = {}
        """The parts of texts that are clauses whose literals may be any, by what stands between the literals."""
        self._joint: dict[tuple[Part, Part], Part] = {}

    def of_clauses(self, pieces: list[str], has_strings: bool, often: int = 1) -> tuple[list[Placed], list[int]] | None:
        """Return the parts of a text of clauses joined by AND; None if it is not one, not regular, or long.

        They are those of each text of its shape that has the same literals at the places that come with them. A clause
        that is not planned yet is planned when it is met so `often`; until then the answer is None.
        """
        if len(pieces) > 2 * MAX_LITERALS:
            return None
        found: dict[object, Placed] = {}
        fixed: list[int] = []
        code: list[str] = []
        first, literals, known = 0, pieces[1::2], self._clauses
        # The last cut is an end that closes the last clause.
        for place, piece in enumerate([*pieces[::2], None]):
            cut = ("", "") if piece is None else _cut(piece)
            if cut is None:
                return None
            if piece is not None:
                code.append(cut[0])
            for following in cut[1:]:
                text, own = "\0".join(code), literals[first:place]
                places_fixed = fixed_places(text)
                contained = tuple([own[number] for number in places_fixed])
                key = text, literal_types(own) if has_strings else (), contained
                parts = known[key] if key in known else self._plan_clause(key, code, own, often)
                if parts is None:
                    return None
                fixed += [first + number for number in places_fixed]
                for part, places, _ in parts:
                    before = found.get(part.subject)
                    if before is None:
                        found[part.subject] = part, places, first
                    elif _can_join(before[0], part):
                        moved = tuple(first - before[2] + place for place in places)
                        found[part.subject] = self._join(before[0], part), before[1] + moved, before[2]
                    else:
                        return None
                code, first = [following], place
        return list(found.values()), fixed

    def of_text(self, pieces: list[str], often: int) -> list[Placed] | None:
        """Return the parts of a text of clauses joined by AND, as `of_clauses` does; those of a short text are kept."""
        literals = pieces[1::2]
        has_strings = "'" in "".join(literals)
        shape = tuple(pieces[::2]), literal_types(literals) if has_strings else ()
        placed = self._texts.get(shape)
        if placed is None:
            clauses = self.of_clauses(pieces, has_strings, often)
            if clauses is None:
                return None
            placed, fixed = clauses
            if not fixed and sum(map(len, pieces)) <= SHORT:
                _remember(self._texts, shape, placed)
        return placed

    def _plan_clause(self, key: Key, code: list[str], literals: list[str], often: int) -> list[Placed] | None:
        if key[0].count("(") != key[0].count(")"):
            # An AND inside parentheses. Parsing half of them would fail, at the price of an error.
            _remember(self._clauses, key, None)
            return None
        met = self._met.pop(key, 0) + 1
        if met < (MIN_FIXED if key[2] else often):
            _remember(self._met, key, met)
            return None
        pieces = [""] * (len(code) + len(literals))
        pieces[::2], pieces[1::2] = code, literals
        alternatives = _plan_shape(pieces, bool(key[2]), self._analyzers)
        parts = alternatives[0] if alternatives is not None and len(alternatives) == 1 else None
        _remember(self._clauses, key, parts)
        return parts

    def _join(self, left: Part, right: Part) -> Part:
        """Return the part of two parts with bounds on one column."""
        joint = self._joint.get((left, right))
        if joint is None:
            moved = tuple((op, Slot(slot.index + len(left.readings))) for op, slot in right.bounds)
            joint = Part(left.subject, left.readings + right.readings, left.column, left.bounds + moved)
            _remember(self._joint, (left, right), joint)
        return joint

    def of_shape(self, key: Key, pieces: list[str]) -> Alternatives | None:
        """Return the conjunctions of a shape with the literals of its key; None if it is not regular."""
        try:
            return self._shapes[key]
        except KeyError:
            found = _plan_shape(pieces, bool(key[2]), self._analyzers)
            _remember(self._shapes, key, found)
            return found


def _can_join(left: Part, right: Part) -> bool:
    """Tell whether two parts are bounds on one column, and not too many."""
    count = len(left.bounds) + len(right.bounds)
    return bool(left.bounds) and bool(right.bounds) and left.column == right.column and count <= MAX_BOUNDS


def _remember(known: dict[_K, _V], key: _K, value: _V) -> None:
    if len(known) >= REMEMBERED:
        known.clear()
    known[key] = value


@lru_cache(REMEMBERED)
def _cut(code: str) -> tuple[str, ...] | None:
    """Cut a piece of code at each AND; None if it may hold more than clauses joined by AND.

    Blanks around a part keep it from growing together with a literal. An AND between two literals is that of BETWEEN.
    A clause that is cut in its middle cannot be parsed.
    """
    if not _CLAUSE.fullmatch(code) or _NO_CLAUSE.search(code):
        return None
    return (code,) if _AND_OF_BETWEEN.fullmatch(code) else tuple(f" {part.strip()} " for part in _AND.split(code))


def _plan_shape(pieces: list[str], is_fixed: bool, analyzers: Analyzers) -> Alternatives | None:
    """Plan a shape; `is_fixed` tells whether it is asked for with the literals that its template contains."""
    shape = Shape(pieces)
    try:
        template = parse_shape(shape)
    except SubscriptionError:
        # Each text is parsed again, since its error has a position of its own.
        return None
    if bool(template.fixed) != is_fixed or not has_known_literals(shape, template):
        return None
    return plan(replace(template, condition=with_analyzers(template.condition, analyzers)) if analyzers else template)


def plan(template: Template) -> Alternatives | None:
    """Plan the texts of a shape, once; None if it is not regular."""
    alternatives = _alternatives(rewrite(Goal(template.condition), STRUCTURAL))
    if alternatives is None:
        return None
    planned = [_parts(leaves, template) for leaves in alternatives]
    return [parts for parts in planned if parts is not None] if None not in planned else None


def slots(goal: Goal) -> list[Slot]:
    """Return the slots of a goal without logic."""
    found: list[Slot] = []

    def note(value: object) -> object:
        if isinstance(value, Slot):
            found.append(value)
        return value

    fill_atom(goal.condition, note)
    return found


class _Renumber:
    """Number slots from 0, in the order in which they are met."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, value: object) -> object:
        if not isinstance(value, Slot):
            return value
        self._count += 1
        return Slot(self._count - 1)


def _about(leaf: Goal | Predicate) -> object:
    """Return the subject of a leaf: its attribute, or the leaf itself if it is on history or on two attributes."""
    subject = leaf.condition if isinstance(leaf, Goal) else leaf if isinstance(leaf, Ranges) else leaf.test
    is_whole = isinstance(subject, (HistoryTest, UnnestExists))
    return subject if is_whole else getattr(subject, "attribute", subject)


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


def _parts(leaves: Sequence[Goal | Predicate], template: Template) -> list[Placed] | None:
    """Return the parts of one conjunction; None if some could merge."""
    bounds: dict[ColumnKey, list[tuple[Op, Slot]]] = {}
    found: list[Placed] = []
    readings = [source.reading for source in template.sources]

    def place(used: Iterable[Slot]) -> tuple[int, ...]:
        return tuple(template.sources[slot.index].literal for slot in used)

    for leaf in leaves:
        if not isinstance(leaf, Goal):
            if never(leaf) or always(leaf):
                return None
            found.append((Part(_about(leaf), constant=leaf), (), 0))
            continue
        used = slots(leaf)
        read = tuple(readings[slot.index] for slot in used)
        condition, kinds = leaf.condition, {reading.kind for reading in read}
        affirmed, or_null = Accepts.TRUE in leaf.accepts, Accepts.NULL in leaf.accepts
        if isinstance(condition, Comparison) and not or_null:
            op = condition.op if affirmed else condition.op.negated
            if is_untyped(condition.attribute):
                # Equal values are a point of each kind that the constant reads as; all else is bound as a leaf.
                if op is Op.EQ and affirmed:
                    condition = InList(condition.attribute, (used[0],))
            elif op is not Op.NE:
                bounds.setdefault((condition.attribute, kinds.pop()), []).append((op, used[0]))
                continue
        all_slots = isinstance(condition, InList) and len(used) == len(condition.constants)
        if isinstance(condition, InList) and all_slots and affirmed and not or_null and len(kinds) == 1:
            column, points = (condition.attribute, kinds.pop()), tuple(map(Slot, range(len(used))))
            found.append((Part(condition.attribute, read, column, points=points), place(used), 0))
            continue
        renumbered = fill_atom(condition, _Renumber())
        found.append((Part(_about(leaf), read, leaf=Goal(renumbered, leaf.accepts)), place(used), 0))
    for column, several in bounds.items():
        used = [slot for _, slot in several]
        numbered = tuple((op, Slot(number)) for number, (op, _) in enumerate(several))
        read = tuple(readings[slot.index] for slot in used)
        found.append((Part(column[0], read, column, numbered), place(used), 0))
    subjects = [part.subject for part, _, _ in found]
    return found if len(set(subjects)) == len(subjects) else None
