"""What is fuzzed: each target draws a case, a dict of plain values, and checks it against a judge.

The judge is DuckDB or lxml where one of them can say what is right, and `tocsin.reference` elsewhere. A check raises
AssertionError for a wrong answer; any other exception that gets out of it is a difference as well.
"""

import datetime as dt
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st
from lxml import etree

import expression_strategies
import strategies
from arrow_cases import LAYOUTS, TYPES, WHERES, columns_of
from by_duckdb import judge, typed
from random_xpath import NAMESPACES, RandomXPath
from reference_matcher import ReferenceMatcher
from text_strategies import agree, logic, soups
from tocsin import EventError, Matcher, SubscriptionError, UnknownSubscriptionError
from tocsin.files.event_files import EventFiles
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.predicates.xpath import XPathIndex, parse_xpath
from tocsin.predicates.xpath.document import read_document
from tocsin.reference import evaluate

Event = dict[str, Any]
Case = dict[str, Any]
Found = set[tuple[int, str]]


@dataclass(frozen=True)
class Target:
    """A strategy for cases, and what must hold for each of them."""

    cases: st.SearchStrategy[Case]
    check: Callable[..., None]


def _texts(of: st.SearchStrategy[str], most: int = 8) -> st.SearchStrategy[list[str]]:
    return st.lists(of, min_size=1, max_size=most)


def _batch(of: st.SearchStrategy[Event], most: int = 6) -> st.SearchStrategy[list[Event]]:
    return st.lists(of, min_size=1, max_size=most)


def _numbered(texts: Sequence[str]) -> pa.Table:
    return pa.table({"id": [str(number) for number in range(len(texts))], "where": list(texts)})


def _found(table: pa.Table) -> Found:
    rows = list(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))
    assert len(set(rows)) == len(rows), "no subscription is reported twice for one event"
    return set(rows)


def _by_reference(texts: Sequence[str], batch: Sequence[Event]) -> Found:
    parsed = [(str(number), parse(text)) for number, text in enumerate(texts)]
    return {(row, id) for row, event in enumerate(batch) for id, said in parsed if evaluate(said, event) is True}


def _check_matcher(texts: Sequence[str], batch: Sequence[Event], table: pa.Table | None = None) -> None:
    """Compare every way to ask a Matcher with the reference."""
    matcher = Matcher.from_table(_numbered(texts), background_merge=False)
    assert matcher.rejected == []
    expected = _by_reference(texts, batch)
    assert _found(matcher.match_batch(list(batch))) == expected
    if table is not None:
        assert _found(matcher.match_batch(table)) == expected
    many = {(turn * len(batch) + row, id) for turn in range(20) for row, id in expected}
    assert _found(matcher.match_batch(list(batch) * 20)) == many
    for row, event in enumerate(batch):
        assert {(row, id) for id in matcher.match(event).ids} == {pair for pair in expected if pair[0] == row}
    for id in matcher:
        assert matcher.explain(batch[0], id).matches == ((0, id) in expected)


def check_sql(texts: list[str], batch: list[Event]) -> None:
    """The reference says what DuckDB says of the same words, and a Matcher what the reference says."""
    truths = [tuple(evaluate(parse(text), event) for text in texts) for event in batch]
    assert truths == judge(texts, batch)
    assert truths == judge([to_sql(parse(text)) for text in texts], batch)
    _check_matcher(texts, batch, typed(batch))


def check_expressions(pairs: list[tuple[str, str]], batch: list[Event]) -> None:
    """As `check_sql`, with expressions in place of attributes; DuckDB gets a text of its own."""
    connection = duckdb.connect()
    connection.execute(expression_strategies.MACROS)
    connection.register("event", typed(batch))
    selected = ", ".join(f"({sql})::BOOLEAN" for _, sql in pairs)
    judged = connection.execute(f"SELECT {selected} FROM event ORDER BY row").fetchall()
    assert [tuple(evaluate(parse(text), event) for text, _ in pairs) for event in batch] == judged
    _check_matcher([text for text, _ in pairs], batch, typed(batch))


def check_odd(texts: list[str], batch: list[Event]) -> None:
    """Values of any kind under any name: a Matcher says what the reference says, and so does the text written back."""
    _check_matcher(texts, batch)
    for text in texts:
        condition, again = parse(text), parse(to_sql(parse(text)))
        assert [evaluate(condition, event) for event in batch] == [evaluate(again, event) for event in batch], text


def check_history(texts: list[str], batch: list[Event]) -> None:
    """Events that become history one by one: DuckDB judges the last of them."""
    matcher, reference = Matcher.from_table(_numbered(texts), background_merge=False), ReferenceMatcher()
    assert matcher.rejected == []
    for number, text in enumerate(texts):
        reference.subscribe(str(number), text)
    for event in batch[:-1]:
        assert list(matcher.publish(event)) == sorted(reference.publish(event))
    [truths] = judge(texts, batch[-1:], batch[:-1])
    expected = sorted(str(number) for number, truth in enumerate(truths) if truth)
    assert sorted(id for id, _ in reference.match(batch[-1])) == expected
    assert matcher.match(batch[-1]).ids == expected
    for id in matcher:
        assert matcher.explain(batch[-1], id).matches == (id in expected)
    at_once = Matcher.from_table(_numbered(texts), background_merge=False).publish_batch(batch)
    assert {id for row, id in _found(at_once) if row == len(batch) - 1} == set(expected)


VALUES = [0, 1, "x", True, None, 2.5, dt.date(2026, 1, 31), ["x", 5], "12ab", -1]


def check_text(text: str) -> None:
    """Any text is read in one way or refused with a SubscriptionError, and means the same when it is written back."""
    try:
        condition = parse(text)
        normalise(condition)
    except SubscriptionError:
        return
    agree(text)
    names = [name.strip('"') for name in re.findall(r'"[^"]*"|\w+', text)]
    events = [{name: VALUES[(start + place) % 10] for place, name in enumerate(names)} for start in range(10)]
    matcher = Matcher.from_table(_numbered([text]))
    assert _found(matcher.match_batch(events)) == _by_reference([text], events)
    try:
        again = parse(to_sql(condition))
    except SubscriptionError as error:
        if "levels deep" in error.message:  # written back, each NOT has parentheses
            return
        raise
    assert [evaluate(again, event) for event in events] == [evaluate(condition, event) for event in events]


def check_xpath(expressions: list[tuple[str, str]], documents: list[str]) -> None:
    """An index finds the expressions that lxml finds; each is given as a user writes it and as lxml is asked."""
    index = XPathIndex()
    index.build([parse_xpath(text, NAMESPACES) for text, _ in expressions])
    index.check()
    found = index.match_batch(documents)
    assert not found.errors
    for place, document in enumerate(documents):
        root = etree.fromstring(document.encode(), etree.XMLParser(resolve_entities=False))
        evaluator = etree.XPathEvaluator(root, namespaces=NAMESPACES)
        expected = [number for number, (_, asked) in enumerate(expressions) if evaluator(f"boolean({asked})")]
        assert found[place].tolist() == expected, document


ASKED = ["/a", "//b", "//*[@x]", "//a[. = '2']", "//*[@* = '1']", "/a/b[2]", "//p:a", "//text()[. = 'ab']"]


def check_xml(document: bytes) -> None:
    """Bytes are refused if lxml refuses them, and otherwise hold what lxml finds in them."""
    index = XPathIndex()
    index.build([parse_xpath(text, NAMESPACES) for text in ASKED])
    found = index.match_batch([b"<a/>", document, b"<b/>"])
    assert (found[0].tolist(), found[2].tolist()) == ([0], [1]), "its neighbours are unharmed"
    try:
        root = read_document(document)
    except EventError:
        assert list(found.errors) == [1], "lxml refuses it"
        return
    assert not found.errors, "lxml accepts it"
    evaluator = etree.XPathEvaluator(root, namespaces=NAMESPACES)
    assert found[1].tolist() == [number for number, text in enumerate(ASKED) if evaluator(f"boolean({text})")]


def check_json(lines: list[bytes], texts: list[str]) -> None:
    """Lines that Python reads as objects of Unicode are events, the others are counted."""
    rows: list[Event] = []
    bad = 0
    for line in lines:
        try:
            value = json.loads(line.decode())
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            bad += bool(line.strip())
            continue
        bad += not isinstance(value, dict)
        rows += [value] if value and isinstance(value, dict) else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.jsonl")
        file.write_bytes(b"\n".join(lines) + b"\n")
        source = EventFiles(file, {})
        found = [row for batch in source.batches() for row in batch]
    assert (repr(found), source.bad) == (repr(rows), bad)
    if rows:
        _check_matcher(texts, rows)


def check_arrow(type: str, layout: str, values: list[Any], others: list[Any]) -> None:  # noqa: A002  # Arrow's word
    """A column of any type in any layout holds what the same values in dicts hold."""
    kind = next(kind for kind in TYPES if str(kind) == type)
    columns, rows = columns_of(layout, kind, values, others)
    matcher = Matcher.from_table([{"id": id, "where": where} for id, where in WHERES.items()])
    expected = {
        (row, id)
        for id, where in WHERES.items()
        for row, event in enumerate(rows)
        if evaluate(parse(where), event) is True
    }
    assert _found(matcher.match_batch(pa.table(columns, ["v", "w"]))) == expected
    assert _found(matcher.match_batch(rows)) == expected


def check_changes(steps: list[tuple[Any, ...]]) -> None:
    """After each change of a sequence, a Matcher and whoever opens its folder say what the reference says."""
    with tempfile.TemporaryDirectory() as folder:
        Changes(Path(folder, "index")).run(steps)


class Changes:
    """A Matcher in a folder and a reference that go through the same changes; one method for each kind of step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._matcher = Matcher(background_merge=False)
        self._matcher.save(folder)
        self._reference = ReferenceMatcher()
        self._committed = deepcopy(self._reference)

    def run(self, steps: list[tuple[Any, ...]]) -> None:
        """Take the steps, one after the other."""
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
        assert sorted(self._matcher) == sorted(self._reference)
        self._matcher.close()

    def subscribe(self, id: str, where: str, score: float) -> None:
        for each in (self._matcher, self._reference):
            each.subscribe(id, where, score)

    def subscribe_many(self, rows: dict[str, str]) -> None:
        table = pa.table({"id": pa.array(rows, pa.string()), "where": pa.array(rows.values(), pa.string())})
        assert self._matcher.subscribe_many(table) == []
        for id, where in rows.items():
            self._reference.subscribe(id, where)

    def unsubscribe(self, id: str) -> None:
        assert self._refuses(self._matcher.unsubscribe, id) == self._refuses(self._reference.unsubscribe, id)

    def rescore(self, id: str, score: float) -> None:
        refused = self._refuses(self._matcher.rescore, id, score)
        assert refused == self._refuses(self._reference.rescore, id, score)

    def _refuses(self, change: Callable[..., None], *arguments: Any) -> bool:
        try:
            change(*arguments)
        except UnknownSubscriptionError:
            return True
        return False

    def match(self, event: Event) -> None:
        expected = sorted(self._reference.match(event))
        assert list(self._matcher.match(event)) == expected
        best = sorted(expected, key=lambda match: (-match[1], match[0]))
        assert list(self._matcher.top_k(event, 2)) == best[:2]
        for id in self._matcher:
            assert self._matcher.explain(event, id).matches == (id in dict(expected))

    def match_batch(self, events: list[Event]) -> None:
        expected = {(row, id) for row, event in enumerate(events) for id, _ in self._reference.match(event)}
        assert _found(self._matcher.match_batch(events)) == expected

    def publish(self, event: Event) -> None:
        assert list(self._matcher.publish(event)) == sorted(self._reference.publish(event))

    def compact(self) -> None:
        self._matcher.compact()

    def commit(self) -> None:
        self._matcher.commit()
        self._committed = deepcopy(self._reference)

    def read(self, event: Event) -> None:
        """Another process opens what was committed."""
        with Matcher.open(self._folder, mode="read", background_merge=False) as reader:
            assert list(reader.match(event)) == sorted(self._committed.match(event))

    def reopen(self) -> None:
        """The writer ends without a commit, and another one goes on."""
        self._matcher.close()
        self._matcher = Matcher.open(self._folder, background_merge=False)
        self._reference = deepcopy(self._committed)


_PLAIN = st.one_of(strategies.comparisons(), strategies.comparisons(), strategies.patterns())
_ANY = strategies.conditions() | strategies.odd_conditions()
_IDS = st.sampled_from([*"abcdef", "é", "a b"])
_SCORES = st.sampled_from([0.0, 1.0, -2.5, 1e300])
_STANDING = strategies.conditions() | strategies.conditions_on_history()
_STEPS = st.one_of(
    st.tuples(st.just("subscribe"), _IDS, _STANDING, _SCORES),
    st.tuples(st.just("subscribe"), _IDS, _STANDING, _SCORES),
    st.tuples(st.just("subscribe_many"), st.dictionaries(_IDS, _STANDING, max_size=4)),
    st.tuples(st.just("unsubscribe"), _IDS),
    st.tuples(st.just("rescore"), _IDS, _SCORES),
    st.tuples(st.just("match"), strategies.events()),
    st.tuples(st.just("match_batch"), st.lists(strategies.events(), max_size=4)),
    st.tuples(st.just("publish"), strategies.events()),
    st.tuples(st.sampled_from(["compact", "commit", "reopen"])),
    st.tuples(st.just("read"), strategies.events()),
)


@st.composite
def _xpaths(draw: st.DrawFn) -> Case:
    source = RandomXPath(0)
    source.chance = draw(st.randoms(use_true_random=False))
    expressions = [source.expression() for _ in range(draw(st.integers(1, 12)))]
    return {"expressions": expressions, "documents": [source.document() for _ in range(draw(st.integers(1, 3)))]}


_TOKENS = [
    b"<",
    b">",
    b"&",
    b"/",
    b'"',
    b":",
    b"x:",
    b" xml:id='a'",
    b"<a>",
    b"</a>",
    b"]]>",
    b"\x01",
    b"\xff",
    b"\xc3",
]
_TOKENS += [b"<![CDATA[", b"<!--", b"-->", b"<?", b"?>", b"&#50;", b"&#0;", b"&amp;", b" xmlns='q'", b"\r", b"\0", b"="]


@st.composite
def _documents(draw: st.DrawFn) -> Case:
    """Documents in which some bytes are replaced, and some are of another encoding."""
    source = RandomXPath(0)
    source.chance = draw(st.randoms(use_true_random=False))
    data = source.document().encode()
    for _ in range(draw(st.integers(0, 3))):
        place, cut = draw(st.integers(0, len(data))), draw(st.integers(0, 3))
        data = data[:place] + draw(st.sampled_from(_TOKENS) | st.binary(max_size=3)) + data[place + cut :]
    if draw(st.integers(0, 9)) == 0:
        encoding = draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig"]))
        data = data.decode(errors="replace").encode(encoding, errors="replace")
    return {"document": data}


_JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 2.5, 10**20, 1e300, float("nan"), "", "a", "é", "1", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "x", ""]), inner, max_size=3),
    max_leaves=6,
)
_NAMES = [*strategies.COLUMNS, "user", "x"]
_LINES = st.one_of(
    st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=5).map(lambda row: json.dumps(row).encode()),
    st.builds(
        lambda row, place, more: json.dumps(row).encode()[:place] + more + json.dumps(row).encode()[place:],
        st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=3),
        st.integers(0, 40),
        st.sampled_from([b"", b"}", b"{", b'"', b",", b"\\u", b"\xff", b" ", b"\t", b"1", b"NaN", b"[", b"\xc3\xa9"]),
    ),
    st.sampled_from([b"", b"  ", b"null", b"[]", b"{}", b"1", b'{"i": 1, "i": 2}', b'{"i": 1e999}', b"[" * 9000]),
)


@st.composite
def _columns(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(list(TYPES)))
    values = st.lists(st.sampled_from(TYPES[kind]), min_size=2, max_size=6)
    layout = draw(st.sampled_from(list(LAYOUTS)))
    first = draw(values)
    others = draw(st.permutations(first))
    return {"type": str(kind), "layout": layout, "values": first, "others": list(others)}


def _case(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return st.fixed_dictionaries(fields)


TARGETS: dict[str, Target] = {
    "sql": Target(_case(texts=_texts(strategies.logic(_PLAIN)), batch=_batch(strategies.events())), check_sql),
    "expressions": Target(
        _case(
            pairs=st.lists(expression_strategies.conditions(), min_size=1, max_size=6),
            batch=_batch(expression_strategies.events()),
        ),
        check_expressions,
    ),
    "odd": Target(_case(texts=_texts(_ANY), batch=_batch(strategies.events() | strategies.odd_events())), check_odd),
    "history": Target(
        _case(texts=_texts(strategies.conditions_on_history(), 5), batch=_batch(strategies.events())), check_history
    ),
    "text": Target(_case(text=soups() | logic() | strategies.conditions()), check_text),
    "xpath": Target(_xpaths(), check_xpath),
    "xml": Target(_documents(), check_xml),
    "json": Target(_case(lines=st.lists(_LINES, max_size=6), texts=_texts(_ANY, 5)), check_json),
    "arrow": Target(_columns(), check_arrow),
    "changes": Target(_case(steps=st.lists(_STEPS, min_size=1, max_size=24)), check_changes),
}
