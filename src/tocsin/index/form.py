"""The normal form of a segment's subscriptions as it is stored: what everything else is derived from.

A text is parsed once, when it comes in. Merging segments, explaining a match, ranking and filtering by the history read
this form back; none of them looks at the text again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int8s, Int32s, Int64s, Strings, UInt8s
from tocsin.conjunctions.boolean.kernels import MAX_LEVELS
from tocsin.conjunctions.coded import ANY_TRUTH, Conjunctions
from tocsin.index.encoding import Column
from tocsin.invariants import (
    BrokenInvariantError,
    check_ascending,
    check_fields,
    check_starts,
    check_strings,
    check_within,
    demand,
)
from tocsin.language.normal_form import Nesting, NormalForm, RangeColumn
from tocsin.model.codec import decode_test, encode_test
from tocsin.model.predicate import Accepts, Test, Tested
from tocsin.model.values import Kind

FORM_VERSION = 1
"""Goes up when the meaning of a stored form changes; `tocsin index upgrade` then parses the texts again."""


@dataclass(frozen=True)
class StoredForm:
    """The conjunctions of all subscriptions over the codes of the segment's columns.

    Conjunction c belongs to subscription `owner[c]`. It accepts the codes `low[i]` to `high[i]` of `column[i]` for the
    rows i from `starts[c]` to `starts[c + 1]`, sorted by column and low, and demands of test `test[i]` one of the truth
    values `accepts[i]`, for i from `test_starts[c]` to `test_starts[c + 1]`. Conjunctions that the index does without,
    since another one of the subscription covers them, are here.
    """

    owner: Int32s
    """Ascending."""
    starts: Int64s
    column: Int32s
    low: Int32s
    high: Int32s
    test_starts: Int64s
    test: Int32s
    accepts: Int8s
    leaf: Int32s
    opens: UInt8s
    closes: UInt8s
    """The conjunctions that are leaves of trees, see `Nesting`."""
    tests: Strings
    """The definition of each test as JSON."""

    @classmethod
    def of(cls, conjunctions: Conjunctions, form: NormalForm, tests: Sequence[Test]) -> "StoredForm":
        """Store the conjunctions that were made of a normal form."""
        numbers = np.arange(conjunctions.count + 1)
        return cls(
            owner=form.owner,
            starts=np.searchsorted(conjunctions.conjunction, numbers),
            column=conjunctions.column,
            low=conjunctions.low,
            high=conjunctions.high,
            test_starts=np.searchsorted(conjunctions.test_conjunction, numbers),
            test=conjunctions.test.astype(np.int32),
            accepts=conjunctions.test_accepts.astype(np.int8),
            **form.nesting._asdict(),
            tests=Strings.of([encode_test(test) for test in tests]),
        )

    def conjunctions(self, last_code: Int32s, test_null_column: Int32s) -> Conjunctions:
        """All conjunctions, as an index is built from them."""
        numbers = np.arange(self.owner.size, dtype=np.int32)
        return Conjunctions(
            count=self.owner.size,
            last_code=last_code,
            conjunction=np.repeat(numbers, np.diff(self.starts)),
            column=self.column,
            low=self.low,
            high=self.high,
            test_conjunction=np.repeat(numbers, np.diff(self.test_starts)),
            test=self.test,
            test_accepts=self.accepts.astype(np.int32),
            test_null_column=test_null_column,
        )

    def definition(self, test: int) -> Test:
        """The test with this number. It is read when it is asked for: only then is it known whether it can be."""
        try:
            return decode_test(self.tests[test])
        except Exception as error:
            raise BrokenInvariantError("form.tests.bytes", f"test {test} cannot be read: {error}") from error

    def normal_form(self, subscriptions: Int32s, columns: Sequence[Column]) -> NormalForm:
        """The normal form of some subscriptions, as if they were parsed in this order."""
        subscriptions = np.asarray(subscriptions, np.int32)
        first = np.searchsorted(self.owner, subscriptions)
        sizes = np.searchsorted(self.owner, subscriptions, side="right") - first
        chosen = _places(first, sizes)
        rows, row_owner = _rows(self.starts, chosen)
        by_column: dict[tuple[str, Kind], RangeColumn] = {}
        order = np.argsort(self.column[rows], kind="stable")
        rows, row_owner = rows[order], row_owner[order]
        ends = np.searchsorted(self.column[rows], np.arange(len(columns) + 1))
        for place, column in enumerate(columns):
            mine = slice(ends[place], ends[place + 1])
            if mine.start < mine.stop:
                of_column = _range_column(column, row_owner[mine], self.low[rows[mine]], self.high[rows[mine]])
                by_column[column.attribute, column.kind] = of_column
        test_rows, test_owner = _rows(self.test_starts, chosen)
        number = np.full(self.owner.size if self.leaf.size else 0, -1, np.int32)
        if self.leaf.size:
            number[chosen] = np.arange(chosen.size, dtype=np.int32)
        demanded = np.stack([self.test[test_rows], self.accepts[test_rows]], axis=1)
        distinct, test_id = np.unique(demanded, axis=0, return_inverse=True)
        return NormalForm(
            texts=subscriptions.size,
            owner=np.repeat(np.arange(subscriptions.size, dtype=np.int32), sizes),
            columns=dict(sorted(by_column.items())),
            tests=[Tested(self.definition(test), Accepts(accepts)) for test, accepts in distinct.tolist()],
            test_conjunction=test_owner,
            test_id=test_id.reshape(-1).astype(np.int32),
            errors={},
            never=np.flatnonzero(sizes == 0).tolist(),
            nesting=self.nesting.renumbered(number),
        )

    @property
    def nesting(self) -> Nesting:
        """How conjunctions form trees."""
        return Nesting(self.leaf, self.opens, self.closes)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        arrays = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "tests"}
        return arrays | {"tests.offsets": self.tests.offsets, "tests.bytes": self.tests.data}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "StoredForm":
        """The form that `arrays` came from, without copying."""
        fields = {name: arrays[name] for name in cls.__dataclass_fields__ if name != "tests"}
        return cls(**fields, tests=Strings(arrays["tests.offsets"], arrays["tests.bytes"]))

    def check_arrays(self, last_code: Int32s, tests: int, subscriptions: int) -> None:
        """Demand what keeps the kernels that read the form back within their arrays."""
        check_fields(StoredForm, self)
        check_strings("tests", self.tests)
        demand(len(self.tests) == tests, "tests.offsets", f"it has {len(self.tests)} tests, not {tests}")
        check_within("owner", self.owner, 0, subscriptions)
        demand(self.owner[1:] >= self.owner[:-1], "owner", "conjunctions are not sorted by subscription")
        check_starts("starts", self.starts, self.owner.size, self.column.size)
        check_starts("test_starts", self.test_starts, self.owner.size, self.test.size)
        check_within("column", self.column, 0, last_code.size)
        for name in ("low", "high"):
            codes = getattr(self, name)
            demand(codes.size == self.column.size, name, "not each range has one")
            demand((codes >= -1) & (codes <= last_code[self.column]), name, "a code is beyond its column")
        check_within("test", self.test, 0, tests)
        demand(self.accepts.size == self.test.size, "accepts", "not each test has some")
        check_within("accepts", self.accepts, 0, ANY_TRUTH + 1)
        self._check_nesting()

    def _check_nesting(self) -> None:
        check_within("leaf", self.leaf, 0, self.owner.size)
        check_ascending("leaf", self.leaf)
        for name in ("opens", "closes"):
            demand(getattr(self, name).size == self.leaf.size, name, "not each leaf has one")
        if not self.leaf.size:
            return
        opened, closed = np.cumsum(self.opens, dtype=np.int64), np.cumsum(self.closes, dtype=np.int64)
        depth = opened - np.append(0, closed[:-1])
        demand((depth > 0) & (depth <= MAX_LEVELS), "opens", "a leaf is in no node, or in too many")
        of_tree = self.owner[self.leaf]
        last = np.append(of_tree[1:] != of_tree[:-1], True)
        demand(opened[last] == closed[last], "closes", "a tree does not end with its last leaf")
        demand((opened >= closed).all(), "closes", "a node ends that has not begun")


def _places(first: Int64s, sizes: Int64s) -> Int64s:
    """The places `first[i]` to `first[i] + sizes[i]`, for one i after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(first - (ends - sizes), sizes) + np.arange(int(sizes.sum()))


def _rows(starts: Int64s, chosen: Int64s) -> tuple[Int64s, Int32s]:
    """The rows of the chosen conjunctions, and the place of each row's conjunction among the chosen."""
    first, sizes = starts[chosen], starts[chosen + 1] - starts[chosen]
    return _places(first, sizes), np.repeat(np.arange(chosen.size, dtype=np.int32), sizes)


def _range_column(column: Column, conjunction: Int32s, low: Int32s, high: Int32s) -> RangeColumn:
    """Ranges of codes as ranges of constants; see `index/build.py` for the way there."""
    is_null = low < 0
    there = ~is_null
    low, high = low[there], high[there]
    has_low, has_high = low > 0, high < column.domain.last
    if column.kind is Kind.ANY:
        has_low, has_high = np.zeros((2, low.size), bool)
    return RangeColumn(
        conjunction=conjunction[there],
        low=column.domain.values_at(np.where(has_low, (low - 1) >> 1, -1)),
        high=column.domain.values_at(np.where(has_high, high >> 1, -1)),
        has_low=has_low,
        low_closed=has_low & (low % 2 == 1),
        has_high=has_high,
        high_closed=has_high & (high % 2 == 1),
        null=conjunction[is_null],
    )
