"""Normalise millions of texts: split each, group them by shape, and bind whole columns of literals at once."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tocsin.errors import SubscriptionError
from tocsin.language.normal_form import Builder, NormalForm
from tocsin.language.normalise import MAX_PREDICATES, check_size, expression
from tocsin.language.parse import parse_shape
from tocsin.language.rewrite import VALUES, rewrite
from tocsin.language.shape import Shape, literal_types, split
from tocsin.language.shape_plan import ShapePlan, plan
from tocsin.language.vectors import Columns, Unreadable, add_vectors
from tocsin.model.condition import Slot

BATCH = 65_536
"""How many texts are split into pieces at a time."""

SMALL = 4
"""Groups of fewer texts than this are bound one by one: a vector operation would cost more."""

_Key = tuple[str, tuple[bool | str, ...], tuple[str, ...]]
"""The code of a shape, which of its literals are strings (() if none is), and those that its template contains."""


def normalise_texts(
    texts: Sequence[str],
    ids: Sequence[str] | None = None,
    limit: int = MAX_PREDICATES,
    check_xpath: Callable[[str], None] | None = None,
) -> NormalForm:
    """Return the normal form of many texts; those in error are reported, the others are kept.

    Costs some microseconds a text, and one parse by sqlglot a shape.

    >>> form = normalise_texts(["price < 10", "price < 20 AND price > 30", "price <"])
    >>> form.owner.tolist(), form.never, list(form.errors)
    ([0], [1], [2])
    """
    work = _Work(Builder(check_xpath), ids, limit)
    with _no_collection():
        for start in range(0, len(texts), BATCH):
            work.add_batch(start, texts[start : start + BATCH])
        return work.builder.finish(len(texts))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection: millions of pieces are allocated here, and none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Work:
    """One run over many texts, with a cache of the plans of their shapes."""

    def __init__(self, builder: Builder, ids: Sequence[str] | None, limit: int) -> None:
        self.builder = builder
        self._ids = ids
        self._limit = limit
        self._plans: dict[_Key, ShapePlan | None] = {}
        self._fixed: dict[_Key, tuple[int, ...]] = {}
        """The literals, by number, that templates of a shape contain."""

    def add_batch(self, start: int, texts: Sequence[str]) -> None:
        """Add consecutive texts, of which the first has the number `start`."""
        groups: dict[_Key, tuple[list[int], list[list[str]]]] = {}
        for number, text in enumerate(texts, start):
            try:
                pieces = split(text)
            except SubscriptionError as error:
                self._report(number, error)
                continue
            # Texts without a quote have only numbers.
            key: _Key = "\0".join(pieces[::2]), literal_types(pieces[1::2]) if "'" in text else (), ()
            group = groups.get(key)
            if group is None:
                group = groups[key] = [], []
            group[0].append(number)
            group[1].append(pieces)
        for key, (numbers, members) in groups.items():
            self._add_group(key, numbers, members)

    def _add_group(self, key: _Key, numbers: list[int], members: list[list[str]]) -> None:
        if key not in self._plans:
            try:
                template, generic = parse_shape(Shape(members[0]))
                if not generic and not key[2]:
                    self._fixed[key] = template.fixed
                is_known = generic or template.fixed == self._fixed.get((*key[:2], ()))
                self._plans[key] = plan(template) if is_known and (generic or key[2]) else None
            except SubscriptionError:
                # Each text is parsed again, since its error has a position of its own.
                self._plans[key] = None
        planned = self._plans[key]
        if planned is None and not key[2] and self._fixed.get(key):
            self._add_by_fixed(key, numbers, members)
        elif planned is None:
            for number, pieces in zip(numbers, members, strict=True):
                self._add_unplanned(number, pieces)
        elif planned.vector is None or len(members) < SMALL or planned.predicates > self._limit:
            for number, pieces in zip(numbers, members, strict=True):
                self._add_one(planned, number, pieces)
        else:
            columns = Columns(planned.template.sources, [pieces[1::2] for pieces in members])
            try:
                add_vectors(self.builder, planned.vector, np.array(numbers, np.int32), columns)
            except Unreadable as unreadable:
                self._add_without(unreadable.rows, planned, key, numbers, members)

    def _add_by_fixed(self, key: _Key, numbers: list[int], members: list[list[str]]) -> None:
        """Add a group whose template contains some of the literals: those with the same ones share a template."""
        groups: dict[_Key, tuple[list[int], list[list[str]]]] = {}
        fixed = self._fixed[key]
        for number, pieces in zip(numbers, members, strict=True):
            group = groups.setdefault((*key[:2], tuple([pieces[2 * literal + 1] for literal in fixed])), ([], []))
            group[0].append(number)
            group[1].append(pieces)
        for inner, (some, theirs) in groups.items():
            self._add_group(inner, some, theirs)

    def _add_without(
        self,
        bad: set[int],
        planned: ShapePlan,
        key: _Key,
        numbers: list[int],
        members: list[list[str]],
    ) -> None:
        """Add a group of which some rows have literals that cannot be read."""
        for row in sorted(bad):
            self._add_one(planned, numbers[row], members[row])
        good = [row for row in range(len(numbers)) if row not in bad]
        if good:
            self._add_group(key, [numbers[row] for row in good], [members[row] for row in good])

    def _add_one(self, planned: ShapePlan, number: int, pieces: list[str]) -> None:
        try:
            check_size(planned.predicates, self._limit)
            constants = planned.template.constants(Shape(pieces))
            bound = rewrite(planned.tree, VALUES, lambda v: constants[v.index] if isinstance(v, Slot) else v)
            self.builder.add(number, expression(bound))
        except SubscriptionError as error:
            self._report(number, error)

    def _add_unplanned(self, number: int, pieces: list[str]) -> None:
        try:
            template, _ = parse_shape(Shape(pieces))
        except SubscriptionError as error:
            self._report(number, error)
            return
        self._add_one(plan(template), number, pieces)

    def _report(self, number: int, error: SubscriptionError) -> None:
        self.builder.errors[number] = error if self._ids is None else error.of(self._ids[number])
