"""Every limit of a subscription refuses what is beyond it, by each way in, and says how to raise it."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from tocsin import Limits, Matcher, OptionError, SubscriptionError
from tocsin.index.options import Options

SMALL = Limits(
    predicates=4, attributes=3, text_bytes=60, string_bytes=40, list_items=3, id_bytes=8, tags=2, tag_bytes=20
)
GOOD: dict[str, Any] = {
    "id": "é234567",
    "where": "a IN (1, 2, 3) OR b = ','",
    "tags": {"t": "x"},
    "weights": {"a": 1.0},
}
BEYOND: dict[str, dict[str, Any]] = {
    "predicates": {"where": "a = 1 OR b = 2 OR c = 3 OR a < b OR b < c"},
    "attributes": {"where": "a < b AND c < d"},
    "text_bytes": {"where": "a = '" + "é" * 14 + "' OR b = '" + "é" * 14 + "'"},
    "string_bytes": {"where": "a = '" + "''" * 10 + "é" * 11 + "'"},
    "list_items": {"where": "a IN (1, 2, 3, 4)"},
    "id_bytes": {"id": "é2345678"},
    "tags": {"tags": {"t": "x", "u": "y"}},
    "tag_bytes": {"tags": {"t": "x" * 19}},
}
OF_A_TENANT = {
    "subscriptions",
    "tenant_predicates",
    "tenant_text_bytes",
    "tenant_list_items",
    "tenant_attributes",
    "tenant_always_true",
    "matches",
    "requests",
}
"""Tested in tests/index/test_tenant_usage.py, and `requests` with the server."""


def test_every_limit_is_here() -> None:
    assert BEYOND.keys() | OF_A_TENANT == {field.name for field in fields(Limits)}


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_a_limit_is_refused(name: str) -> None:
    row = GOOD | BEYOND[name]
    matcher = Matcher(limits=SMALL)
    matcher.subscribe(**GOOD)
    with pytest.raises(SubscriptionError, match=rf"raise the limit: Limits\({name}=\.\.\.\)") as raised:
        matcher.subscribe(**row)
    assert raised.value.subscription == row["id"]
    [error] = matcher.subscribe_many([GOOD, row | {"id": row["id"] if name == "id_bytes" else "other"}])
    assert f"Limits({name}=" in str(error)
    assert list(matcher) == [GOOD["id"]]


@pytest.mark.parametrize("name", BEYOND)
def test_a_limit_can_be_raised_or_left_out(name: str) -> None:
    for limits in (Limits(**{**asdict(SMALL), name: 1000}), Limits(**{**asdict(SMALL), name: None})):
        matcher = Matcher(limits=limits)
        matcher.subscribe(**GOOD | BEYOND[name])
        assert matcher.subscribe_many([GOOD | BEYOND[name]]) == []


def test_the_longest_string_counts_not_all_of_them() -> None:
    Matcher(limits=SMALL).subscribe("a", "a = '" + "x" * 20 + "' OR b = '" + "y" * 20 + "'")


def test_commas_in_texts_are_no_items() -> None:
    Matcher(limits=SMALL).subscribe("a", "a = ',,,,,,' OR b = ','")


def test_limits_are_stored_with_the_index(tmp_path: Path) -> None:
    matcher = Matcher(limits=SMALL)
    matcher.subscribe(**GOOD)
    matcher.save(tmp_path)
    matcher.close()
    with Matcher.open(tmp_path) as opened, pytest.raises(SubscriptionError, match="text_bytes"):
        opened.subscribe("b", BEYOND["text_bytes"]["where"])


def test_an_index_of_an_earlier_version_had_one_limit() -> None:
    document = Options().document()
    del document["limits"]
    assert Options.of(document | {"max_predicates": 7}).limits == Limits(predicates=7)
    assert Options.of(Options(limits=SMALL).document()).limits == SMALL


@pytest.mark.parametrize("name", BEYOND)
def test_a_limit_is_positive(name: str) -> None:
    with pytest.raises(OptionError, match=f"the limit {name} is 0"):
        Limits(**{name: 0})
