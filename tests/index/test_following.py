"""A reader follows the commits of a writer: it takes what is new, and neither parses nor reads anything else again."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.index import commit as store
from tocsin.index.options import Options

EXCLUDED = " AND ".join(f"NOT (x = {n} AND y = {n})" for n in range(5))
WHERE = [
    "x < 3",
    "y IN (1, 4)",
    "x > 1 AND has_words(t, 'red fox')",
    "t LIKE '%ox%'",
    f"y < 5 AND {EXCLUDED}",
    "x > ALL (SELECT x FROM history)",
]
EVENTS: list[dict[str, Any]] = [
    {"x": x, "y": y, "t": t}
    for x, y, t in [(0, 0, "red fox"), (2, 1, "a fox, a red one"), (3, 3, "box"), (4, 2, None), (None, 4, "red")]
]
IDS = [f"s{number}" for number in range(12)]

changes = st.one_of(
    st.tuples(st.just("subscribe"), st.sampled_from(IDS), st.integers(0, len(WHERE) - 1)),
    st.tuples(st.just("unsubscribe"), st.sampled_from(IDS), st.just(0)),
    st.tuples(st.just("rescore"), st.sampled_from(IDS), st.integers(1, 5)),
    st.tuples(st.just("compact"), st.just(""), st.just(0)),
)


def change(matcher: Matcher, what: str, id: str, number: int) -> None:
    if what == "compact":
        matcher.compact()
    elif what == "subscribe":
        matcher.subscribe(id, WHERE[number], tags={"of": "ada"} if number % 2 else {})
    elif id in matcher and what == "unsubscribe":
        matcher.unsubscribe(id)
    elif id in matcher:
        matcher.rescore(id, float(number))


def said(matcher: Matcher, in_batches: bool) -> list[Any]:
    if in_batches:
        return [matcher.match_batch(EVENTS).to_pylist(), matcher.match_batch(EVENTS, tags={"of": "ada"}).to_pylist()]
    return [list(matcher.match(event)) for event in EVENTS] + [list(matcher.top_k(event, 2)) for event in EVENTS]


@settings(max_examples=20)
@given(st.lists(st.tuples(st.lists(changes, max_size=6), st.booleans()), max_size=8), st.sampled_from([0, 3, 64]))
def test_a_reader_answers_as_the_writer(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[Any], bool]], few: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    with patch("tocsin.index.subscriptions.FEW", few), Matcher(background_merge=False, history="all") as writer:
        for number in range(6):
            writer.subscribe(f"s{number}", WHERE[number])
        writer.save(folder)
        with Matcher.open(folder, mode="read") as reader:
            for some, in_batches in steps:
                for one in some:
                    change(writer, *one)
                writer.commit()
                reader.refresh()
                assert said(reader, in_batches) == said(writer, in_batches)
                assert sorted(reader) == sorted(writer)


def test_what_is_known_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Matcher.from_table([{"id": f"s{n}", "where": f"x = {n}"} for n in range(100)])
    writer.save(tmp_path)
    writer.subscribe("first", "has_words(t, 'fox')")
    writer.commit()
    reader = Matcher.open(tmp_path, mode="read")
    read, parsed = [], []
    read_segment, normalise = store._read_segment, Options.normalise_one

    def note_path(path: Path) -> Any:
        read.append(path)
        return read_segment(path)

    def note_id(options: Options, text: str, id: str) -> Any:
        parsed.append(id)
        return normalise(options, text, id)

    monkeypatch.setattr(store, "_read_segment", note_path)
    monkeypatch.setattr(Options, "normalise_one", note_id)
    writer.subscribe("second", "has_words(t, 'box')")
    writer.rescore("s7", 7.0)
    writer.unsubscribe("s8")
    writer.commit()
    parsed.clear()
    assert reader.refresh()
    assert (read, parsed) == ([], ["second"])
    assert [list(reader.match({"x": n, "t": "fox"})) for n in (7, 8)] == [
        [("first", 1.0), ("s7", 7.0)],
        [("first", 1.0)],
    ]
