"""The audit finds what an index gets wrong, and nothing else: defects are seeded, each in one place."""

import datetime as dt
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from strategies import conditions
from strategies import events as any_events
from tocsin import Matcher, OptionError
from tocsin.cli import app
from tocsin.conjunctions.choose import CombinedIndex
from tocsin.index import audit as audit_module
from tocsin.index import second_way
from tocsin.index.audit import upper_bound
from tocsin.index.intake import parse_rows
from tocsin.index.second_way import PlainColumns
from tocsin.language.parse import parse
from tocsin.model.events import EventBatch
from tocsin.reference import evaluate

pytestmark = pytest.mark.usefixtures("unhurried_audit")

WHERE = [f"a BETWEEN {i} AND {i + 20} AND b < {i % 30}" for i in range(200)]
WHERE += [f"has_words(t, 'w{i % 10}') AND b > {i}" for i in range(50)]
WHERE += ["a IS NULL OR b = 3", "price > ALL (SELECT price FROM history)", "seen > now() - INTERVAL 1 DAYS"]


def subscribed(**options: Any) -> Matcher:
    rows = [
        {"id": f"s{i:03}", "where": where, "score": float(i % 7), "tags": {"tenant": f"t{i % 2}"}}
        for i, where in enumerate(WHERE)
    ]
    return Matcher.from_table(rows, **options)


def events(count: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(3)
    return [
        {"a": int(chance.integers(220)), "b": int(chance.integers(40)), "t": f"w{chance.integers(12)} x"}
        for _ in range(count)
    ]


def test_nothing_is_found_where_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "PARTITIONED", 1)
    with subscribed(audit=1.0) as matcher:
        matcher.match_batch(events(60))
        matcher.match_batch(pa.Table.from_pylist(events(2000)), ordered=False)
        matcher.match_batch(events(1500))
        matcher.publish_batch(events(40), tags={"tenant": "t1"})
        matcher.match_batch(pa.Table.from_pylist(events(1100)), top_k=3)
        matcher.match_batch(events(1100), top_k=3, mode="relaxed")
        for event in events(5):
            matcher.match(event | {"seen": dt.datetime(2026, 1, 1)}, now=dt.datetime(2026, 1, 1))
            matcher.match(event, tags={"tenant": "t0"})
            matcher.top_k(event, 4)
        report = matcher.audit
    assert report is not None
    assert (report.events, report.left_out, report.wrong) == (60 + 2000 + 1500 + 40 + 1100 + 15, 0, 0)
    assert report.judged > 0.5 * report.pairs
    assert report.partitioned > 0
    assert report.missed_at_most < 0.01
    assert "at most" in str(report)


@pytest.mark.parametrize("sorted_after", [-1, second_way.SORTED_AFTER])
@given(where=conditions(), more=conditions(), batch=st.lists(any_events(), min_size=8, max_size=12))
def test_the_second_way_agrees_with_the_reference(
    sorted_after: int, where: str, more: str, batch: list[dict[str, Any]]
) -> None:
    condition, read = parse(f"({where}) AND ({more})"), EventBatch(batch)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(second_way, "SORTED_AFTER", sorted_after)
        held = PlainColumns(read).true(condition)
    assert held.sure.tolist() == sorted(held.sure.tolist())
    for row in range(len(read)):
        if row not in held.doubt:
            assert (row in held.sure) == (evaluate(condition, read.event(row)) is True)


@pytest.mark.parametrize("sorted_after", [-1, second_way.SORTED_AFTER])
@pytest.mark.parametrize(
    ("where", "sure"),
    [
        ("a < 3", [0]),
        ("NOT a < 3", [2, 3]),
        ("a <> 3", [0, 3]),
        ("NOT (a < 3 AND b = 'x')", [2, 3]),
        ("(a < 3) IS NOT TRUE", [1, 2, 3]),
        ("(a < 3 OR b = 'x') IS FALSE", [2, 3]),
        ("a IN (1, 3) AND b IS NOT NULL", [0, 2]),
        ("a NOT BETWEEN 2 AND 4", [0, 3]),
        ("b > 'w'", [0, 1, 2]),
        ("a >= 3 AND a < 5.5", [2]),
        ("a > 1 AND a <= 5.5", [2, 3]),
        ("a BETWEEN 1 AND 3 AND b >= 'x'", [0, 2]),
        ("a = 3 AND b <> 'x'", [2]),
        ("a > 9 AND b = 'x'", []),
    ],
)
def test_the_second_way_by_hand(
    where: str, sure: list[int], sorted_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_way, "SORTED_AFTER", sorted_after)
    batch = EventBatch(pa.table({"a": [1, None, 3, 5.5], "b": ["x", "x", "y", "a"]}))
    held = PlainColumns(batch).true(parse(where))
    assert (held.sure.tolist(), held.doubt.tolist()) == (sure, [])


def losing(kept: Callable[[Any], Any]) -> Callable[..., Any]:
    real = CombinedIndex.match

    def match(self: Any, *arguments: Any, **named: Any) -> Any:
        pairs, candidates = real(self, *arguments, **named)
        return kept(np.ascontiguousarray(pairs)), candidates

    return match


def test_a_subscription_that_is_wrong_is_judged_by_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [{"a": 45, "b": 1, "t": ""}, {"a": 300, "b": 1, "t": ""}]
    sound = subscribed()
    right = [list(sound.match(event).ids) for event in asked]
    of_tenant = [list(sound.match(event, tags={"tenant": "t0"}).ids) for event in asked]
    best = [list(sound.top_k(event, 5)) for event in asked]
    assert "s040" in right[0]
    assert "s040" in of_tenant[0]
    monkeypatch.setattr(CombinedIndex, "match", losing(lambda pairs: pairs[pairs[:, 1] != 40]))
    log = tmp_path / "found.jsonl"
    with subscribed(audit=1.0, audit_log=log) as matcher:
        matcher.match(asked[0])
        assert matcher.audit is not None
        assert [found.id for found in matcher.audit.disagreements] == ["s040"]
        assert matcher.audit.disagreements[0].event == {"a": 45, "b": 1}
        answers = [matcher.match(event) for event in asked]
        assert [answer.ids for answer in answers] == right
        assert sum(answer.evidence.disagreements for answer in answers) == 1
        assert [matcher.match(event, tags={"tenant": "t0"}).ids for event in asked] == of_tenant
        assert [list(matcher.top_k(event, 5)) for event in asked] == best
        table = matcher.match_batch(pa.table({"k": ["p", "q"], "a": [45, 300], "b": [1, 1], "t": ["", ""]}), id="k")
        assert table["subscription"].to_pylist() == right[0] + right[1]
        assert table["event"].to_pylist() == ["p"] * len(right[0]) + ["q"] * len(right[1])
        assert matcher.match_batch(asked)["subscription"].to_pylist() == right[0] + right[1]
        expected = [id for of_event in best for id, _ in of_event]
        assert matcher.match_batch(asked, top_k=5)["subscription"].to_pylist() == expected
        matcher.compact()
        assert matcher._audit is not None
        assert not matcher._audit.distrusted
    assert "disagree" in caplog.text
    assert json.loads(log.read_text().splitlines()[0])["said"] is False
    # Alone, the subscription has another number, so that the defect does not show.
    answer = CliRunner().invoke(app, ["replay", str(log)])
    assert (answer.exit_code, "s040" in answer.output) == (0, True)
    monkeypatch.setattr(CombinedIndex, "match", losing(lambda pairs: pairs[:0]))
    assert CliRunner().invoke(app, ["replay", str(log)]).exit_code == 1


def test_a_wrong_partition_is_found(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`p IS NULL` is built by the audit alone: nobody subscribed to it."""
    caplog.set_level(logging.CRITICAL, "tocsin.audit")
    monkeypatch.setattr(audit_module, "PARTITIONED", 1)
    real = parse_rows

    def without_null(rows: Any, options: Any) -> Any:
        texts = [text.replace(") IS NULL", ") IS NULL AND a < 0") for text in rows.texts]
        return real(rows._replace(texts=texts), options)

    monkeypatch.setattr(audit_module, "parse_rows", without_null)
    with subscribed(audit=1.0) as matcher:
        matcher.match_batch([{"a": None, "b": 1}] * 10)
        assert matcher.audit is not None
        assert matcher.audit.wrong_partitions > 0
        assert matcher.audit.missed == matcher.audit.invented == 0


def test_only_matches_of_the_matcher_earn_time_for_its_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    # It once had a share of the time of the process: of building the index, and of all other matchers.
    monkeypatch.setattr(audit_module, "HEAD_START", 1.0)
    with subscribed(audit=1.0) as matcher, subscribed() as other:
        audit = matcher._audit
        assert audit is not None
        other.match_batch(events(2000))
        assert audit._budget == 1.0
        matcher.match_batch(events(2000))
        by_batch = audit._budget
        assert by_batch > 1.0
        matcher.match(events(1)[0])
        by_event = audit._budget
        assert by_event > by_batch
        matcher.top_k(events(1)[0], k=3)
        assert audit._budget > by_event


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(OptionError, match="audit"):
        Matcher(audit=share)


@pytest.mark.parametrize(("wrong", "judged"), [(0, 1), (0, 59), (1, 50), (5, 500)])
def test_the_bound_holds_at_its_confidence(wrong: int, judged: int) -> None:
    """At the bound, so few wrong ones or fewer have a chance of 5 percent: by simulation."""
    drawn = np.random.default_rng(1).binomial(judged, upper_bound(wrong, judged), 200_000)
    assert abs((drawn <= wrong).mean() - 0.05) < 0.003
