"""Normalise millions of texts: split each, collect the literals of equal parts, and bind whole columns at once."""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tocsin.arrays import Int32s
from tocsin.errors import SubscriptionError
from tocsin.language.normal_form import Builder, NormalForm
from tocsin.language.normalise import normalise
from tocsin.language.parse import Key, fixed_places, parse_pieces
from tocsin.language.shape import literal_types, split
from tocsin.language.shape_plan import MAX_LITERALS, Part, plans_of
from tocsin.language.vectors import PartRows, Unreadable, part_rows
from tocsin.model.analyzer import NO_ANALYZERS, Analyzers

BATCH = 65_536
"""How many texts are split into pieces at a time."""
BATCH_CHARACTERS = 16_000_000
"""How many characters they have together, about: a character takes up to ten bytes of pieces."""

SMALL = 4
"""Parts of fewer texts than this are bound text by text: vector operations would cost more."""


def normalise_texts(
    texts: Sequence[str],
    ids: Sequence[str] | None = None,
    limit: float = math.inf,
    check_xpath: Callable[[str], None] | None = None,
    analyzers: Analyzers = NO_ANALYZERS,
    most_attributes: float = math.inf,
) -> NormalForm:
    """Return the normal form of many texts; those in error are reported, the others are kept.

    Costs some microseconds a text, however many shapes they have, as long as they are clauses joined by AND.

    >>> form = normalise_texts(["price < 10", "price < 20 AND price > 30", "price <"])
    >>> form.owner.tolist(), form.never, list(form.errors)
    ([0], [1], [2])
    """
    work = _Work(Builder(check_xpath), ids, limit, analyzers, most_attributes)
    with no_collection():
        start = 0
        while start < len(texts):
            end = _end_of_batch(texts, start)
            work.add_batch(start, texts[start:end])
            start = end
        return work.builder.finish(len(texts))


def _end_of_batch(texts: Sequence[str], start: int) -> int:
    """Return where the batch of texts ends that begins at `start`."""
    last = min(start + BATCH, len(texts))
    # What is not a text is refused when it is split.
    lengths = np.cumsum([len(text) if isinstance(text, str) else 0 for text in texts[start:last]])
    return start + max(int(np.searchsorted(lengths, BATCH_CHARACTERS)), 1) if lengths[-1] > BATCH_CHARACTERS else last


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection: millions of pieces are allocated here, and none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _by_literals(
    places: Iterable[int], numbers: list[int], members: list[list[str]]
) -> dict[tuple[str, ...], tuple[list[int], list[list[str]]]]:
    """Group texts by their literals at some places."""
    groups: dict[tuple[str, ...], tuple[list[int], list[list[str]]]] = {}
    for number, pieces in zip(numbers, members, strict=True):
        group = groups.setdefault(tuple([pieces[2 * place + 1] for place in places]), ([], []))
        group[0].append(number)
        group[1].append(pieces)
    return groups


class _PartTexts:
    """The literals of one part in the texts of a batch, by slot, and the conjunction of each."""

    __slots__ = ("conjunctions", "literals")

    def __init__(self, slots: int) -> None:
        self.conjunctions: list[int] = []
        self.literals: list[list[str]] = [[] for _ in range(slots)]


class _Work:
    """One run over many texts."""

    def __init__(
        self,
        builder: Builder,
        ids: Sequence[str] | None,
        limit: float,
        analyzers: Analyzers,
        most_attributes: float,
    ) -> None:
        self._analyzers = analyzers
        self._plans = plans_of(analyzers)
        self.builder = builder
        self._ids = ids
        self._limit = limit
        self._most_attributes = most_attributes

    def add_batch(self, start: int, texts: Sequence[str]) -> None:
        """Add consecutive texts, of which the first has the number `start`."""
        groups: dict[Key, tuple[list[int], list[list[str]]]] = {}
        pieces_of: dict[int, list[str]] = {}
        for number, text in enumerate(texts, start):
            try:
                pieces = pieces_of[number] = split(text)
            except SubscriptionError as error:
                self._report(number, error)
                continue
            # Texts without a quote have only numbers.
            key: Key = "\0".join(pieces[::2]), literal_types(pieces[1::2]) if "'" in text else (), ()
            group = groups.get(key)
            if group is None:
                group = groups[key] = [], []
            group[0].append(number)
            group[1].append(pieces)
        owners: list[int] = []
        parts: dict[Part, _PartTexts] = {}
        # The last entry tells whether the clauses of the texts contain the same literals.
        waiting = [(key, *group, False) for key, group in groups.items()]
        while waiting:
            key, numbers, members, is_uniform = waiting.pop()
            clauses = self._plans.of_clauses(members[0], bool(key[1]))
            if clauses is not None and clauses[1] and not is_uniform:
                waiting += [(key, *group, True) for group in _by_literals(clauses[1], numbers, members).values()]
                continue
            alternatives = None if clauses is None else [clauses[0]]
            if alternatives is None and len(members) >= SMALL and len(members[0]) <= 2 * MAX_LITERALS:
                alternatives = self._plans.of_shape(key, members[0])
                fixed = fixed_places(key[0])
                if alternatives is None and not key[2] and fixed:
                    by_fixed = _by_literals(fixed, numbers, members)
                    waiting += [((*key[:2], contained), *group, False) for contained, group in by_fixed.items()]
                    continue
            # A predicate has a literal, or is a part of its own, and names two attributes at most: more there are not.
            parts_at_most = sum(map(len, alternatives or ()))
            if (
                not alternatives
                or len(members[0]) // 2 + parts_at_most > self._limit
                or 2 * parts_at_most > self._most_attributes
            ):
                for number in numbers:
                    self._add_one(number, pieces_of[number])
                continue
            alone = len(members) == 1
            columns = [] if alone else list(zip(*(pieces[1::2] for pieces in members), strict=True))
            literals = members[0][1::2]
            for placed in alternatives:
                size = len(owners)
                owners += numbers
                for part, places, first in placed:
                    same = parts.get(part)
                    if same is None:
                        same = parts[part] = _PartTexts(len(places))
                    # Most groups are of one text if shapes are as many as texts.
                    if alone:
                        same.conjunctions.append(size)
                        for column, place in zip(same.literals, places, strict=False):
                            column.append(literals[first + place])
                    else:
                        same.conjunctions.extend(range(size, len(owners)))
                        for column, place in zip(same.literals, places, strict=False):
                            column.extend(columns[first + place])
        for number in self._add_parts(np.array(owners, np.int32), parts):
            self._add_one(number, pieces_of[number])

    def _add_parts(self, owners: Int32s, parts: dict[Part, _PartTexts]) -> list[int]:
        """Add conjunctions, part by part; return the texts that must be bound one by one instead."""
        alive, planned = np.ones(len(owners), np.bool_), np.ones(len(owners), np.bool_)
        prepared: list[tuple[Part, Int32s, PartRows]] = []
        for part, texts in parts.items():
            conjunctions = np.array(texts.conjunctions, np.int32)
            literals: Sequence[Sequence[str]] = texts.literals
            if len(conjunctions) < SMALL:
                planned[conjunctions] = False
                continue
            try:
                rows = part_rows(part, literals, len(conjunctions), self.builder)
            except Unreadable as unreadable:
                planned[conjunctions[list(unreadable.rows)]] = False
                readable = [row for row in range(len(conjunctions)) if row not in unreadable.rows]
                if not readable:
                    continue
                conjunctions = conjunctions[readable]
                literals = [[column[row] for row in readable] for column in literals]
                rows = part_rows(part, literals, len(readable), self.builder)
            alive[conjunctions[~rows.alive]] = False
            prepared.append((part, conjunctions, rows))
        one_by_one = np.unique(owners[~planned])
        planned &= ~np.isin(owners, one_by_one)
        alive &= planned
        number = np.full(len(owners), -1, np.int32)
        number[alive] = self.builder.new_conjunctions(owners[alive])
        for part, conjunctions, rows in prepared:
            rows.add_to(self.builder, part, number[conjunctions])
        self.builder.never.extend(np.setdiff1d(owners[planned], owners[alive]).tolist())
        return [int(owner) for owner in one_by_one]

    def _add_one(self, number: int, pieces: list[str]) -> None:
        try:
            condition = parse_pieces(pieces, self._analyzers)
            self.builder.add(number, normalise(condition, self._limit, most_attributes=self._most_attributes))
        except SubscriptionError as error:
            self._report(number, error)

    def _report(self, number: int, error: SubscriptionError) -> None:
        self.builder.errors[number] = error if self._ids is None else error.of(self._ids[number])
