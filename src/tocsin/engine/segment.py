"""A segment: an immutable set of subscriptions with its index, as named arrays that a file can hold."""

import json
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tocsin._kernels.grouping import Owners, group_by_event, group_conjunctions, pairs_with_owners
from tocsin._kernels.pairs import Events
from tocsin.engine.build import NumberedTests, code_columns, conjunctions_of, number_tests, popularity
from tocsin.engine.encoding import Column, codes_of, encode, encode_short
from tocsin.engine.families import FAMILIES, Family, Probed, Slices
from tocsin.engine.options import Options
from tocsin.engine.tags import TagIndex
from tocsin.errors import SubscriptionError
from tocsin.forks import cached
from tocsin.matching.auto import AutoMatcher, of_tests_alone
from tocsin.matching.conjunctions import Conjunctions
from tocsin.matching.duplicates import share
from tocsin.matching.pairs import CodesOf
from tocsin.matching.short import crowded
from tocsin.matching.two_phase import TwoPhaseMatcher
from tocsin.model.events import EventBatch
from tocsin.model.result import Evidence
from tocsin.model.subscription import Subscription
from tocsin.model.values import Kind
from tocsin.predicates.domain import Domain, Strings
from tocsin.predicates.ruler import Ruler
from tocsin.storage.container import Container

Int32 = npt.NDArray[np.int32]
NO_BOOLS = np.empty(0, np.bool_)


@dataclass(frozen=True)
class Segment:
    """Subscriptions 0 to n - 1 and everything that is needed to match them. Never changed."""

    ids: Strings
    texts: Strings
    id_order: Int32
    """The subscriptions sorted by id."""
    scores: npt.NDArray[np.float64]
    extras: Strings
    """JSON of what few subscriptions have: weights and tags; empty text for most."""
    columns: list[Column]
    needs_codes: bool
    """Whether short codes leave more to decide than the ends of ranges, or leave many events on the same end."""
    families: list[tuple[str, str, Family]]
    matcher: AutoMatcher | TwoPhaseMatcher
    owners: Owners
    """The subscriptions of each conjunction: equal conjunctions are stored and evaluated once."""
    several: npt.NDArray[np.bool_]
    """Whether a subscription has several conjunctions; empty if none has."""
    history_demands: Int32
    """Rows (test, subscription, conjunction): who demands which test on the history, as their family numbers it."""
    tags: TagIndex
    never: Int32
    """Subscriptions that can never match."""
    unindexed: Int32
    """Subscriptions with a conjunction that no predicate helps to find: every event verifies it."""

    @classmethod
    def build(
        cls,
        ids: Sequence[str],
        texts: Sequence[str],
        scores: npt.NDArray[np.float64],
        extras: Sequence[str],
        options: Options,
    ) -> tuple["Segment", list[SubscriptionError]]:
        """Build from subscriptions; those in error are left out and reported."""
        form = options.normalise(texts, ids)
        kept = np.ones(len(texts), bool)
        kept[list(form.errors)] = False
        new_number = np.cumsum(kept) - 1
        columns = code_columns(form)
        tests = number_tests(form, options)
        conjunctions, filed_under = conjunctions_of(form, columns, tests)
        owner = new_number[form.owner].astype(np.int32)
        alone = of_tests_alone(conjunctions, filed_under, tests.on_history) & options.is_auto
        shared = share(conjunctions, owner, alone)
        filed_under = filed_under[shared.representatives]
        shares = [popularity(column) for column in columns] + [np.array([0.0, 1.0])] * len(tests.families)
        rulers = [Ruler.of(column.domain) if options.is_auto else None for column in columns]
        short = {place: ruler.of_codes(columns[place].domain) for place, ruler in enumerate(rulers) if ruler}
        matcher: AutoMatcher | TwoPhaseMatcher
        if options.is_auto:
            split = int(np.count_nonzero(~alone[shared.representatives]))
            named = np.bincount(conjunctions.test, minlength=tests.selective.size)
            frequency = np.where(tests.selective, named, conjunctions.test.size + 1.0)
            matcher = AutoMatcher.build(shared.conjunctions, split, shares, filed_under, frequency, short)
        else:
            matcher = TwoPhaseMatcher(shared.conjunctions, options.index, options.matcher)
        counts = np.bincount(owner[shared.number >= 0], minlength=int(kept.sum()))
        kept_ones = shared.conjunctions
        lost = (np.bincount(kept_ones.conjunction, minlength=kept_ones.count) == 0) & (filed_under < 0)
        lost = np.append(lost, False)[shared.number]
        rows = np.flatnonzero(kept).tolist()
        packed_ids = Strings.of([ids[row] for row in rows])
        segment = cls(
            ids=packed_ids,
            id_order=np.asarray(pc.sort_indices(packed_ids.arrow())).astype(np.int32),
            texts=Strings.of([texts[row] for row in rows]),
            scores=np.asarray(scores, np.float64)[kept],
            extras=Strings.of([extras[row] for row in rows]),
            columns=[
                Column(column.attribute, column.kind, column.domain, ruler)
                for column, ruler in zip(columns, rulers, strict=True)
            ],
            needs_codes=(
                not isinstance(matcher, AutoMatcher)
                or bool(tests.families)
                or matcher.pairs.needs_codes
                or any(crowded(shared.conjunctions, place, of_codes) for place, of_codes in short.items())
            ),
            families=tests.families,
            matcher=matcher,
            owners=shared.owners,
            several=counts > 1 if (counts > 1).any() else NO_BOOLS,
            history_demands=_history_demands(conjunctions, tests, owner, shared.number),
            tags=TagIndex.build([extras[row] for row in rows]),
            never=new_number[np.array(form.never, np.int64)].astype(np.int32),
            unindexed=np.unique(owner[lost]),
        )
        return segment, list(form.errors.values())

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def attributes(self) -> set[str]:
        """The attributes that some subscription names."""
        families = (family.attributes for _, _, family in self.families)
        return {column.attribute for column in self.columns}.union(*families)

    @property
    def conjunction_count(self) -> int:
        """The distinct conjunctions."""
        return self.owners.owner.size

    @property
    def index_bytes(self) -> int:
        """Bytes of the index: everything but the ids, texts, weights and tags of subscriptions."""
        said = ("ids.", "texts.", "extras.", "tags.", "id_order")
        return sum(array.nbytes for name, array in self.container().arrays.items() if not name.startswith(said))

    @cached
    def is_one_to_one(self) -> bool:
        """Whether each conjunction has the number of its only subscription."""
        return np.array_equal(self.owners.owner, np.arange(self.conjunction_count))

    @cached
    def same_score(self) -> float | None:
        """The score that all subscriptions were given, if they were given the same."""
        scores = self.scores
        return float(scores[0]) if scores.size and (scores == scores[0]).all() else None

    def find(self, id: str) -> int | None:
        """The number of the subscription with this id. O(log n)."""
        order = self.id_order
        place = bisect_left(range(order.size), id, key=lambda rank: self.ids[int(order[rank])])
        if place < order.size and self.ids[int(order[place])] == id:
            return int(order[place])
        return None

    def subscription(self, number: int) -> Subscription:
        """A subscription as it was given."""
        extras = json.loads(self.extras[number] or "{}")
        return Subscription(self.ids[number], self.texts[number], float(self.scores[number]), **extras)

    def tagged(self, tags: Sequence[tuple[str, str]]) -> npt.NDArray[np.bool_]:
        """Whether each subscription has all these tags."""
        return self.tags.having(tags, len(self))

    def match(
        self,
        batch: EventBatch,
        dropped: npt.NDArray[np.bool_] = NO_BOOLS,
        judged: Mapping[int, Probed] | None = None,
    ) -> tuple[Slices, Evidence]:
        """The subscriptions of each event, without those `dropped` (empty: none is).

        `judged` has the families, by place, that were judged elsewhere: those on the history.
        """
        events, evidence = self.encode(batch, judged or {})
        return self.match_encoded(batch, events, evidence, dropped), evidence

    def match_encoded(
        self,
        batch: EventBatch,
        events: Events,
        evidence: Evidence,
        dropped: npt.NDArray[np.bool_],
        by_pairs: tuple[Int32, int] | None = None,
    ) -> Slices:
        """The same for events that are encoded; `evidence` takes the work and its time.

        `by_pairs` has the pairs by ranges and the candidates for them, if they are found already.
        """
        start = time.perf_counter()
        pairs = self._found(batch, events, evidence, by_pairs)
        if self.is_one_to_one and dropped.size == 0:
            starts, values = group_conjunctions(pairs, len(batch))
        else:
            starts, values = group_by_event(pairs, self.owners, dropped, self.several, len(batch))
        evidence.matches = values.size
        evidence.match_s += time.perf_counter() - start
        return Slices(starts, values)

    def match_subscriptions(
        self, batch: EventBatch, judged: Mapping[int, Probed] | None = None
    ) -> tuple[Int32, Evidence]:
        """The (event, subscription) pairs that match, in no order; one with several conjunctions may come again."""
        events, evidence = self.encode(batch, judged or {})
        start = time.perf_counter()
        pairs = self._found(batch, events, evidence)
        evidence.match_s += time.perf_counter() - start
        return pairs_with_owners(pairs, self.owners), evidence

    def encode(self, batch: EventBatch, judged: Mapping[int, Probed]) -> tuple[Events, Evidence]:
        """Phase 1 for a batch, and the evidence of it."""
        start = time.perf_counter()
        evidence = Evidence(events=len(batch))
        if self.needs_codes:
            events = encode(self.columns, self.families, batch, judged, evidence)
        else:
            events = encode_short(self.columns, batch, evidence)
        evidence.encode_s = time.perf_counter() - start
        return events, evidence

    def codes_of(self, batch: EventBatch) -> CodesOf:
        """How to get the codes of some events of a batch."""
        return lambda rows: codes_of(self.columns, batch, rows)

    def _found(
        self, batch: EventBatch, events: Events, evidence: Evidence, by_pairs: tuple[Int32, int] | None = None
    ) -> Int32:
        """The (event, conjunction) pairs that match, in no order."""
        if isinstance(self.matcher, AutoMatcher):
            pairs, candidates = self.matcher.match(events, self.codes_of(batch), by_pairs)
        else:
            pairs, candidates = self.matcher.match(events)
        evidence.candidates = int(candidates)  # uncompiled kernels count with NumPy's integers
        return pairs

    def container(self) -> Container:
        """The segment as named arrays, for a file."""
        algorithms = [self.matcher.index, self.matcher.matcher] if isinstance(self.matcher, TwoPhaseMatcher) else None
        names = ("id_order", "scores", "several", "never", "unindexed", "history_demands")
        arrays: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in names}
        arrays |= {f"owners.{name}": array for name, array in self.owners._asdict().items()}
        for name, strings in (("ids", self.ids), ("texts", self.texts), ("extras", self.extras)):
            arrays |= {f"{name}.offsets": strings.offsets, f"{name}.bytes": strings.data}
        for place, column in enumerate(self.columns):
            arrays |= column.domain.arrays(f"domain.{place}")
        for place, (_, _, family) in enumerate(self.families):
            arrays |= {f"family.{place}.{name}": array for name, array in family.arrays().items()}
        prefix = "two_phase." if algorithms else ""
        arrays |= {f"{prefix}{name}": array for name, array in self.matcher.arrays().items()}
        arrays |= {f"tags.{name}": array for name, array in self.tags.arrays().items()}
        meta = {
            "columns": [[column.attribute, column.kind.value, _marks(column.ruler)] for column in self.columns],
            "needs_codes": self.needs_codes,
            "families": [[name, attribute] for name, attribute, _ in self.families],
            "two_phase": algorithms,
        }
        return Container(arrays, meta)

    @classmethod
    def of(cls, container: Container) -> "Segment":
        """The segment that a container holds, without copying its arrays."""
        arrays, meta = container.arrays, container.meta
        columns = []
        for place, (attribute, kind, marks) in enumerate(meta["columns"]):
            domain = Domain.from_arrays(Kind(kind), f"domain.{place}", arrays)
            columns.append(Column(attribute, Kind(kind), domain, Ruler(*marks) if marks else None))
        families = []
        for place, (name, attribute) in enumerate(meta["families"]):
            family = FAMILIES[name].from_arrays(attribute, _under(f"family.{place}.", arrays))
            families.append((name, attribute, family))
        matcher: AutoMatcher | TwoPhaseMatcher
        if meta["two_phase"] is None:
            matcher = AutoMatcher.from_arrays(arrays)
        else:
            matcher = TwoPhaseMatcher.from_arrays(_under("two_phase.", arrays), *meta["two_phase"])
        strings = {
            name: Strings(arrays[f"{name}.offsets"], arrays[f"{name}.bytes"]) for name in ("ids", "texts", "extras")
        }
        return cls(
            **strings,
            id_order=arrays["id_order"],
            scores=arrays["scores"],
            columns=columns,
            needs_codes=meta["needs_codes"],
            families=families,
            matcher=matcher,
            owners=Owners(*(arrays[f"owners.{name}"] for name in Owners._fields)),
            several=arrays["several"],
            history_demands=arrays["history_demands"],
            tags=TagIndex.from_arrays(_under("tags.", arrays)),
            never=arrays["never"],
            unindexed=arrays["unindexed"],
        )

    def check(self) -> None:
        """Assert what matching relies on."""
        self.matcher.check()
        owner, starts, members = self.owners
        assert max(owner.max(initial=-1), members.max(initial=-1)) < len(self), "each owner is a subscription"
        assert (~owner[owner < 0]).tolist() == list(range(starts.size - 1)), "each list of owners has a conjunction"
        assert (np.diff(starts) > 1).all(), "a list has several owners: one alone stands with its conjunction"
        assert starts[-1] == members.size, "the last list ends with the members"
        assert len(self.ids) == len(self.texts) == self.scores.size, "each subscription has an id, a text and a score"


def _history_demands(conjunctions: Conjunctions, tests: NumberedTests, owner: Int32, number: Int32) -> Int32:
    """Rows (test, subscription, conjunction) of the tests on the history; `number` has the distinct conjunctions."""
    demanded = tests.on_history[conjunctions.test] & (number[conjunctions.test_conjunction] >= 0)
    first = np.flatnonzero(tests.on_history)[:1].sum()
    test, conjunction = conjunctions.test[demanded] - first, conjunctions.test_conjunction[demanded]
    return np.stack([test, owner[conjunction], number[conjunction]], axis=1).astype(np.int32)


def _marks(ruler: Ruler | None) -> list[float | bool] | None:
    return [ruler.origin, ruler.marks_a_unit, ruler.logarithmic] if ruler is not None else None


def _under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
