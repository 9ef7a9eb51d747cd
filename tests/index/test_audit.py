"""The audit finds what an index gets wrong: defects are seeded, each in one place, and must be found."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tocsin import Matcher, OptionError
from tocsin.cli import app
from tocsin.conjunctions import owners
from tocsin.conjunctions.choose import CombinedIndex
from tocsin.index import audit as audit_module
from tocsin.index import segment as segment_module
from tocsin.index.audit import in_ranges, upper_bound
from tocsin.model.events import EventBatch
from tocsin.predicates.words.index import Vocabulary

WHERE = [f"a BETWEEN {i} AND {i + 20} AND b < {i % 30}" for i in range(200)]
WHERE += [f"has_words(t, 'w{i % 10}') AND b > {i}" for i in range(50)]
WHERE += ["a IS NULL OR b = 3", "price > ALL (SELECT price FROM history)"]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the audit judge all that it is given."""
    monkeypatch.setattr(audit_module, "BUDGET", 1e9)
    monkeypatch.setattr(audit_module, "MOST_WAITING", 10_000)


def subscribed(**options: Any) -> Matcher:
    return Matcher.from_table([{"id": f"s{i:03}", "where": where} for i, where in enumerate(WHERE)], **options)


def events(count: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(3)
    return [
        {"a": int(chance.integers(220)), "b": int(chance.integers(40)), "t": f"w{chance.integers(12)} x"}
        for _ in range(count)
    ]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    with subscribed(audit=1.0) as matcher:
        matcher.match_batch(events(60))
        matcher.match_batch(pa.Table.from_pylist(events(40)), ordered=False)
        for event in events(5):
            matcher.match(event)
        report = matcher.audit
    assert report is not None
    assert (report.events + report.left_out, report.seen, report.wrong) == (105, 105, 0)
    assert all(stratum.judged for stratum in report.strata.values())
    assert report.missed_at_most < 0.2
    assert "of 105 events" in str(report)


def test_all_that_hold_are_matched_or_suspects() -> None:
    matcher = subscribed()
    [state] = matcher._subscriptions.current().states
    for event in events(30):
        found = in_ranges(state.segment, EventBatch([event]))
        ids = {state.segment.ids[number] for number in np.flatnonzero(found).tolist()}
        assert set(matcher.match(event).ids) <= ids | {f"s{len(WHERE) - 1:03}"}
    assert 0 < len(ids) < len(WHERE) / 2


def losing(kept: Callable[[Any], Any]) -> Callable[..., Any]:
    real = CombinedIndex.match

    def match(self: Any, *arguments: Any, **named: Any) -> Any:
        pairs, candidates = real(self, *arguments, **named)
        return kept(np.ascontiguousarray(pairs)), candidates

    return match


def no_words(real: Any) -> Any:
    return lambda self, read: (np.zeros_like(real(self, read)[0]), np.empty(0, np.int32))


def shifted(real: Any) -> Any:
    def group_by_event(*arguments: Any) -> Any:
        starts, values = real(*arguments)
        return starts, np.where(values == 40, 41, values).astype(np.int32)

    return group_by_event


DEFECTS: dict[str, tuple[object, str, Any]] = {
    "every tenth match is lost": (CombinedIndex, "match", losing(lambda pairs: pairs[np.arange(len(pairs)) % 10 > 0])),
    "one conjunction is never found": (CombinedIndex, "match", losing(lambda pairs: pairs[pairs[:, 1] != 40])),
    "one conjunction is found for its neighbour": (
        CombinedIndex,
        "match",
        losing(lambda pairs: pairs + (pairs == 40) * np.array([0, 1], np.int32)),
    ),
    "no word is found": (Vocabulary, "_find", no_words(Vocabulary._find)),
    "a subscription is taken for its neighbour": (
        segment_module,
        "group_by_event",
        shifted(owners.group_by_event),
    ),
}


@pytest.fixture(params=DEFECTS)
def defect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    place, name, replacement = DEFECTS[request.param]
    monkeypatch.setattr(place, name, replacement)
    return str(request.param)


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_seeded_defect_is_found(defect: str, share: float, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "tocsin.audit")
    with subscribed(audit=share) as matcher:
        matcher.match_batch(events(600))
        report = matcher.audit
    assert report is not None
    assert report.wrong > 0, defect
    assert report.disagreements


def test_a_subscription_that_is_wrong_is_judged_by_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [{"a": 45, "b": 1, "t": ""}, {"a": 300, "b": 1, "t": ""}]
    right = [list(subscribed().match(event).ids) for event in asked]
    assert "s040" in right[0]
    monkeypatch.setattr(CombinedIndex, "match", losing(lambda pairs: pairs[pairs[:, 1] != 40]))
    log = tmp_path / "found.jsonl"
    with subscribed(audit=1.0, audit_log=log) as matcher:
        matcher.match(asked[0])
        assert matcher.audit is not None
        assert [found.id for found in matcher.audit.disagreements] == ["s040"]
        assert matcher.audit.disagreements[0].event == {"a": 45, "b": 1}
        assert [matcher.match(event).ids for event in asked] == right
        table = matcher.match_batch(pa.table({"k": ["p", "q"], "a": [45, 300], "b": [1, 1], "t": ["", ""]}), id="k")
        assert table["subscription"].to_pylist() == right[0] + right[1]
        assert table["event"].to_pylist() == ["p"] * len(right[0]) + ["q"] * len(right[1])
        assert matcher.match_batch(asked)["subscription"].to_pylist() == right[0] + right[1]
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


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(OptionError, match="audit"):
        Matcher(audit=share)


@pytest.mark.parametrize(("wrong", "judged"), [(0, 1), (0, 59), (1, 50), (5, 500)])
def test_the_bound_holds_at_its_confidence(wrong: int, judged: int) -> None:
    """At the bound, so few wrong ones or fewer have a chance of 5 percent: by simulation."""
    drawn = np.random.default_rng(1).binomial(judged, upper_bound(wrong, judged), 200_000)
    assert abs((drawn <= wrong).mean() - 0.05) < 0.003
