"""A segment: an immutable set of subscriptions with its index, as named arrays that a file can hold."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, Ragged, Strings
from tocsin.conjunctions.boolean.build import cover_of
from tocsin.conjunctions.boolean.match import Trees
from tocsin.conjunctions.choose import of_tests_alone
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.dedupe import share
from tocsin.conjunctions.owners import (
    Owners,
    events_of,
    group_by_event,
    group_conjunctions,
    owners_of_lists,
    pairs_with_owners,
    subscriptions_of_one,
    without,
)
from tocsin.conjunctions.pairs.build import crowded
from tocsin.conjunctions.pairs.kernels import FOUND
from tocsin.conjunctions.protocol import CodesOf, ConjunctionIndex, Extent, Filing, Pairs
from tocsin.conjunctions.runs import pairs_of
from tocsin.forks import cached
from tocsin.index.build import (
    code_columns,
    conjunctions_of,
    family_type,
    number_tests,
    rarest_test,
    spread_of_events,
)
from tocsin.index.combined_tests import CombinedTests, combine_tests
from tocsin.index.encoding import Column, codes_of, encode, encode_short
from tocsin.index.event_lane import EventLane
from tocsin.index.form import FORM_VERSION, StoredForm
from tocsin.index.intake import SubscriptionRows, unpacked
from tocsin.index.options import Options
from tocsin.index.rare_attributes import RareRanges, ranges_to_tests, rare_attributes
from tocsin.index.tags import TagIndex
from tocsin.invariants import (
    check_ascending,
    check_fields,
    check_starts,
    check_strings,
    check_type,
    check_within,
    demand,
    giving_back,
    step_done,
    under,
)
from tocsin.language.normal_form import NormalForm
from tocsin.language.utility import has_utility
from tocsin.model.events import Event, EventBatch
from tocsin.model.expression_tree import given_attributes
from tocsin.model.limits import TENANT_TAG
from tocsin.model.predicate import Test
from tocsin.model.result import Evidence
from tocsin.model.subscription import Subscription
from tocsin.model.values import Kind
from tocsin.predicates.families import Family, Probed
from tocsin.predicates.ranges.domain import Domain
from tocsin.predicates.ranges.quantize import Quantizer
from tocsin.registry import by_reference, conjunction_index
from tocsin.storage.container import Container, MappedArrays, reading

NO_BOOLS = np.empty(0, np.bool_)
_NO_NUMBERS = np.empty(0, np.int32)


@dataclass(frozen=True)
class Segment:
    """Subscriptions 0 to n - 1 and everything that is needed to match them. Never changed."""

    ids: Strings
    """Ascending: subscriptions are numbered in the order of their ids."""
    texts: Strings
    scores: Float64s
    extras: Strings
    """JSON of what few subscriptions have: weights and tags; empty text for most."""
    form: StoredForm
    columns: list[Column]
    needs_codes: bool
    """Whether short codes leave more to decide than the ends of ranges, or leave many events on the same end."""
    families: list[tuple[str, str, Family]]
    rare: RareRanges
    """The ranges on rare attributes; their columns are the last of `columns`, which have no codes in `Events`."""
    combined: CombinedTests
    test_null_column: Int32s
    """For each test, the column whose NULL makes the test NULL; -1: phase 1 says which tests are NULL."""
    algorithms: tuple[str, str]
    """The names of the phase 1 index and the phase 2 matcher."""
    index: ConjunctionIndex
    owners: Owners
    """The subscriptions of each conjunction: equal conjunctions are stored and evaluated once."""
    several: Bools
    """Whether a subscription has several conjunctions; empty if none has."""
    trees: Trees
    """The subscriptions that are trees of conjunctions; only some of their conjunctions are in the index."""
    history_demands: Int32s
    """Rows (test, subscription, conjunction): who demands which test on the history, as their family numbers it. The
    conjunction is -1 for the tests of a tree."""
    tags: TagIndex
    with_utility: Int32s
    """Subscriptions whose alternatives have a utility each, ascending."""
    never: Int32s
    """Subscriptions that can never match."""
    unindexed: Int32s
    """Subscriptions with a conjunction that no predicate helps to find: every event verifies it."""

    @classmethod
    def build(cls, rows: SubscriptionRows, form: NormalForm, options: Options) -> "Segment":
        """Build from subscriptions, whose ids ascend, and their normal form."""
        if options.matcher == "reference":
            segment = cls.build(rows, form, replace(options, index="auto", matcher="auto"))
            return cast(Segment, by_reference().judged_by_reference(segment, options))
        names = rare_attributes(form) if options.is_auto else set()
        coded = code_columns(form, names)
        tests = number_tests(form, options)
        said = conjunctions_of(form, coded, tests)
        all_columns = [Column(column.attribute, column.kind, column.domain) for column in coded]
        common = sum(column.attribute not in names for column in coded)
        conjunctions, rare = ranges_to_tests(said, all_columns, common)
        columns = coded[:common]
        on_history = np.append(tests.on_history, np.zeros(rare.count, bool))
        selective = np.append(tests.selective, np.ones(rare.count, bool))
        filed_under = rarest_test(conjunctions, selective)
        owner = form.owner
        alone = of_tests_alone(conjunctions, filed_under, on_history) & options.is_auto
        shares = spread_of_events(columns) + [np.array([0.0, 1.0])] * len(tests.families)
        trees, filed = _plant(form, conjunctions, shares, selective, len(rows.ids))
        combined, together = combine_tests(
            conjunctions, shares, (filed_under < 0) & filed & options.is_auto, ~on_history, selective.size
        )
        filed_under = np.where(together >= 0, together, filed_under)
        shared = share(conjunctions, owner, alone, filed)
        filed_under = filed_under[shared.representatives]
        quantizers = [Quantizer.of(column.domain) if options.is_auto else None for column in columns]
        short = {place: cut.of_codes(columns[place].domain) for place, cut in enumerate(quantizers) if cut}
        named = np.bincount(conjunctions.test, minlength=selective.size)
        algorithms = (options.index, options.matcher)
        filing = Filing(
            shared.conjunctions,
            split=int(np.count_nonzero(~alone[shared.representatives])),
            popularity=shares,
            test=filed_under,
            frequency=np.where(selective, named, conjunctions.test.size + 1.0),
            short=short,
            on_history=on_history,
            algorithms=algorithms,
        )
        index = conjunction_index(*algorithms).build(filing)
        if index.pairs is not None and index.pairs.postings.starts[-1] == 0:
            quantizers = [None] * len(columns)  # nothing reads short codes
        counts = np.bincount(owner[shared.number >= 0], minlength=len(rows.ids))
        kept = shared.conjunctions
        lost = (np.bincount(kept.conjunction, minlength=kept.count) == 0) & (filed_under < 0)
        lost = np.append(lost, False)[shared.number]
        return cls(
            ids=Strings.of(rows.ids),
            texts=Strings.of(rows.texts),
            scores=np.asarray(rows.scores, np.float64),
            extras=Strings.of(rows.extras),
            form=StoredForm.of(said, form, tests.tests),
            columns=[
                Column(column.attribute, column.kind, column.domain, quantizer)
                for column, quantizer in zip(columns, quantizers, strict=True)
            ]
            + all_columns[common:],
            needs_codes=(
                index.needs_codes
                or bool(tests.families)
                or len(trees) > 0
                or any(crowded(shared.conjunctions, place, of_codes) for place, of_codes in short.items())
            ),
            families=tests.families,
            rare=rare,
            combined=combined,
            test_null_column=said.test_null_column,
            algorithms=algorithms,
            index=index,
            owners=shared.owners.with_blocks(index.found_as_one),
            several=counts > 1 if (counts > 1).any() else NO_BOOLS,
            trees=trees,
            history_demands=_history_demands(conjunctions, on_history, form, shared.number),
            tags=TagIndex.build(rows.extras),
            with_utility=np.array([n for n, text in enumerate(rows.texts) if has_utility(text)], np.int32),
            never=np.array(form.never, np.int32),
            unindexed=np.unique(np.append(owner[lost], trees.everywhere)),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def attributes(self) -> set[str]:
        """The attributes that some subscription names, those inside expressions among them."""
        families = (family.attributes for _, _, family in self.families)
        return given_attributes({column.attribute for column in self.columns}.union(*families))

    @property
    def common_columns(self) -> list[Column]:
        """The columns that events have codes for: all but those of rare attributes."""
        return self.columns[: len(self.columns) - len(self.rare.columns)]

    @property
    def conjunction_count(self) -> int:
        """The distinct conjunctions."""
        return self.owners.owner.size - len(self.index.found_as_one or ())

    @property
    def index_bytes(self) -> int:
        """Bytes of the index: everything but the subscriptions themselves, as they were given and in normal form."""
        said = ("ids.", "texts.", "extras.", "tags.", "form.")
        stored = sum(array.nbytes for name, array in self.container().arrays.items() if not name.startswith(said))
        return stored + sum(self.index.derived_bytes().values())

    @cached
    def is_one_to_one(self) -> bool:
        """Whether each conjunction has the number of its only subscription."""
        return np.array_equal(self.owners.owner, np.arange(self.owners.owner.size))

    @cached
    def lane(self) -> EventLane:
        """What encodes single events."""
        return EventLane(self.common_columns, self.families, self.rare, self.combined)

    @cached
    def same_score(self) -> float | None:
        """The score that all subscriptions were given, if they were given the same."""
        scores = self.scores
        return float(scores[0]) if scores.size and (scores == scores[0]).all() else None

    @cached
    def tenants(self) -> tuple[list[str], Int32s]:
        """The tenants, and the place among them of each subscription's, -1 if it has none."""
        return self.tags.values(TENANT_TAG, len(self))

    def find(self, id: str) -> int | None:
        """The number of the subscription with this id. O(log n)."""
        return self.ids.find(id)

    def subscription(self, number: int) -> Subscription:
        """A subscription as it was given."""
        extras = unpacked(self.extras[number])
        return Subscription(self.ids[number], self.texts[number], float(self.scores[number]), **extras)

    def extras_at(self, numbers: Int64s) -> list[str]:
        """The weights and tags of some subscriptions, as JSON that `unpacked` reads."""
        texts: list[str] = self.extras.arrow().take(pa.array(numbers)).to_pylist()
        for text in texts:
            unpacked(text)
        return texts

    def normal_form(self, numbers: Int32s) -> NormalForm:
        """The normal form of some subscriptions, as if they were parsed in this order."""
        return self.form.normal_form(numbers, self.columns)

    def definition(self, test: int) -> Test:
        """The test with this number among those of the normal form."""
        return self.form.definition(test)

    def conjunctions(self) -> Conjunctions:
        """The conjunctions of all subscriptions, those that the index does without among them."""
        last_codes = [column.domain.last for column in self.columns] + [0] * len(self.families)
        return self.form.conjunctions(np.array(last_codes, np.int32), self.test_null_column)

    def tagged(self, tags: Sequence[tuple[str, str]]) -> Bools:
        """Whether each subscription has all these tags."""
        return self.tags.having(tags, len(self))

    def match(
        self,
        batch: EventBatch,
        dropped: Bools = NO_BOOLS,
        judged: Mapping[int, Probed] | None = None,
    ) -> tuple[Ragged, Evidence]:
        """The subscriptions of each event, without those `dropped` (empty: none is).

        `judged` has the families, by place, that were judged elsewhere: those on the history.
        """
        if batch.single is not None:
            evidence = Evidence(events=1)
            numbers = self.match_one(batch.single, batch, dropped, judged or {}, evidence)
            # Kernels that order the rows are compiled for whole arrays, not for a column of pairs.
            return Ragged(np.array([0, numbers.size]), np.ascontiguousarray(numbers)), evidence
        events, evidence = self.encode(batch, judged or {})
        return self.match_encoded(batch, events, evidence, dropped), evidence

    def match_encoded(
        self,
        batch: EventBatch,
        events: Events,
        evidence: Evidence,
        dropped: Bools,
        by_pairs: Pairs | None = None,
    ) -> Ragged:
        """The same for events that are encoded; `evidence` takes the work and its time.

        `by_pairs` has the pairs by ranges and the candidates for them, if they are found already.
        """
        start = time.perf_counter()
        in_lists = self.index.match_lists(events, self.codes_of(batch), by_pairs)
        if in_lists is None:
            pairs = self._found(batch, events, evidence, by_pairs)
            if self.is_one_to_one and dropped.size == 0:
                starts, values = group_conjunctions(pairs, len(batch))
            else:
                starts, values = group_by_event(pairs, self.owners, dropped, self.several, len(batch))
        else:
            lists, (others, verified) = in_lists
            evidence.candidates = int(verified)
            owned = self._owners_of(lists, others, dropped)
            starts, values = owned.starts, owned.values
        if len(self.trees):
            stands, verified = self.trees.verify(events_of(starts, 0), values, events)
            evidence.candidates += verified
            if stands is not None:
                values = values[stands]
                starts = np.append(0, np.cumsum(stands))[starts]
        if self.trees.everywhere.size:
            found, verified = self.trees.match_everywhere(events, dropped)
            evidence.candidates += verified
            filed = np.stack([events_of(starts, 0), values], axis=1)
            starts, values = group_conjunctions(np.concatenate([filed, found]).astype(np.int32), len(batch))
        evidence.matches = values.size
        evidence.match_s += time.perf_counter() - start
        return Ragged(starts, values)

    def match_one(
        self, event: Event, batch: EventBatch, dropped: Bools, judged: Mapping[int, Probed], evidence: Evidence
    ) -> Int32s:
        """The subscriptions of the event of a batch of one, in no order; `evidence` takes what `match` returns."""
        if len(self.trees):
            events, work = self.encode(batch, judged)
            numbers = self.match_encoded(batch, events, work, dropped).values
            evidence.add_segment(work)
            return numbers
        pairs, lists = self._found_for_one(event, batch, judged, evidence)
        if lists is not None:
            numbers = self._owners_of(lists, pairs, dropped).values
        elif self.is_one_to_one:
            numbers = pairs[:, FOUND]
            if dropped.size:
                numbers = numbers[~dropped[numbers]]
        elif len(pairs):
            numbers = subscriptions_of_one(pairs, self.owners, dropped, self.several)
        else:
            numbers = _NO_NUMBERS
        evidence.matches += numbers.size
        return numbers

    def match_subscriptions(
        self, batch: EventBatch, judged: Mapping[int, Probed] | None = None
    ) -> tuple[Int32s, Evidence]:
        """The (event, subscription) pairs that match, in no order; one with several conjunctions may come again."""
        if batch.single is not None and not len(self.trees):
            evidence = Evidence(events=1)
            pairs, lists = self._found_for_one(batch.single, batch, judged or {}, evidence)
            pairs = pairs if lists is None else np.concatenate([pairs, pairs_of(lists)])
            return pairs_with_owners(pairs, self.owners), evidence
        events, evidence = self.encode(batch, judged or {})
        start = time.perf_counter()
        pairs = pairs_with_owners(np.ascontiguousarray(self._found(batch, events, evidence)), self.owners)
        if len(self.trees):
            stands, verified = self.trees.verify(pairs[:, 0], pairs[:, 1], events)
            evidence.candidates += verified
            pairs = pairs if stands is None else pairs[stands]
        if self.trees.everywhere.size:
            found, verified = self.trees.match_everywhere(events, NO_BOOLS)
            evidence.candidates += verified
            pairs = np.concatenate([pairs, found])
        evidence.match_s += time.perf_counter() - start
        return pairs, evidence

    def encode(self, batch: EventBatch, judged: Mapping[int, Probed]) -> tuple[Events, Evidence]:
        """Phase 1 for a batch, and the evidence of it."""
        start = time.perf_counter()
        evidence = Evidence(events=len(batch))
        if batch.single is not None:
            events = self.lane.encode(batch.single, batch, judged, evidence).events
        elif self.needs_codes:
            events = self.encode_in_full(batch, judged, evidence)
        else:
            events = encode_short(self.common_columns, batch, evidence, self.rare.probe(batch, evidence))
        evidence.encode_s = time.perf_counter() - start
        return events, evidence

    def encode_in_full(self, batch: EventBatch, judged: Mapping[int, Probed], evidence: Evidence) -> Events:
        """Phase 1 for a batch, with full codes; `evidence` takes what could not be read."""
        rare = self.rare.probe(batch, evidence)
        return encode(self.common_columns, self.families, batch, judged, evidence, rare, self.combined)

    def codes_of(self, batch: EventBatch) -> CodesOf:
        """How to get the codes of some events of a batch."""
        return lambda rows: codes_of(self.common_columns, batch, rows)

    def _found(self, batch: EventBatch, events: Events, evidence: Evidence, by_pairs: Pairs | None = None) -> Int32s:
        """The (event, conjunction) pairs that match, in no order."""
        before = self.index.evaluations
        pairs, candidates = self.index.match(events, self.codes_of(batch), by_pairs)
        evidence.candidates = int(candidates)  # uncompiled kernels count with NumPy's integers
        evidence.evaluations += self.index.evaluations - before
        return pairs

    def _owners_of(self, lists: Ragged, pairs: Int32s, dropped: Bools) -> Ragged:
        """The subscriptions of conjunctions in lists and in pairs; the lists may be overwritten."""
        if not self.is_one_to_one or len(pairs):
            return Ragged(*owners_of_lists(lists, pairs, self.owners, dropped, self.several))
        return Ragged(*without(dropped, lists)) if dropped.size else lists

    def _found_for_one(
        self, event: Event, batch: EventBatch, judged: Mapping[int, Probed], evidence: Evidence
    ) -> tuple[Int32s, Ragged | None]:
        """Do both phases for a batch of one event; return pairs, and the list of what is found in a row, if any is."""
        start = time.perf_counter()
        encoded = self.lane.encode(event, batch, judged, evidence)
        middle = time.perf_counter()
        before = self.index.evaluations
        in_lists = self.index.match_lists(encoded.events) if self.index.expects_many else None
        lists, (pairs, candidates) = in_lists or (None, self.index.match(encoded.events))
        self.lane.give_back(encoded)
        evidence.candidates += int(candidates)
        evidence.evaluations += self.index.evaluations - before
        evidence.encode_s += middle - start
        evidence.match_s += time.perf_counter() - middle
        return pairs, lists

    def container(self) -> Container:
        """The segment as named arrays, for a file."""
        names = ("scores", "several", "never", "unindexed", "history_demands", "test_null_column")
        arrays: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in names}
        if self.with_utility.size:
            arrays["with_utility"] = self.with_utility
        arrays |= {f"owners.{name}": array for name, array in self.owners._asdict().items()}
        for name, strings in (("ids", self.ids), ("texts", self.texts), ("extras", self.extras)):
            arrays |= {f"{name}.offsets": strings.offsets, f"{name}.bytes": strings.data}
        arrays |= {f"form.{name}": array for name, array in self.form.arrays().items()}
        for place, column in enumerate(self.columns):
            arrays |= column.domain.arrays(f"domain.{place}")
        for place, (_, _, family) in enumerate(self.families):
            arrays |= {f"family.{place}.{name}": array for name, array in family.arrays().items()}
        arrays |= {f"conjunctions.{name}": array for name, array in self.index.arrays().items()}
        arrays |= {f"trees.{name}": array for name, array in self.trees.arrays().items()}
        arrays |= {f"combined.{name}": array for name, array in self.combined.arrays().items()}
        arrays |= {f"rare.{name}": array for name, array in self.rare.arrays().items()}
        arrays |= {f"tags.{name}": array for name, array in self.tags.arrays().items()}
        meta = {
            "columns": [[column.attribute, column.kind.value, _steps(column.quantizer)] for column in self.columns],
            "rare": len(self.rare.columns),
            "needs_codes": self.needs_codes,
            "families": [[name, attribute] for name, attribute, _ in self.families],
            "algorithms": self.algorithms,
            "form_version": FORM_VERSION,
        }
        return Container(arrays, meta)

    @classmethod
    def of(cls, container: Container) -> "MappedSegment":
        """The segment that a container holds, without copying its arrays."""
        return MappedSegment(container)

    def check_arrays(self) -> None:
        """Demand what keeps the kernels that match within their arrays: once, of a segment from a file."""
        count, conjunctions = len(self), self.owners.owner.size
        check_strings("ids", self.ids)
        ids = self.ids.arrow()
        demand(pc.all(pc.less(ids[:-1], ids[1:])).as_py() is not False, "ids.bytes", "ids do not ascend")
        for name, dtype in (
            ("scores", np.float64),
            ("several", np.bool_),
            ("never", np.int32),
            ("unindexed", np.int32),
            ("with_utility", np.int32),
        ):
            check_type(name, getattr(self, name), dtype)
        demand(self.scores.size == count, "scores", "not each subscription has one")
        demand(self.several.size in (0, count), "several", "not each subscription has one")
        for name in ("never", "unindexed", "with_utility"):
            check_within(name, getattr(self, name), 0, count)
        check_ascending("with_utility", self.with_utility)
        for place, column in enumerate(self.columns):
            with under(f"domain.{place}."):
                column.domain.check_arrays()
        for place, (_, _, family) in enumerate(self.families):
            with under(f"family.{place}."):
                family.check_arrays()
        tests = sum(family.count for _, _, family in self.families)
        all_columns = len(self.columns) + len(self.families) + 1
        columns = all_columns - len(self.rare.columns)
        with under("rare."):
            self.rare.check_arrays()
        with under("combined."):
            self.combined.check_arrays(tests + self.rare.count)
        with under("owners."):
            check_fields(Owners, self.owners)
            check_within("owner", self.owners.owner, -(self.owners.starts.size - 1), count)
            check_starts("starts", self.owners.starts, self.owners.starts.size - 1, self.owners.members.size)
            check_within("members", self.owners.members, 0, count)
        with under("conjunctions."):
            self.index.check_arrays(Extent(columns, conjunctions))
        with under("trees."):
            self.trees.check_arrays(columns, count)
        with under("tags."):
            self.tags.check_arrays(count)
        check_type("test_null_column", self.test_null_column, np.int32)
        # The reference judges whole subscriptions, as tests that no conjunction names.
        known = tests - (count if self.algorithms[1] == "reference" else 0)
        demand(self.test_null_column.size == known, "test_null_column", f"it has not {known} entries")
        check_within("test_null_column", self.test_null_column, -1, all_columns)
        self._check_demands(conjunctions)
        short_only = not (self.families or len(self.combined) or len(self.trees) or self.index.needs_codes)
        demand(self.needs_codes or short_only, "needs_codes", "the codes of all events are needed")

    def _check_demands(self, conjunctions: int) -> None:
        check_type("history_demands", self.history_demands, np.int32, 3)
        on_history = sum(family.count for name, _, family in self.families if name == "history")
        for field, low, high in ((0, 0, on_history), (1, 0, len(self)), (2, -1, conjunctions)):
            check_within("history_demands", self.history_demands[:, field], low, high)

    def check(self) -> None:
        """Assert what matching relies on."""
        self.index.check()
        self.rare.check()
        self.combined.check()
        self.trees.check()
        owner, starts, members = self.owners
        assert max(owner.max(initial=-1), members.max(initial=-1)) < len(self), "each owner is a subscription"
        assert (~owner[owner < 0]).tolist() == list(range(starts.size - 1)), "each list of owners has a conjunction"
        assert (np.diff(starts) > 1).all(), "a list has several owners: one alone stands with its conjunction"
        assert starts[-1] == members.size, "the last list ends with the members"
        assert (np.diff(self.form.owner) >= 0).all(), "stored conjunctions are sorted by subscription"
        ids = self.ids.arrow()
        assert pc.all(pc.less(ids[:-1], ids[1:])).as_py() is not False, "ids ascend"
        assert len(self.ids) == len(self.texts) == self.scores.size, "each subscription has an id, a text and a score"


class MappedSegment(Segment):
    """A segment whose arrays are those of a file; all raise StorageError that names the file and the array.

    What matching reads is compared with its checksums, checked and put in place when the first of it is asked for. What
    subscribers said and its normal form, most of a file, follow when they are asked for.
    """

    def __init__(self, container: Container) -> None:
        self.__dict__["_container"] = container

    def __getattr__(self, name: str) -> Any:
        if name not in Segment.__dataclass_fields__:
            raise AttributeError(name)
        container: Container = self.__dict__["_container"]
        with self._reading(), self._giving_back():
            if name in ("texts", "extras"):
                fields: dict[str, Any] = {name: self._said(name, container.arrays)}
            elif name == "form":
                fields = {name: self._form(container.arrays)}
            else:
                fields = _matching_fields(container)
                checked = object.__new__(Segment)
                checked.__dict__.update(fields)
                checked.check_arrays()
        # Only now: no thread sees an array that is not checked.
        self.__dict__.update(fields)
        return fields[name]

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        """Say of whatever goes wrong that the file is damaged; the segment inside a family is named by its holder."""
        path = self.__dict__["_container"].path
        return contextlib.nullcontext() if path is None else reading(path)

    def normal_form(self, numbers: Int32s) -> NormalForm:
        """The normal form of some subscriptions, as if they were parsed in this order."""
        with self._reading():
            return super().normal_form(numbers)

    def subscription(self, number: int) -> Subscription:
        """A subscription as it was given."""
        with self._reading():
            return super().subscription(number)

    def extras_at(self, numbers: Int64s) -> list[str]:
        """The weights and tags of some subscriptions, as JSON that `unpacked` reads."""
        with self._reading():
            return super().extras_at(numbers)

    def definition(self, test: int) -> Test:
        """The test with this number among those of the normal form."""
        with self._reading():
            return super().definition(test)

    def _giving_back(self) -> contextlib.AbstractContextManager[None]:
        """Give back the pages that each step of a check has read, if the index is meant to exceed memory."""
        arrays = self.__dict__["_container"].arrays
        return giving_back(arrays.give_back) if self._exceeds_memory else contextlib.nullcontext()

    @cached
    def _exceeds_memory(self) -> bool:
        """Whether the index is meant to. Looked up once: for each single event it cost 10 of 240 µs."""
        container: Container = self.__dict__["_container"]
        is_mapped = isinstance(container.arrays, MappedArrays)
        return is_mapped and conjunction_index(*container.meta["algorithms"]).stays_on_disk

    def _found(self, batch: EventBatch, events: Events, evidence: Evidence, by_pairs: Pairs | None = None) -> Int32s:
        if not self._exceeds_memory:
            return super()._found(batch, events, evidence, by_pairs)
        with self._giving_back():
            pairs = super()._found(batch, events, evidence, by_pairs)
            step_done()
        return pairs

    def _found_for_one(
        self, event: Event, batch: EventBatch, judged: Mapping[int, Probed], evidence: Evidence
    ) -> tuple[Int32s, Ragged | None]:
        if not self._exceeds_memory:
            return super()._found_for_one(event, batch, judged, evidence)
        with self._giving_back():
            found = super()._found_for_one(event, batch, judged, evidence)
            step_done()
        return found

    def verify(self, everything: bool) -> None:
        """Check what matching reads now; with `everything`, all that the file holds."""
        for name in ("ids", "texts", "extras", "form") if everything else ("ids",):
            getattr(self, name)
        if everything:
            arrays = self.__dict__["_container"].arrays
            for name in arrays:
                arrays[name]

    def _said(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Strings:
        said = Strings(arrays[f"{name}.offsets"], arrays[f"{name}.bytes"])
        check_strings(name, said)
        demand(len(said) == len(self), f"{name}.offsets", f"it has {len(said)} entries, not {len(self)}")
        return said

    def _form(self, arrays: Mapping[str, npt.NDArray[Any]]) -> StoredForm:
        form = StoredForm.from_arrays(_under("form.", arrays))
        last_codes = [column.domain.last for column in self.columns] + [0] * len(self.families)
        with under("form."):
            form.check_arrays(np.array(last_codes, np.int32), self.test_null_column.size, len(self))
        return form


def _matching_fields(container: Container) -> dict[str, Any]:
    """The fields of a segment that matching reads, not checked yet."""
    arrays, meta = container.arrays, container.meta
    columns = []
    for place, (attribute, kind, steps) in enumerate(meta["columns"]):
        domain = Domain.from_arrays(Kind(kind), f"domain.{place}", arrays)
        columns.append(Column(str(attribute), Kind(kind), domain, Quantizer.stored(steps) if steps else None))
    families = []
    for place, (name, attribute) in enumerate(meta["families"]):
        kind_of_family = by_reference().ReferenceFamily if name == "reference" else family_type(name)
        family = kind_of_family.from_arrays(attribute, _under(f"family.{place}.", arrays))
        families.append((name, attribute, family))
    index_name, matcher_name = algorithms = tuple(meta["algorithms"])
    index_type = conjunction_index(index_name, matcher_name)
    names = ("scores", "several", "never", "unindexed", "history_demands", "test_null_column")
    rare = meta.get("rare", 0)
    demand(type(rare) is int and 0 <= rare <= len(columns), "rare", "there are not so many columns")
    return {
        **{name: arrays[name] for name in names},
        "with_utility": arrays.get("with_utility", _NO_NUMBERS),
        "rare": RareRanges.from_arrays(columns[len(columns) - rare :], _under("rare.", arrays)),
        "combined": CombinedTests.from_arrays(_under("combined.", arrays)),
        "ids": Strings(arrays["ids.offsets"], arrays["ids.bytes"]),
        "columns": columns,
        "needs_codes": bool(meta["needs_codes"]),
        "families": families,
        "algorithms": algorithms,
        "index": index_type.from_arrays(_under("conjunctions.", arrays), algorithms),
        "owners": Owners(*(arrays[f"owners.{name}"] for name in Owners._fields)),
        "trees": Trees.from_arrays(_under("trees.", arrays)),
        "tags": TagIndex.from_arrays(_under("tags.", arrays)),
    }


def _plant(
    form: NormalForm, conjunctions: Conjunctions, popularity: list[Float64s], selective: Bools, count: int
) -> tuple[Trees, Bools]:
    """The trees of `count` subscriptions, and which conjunctions are filed."""
    leaf, *nesting = form.nesting
    if not leaf.size:
        return Trees.none(), np.ones(conjunctions.count, bool)
    owner, first = np.unique(form.owner[leaf], return_index=True)
    starts, opens_closes = np.append(first, leaf.size), (nesting[0], nesting[1])
    filed = cover_of(conjunctions, leaf, opens_closes, starts, popularity, selective)
    trees = Trees.build(conjunctions, leaf, opens_closes, starts, np.append(owner, count), filed)
    return trees, filed


def _history_demands(conjunctions: Conjunctions, on_history: Bools, form: NormalForm, number: Int32s) -> Int32s:
    """Rows (test, subscription, conjunction) of the tests on the history; `number` has the distinct conjunctions."""
    is_leaf = np.zeros(conjunctions.count, bool)
    is_leaf[form.nesting.leaf] = True
    number = np.where(is_leaf, -1, number)
    looked_at = is_leaf | (number >= 0)
    demanded = on_history[conjunctions.test] & looked_at[conjunctions.test_conjunction]
    first = np.flatnonzero(on_history)[:1].sum()
    test, conjunction = conjunctions.test[demanded] - first, conjunctions.test_conjunction[demanded]
    return np.stack([test, form.owner[conjunction], number[conjunction]], axis=1).astype(np.int32)


def _steps(quantizer: Quantizer | None) -> list[float | bool] | None:
    return [quantizer.origin, quantizer.steps_per_unit, quantizer.logarithmic] if quantizer is not None else None


def _under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
