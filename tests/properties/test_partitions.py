"""Every condition is TRUE, FALSE or NULL of an event, and one of them; NOT exchanges the first two.

Ternary logic partitioning asks a matcher for `p IS TRUE`, `p IS FALSE`, `p IS NULL`, `p` and `NOT p` as subscriptions,
for conditions of every family. What DuckDB has, it judges as well.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strategies
from tocsin import Analyzer, Matcher
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.reference import evaluate

Event = dict[str, Any]
Judge = Callable[..., list[tuple[bool | None, ...]]]

PLACES = [
    "within_distance(lat, lon, 48.85, 2.35, '10 km')",
    "within_distance(lat, lon, -90, 0, '20000 km')",
    "within_box(lat, lon, -20, 170, 49, -170)",
    "within_box(lat, lon, 48, 2, 49, 3)",
    "within_polygon(lat, lon, 'POLYGON ((2 48, 3 48, 3 49, 2 48))')",
]
ADDRESSES = ["ip_in(addr, '10.0.0.0/8')", "ip_in(addr, '::/0')", "ip_in(addr, ['10.1.2.3', '2001:db8::/32'])"]
ANALYZERS = {
    "stems": Analyzer(stem="english", accents=False, synonyms=[["cake", "tart"]]),
    "bare": Analyzer(accents=False, segment=True),
    "cased": Analyzer(case=True),
}
ANALYSED = [
    f"{function}({attribute}, '{words}'{options})"
    for attribute in ("stems", "bare", "cased")
    for function, words, options in (
        ("has_words", "running", ""),
        ("has_words", "Creme tart", ""),
        ("has_words", "cak*", ""),
        ("has_words", "runs cake creme", ", near => 2, min_words => 2"),
        ("has_words", "Cake", ", exact_case => TRUE"),
        ("has_phrase", "creme cakes", ""),
        ("has_phrase", "run cake", ", slop => 1"),
        ("has_phrase", "東京", ""),
    )
]
PATHS = ["xpath_exists(doc, '//a[@b]')", "xpath_exists(doc, 'count(//a) > 1')", "xpath_exists(doc, '/a[b or c]')"]
TIMES = ["day + INTERVAL 1 MONTH > moment", "date_diff('day', day, moment) > 0", "moment < now()", "year(day) = 2026"]
TEXTS = ["Runs, crème tarts", "run the cake", "Cake", "東京都に", "", 5]
MORE: dict[str, list[Any]] = {
    "lat": [48.86, -18.0, 90.0, 91.0, float("nan"), "x", 48],
    "lon": [2.29, 178.4, 190.0, 2.7, None],
    **dict.fromkeys(ANALYZERS, TEXTS),
    "doc": ["<a b=''/>", "<a><b/><a/></a>", "<c/>", "<a", 5],
    "addr": ["10.1.2.3", "::ffff:10.0.0.1", "2001:DB8::1", "8.8.8.8", "localhost", "", 5],
}
ATOMS = st.one_of(
    strategies.comparisons(),
    strategies.patterns(),
    strategies.globs(),
    strategies.regexps(),
    strategies.lists(),
    strategies.lists_and_texts(),
    strategies.elements(),
    st.sampled_from([*PLACES, *ADDRESSES]),
    st.sampled_from(ANALYSED),
    st.sampled_from([*PATHS, *TIMES]),
    st.sampled_from(
        ["i * 2 > j", "coalesce(s, 'a') = 'a'", "d / 0 > 1", "lower(s) LIKE 'a%'", "i % j = 0", "s::INT > 1"]
    ),
)
EVENTS = st.builds(
    lambda event, more: event | more,
    strategies.events() | strategies.odd_events(),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in MORE.items()}),
)
ASKED = ("({}) IS TRUE", "({}) IS FALSE", "({}) IS NULL", "{}", "NOT ({})")


@given(
    st.lists(strategies.logic(ATOMS, max_leaves=4), min_size=1, max_size=4), st.lists(EVENTS, min_size=1, max_size=10)
)
def test_a_condition_partitions_the_events(texts: list[str], events: list[Event]) -> None:
    asked = {f"{number} {form}": form.format(text) for number, text in enumerate(texts) for form in ASKED}
    matcher = Matcher.from_table(pa.table({"id": list(asked), "where": list(asked.values())}), analyzers=ANALYZERS)
    assert matcher.rejected == []
    together: list[set[str]] = [set() for _ in events]
    for row in matcher.match_batch(events).to_pylist():
        together[row["event"]].add(row["subscription"])
    for event, found in zip(events, together, strict=True):
        assert set(matcher.match(event).ids) == found
        for number, text in enumerate(texts):
            true, false, null, bare, negated = (f"{number} {form}" in found for form in ASKED)
            assert true + false + null == 1, text
            assert (bare, negated) == (true, false), text
            assert evaluate(parse(text, ANALYZERS), event) is (None if null else true), text


JUDGED = st.one_of(
    strategies.comparisons(),
    strategies.patterns(),
    strategies.globs(),
    strategies.regexps(),
    strategies.lists(),
    strategies.lists_and_texts(),
    strategies.elements(),
)
MANY = st.lists(strategies.logic(JUDGED, max_leaves=4), min_size=10, max_size=10, unique=True)
BATCH = st.lists(strategies.events(), min_size=50, max_size=50)


def decide(judge: Judge, typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], events: list[Event]) -> None:
    """Ask DuckDB, the reference and the Matcher for 500 decisions."""
    conditions = [parse(text) for text in texts]
    truths = judge([to_sql(condition) for condition in conditions], events)
    assert [tuple(evaluate(condition, event) for condition in conditions) for event in events] == truths
    matcher = Matcher.from_table(pa.table({"id": texts, "where": texts}))
    expected = {(row, text) for row, truth in enumerate(truths) for text, t in zip(texts, truth, strict=True) if t}
    for given_events in (events, typed(events)):
        found = matcher.match_batch(given_events).to_pylist()
        assert {(row["event"], row["subscription"]) for row in found} == expected


UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=10, suppress_health_check=UNHURRIED)
@given(MANY, BATCH)
def test_5_000_decisions_are_those_of_duckdb(
    judge: Judge, typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], events: list[Event]
) -> None:
    decide(judge, typed, texts, events)


@pytest.mark.slow
@settings(max_examples=1_000, suppress_health_check=UNHURRIED)
@given(MANY, BATCH)
def test_500_000_decisions_are_those_of_duckdb(
    judge: Judge, typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], events: list[Event]
) -> None:
    decide(judge, typed, texts, events)
