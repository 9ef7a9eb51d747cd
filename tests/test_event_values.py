"""Values of events: nested, in dictionaries, decimals, large integers, moments of every unit."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from matchers import found, matcher_of


def test_nested_structs_and_dotted_names() -> None:
    matcher = matcher_of(
        a="user.address.city = 'Athens'", b="\"user.name\" = 'Ada'", c="user IS NULL", d="user.age > 1"
    )
    users = [{"address": {"city": "Athens"}, "name": "Ada", "age": 3}, {"address": None, "name": "Bob"}, None]
    expected = [(0, "a"), (0, "b"), (0, "d"), (2, "c")]
    assert found(matcher, pa.table({"user": users})) == expected
    assert found(matcher, [{"user": user} for user in users]) == expected
    flat = pa.table({"user.name": ["Ada"], "user.address": [{"city": "Athens"}]})
    assert found(matcher, flat) == [(0, "a"), (0, "b"), (0, "c")]


def test_dictionary_columns_in_chunks() -> None:
    matcher = matcher_of(a="s = 'x'", b="s LIKE '%y%'", c="s IS NULL", d="has_words(s, 'y')")
    chunks = [pa.array(["x", "y", None]).dictionary_encode(), pa.array(["y", "x"]).dictionary_encode()]
    expected = [(0, "a"), (1, "b"), (1, "d"), (2, "c"), (3, "b"), (3, "d"), (4, "a")]
    assert found(matcher, pa.table({"s": pa.chunked_array(chunks)})) == expected


def test_decimals_and_floats_mean_what_is_written() -> None:
    matcher = matcher_of(a="price = 19.99", b="price > 19.99", c="price = 0.1")
    decimals = pa.array([Decimal("19.99"), Decimal("19.991"), Decimal("0.100")], pa.decimal128(10, 3))
    expected = [(0, "a"), (1, "b"), (2, "c")]
    assert found(matcher, pa.table({"price": decimals})) == expected
    assert found(matcher, pa.table({"price": [19.99, 19.991, 0.1]})) == expected
    assert found(matcher, [{"price": value} for value in decimals.to_pylist()]) == expected


def test_big_integers_are_exact() -> None:
    """2**53 + 1 is not a float64; 2**63 and 10**20 are beyond int64."""
    matcher = matcher_of(
        a="n = 9007199254740993", b="n > 9007199254740992", c="n = 18446744073709551615", d="n < 100000000000000000000"
    )
    values = [2**53, 2**53 + 1, 2**64 - 1]
    expected = [(0, "d"), (1, "a"), (1, "b"), (1, "d"), (2, "b"), (2, "c"), (2, "d")]
    assert found(matcher, pa.table({"n": pa.array(values, pa.uint64())})) == expected
    assert found(matcher, [{"n": value} for value in values]) == expected
    assert matcher.match({"n": 10**20}).ids == ["b"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_of_every_unit_and_zone(unit: str, zone: str | None) -> None:
    """Moments with a zone are moments; those without one are UTC."""
    matcher = matcher_of(
        a="t = TIMESTAMP '2026-02-28 12:30:00'", b="t < DATE '2026-03-01'", c="t >= TIMESTAMP '2026-02-28 12:30:01'"
    )
    noon = dt.datetime(2026, 2, 28, 12, 30, tzinfo=dt.UTC)
    moments = [noon, noon + dt.timedelta(seconds=1), noon + dt.timedelta(days=1), None]
    naive = [moment and moment.replace(tzinfo=None) for moment in moments]
    column = pa.array(naive, pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, zone))
    expected = [(0, "a"), (0, "b"), (1, "b"), (1, "c"), (2, "c")]
    assert found(matcher, pa.table({"t": column})) == expected
    assert found(matcher, [{"t": moment} for moment in moments]) == expected


def test_a_nanosecond_is_later() -> None:
    matcher = matcher_of(a="t = TIMESTAMP '1970-01-01'", b="t > TIMESTAMP '1970-01-01'")
    table = pa.table({"t": pa.array([0, 1], pa.int64()).cast(pa.timestamp("ns"))})
    assert found(matcher, table) == [(0, "a"), (1, "b")]
