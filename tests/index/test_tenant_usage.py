"""What a tenant has is counted exactly through every change, and each of its limits refuses what is beyond."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tocsin import EventError, Limits, Matcher, TenantLimitError, TenantUsage
from tocsin.index import subscriptions as subscription_set

ACME = {"tenant": "acme"}
BEYOND: dict[str, tuple[int, str]] = {
    "subscriptions": (2, "x > 2"),
    "tenant_predicates": (5, "x = 1 AND y = 1 AND z = 2 OR has_words(t, 'a') AND y = 3"),
    "tenant_text_bytes": (60, "x = 1 OR x = 'é" + "é" * 15 + "'"),
    "tenant_list_items": (4, "x IN (1, 2, 3, 4, 5)"),
    "tenant_attributes": (3, "u < v AND has_words(t, 'a')"),
    "tenant_always_true": (1, "TRUE"),
}
"""The limit, and a condition that is beyond it beside the two below."""
STANDING = ("a IN (1, 2) OR TRUE", "x IN (1, 2)")


@pytest.fixture(params=BEYOND)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def limited(name: str, is_own: bool) -> Matcher:
    """A matcher with the subscriptions that are just within a limit, its own or the tenant's."""
    limits = Limits(**{name: BEYOND[name][0]})
    matcher = Matcher(limits=limits if is_own else Limits())
    if not is_own:
        matcher.limit_tenant("acme", limits)
    for number, where in enumerate(STANDING):
        matcher.subscribe(f"s{number}", where, tags=ACME)
    return matcher


@pytest.mark.parametrize("is_own", [True, False])
def test_what_is_beyond_a_limit_is_refused(name: str, is_own: bool) -> None:
    matcher, where = limited(name, is_own), BEYOND[name][1]
    message = rf"tenant 'acme' would have .* raise the limit: Limits\({name}=\.\.\.\)"
    with pytest.raises(TenantLimitError, match=message) as raised:
        matcher.subscribe("new", where, tags=ACME)
    assert raised.value.subscription == "new"
    rows: list[dict[str, Any]] = [
        {"id": "mine", "where": where, "tags": ACME},
        {"id": "nobody's", "where": where},
        {"id": "zeta's", "where": where, "tags": {"tenant": "zeta"}} if name == "subscriptions" else {**GOOD_ROW},
    ]
    [error] = matcher.subscribe_many(rows)
    assert isinstance(error, TenantLimitError)
    assert error.subscription == "mine"
    assert sorted(matcher) == ["nobody's", "s0", "s1", rows[2]["id"]]
    assert matcher.tenant_usage("acme").subscriptions == 2


GOOD_ROW = {"id": "zeta's", "where": "x = 1", "tags": {"tenant": "zeta"}}


def test_a_limit_can_be_raised_or_left_out(name: str) -> None:
    for most in (1_000, None):
        matcher = limited(name, is_own=False)
        matcher.limit_tenant("acme", Limits(**{name: most}))
        matcher.subscribe("new", BEYOND[name][1], tags=ACME)
        matcher.limit_tenant("acme", None)
        assert matcher.subscribe_many([{"id": "more", "where": BEYOND[name][1], "tags": ACME}]) == []


def test_what_is_dropped_makes_room(name: str, tmp_path: Path) -> None:
    for is_sealed in (False, True):
        matcher, where = limited(name, is_own=True), BEYOND[name][1]
        if is_sealed:
            matcher.compact()
        for number in range(2):
            matcher.unsubscribe(f"s{number}")
        matcher.subscribe("s0", "u = 0", tags=ACME)
        for _ in range(3):  # it replaces itself
            matcher.subscribe("s0", where, tags=ACME)
        assert matcher.subscribe_many([{"id": "s0", "where": where, "tags": ACME}]) == []
        assert matcher.tenant_usage("acme").subscriptions == 1
        matcher.save(tmp_path / str(is_sealed))
        matcher.close()
        with Matcher.open(tmp_path / str(is_sealed)) as opened:
            assert opened.tenant_usage("acme") == matcher.tenant_usage("acme")


def test_a_tenant_at_its_limit_may_replace_but_not_add() -> None:
    matcher = limited("subscriptions", is_own=True)
    matcher.subscribe("s0", "x = 3", tags=ACME)
    rows = [{"id": id, "where": "x = 4", "tags": ACME} for id in ("s0", "s1", "s2")]
    assert [error.subscription for error in matcher.subscribe_many(rows)] == ["s2"]
    assert sorted(matcher) == ["s0", "s1"]
    assert matcher["s1"].where == "x = 4"


CONDITIONS = [*STANDING, *(where for _, where in BEYOND.values()), "x IS NULL OR x IN (1, 3)", "1 = 0", "u.v ~ 'a'"]
CONDITIONS.append(" AND ".join(f"NOT (a{i} = 1 AND b{i} = 1)" for i in range(6)))


@pytest.mark.parametrize("seed", range(4))
def test_the_count_follows_every_change(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_set, "BUFFER", 8)
    chance, matcher = random.Random(seed), Matcher(background_merge=False)
    tenants = [None, "acme", 'acme, "inc"', "é"]

    def row() -> dict[str, Any]:
        tenant = chance.choice(tenants)
        tags = {} if tenant is None else {"tenant": tenant, "tenan": "z"}
        return {"id": str(chance.randrange(30)), "where": chance.choice(CONDITIONS), "tags": tags}

    for step in range(150):
        kind = chance.randrange(8)
        if kind < 4:
            matcher.subscribe(**row())
        elif kind == 4 and len(matcher):
            matcher.unsubscribe(chance.choice(list(matcher)))
        elif kind == 5:
            assert matcher.subscribe_many([row() for _ in range(5)]) == []
        elif kind == 6:
            matcher.match_batch([{"x": 1}])
        elif step % 5 == 0:
            matcher.compact()
        for tenant in tenants[1:]:
            assert tenant is not None
            mine = [one for one in matcher.subscriptions() if one.tags.get("tenant") == tenant]
            alone = Matcher()
            usages = []
            for one in mine:
                alone.subscribe("one", one.where, tags=ACME)
                usages.append(replace(alone.tenant_usage("acme")))
            total = sum((usage.predicates for usage in usages), 0)
            found = matcher.tenant_usage(tenant)
            assert found == TenantUsage(
                len(mine),
                total,
                sum(len(one.where.encode()) for one in mine),
                sum(one.where.count(",") for one in mine),
                sum("TRUE" in one.where for one in mine),
                set().union(*(usage.attributes for usage in usages)),
            )


def test_predicates_and_attributes_of_one_subscription() -> None:
    for where, predicates, attributes in (
        ("x = 1 AND y = 1 AND z = 2 OR has_words(t, 'a') AND y = 3", 5, {"x", "y", "z", "t"}),
        ("a IN (1, 2, 3) OR a > 7", 1, {"a"}),
        ("TRUE", 0, set()),
        ("high > open", 1, {"high", "open"}),
    ):
        for is_bulk in (False, True):
            matcher = Matcher()
            matcher.subscribe_many([{"id": "a", "where": where, "tags": ACME}]) if is_bulk else matcher.subscribe(
                "a", where, tags=ACME
            )
            usage = matcher.tenant_usage("acme")
            assert (usage.predicates, usage.attributes) == (predicates, attributes)


def test_an_event_that_matches_too_many_is_not_remembered() -> None:
    """Neither alone nor in a batch, nor the events before it in a batch, also if they can be read once only."""
    matcher = Matcher(limits=Limits(matches=1))
    matcher.subscribe("a", "x > 0", tags={"tenant": "acme"})
    matcher.subscribe("b", "x > 5", tags={"tenant": "acme"})
    matcher.subscribe("record", "x > ALL (SELECT x FROM history)")
    with pytest.raises(EventError, match="'acme'"):
        matcher.publish({"x": 9})
    several = pa.table({"x": [3, 9]})
    for events in (several, several.to_reader(), (row for row in several.to_pylist())):
        with pytest.raises(EventError, match="'acme'"):
            matcher.publish_batch(events)
    assert len(matcher.history) == 0
    assert matcher.publish({"x": 4}).ids == ["a", "record"]
    assert len(matcher.publish_batch(pa.table({"x": [3, 5]}).to_reader())) == 3
    assert len(matcher.history) == 3


def test_an_event_may_match_so_many_of_one_tenant() -> None:
    matcher = Matcher(limits=Limits(matches=2))
    for number in range(4):
        matcher.subscribe(f"n{number}", "x > 0")
        matcher.subscribe(f"t{number}", f"x > {number}", tags={"tenant": f"t{number % 2}"})
    matcher.subscribe("acme", "x > 2", tags={"tenant": "t0"})
    assert len(matcher.match({"x": 2}).ids) == 6
    assert len(matcher.match_batch([{"x": 2}, {"x": 1}])) == 6 + 5
    message = r"matches 3 subscriptions of tenant 't0', and at most 2.*Limits\(matches=\.\.\.\)"
    with pytest.raises(EventError, match=message):
        matcher.match({"x": 3})
    with pytest.raises(EventError, match=rf"event 1 {message}"):
        matcher.match_batch([{"x": 1}, {"x": 3}])
    with pytest.raises(EventError, match=message):
        matcher.match({"x": 3}, tags={"tenant": "t0"})
    assert len(matcher.match({"x": 3}, tags={"tenant": "t1"}).ids) == 1
    matcher.limit_tenant("t0", Limits(matches=3))
    assert len(matcher.match({"x": 3}).ids) == 8
