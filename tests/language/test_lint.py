"""Warnings: what is allowed in a condition and probably not meant, given what events have."""

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tocsin import Matcher
from tocsin.cli import app, main
from tocsin.errors import OptionError
from tocsin.index.options import Options
from tocsin.language.lint import lint, position_of
from tocsin.model.schema import EventSchema

EVENTS = [
    {"price": 12.5, "name": "Ada", "urgent": True, "at": dt.datetime(2026, 1, 31), "tags": ["x"], "user": {"age": 36}},
    {"items": [{"sku": "x", "qty": 3}, None]},
    {"price": None, "name": None, "gone": None, "user": {"age": None, "name.first": "Ada"}},
]
TABLE = pa.table(
    {
        "price": [1.0],
        "name": ["x"],
        "urgent": [True],
        "at": [dt.datetime(2026, 1, 31)],
        "tags": [["x"]],
        "items": [[{"sku": "x", "qty": 3}]],
        "user": [{"age": 36, "name.first": "Ada"}],
        "gone": pa.array([None], pa.string()),
        "extra": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    }
)

CLEAN = [
    "price < 10 AND name = 'x' OR urgent",
    "price < '10' AND at >= '2026-01-01' AND urgent = 'yes'",
    "user.age > 5 AND array_contains(tags, 'x') AND has_words(name, 'a')",
    "price * 2 > 5 AND lower(name) = 'a' AND at + INTERVAL 1 DAY < now()",
    "price IS NULL AND coalesce(price, 0) = 0",
    "EXISTS (SELECT 1 FROM history h WHERE h.price < event.price)",
    "price IN (1, 'x')",
    "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE i.sku = 'x' AND i.qty * 2 > price AND i IS NOT NULL)",
    "EXISTS (SELECT 1 FROM UNNEST(tags) AS t(tag) WHERE tag = 'x')",
    "TRUE",
]
OF_ITEMS = "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE"
WARNED = [
    (f"{OF_ITEMS} i.skuu = 'x')", "unknown", 46, "Did you mean 'sku'?"),
    (f"{OF_ITEMS} sku = 'x')", "unknown", 44, "Elements of 'items' have it: write i.sku for those of i"),
    (f"{OF_ITEMS} lower(i.qty) = 'x')", "kind", 52, "Write a constant of its kind, or CAST the attribute"),
    ("EXISTS (SELECT 1 FROM UNNEST(item) i WHERE i.qty = 3)", "unknown", 29, "Did you mean 'items'?"),
    ("prize < 10", "unknown", 0, "Did you mean 'price'?"),
    ("name = 'x' AND Price < 10", "unknown", 15, "Did you mean 'price'?"),
    ("'prize' = name AND prize > 5", "unknown", 19, "Did you mean 'price'?"),
    ("price < 10 OR usr.age = 5", "unknown", 14, "Did you mean 'user.age'?"),
    ("lower(nam) = 'x'", "unknown", 6, "Did you mean 'name'?"),
    ("price > ANY (SELECT prices FROM history)", "unknown", 20, "Did you mean 'price'?"),
    ('name = "Ada"', "quoted", 7, "Write 'Ada'"),
    ("gone = 5", "absent", 0, "Only IS NULL holds for it"),
    ("price = 'ten'", "kind", 0, "Write a constant of its kind, or CAST the attribute"),
    ("name < 10", "kind", 0, "Write a constant of its kind, or CAST the attribute"),
    ("price", "kind", 0, "Write a constant of its kind, or CAST the attribute"),
    ("price LIKE '1%'", "kind", 0, "Write a constant of its kind, or CAST the attribute"),
    ("array_contains(name, 'x')", "kind", 15, "Write a constant of its kind, or CAST the attribute"),
    ("at BETWEEN 1 AND 2", "kind", 0, "Write a constant of its kind, or CAST the attribute"),
    ("name * 2 > 5", "kind", 0, "Write a constant of its kind, or CAST the attribute"),
    ("name = price", "kind", 0, "Values of two kinds do not compare: CAST one of them"),
    ("price < 5 AND price > 10", "never", None, "Look for AND in place of OR"),
]


@pytest.mark.parametrize("source", [EVENTS, TABLE], ids=["events", "table"])
@pytest.mark.parametrize("where", CLEAN)
def test_what_is_fine_is_not_warned_of(where: str, source: object) -> None:
    assert lint(where, EventSchema.of(source)) == []


@pytest.mark.parametrize("source", [EVENTS, TABLE], ids=["events", "table"])
@pytest.mark.parametrize(("where", "code", "position", "hint"), WARNED, ids=[row[0] for row in WARNED])
def test_warnings(where: str, code: str, position: int | None, hint: str, source: object) -> None:
    found = lint(where, EventSchema.of(source))
    assert [(one.code, one.position, one.hint) for one in found] == [(code, position, hint)]


def test_maps_have_any_key() -> None:
    assert lint("extra.b = 5 AND extra.c.d = 6", EventSchema.of(TABLE.schema)) == []
    assert [one.code for one in lint("extras.b = 5", EventSchema.of(TABLE.schema))] == ["unknown"]


def test_without_a_schema_only_contradictions_are_seen() -> None:
    assert lint("prize = 'x'") == []
    for where in ("a < 1 AND a > 2", "a = 5 AND a = 'x'"):
        assert [one.code for one in lint(where)] == ["never"]
    assert lint("a = 5 OR a = 'x'") == []


def test_places_of_names() -> None:
    assert position_of("'a' = b AND a = 1", "a") == 12
    assert position_of('x = 1 AND "a b" = 2', "a b") == 10
    assert position_of("event . user . age = 1", "user.age") == 8
    assert position_of("aa = 1", "a") is None


def test_a_schema_names_kinds() -> None:
    schema = EventSchema.of({"price": "number", "odd": None})
    assert lint("odd = 5 OR odd = TRUE OR price = 5", schema) == []
    assert [one.code for one in lint("price = 'x'", schema)] == ["kind"]
    with pytest.raises(OptionError, match="Choose among number"):
        EventSchema.of({"price": "double"})
    with pytest.raises(OptionError, match="is not a schema"):
        EventSchema.of(5)


def test_tables_with_a_schema_collect_warnings_and_are_taken() -> None:
    matcher = Matcher()
    rows = [
        {"id": "good", "where": "price < 1"},
        {"id": "odd", "where": "prize < 1"},
        {"id": "bad", "where": "price <"},
    ]
    assert [error.subscription for error in matcher.subscribe_many(rows, schema=TABLE.schema)] == ["bad"]
    assert [str(warning) for warning in matcher.warnings] == [
        "subscription 'odd', position 0: no event has 'prize'. Did you mean 'price'?"
    ]
    assert "odd" in matcher
    assert matcher.check(TABLE) == matcher.warnings
    assert matcher.check() == []


def test_command(tmp_path: Path) -> None:
    subscriptions, events, schema = (tmp_path / name for name in ("s.jsonl", "e.jsonl", "schema.json"))
    subscriptions.write_text('{"id": "odd", "where": "prize < 1"}\n', encoding="utf-8")
    events.write_text('{"price": 5}\n', encoding="utf-8")
    schema.write_text(json.dumps({"price": "number"}), encoding="utf-8")
    for option, file in (("--events", events), ("--schema", schema)):
        result = CliRunner().invoke(app, ["check", str(subscriptions), option, str(file)])
        assert result.exit_code == 0
        assert "Did you mean 'price'?" in result.stdout
    schema.write_text("[]", encoding="utf-8")
    assert main(["check", str(subscriptions), "--schema", str(schema)]) == 2


def test_the_task_of_an_executor_reports_warnings(tmp_path: Path) -> None:
    build = pytest.importorskip("tocsin.spark.build")
    rows = pa.table({"id": ["odd", "bad"], "where": ["prize < 1", "price <"]})
    schema = EventSchema.of(TABLE.schema)
    [report] = build.build_partition(rows.to_batches(), str(tmp_path), Options(), schema)
    told = [(row["subscription"], row["is_taken"], row["position"]) for row in report.to_pylist()[1:]]
    assert told == [("bad", False, 6), ("odd", True, 0)]
