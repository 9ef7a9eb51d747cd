"""`Matcher(matcher="reference")`: every subscription's text is judged on every event by the executable specification.

A segment is built as usual, so that errors, explanations, intervals and relaxed top-k stay what they are. Then its
index of conjunctions is replaced: whole subscriptions become the tests of one more family, which the reference judges,
and the index only reports those that hold. So `match`, `match_batch`, `publish` and exact `top_k` answer by the
reference, while the store of old events, tombstones, tags and scores are those of the product.

It is loaded only when it is asked for (`tocsin.registry`). An event costs the evaluation of every condition, and of the
whole history for each condition that looks back.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.arrays import Strings
from tocsin.conjunctions.boolean.match import Trees
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.owners import Owners
from tocsin.conjunctions.protocol import CodesOf, Extent, Filing, Pairs, Step
from tocsin.forks import cached
from tocsin.index.combined_tests import CombinedTests
from tocsin.index.options import Options
from tocsin.index.rare_attributes import RareRanges
from tocsin.index.segment import NO_BOOLS, Segment
from tocsin.invariants import check_strings, demand
from tocsin.model.analyzer import Analyzer
from tocsin.model.condition import And, Condition, HistoryTest, IsTruth, Not, Or
from tocsin.model.events import Event, EventBatch
from tocsin.model.values import Kind
from tocsin.predicates.evaluate import History
from tocsin.predicates.families import Family, Probed
from tocsin.predicates.history.batch_tests import BatchTruths
from tocsin.predicates.history.family import probed
from tocsin.predicates.history.join_table import Truths, attributes_of
from tocsin.predicates.history.store import HistoryStore
from tocsin.reference import evaluate

_NONE = np.empty(0, np.int32)


def judged_by_reference(segment: Segment, options: Options) -> Segment:
    """Return a segment of the same subscriptions whose matches the reference finds."""
    count = len(segment)
    family = ReferenceFamily(segment.texts, options)
    return replace(
        segment,
        # It has no `build`: its tests do not come from a normal form.
        families=[*segment.families, ("reference", "", cast(Family, family))],
        rare=RareRanges.none(),
        combined=CombinedTests.none(),
        needs_codes=True,
        algorithms=("auto", "reference"),
        index=ReferenceIndex(sum(family.count for _, _, family in segment.families), count),
        owners=Owners(np.arange(count, dtype=np.int32), np.zeros(1, np.int64), _NONE),
        several=NO_BOOLS,
        trees=Trees.none(),
    )


class ReferenceFamily:
    """Whole subscriptions as tests: number i is TRUE for an event if the text of subscription i is."""

    texts = None
    kinds: Collection[tuple[str, Kind]] = ()

    def __init__(self, texts: Strings, options: Options) -> None:
        self._texts, self._options = texts, options
        self.count = len(texts)
        self.attributes: set[str] = set()

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "ReferenceFamily":  # noqa: ARG003
        """Read the texts, the prefixes and the analyzers; an earlier version had no analyzers."""
        prefixes = json.loads(arrays["namespaces"].tobytes())
        analyzers = json.loads(arrays["analyzers"].tobytes()) if "analyzers" in arrays else {}
        declared = {name: Analyzer(**given) for name, given in analyzers.items()}
        return cls(Strings(arrays["offsets"], arrays["bytes"]), Options(namespaces=prefixes, analyzers=declared))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The texts, the prefixes and the analyzers."""
        options = self._options.document()
        said = {name: json.dumps(options[name]).encode() for name in ("namespaces", "analyzers")}
        return {
            "offsets": self._texts.offsets,
            "bytes": self._texts.data,
            **{name: np.frombuffer(text, np.uint8) for name, text in said.items()},
        }

    def check_arrays(self) -> None:
        """Demand texts that can be read."""
        check_strings("", self._texts, joint="")

    @cached
    def conditions(self) -> list[Condition]:
        """The conditions as users wrote them."""
        return [self._options.parse(self._texts[number]) for number in range(self.count)]

    @cached
    def history_tests(self) -> list[HistoryTest]:
        """Every test on the history in some condition."""
        found: list[HistoryTest] = []
        waiting = list(self.conditions)
        while waiting:
            node = waiting.pop()
            if isinstance(node, (And, Or)):
                waiting += node.operands
            elif isinstance(node, (Not, IsTruth)):
                waiting.append(node.operand)
            elif isinstance(node, HistoryTest):
                found.append(node)
        return found

    def holding(self, event: Event, history: History) -> Truths:
        """The subscriptions that hold for an event; for a match, NULL is as good as FALSE."""
        truths = [
            evaluate(condition, event, history, self._options.namespaces) is True for condition in self.conditions
        ]
        return Truths(np.flatnonzero(truths).astype(np.int32), _NONE)

    def probe(self, batch: EventBatch) -> Probed:
        """Judge every subscription for every event, against an empty history."""
        return probed([self.holding(batch.event(row), ()) for row in range(len(batch))])


class ReferencePlanner:
    """The judge of a ReferenceFamily against a history; `index/history_planner.py` has the one of HistoryFamily."""

    def __init__(self, place: int, family: ReferenceFamily, store: HistoryStore) -> None:
        self.place = place
        self._family, self._store = family, store
        self.kept = attributes_of(family.history_tests)
        store.keep([*store.columns, *self.kept])

    def wanted(self, batch: EventBatch) -> None:
        """Return None: every subscription is judged for every event."""

    groups = 0
    """It knows single events only."""

    def judge_batch(self, *_: object) -> tuple[list[BatchTruths], BitMap]:
        """Judge nothing of a batch."""
        return [], BitMap()

    def judge(self, event: Event, wanted: object) -> Truths:  # noqa: ARG002
        """The subscriptions that hold for an event, against the history as it is now."""
        return self.judge_every_test(event)

    def judge_every_test(self, event: Event, left: object = None) -> Truths:  # noqa: ARG002
        """Return the subscriptions that hold for an event, as `judge` does."""
        old = [self._store.old_event(number) for number in range(self._store.first, self._store.next)]
        return self._family.holding(event, old)


def reference_planner(place: int, family: ReferenceFamily, store: HistoryStore) -> ReferencePlanner | None:
    """Return the judge of a family against a history; None if no condition looks back."""
    return ReferencePlanner(place, family, store) if family.history_tests else None


class ReferenceIndex:
    """Report the subscriptions that a ReferenceFamily found: its tests have the numbers from `first` on."""

    pairs = None
    needs_codes = True
    rekeyed = 0
    found_as_one = None
    expects_many = False
    stays_on_disk: ClassVar[bool] = False
    evaluations = 0

    def __init__(self, first: int, count: int) -> None:
        self._first, self._count = first, count

    @classmethod
    def build(cls, filing: Filing) -> "ReferenceIndex":
        """Make an index of no subscriptions; `judged_by_reference` knows how many there are."""
        return cls(filing.frequency.size, 0)

    def match(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> Pairs:  # noqa: ARG002
        """The (event, subscription) rows that hold; every subscription was verified."""
        own = events.true >= self._first
        rows = np.repeat(np.arange(events.true_starts.size - 1, dtype=np.int32), np.diff(events.true_starts))
        pairs = np.stack([rows[own], events.true[own] - np.int32(self._first)], axis=1)
        return pairs, self._count * (events.true_starts.size - 1)

    def match_lists(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> None:
        """Nothing: it finds pairs."""

    def derived_bytes(self) -> dict[str, int]:
        """Nothing: there is no index."""
        return {}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The numbers of its tests."""
        return {"tests": np.array([self._first, self._count], np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], algorithms: tuple[str, str]) -> "ReferenceIndex":  # noqa: ARG003
        """The index that `arrays` came from."""
        return cls(*arrays["tests"].tolist())

    def check_arrays(self, bounds: Extent) -> None:
        """Demand that it reports subscriptions, which stand for themselves."""
        demand(0 <= self._count <= bounds.conjunctions, "tests", "it has more subscriptions than there are")

    def check(self) -> None:
        """Assert nothing: it has no structure."""

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:  # noqa: ARG002
        """Say that nothing is indexed."""
        yield Step("", "every text is judged on every event, by the reference", "asked for")
