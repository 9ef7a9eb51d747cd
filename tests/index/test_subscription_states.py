"""Any interleaving of changes, commits, merges, reopenings and crashes equals a plain dictionary with the reference."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tocsin import Matcher, Subscription
from tocsin.language.parse import parse
from tocsin.reference import evaluate

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
TEXTS = st.sampled_from(
    ["x > 1", "x < 3 OR y = 'p'", "y = 'p' AND x <> 2", "y LIKE '%q%'", "x IS NULL", "x > 3 AND x < 2", "x < y"]
)
SCORES = st.sampled_from([0.5, 1.0, 2.0])
TAGS = st.sampled_from([{}, {"tenant": "acme"}, {"tenant": "zeta", "tier": "gold"}])
EVENTS: list[dict[str, Any]] = [{"x": 2, "y": "p"}, {"x": 5, "y": "aqb"}, {"y": "p"}, {"x": 1}]

State = dict[str, Subscription]


class Subscriptions(RuleBasedStateMachine):
    """One writer and one reader on a folder, and what they should see."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.state: State = {}
        self.committed: State = {}
        self.read: State = {}

    @initialize()
    def begin(self) -> None:
        self.writer = Matcher(background_merge=False)
        self.writer.save(self.folder)
        self.reader = Matcher.open(self.folder)

    def teardown(self) -> None:
        self.writer.close()
        shutil.rmtree(self.folder)

    @rule(id=IDS, where=TEXTS, score=SCORES, tags=TAGS)
    def subscribe_or_replace(self, id: str, where: str, score: float, tags: dict[str, str]) -> None:
        self.writer.subscribe(id, where, score, tags=tags)
        self.state[id] = Subscription(id, where, score, {}, tags)

    @rule(id=IDS)
    def unsubscribe(self, id: str) -> None:
        if id in self.state:
            self.writer.unsubscribe(id)
            del self.state[id]

    @rule(id=IDS, score=SCORES)
    def rescore(self, id: str, score: float) -> None:
        if id in self.state:
            self.writer.rescore(id, score)
            self.state[id] = replace(self.state[id], score=score)

    @rule()
    def commit(self) -> None:
        self.writer.commit()
        self.committed = dict(self.state)

    @rule()
    def merge(self) -> None:
        self.writer.compact()

    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        self.read = dict(self.committed)

    @rule()
    def reopen_after_a_crash(self) -> None:
        self.writer.close()
        self.writer = Matcher.open(self.folder, background_merge=False)
        self.state = dict(self.committed)

    @invariant()
    def writer_and_reader_see_what_they_should(self) -> None:
        agree(self.writer, self.state)
        agree(self.reader, self.read)


def agree(matcher: Matcher, state: State) -> None:
    assert list(matcher) == sorted(state)
    assert len(matcher) == len(state)
    assert {subscription.id: subscription for subscription in matcher.subscriptions()} == state
    for event in EVENTS:
        expected = sorted((s.id, s.score) for s in state.values() if evaluate(parse(s.where), event) is True)
        assert list(matcher.match(event)) == expected
        acme = [pair for pair in expected if state[pair[0]].tags.get("tenant") == "acme"]
        assert list(matcher.match(event, tags={"tenant": "acme"})) == acme
    table = matcher.match_batch(EVENTS).to_pylist()
    assert len(table) == sum(len(matcher.match(event)) for event in EVENTS)


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
