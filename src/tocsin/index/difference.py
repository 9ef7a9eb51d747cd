"""The subscriptions that two sets do not have in common: by id, and by normal form where the texts differ.

They stand side by side in one set, so that a batch of events is encoded once: those of the set before with "-" in
front of their ids, those of the set after with "+".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Int64s
from tocsin.errors import OptionError, SubscriptionError
from tocsin.index.build import code_columns, conjunctions_of, number_tests
from tocsin.index.form import StoredForm
from tocsin.index.intake import SubscriptionRows, parse_rows, read
from tocsin.index.merge import gather
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.index.subscriptions import SubscriptionSet
from tocsin.language.normal_form import NormalForm

BEFORE, AFTER = "-", "+"

Gathered = tuple[SubscriptionRows, NormalForm, list[SubscriptionError]]

_MEANING = ("namespaces", "analyzers", "retain_events", "retain_age", "age_attribute", "history")
"""The options that the meaning of a subscription depends on."""


@dataclass(frozen=True)
class Standing:
    """A set of subscriptions that is compared with another: of an index, or of a table that is not parsed yet."""

    ids: pa.Array
    texts: pa.Array
    options: Options | None
    """None: those of the other set."""
    gather: Callable[[Int64s, Options], Gathered]
    """Returns the subscriptions at some places, and what is wrong with others."""

    @classmethod
    def of_set(cls, subscriptions: SubscriptionSet) -> "Standing":
        """Take the subscriptions of a set as they are now."""
        states = subscriptions.current().states
        numbers = [
            np.flatnonzero(~state.dropped) if state.dropped.size else np.arange(len(state.segment)) for state in states
        ]
        ends = np.cumsum([0, *map(len, numbers)])

        def gathered(places: Int64s, options: Options) -> Gathered:  # noqa: ARG001 (those of the set)
            own = [
                own[places[(places >= start) & (places < end)] - start]
                for own, (start, end) in zip(numbers, pairwise(ends.tolist()), strict=True)
            ]
            chosen = [(state.segment, some, state.scores) for state, some in zip(states, own, strict=True) if some.size]
            return *gather(chosen), []

        columns = (
            [
                strings.arrow().take(pa.array(own)) if state.dropped.size else strings.arrow()
                for state, own in zip(states, numbers, strict=True)
                for strings in [getattr(state.segment, name)]
            ]
            for name in ("ids", "texts")
        )
        ids, texts = (_united(column) for column in columns)
        return cls(ids, texts, subscriptions.options, gathered)

    @classmethod
    def of_table(cls, table: pa.Table, options: Options | None = None) -> "Standing":
        """Take the rows of a table; those that cannot be read are errors."""
        rows, rejected = read(table, (options or Options()).limits)

        def gathered(places: Int64s, options: Options) -> Gathered:
            good, form, errors = parse_rows(rows.take(places), options)
            return good, form, [*rejected, *errors]

        return cls(pa.array(rows.ids, pa.large_string()), pa.array(rows.texts, pa.large_string()), options, gathered)


def _united(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the strings of all arrays as one; nothing is copied if there is one."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays([pa.array([], pa.large_string()), *arrays])


def difference(before: Standing, after: Standing) -> SubscriptionSet:
    """Return the subscriptions that the sets do not have in common, with `BEFORE` or `AFTER` in front of their ids."""
    for name in _MEANING if before.options and after.options else ():
        one, other = getattr(before.options, name), getattr(after.options, name)
        if one != other:
            raise OptionError(
                f"{name} is {one!r} before and {other!r} after, so that equal conditions differ",
                f"Give both the same {name}",
            )
    options = after.options or before.options or Options()
    if before.ids.equals(after.ids):  # as after edits: no need to look ids up
        old = new = np.flatnonzero(~np.asarray(pc.equal(before.texts, after.texts)))
    else:
        place = pc.index_in(before.ids, value_set=after.ids)
        is_common = np.asarray(pc.equal(before.texts, after.texts.take(place)).fill_null(False))
        old = np.flatnonzero(~is_common)
        new = np.delete(np.arange(len(after.ids)), np.asarray(place.filter(pa.array(is_common))))
    gathered = [before.gather(old, options), after.gather(new, options)]
    signed = zip((BEFORE, AFTER), gathered, strict=True)
    rows = [own._replace(ids=[sign + id for id in own.ids]) for sign, (own, *_) in signed]
    both = SubscriptionRows(
        [*rows[0].ids, *rows[1].ids],
        [*rows[0].texts, *rows[1].texts],
        np.concatenate([rows[0].scores, rows[1].scores]),
        [*rows[0].extras, *rows[1].extras],
    )
    by_id = np.asarray(pc.sort_indices(pa.array(both.ids, pa.large_string()))).astype(np.int64)
    both, form = both.take(by_id), NormalForm.joined([form for _, form, _ in gathered]).select(by_id)
    kept = _without_twins(both.ids, _coded(form, options))
    errors = [error for *_, some in gathered for error in some]
    found = SubscriptionSet(options, background_merge=False)
    found.add(Segment.build(both.take(kept), form.select(kept), options), errors)
    return found


def _coded(form: NormalForm, options: Options) -> StoredForm:
    """Return a normal form over the codes that a segment of it would have, without building its index."""
    tests = number_tests(form, options)
    return StoredForm.of(conjunctions_of(form, code_columns(form, set()), tests), form, tests.tests)


def _without_twins(ids: Sequence[str], form: StoredForm) -> Int64s:
    """Return the numbers of the subscriptions that mean something else before and after.

    They are coded together, so that equal conjunctions have equal codes.
    """
    number_of = {id: number for number, id in enumerate(ids)}
    twins = {number: number_of.get(AFTER + id[1:]) for id, number in number_of.items() if id[0] == BEFORE}
    ends = np.searchsorted(form.owner, np.arange(len(ids) + 1)).tolist()
    ranges = list(zip(form.column.tolist(), form.low.tolist(), form.high.tolist(), strict=True))
    tests = list(zip(form.test.tolist(), form.accepts.tolist(), strict=True))
    starts, test_starts = form.starts.tolist(), form.test_starts.tolist()
    nesting = {leaf: ends for leaf, *ends in zip(*(part.tolist() for part in form.nesting), strict=True)}

    def meaning(number: int) -> object:
        numbers = range(ends[number], ends[number + 1])
        conjunctions = [
            (tuple(ranges[starts[c] : starts[c + 1]]), frozenset(tests[test_starts[c] : test_starts[c + 1]]))
            for c in numbers
        ]
        is_tree = any(c in nesting for c in numbers)
        return (conjunctions, [nesting[c] for c in numbers]) if is_tree else frozenset(conjunctions)

    def may_be_same(number: int, twin: int) -> bool:
        """Whether it is worth comparing: two conjunctions with other numbers of ranges are different."""
        one, other = ends[number], ends[twin]
        is_single = ends[number + 1] - one == ends[twin + 1] - other == 1
        return not is_single or starts[one + 1] - starts[one] == starts[other + 1] - starts[other]

    same = [
        (number, twin)
        for number, twin in twins.items()
        if twin is not None and may_be_same(number, twin) and meaning(number) == meaning(twin)
    ]
    return np.delete(np.arange(len(ids)), [number for pair in same for number in pair])
