"""The text of matches is what an encoder writes of the same objects."""

from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.serve import bodies, match_json
from tocsin.serve.match_json import MOST_SCORES, listed, open_objects
from tocsin.serve.tenants import Tenant

MATCHES = st.lists(st.tuples(st.text(max_size=5), st.floats()), max_size=4)
NAMES = st.none() | st.integers() | st.floats() | st.text() | st.lists(st.booleans())


@given(st.lists(st.tuples(MATCHES, NAMES), max_size=4), st.sampled_from([Tenant(), Tenant("acme")]), st.booleans())
def test_matches_are_written_as_an_encoder_writes_them(
    events: list[tuple[list[tuple[str, float]], object]], tenant: Tenant, with_names: bool
) -> None:
    objects = [
        open_objects(tenant, [tenant.prefix + id for id, _ in matches], [score for _, score in matches])
        for matches, _ in events
    ]
    expected = [
        {"id": id, "score": score} | ({"event": name} if with_names else {})
        for matches, name in events
        for id, score in matches
    ]
    names = [name for _, name in events] if with_names else None
    assert listed(objects, names).encode() == bodies.dump(expected)


def test_texts_of_scores_are_kept_but_not_mixed_up() -> None:
    scores = [1.0, 0.0, -0.0, 0.0, float("nan"), 1e300, float("-inf"), 1.0]
    for _ in range(2):
        found = open_objects(Tenant(), ["x"] * len(scores), scores)
        assert [one.rpartition(" ")[2] for one in found] == [
            "1.0",
            "0.0",
            "-0.0",
            "0.0",
            "null",
            "1e+300",
            "null",
            "1.0",
        ]
    for number in range(MOST_SCORES + 5):
        open_objects(Tenant(), ["x"], [number / 7])
    assert len(match_json._SCORE_TEXTS) <= MOST_SCORES


def test_batches_and_published_events_get_the_matches_of_the_library(client: httpx.Client, name: str) -> None:
    expected = Matcher()
    for number in range(20):
        id, where, score = f'{name} "ü{number}', f"{name} BETWEEN {number} AND {number * 3}", number / 7
        assert client.put(f"/subscriptions/{id}", json={"where": where, "score": score}).status_code == 201
        expected.subscribe(id, where, score)
    events: list[dict[str, Any]] = [{name: value, "key": {"n": value}} for value in range(100)]
    rows: list[dict[str, Any]] = [
        {"id": id, "score": score, "event": place}
        for place, event in enumerate(events)
        for id, score in expected.match(event)
    ]
    assert client.post("/match", json={"events": events}).json() == {"matches": rows}
    few = [row for row in rows if row["event"] < 20]
    assert client.post("/match", json={"events": events[:20]}).json() == {"matches": few}
    named = [row | {"event": events[row["event"]]["key"]} for row in rows]
    assert client.post("/match", json={"events": events, "id": "key"}).json() == {"matches": named}
    published = client.post("/publish", json={"events": events, "key": name}).json()
    assert published["matches"] == rows
    assert len(published["numbers"]) == 100
    assert client.post("/publish", json={"events": events, "key": name}).json() == published | {"repeated": True}
    one = client.post("/publish", json={"event": events[3]}).json()
    assert one["matches"] == [{"id": id, "score": score} for id, score in expected.match(events[3])]
    (match, *_) = client.post("/match", json={"events": [events[3]], "highlight": True}).json()["matches"]
    assert match == one["matches"][0] | {"highlights": {}, "because": [f"{name} >= 1 AND {name} <= 3"], "event": 0}
