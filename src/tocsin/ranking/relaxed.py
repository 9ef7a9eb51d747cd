"""Relaxed top-k, and events whose values are intervals: every event is compared with every predicate of a segment.

Predicates and weights are derived from the normal form of the segment when they are first needed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tocsin.arrays import Float64s, Int32s
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.errors import OptionError
from tocsin.index.encoding import Column, encode
from tocsin.index.segment import Segment
from tocsin.model.condition import Aggregated, AttributeComparison, Exists
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.readable import is_number
from tocsin.model.result import Evidence
from tocsin.model.values import Kind, kind_of
from tocsin.predicates.families import Family, Probed
from tocsin.ranking.kernels import EXACT, Asked, BestHeaps, Weighed, hold_attributes, offer_weighed
from tocsin.ranking.question import Interval
from tocsin.ranking.score_function import ScoreFunction
from tocsin.registry import range_rows

if TYPE_CHECKING:
    from tocsin.papers.ranked.range_rows import RangeRows


FEW_COLUMNS, LARGE, MANY = 4, 100_000, 100
"""Indexes are worth building for at most 4 columns with at least 100,000 predicates, after 100 events."""


@dataclass
class Weights:
    """The predicates of a segment with their weights, and the columns, tests and attributes that they refer to."""

    columns: list[Column]
    families: list[tuple[str, str, Family]]
    attributes: list[str]
    """Sorted: weights are added in this order, so that a sum does not depend on the segment that it is formed in."""
    weighed: Weighed
    _events: int = 0
    """The events that were asked about."""
    _range_rows: "dict[tuple[str, bool], RangeRows]" = field(default_factory=dict)
    """By the name of the index, and whether it ranks exact matches."""

    @classmethod
    def build(cls, segment: Segment) -> "Weights":
        """Weigh the predicates of all subscriptions of a segment, as they are in its normal form."""
        conjunctions, owner = segment.conjunctions(), segment.form.owner
        named = [_first_attribute(segment.definition(number)) for number in range(len(segment.form.tests))]
        attributes = sorted({*named, *(column.attribute for column in segment.columns)})
        place = {attribute: number for number, attribute in enumerate(attributes)}
        predicates = _predicates(
            conjunctions,
            np.array([place[column.attribute] for column in segment.columns], np.int32),
            np.array([place[name] for name in named], np.int32),
        )
        attribute = predicates[:, 1].copy()
        weighed = Weighed(
            conjunctions=np.searchsorted(owner, np.arange(len(segment) + 1)).astype(np.int64),
            predicates=np.searchsorted(predicates[:, 0], np.arange(conjunctions.count + 1)).astype(np.int64),
            column=predicates[:, 2].copy(),
            first=predicates[:, 3].copy(),
            end=predicates[:, 4].copy(),
            attribute=attribute,
            weight=_weights(segment, place, owner[predicates[:, 0]], attribute),
            low=conjunctions.low,
            high=conjunctions.high,
            null_column=conjunctions.test_null_column,
            leaf_starts=np.searchsorted(owner[segment.form.leaf], np.arange(len(segment) + 1)).astype(np.int64),
            opens=segment.form.opens,
            closes=segment.form.closes,
        )
        return cls(segment.columns, segment.families, attributes, weighed)

    def offer(
        self,
        best: BestHeaps,
        batch: EventBatch,
        asked: Asked,
        judged: Mapping[int, Probed],
        interval: Interval,
        index: str = "auto",
        function: ScoreFunction | None = None,
    ) -> Evidence:
        """Offer each event the subscriptions of which something holds, by the names that `asked` gives them.

        `index` names the ranked index to use for subscriptions to single ranges; `function` scores, if there is one.
        """
        evidence = Evidence(events=len(batch), candidates=len(batch) * (self.weighed.predicates.size - 1))
        events = encode(self.columns, self.families, batch, judged, evidence)
        latest, earliest = self._intervals(batch, events, interval, evidence)
        self._events += len(batch)
        chosen = index != "auto"
        if chosen and latest is not earliest:
            raise OptionError(f"index is {index!r}, and an event has an interval", "Leave index out")
        if chosen or (
            asked.kind != EXACT and latest is earliest and self._has_indexes() and not best.sizes.any() and not function
        ):
            asked = self._ask_indexes(best, asked, events, index, function)
        if not asked.left_out.size or not asked.left_out.all():
            if function is None:
                offer_weighed(best, self.weighed, asked, events, latest, earliest)
            else:
                self._offer_by_function(best, asked, events, (latest, earliest), function)
        return evidence

    def _offer_by_function(
        self, best: BestHeaps, asked: Asked, events: Events, bounds: tuple[Int32s, Int32s], function: ScoreFunction
    ) -> None:
        """Do what `offer_weighed` does where a function scores the weights of each conjunction, by attribute."""
        weighed, k = self.weighed, best.ids.shape[1]
        trees = np.diff(weighed.leaf_starts) > 0
        if (trees & ~asked.left_out if asked.left_out.size else trees).any():
            raise OptionError(
                "score_by is a function, and a subscription is too large an expression for conjunctions",
                "Use 'sum', 'max' or coefficients, or leave that subscription out by tags",
            )
        owner = np.repeat(np.arange(trees.size), np.diff(weighed.conjunctions))
        wanted = ~asked.left_out[owner] if asked.left_out.size else np.ones(owner.size, bool)
        for event in range(events.codes.shape[1]):
            held, weights = hold_attributes(weighed, asked.factors, events, *bounds, event)
            some = np.flatnonzero((held > 0) & wanted)
            scores = function.scores(weights[some], self.attributes)
            order = np.lexsort((-scores, owner[some]))
            owners, first = np.unique(owner[some][order], return_index=True)
            size = int(best.sizes[event])
            ids = np.append(best.ids[event, :size], asked.identity[owners])
            scores = np.append(best.scores[event, :size], scores[order][first])
            # A heap has the worst on top: worst first is one.
            kept = np.lexsort((ids, -scores))[:k][::-1]
            best.ids[event, : kept.size], best.scores[event, : kept.size] = ids[kept], scores[kept]
            best.sizes[event] = kept.size

    def _intervals(
        self, batch: EventBatch, events: Events, interval: Interval, evidence: Evidence
    ) -> tuple[Int32s, Int32s]:
        """Return the codes at which a range must have begun, and those at which it must not have ended.

        They are the same array if no event has an interval.
        """
        intervals = [intervals_of(batch, column) for column in self.columns]
        if not any(intervals):
            return events.codes, events.codes
        first, last = events.codes.copy(), events.codes.copy()
        for place, (column, found) in enumerate(zip(self.columns, intervals, strict=True)):
            for row, (low, high) in found.items():
                first[place, row], last[place, row] = column.domain.code(low), column.domain.code(high)
            if found and column.attribute in evidence.mismatches:
                evidence.mismatches[column.attribute] -= len(found)
                if not evidence.mismatches[column.attribute]:
                    del evidence.mismatches[column.attribute]
        return (last, first) if interval == "overlaps" else (first, last)

    def plan(self) -> str:
        """Say how relaxed questions are answered now."""
        if not self._range_rows:
            return "every predicate of every event"
        return f"the Threshold Algorithm over {len(self.columns)} columns, where it pays; else every predicate"

    def _has_indexes(self) -> bool:
        return len(self.columns) <= FEW_COLUMNS and self.weighed.column.size >= LARGE and self._events > MANY

    def _ask_indexes(
        self, best: BestHeaps, asked: Asked, events: Events, index: str, function: ScoreFunction | None
    ) -> Asked:
        """Let indexes find the best of subscriptions to single ranges; return what is left to ask."""
        name, exact = "sopt-r-tree" if index == "auto" else index, asked.kind == EXACT
        rows = self._range_rows.get((name, exact))
        if rows is None:
            place = {attribute: number for number, attribute in enumerate(self.attributes)}
            attributes = np.array([place[column.attribute] for column in self.columns], np.int32)
            rows = range_rows()(self.weighed, attributes, asked.identity, name, exact)
            self._range_rows[name, exact] = rows
        if index == "auto" and not rows.pays(best.ids.shape[1], asked.left_out):
            return asked
        combine = partial(function.scores, attributes=self.attributes) if function else None
        rows.fill(best, asked, events.codes, combine)
        left_out = asked.left_out | rows.chosen if asked.left_out.size else rows.chosen
        return asked._replace(left_out=left_out)

    def factors(self, coefficients: Mapping[str, float]) -> Float64s:
        """Return the coefficient of each attribute; 1 for those that have none."""
        return np.array([coefficients.get(attribute, 1.0) for attribute in self.attributes], np.float64)


def intervals_of(batch: EventBatch, column: Column) -> dict[int, tuple[Any, Any]]:
    """Return the events, by row, whose value for a column of numbers is an interval: a list of two numbers in order.

    >>> from tocsin.predicates.ranges.domain import Domain
    >>> hours = Column("hours", Kind.NUMBER, Domain(Kind.NUMBER, np.array([8.0])))
    >>> intervals_of(EventBatch([{"hours": [20, 30]}, {"hours": 20}, {"hours": [30, 20]}]), hours)
    {0: (20, 30)}
    """
    if column.kind is not Kind.NUMBER:
        return {}
    values = batch.column(column.attribute)
    if values is None:
        return {}
    if not isinstance(values, list):
        if not pa.types.is_large_list(values.type) or not _is_number(values.type.value_type):
            return {}
        values = values.to_pylist()
    return {row: (value[0], value[1]) for row, value in enumerate(values) if _is_interval(value)}


def has_intervals(batch: EventBatch, columns: Sequence[Column]) -> bool:
    """Whether some event has an interval where numbers are compared."""
    return any(intervals_of(batch, column) for column in columns)


def _is_number(kind: pa.DataType) -> bool:
    return is_number(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_interval(value: object) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    return all(kind_of(end) is Kind.NUMBER for end in value) and bool(value[0] <= value[1])


def _first_attribute(test: Test) -> str:
    """Return the attribute whose weight a test has: the first that it names; the empty text if it names none."""
    if isinstance(test, AttributeComparison):
        return test.left
    if isinstance(test, Exists):
        return test.terms[0].old if test.terms else ""
    return (test.attribute or test.old or "") if isinstance(test, Aggregated) else test.attribute


def _predicates(conjunctions: Conjunctions, of_column: Int32s, of_test: Int32s) -> Int32s:
    """Return rows (conjunction, attribute, column, first, end), as `Weighed` has them, sorted."""
    changes = np.ones(conjunctions.conjunction.size, bool)
    changes[1:] = np.diff(conjunctions.conjunction) != 0
    changes[1:] |= np.diff(conjunctions.column) != 0
    first = np.flatnonzero(changes)
    end = np.append(first, changes.size)[1:]
    column = conjunctions.column[first]
    test = conjunctions.test
    rows = np.empty((first.size + test.size, 5), np.int32)
    of_ranges, of_tests = rows[: first.size], rows[first.size :]
    of_ranges[:, 0], of_tests[:, 0] = conjunctions.conjunction[first], conjunctions.test_conjunction
    of_ranges[:, 1], of_tests[:, 1] = of_column[column], of_test[test]
    of_ranges[:, 2], of_tests[:, 2] = column, -1
    of_ranges[:, 3], of_tests[:, 3] = first, test
    of_ranges[:, 4], of_tests[:, 4] = end, conjunctions.test_accepts
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _weights(segment: Segment, place: Mapping[str, int], owner: Int32s, attribute: Int32s) -> Float64s:
    """Return the weight of each predicate: what its subscription gives to its attribute, or 1."""
    given: dict[tuple[int, int], float] = {}
    numbers = np.flatnonzero(np.diff(segment.extras.offsets))
    for number, text in zip(numbers.tolist(), segment.extras_at(numbers), strict=True):
        for name, weight in json.loads(text).get("weights", {}).items():
            if name in place:
                given[number, place[name]] = weight
    weights = np.ones(owner.size)
    if given:
        # Only predicates of subscriptions that give weights are looked up.
        rows = np.flatnonzero(np.isin(owner, np.array([number for number, _ in given], np.int32)))
        pairs = zip(owner[rows].tolist(), attribute[rows].tolist(), strict=True)
        weights[rows] = [given.get(pair, 1.0) for pair in pairs]
    return weights
