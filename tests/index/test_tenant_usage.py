"""What a tenant has is counted exactly through every change, and each of its limits refuses what is beyond."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tocsin import Limits, Matcher, Matches, TenantLimitError, TenantUsage

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
    monkeypatch.setattr("tocsin.index.buffer.MOST_ROWS", 8)
    monkeypatch.setattr("tocsin.index.buffer.MOST_OTHERS", 8)
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


def left_out(found: Matches | pa.Table) -> dict[str, int]:
    if isinstance(found, Matches):
        return found.evidence.left_out
    counted: dict[str, int] = json.loads(found.schema.metadata[b"tocsin"])["left_out"]
    return counted


def test_one_tenant_with_too_many_matches_costs_the_others_nothing() -> None:
    """The best of an event are left of its matches, the rest is counted; all others get theirs."""
    matcher = Matcher(limits=Limits(matches=2))
    for number in range(4):
        matcher.subscribe(f"n{number}", "x > 0")
        matcher.subscribe(f"t{number}", f"x > {number}", tags={"tenant": f"t{number % 2}"})
    matcher.subscribe("acme", "x > 2", score=0.5, tags={"tenant": "t0"})
    # At first they are too new for a segment.
    for is_sealed in (False, True):
        if is_sealed:
            matcher.compact()
        assert (len(matcher.match({"x": 2})), left_out(matcher.match({"x": 2}))) == (6, {})
        found = matcher.match({"x": 3})
        assert found.ids == ["n0", "n1", "n2", "n3", "t0", "t1", "t2"]  # without acme, whose score is lower
        assert found.scores == [1.0] * 7
        assert (left_out(found), found.evidence.matches) == ({"t0": 1}, 7)
        own = matcher.match({"x": 3}, tags={"tenant": "t0"})
        assert (own.ids, left_out(own)) == (["t0", "t2"], {"t0": 1})
        assert matcher.top_k({"x": 3}, 9).ids == matcher.match_batch([{"x": 3}], top_k=9)["subscription"].to_pylist()
    matcher.limit_tenant("t0", Limits(matches=3))
    assert len(matcher.match({"x": 3})) == 8


@pytest.mark.parametrize("ordered", [True, False])
def test_matches_beyond_a_limit_are_left_out_of_a_batch_event_by_event(ordered: bool) -> None:
    rows = [
        {"id": f"t{number}", "where": f"x > {number}", "score": float(number), "tags": {"tenant": f"t{number % 2}"}}
        for number in range(6)
    ]
    alone, matcher = Matcher(), Matcher(limits=Limits(matches=2), background_merge=False)
    for some in (rows[:3], rows[3:]):
        matcher.subscribe_many(some)
        alone.subscribe_many(some)
    events = [{"x": x, "name": "same"} for x in (6, 1, 9, 4)]
    found = matcher.match_batch(events, ordered=ordered)
    kept = {
        0: ["t2", "t3", "t4", "t5"],
        1: ["t0"],
        2: ["t2", "t3", "t4", "t5"],
        3: ["t0", "t1", "t2", "t3"],
    }
    assert sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)) == [
        (event, id) for event, ids in kept.items() for id in ids
    ]
    assert found["score"].to_pylist() == [float(id[1:]) for id in found["subscription"].to_pylist()]
    assert left_out(found) == {"t0": 2, "t1": 2}
    # Each event counts for itself, though they have one name.
    assert len(matcher.match_batch(events, id="name", ordered=ordered)) == len(found)
    assert left_out(alone.match_batch(events)) == {}


def test_what_is_published_is_remembered_whatever_it_matches() -> None:
    """Also if it matches too many for the sake of an event before it in its batch."""
    matcher = Matcher(limits=Limits(matches=1))
    matcher.subscribe("a", "x > 0", tags=ACME)
    matcher.subscribe("b", "EXISTS (SELECT 1 FROM history h WHERE h.x = event.x)", tags=ACME)
    found = matcher.publish_batch([{"x": 9}, {"x": 9}, {"x": 3}])
    assert (found["subscription"].to_pylist(), left_out(found)) == (["a"] * 3, {"acme": 1})
    assert len(matcher.history) == 3
    again = matcher.publish({"x": 3})
    assert (again.ids, left_out(again)) == (["a"], {"acme": 1})
    assert len(matcher.history) == 4


def test_an_audit_judges_what_was_found_not_what_is_left(unhurried_audit: None) -> None:  # noqa: ARG001
    matcher = Matcher(limits=Limits(matches=1), audit=1.0)
    matcher.subscribe_many([{"id": f"s{number}", "where": "x > 0", "tags": ACME} for number in range(5)])
    assert len(matcher.match({"x": 1})) == 1
    assert len(matcher.match_batch([{"x": 1}] * 100)) == 100
    report = matcher.audit
    assert report is not None
    assert (report.judged > 0, report.wrong) == (True, 0)
