"""From the normal form of subscriptions to domains, families and conjunctions over codes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s
from tocsin.conjunctions.coded import NULL_SHARE, Conjunctions, popularity
from tocsin.index.options import Options
from tocsin.language.normal_form import NormalForm, RangeColumn
from tocsin.model.predicate import Accepts, Test
from tocsin.model.values import Kind
from tocsin.predicates.families import FAMILIES, Family, family_of, is_selective, order_of
from tocsin.predicates.ranges.domain import Domain, sorted_distinct
from tocsin.predicates.xpath.family import XPathFamily
from tocsin.tuning import TUNING


@dataclass(frozen=True)
class CodedColumn:
    """One attribute and kind: its domain, and the range rows of the conjunctions as codes."""

    attribute: str
    kind: Kind
    domain: Domain
    conjunction: Int32s
    low: Int32s
    high: Int32s


def code_columns(form: NormalForm, last: set[str]) -> list[CodedColumn]:
    """Make a domain of the constants of each column, and codes of its ranges.

    Columns are in the order of names; those of the attributes in `last` come behind the others.
    """
    columns = []
    keys = sorted(form.columns, key=lambda key: (key[0] in last, key[0], key[1].value))
    for attribute, kind in keys:
        column = form.columns[attribute, kind]
        domain, low, high = _code(kind, column)
        conjunction = np.concatenate([column.conjunction, column.null]).astype(np.int32)
        null = np.full(column.null.size, -1, np.int32)
        low, high = np.concatenate([low, null]), np.concatenate([high, null])
        columns.append(CodedColumn(attribute, kind, domain, conjunction, low, high))
    return columns


def _code(kind: Kind, column: RangeColumn) -> tuple[Domain, Int32s, Int32s]:
    constants = np.concatenate([column.low[column.has_low], column.high[column.has_high]])
    if kind is Kind.ANY:
        domain = Domain(kind, np.empty(0, np.int64))
        return domain, np.zeros(column.conjunction.size, np.int32), np.zeros(column.conjunction.size, np.int32)
    if constants.dtype == object:
        in_order = sorted_distinct(kind, constants.tolist())
        domain = Domain.of_sorted(kind, in_order)
        number = {constant: place for place, constant in enumerate(in_order)}
        low_place = np.array([number.get(value, 0) for value in column.low.tolist()], np.int64)
        high_place = np.array([number.get(value, 0) for value in column.high.tolist()], np.int64)
    else:
        distinct = np.unique(constants if kind is Kind.NUMBER else constants.astype(np.int64))
        domain = Domain(kind, distinct)
        low_place, high_place = np.searchsorted(distinct, column.low), np.searchsorted(distinct, column.high)
    low = np.where(column.has_low, 2 * low_place + 1 + ~column.low_closed, 0)
    high = np.where(column.has_high, 2 * high_place + 1 - ~column.high_closed, domain.last)
    return domain, low.astype(np.int32), high.astype(np.int32)


def spread_of_events(columns: Sequence[CodedColumn]) -> list[Float64s]:
    """Estimate for each column the share of events at or below each code, from -1 on, before any event was seen.

    Where subscriptions name more attributes than an event is taken to have, it has those that are named most often.
    """
    named: dict[str, int] = {}
    for column in columns:
        named[column.attribute] = named.get(column.attribute, 0) + column.low.size
    of_a_range = TUNING.attributes_of_an_event / max(sum(named.values()), 1)
    return [
        popularity(
            column.low,
            column.high,
            column.domain.last,
            column.domain.even_shares(),
            max(NULL_SHARE, 1 - named[column.attribute] * of_a_range),
        )
        for column in columns
    ]


@dataclass(frozen=True)
class NumberedTests:
    """The distinct tests of a segment, family by family."""

    tests: list[Test]
    families: list[tuple[str, str, Family]]
    """Name, attribute and family, in order; the tests of a family are numbered on from those before it."""
    number: Int32s
    """The number of each entry in the normal form's list of tests."""
    accepts: Int32s
    selective: Bools
    """By test number."""
    family: Int32s
    """By test number."""

    @property
    def on_history(self) -> Bools:
        """By test number: whether it is judged against the history."""
        names = np.array([name == "history" for name, _, _ in self.families], bool)
        return names[self.family] if self.families else np.zeros(0, bool)


def _build_family(name: str, attribute: str, tests: Sequence[Test], options: Options) -> Family:
    if name == "xpath":
        return XPathFamily.build(attribute, tests, options.namespaces, options.xpath)
    return family_type(name).build(attribute, tests, options.namespaces)


def family_type(name: str) -> type[Family]:
    """Return the family that segments store under a name."""
    if name != "elements":
        return FAMILIES[name]
    # A family that has a segment: each imports the other.
    from tocsin.index.element_family import ElementFamily

    return ElementFamily


def number_tests(form: NormalForm, options: Options) -> NumberedTests:
    """Number the distinct tests family by family and build the families."""
    distinct: dict[Test, tuple[tuple[str, str], int]] = {
        tested.test: (family_of(tested.test), order_of(tested.test)) for tested in form.tests
    }
    ordered = sorted(distinct, key=distinct.__getitem__)
    number = {test: place for place, test in enumerate(ordered)}
    families: list[tuple[str, str, Family]] = []
    family = np.empty(len(ordered), np.int32)
    start = 0
    while start < len(ordered):
        key = distinct[ordered[start]][0]
        end = start
        while end < len(ordered) and distinct[ordered[end]][0] == key:
            end += 1
        family[start:end] = len(families)
        families.append((*key, _build_family(*key, ordered[start:end], options)))
        start = end
    return NumberedTests(
        ordered,
        families,
        np.array([number[tested.test] for tested in form.tests], np.int32),
        np.array([tested.accepts.value for tested in form.tests], np.int32),
        np.array([is_selective(test) for test in ordered], bool),
        family,
    )


def conjunctions_of(form: NormalForm, columns: Sequence[CodedColumn], tests: NumberedTests) -> Conjunctions:
    """The conjunctions over codes."""
    conjunction = np.concatenate([np.empty(0, np.int32), *(column.conjunction for column in columns)])
    numbers = [np.full(column.low.size, place, np.int32) for place, column in enumerate(columns)]
    number = np.concatenate([np.empty(0, np.int32), *numbers])
    low = np.concatenate([np.empty(0, np.int32), *(column.low for column in columns)])
    high = np.concatenate([np.empty(0, np.int32), *(column.high for column in columns)])
    order = np.lexsort((low, number, conjunction))
    test, accepts = tests.number[form.test_id], tests.accepts[form.test_id]
    last_codes = [column.domain.last for column in columns] + [0] * len(tests.families)
    null_column = len(columns) + tests.family
    for place, (_, attribute, _) in enumerate(tests.families):
        if not attribute:
            null_column[tests.family == place] = -1
    return Conjunctions(
        count=form.owner.size,
        last_code=np.array(last_codes, np.int32),
        conjunction=conjunction[order],
        column=number[order],
        low=low[order],
        high=high[order],
        test_conjunction=form.test_conjunction,
        test=test,
        test_accepts=accepts,
        test_null_column=null_column.astype(np.int32),
    )


def rarest_test(conjunctions: Conjunctions, selective: Bools) -> Int32s:
    """For each conjunction, the test that fewest demand, among selective tests that must be TRUE; -1: none."""
    filed = np.full(conjunctions.count, -1, np.int32)
    usable = (conjunctions.test_accepts == Accepts.TRUE.value) & selective[conjunctions.test]
    test, owner = conjunctions.test[usable], conjunctions.test_conjunction[usable]
    demand = np.bincount(test, minlength=selective.size)
    most_demanded_first = np.argsort(-demand[test], kind="stable")
    filed[owner[most_demanded_first]] = test[most_demanded_first]
    return filed
