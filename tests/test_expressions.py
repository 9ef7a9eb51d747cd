"""Expressions all the way: subscriptions that compute, in every way that events come and indexes are kept."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.files.subscription_files import read_subscriptions
from tocsin.language import parse as parse_module
from tocsin.language.bulk import normalise_texts
from tocsin.language.normalise import normalise
from tocsin.language.parameters import bind_parameters
from tocsin.language.parse import parse
from tocsin.language.shape import Shape
from tocsin.language.template import Template
from tocsin.model.events import EventBatch
from tocsin.model.expression_tree import is_derived
from tocsin.model.values import Kind
from tocsin.reference import evaluate

BIG = 3_037_000_500
"""Its square is just beyond 64 bits."""


def evidence_of(table: pa.Table) -> dict[str, int]:
    errors: dict[str, int] = json.loads(table.schema.metadata[b"tocsin"])["errors"]
    return errors


def test_products_beyond_64_bits_are_exact_and_beyond_38_digits_errors() -> None:
    matcher = Matcher()
    matcher.subscribe("exact", f"n * n = {BIG**2}")
    matcher.subscribe("one more", f"n * n > {BIG**2}")
    matcher.subscribe("never null", "(n * n) IS NOT NULL")
    events: list[dict[str, int | None]] = [{"n": BIG}, {"n": BIG + 1}, {"n": 10**19}, {"n": None}, {"n": 2}]
    for given in (events, events[:2] + events[3:]):
        found = matcher.match_batch(given)
        by_event: dict[int, set[str]] = {row: set() for row in range(len(given))}
        for row in found.to_pylist():
            by_event[row["event"]].add(row["subscription"])
        for row, event in enumerate(given):
            square = (event["n"] or 0) ** 2 if event["n"] is not None else None
            expected = set()
            if square is not None and square < 10**38:
                expected = {"never null"} | ({"exact"} if square == BIG**2 else set())
                expected |= {"one more"} if square > BIG**2 else set()
            assert by_event[row] == expected, event
        assert sum(evidence_of(found).values()) == sum(event["n"] == 10**19 for event in given)
    assert matcher.match({"n": 10**19}).evidence.errors == {'("n" * "n"): overflow': 1}


@pytest.mark.parametrize(
    ("where", "event", "reason"),
    [
        ("n % m > 0", {"n": 1, "m": 0}, "a remainder by zero"),
        ("n + 1 > 0", {"n": "x"}, "+ of a string"),
        ("CAST(n AS INTEGER) > 0", {"n": "x"}, "a string that is no INTEGER"),
        ("CAST(n AS TINYINT) > 0", {"n": 200}, "a number that is no TINYINT"),
        ("CAST(n AS DATE) > DATE '2026-01-01'", {"n": "2026-02-30"}, "a string that is no DATE"),
        ("lower(n) = 'x'", {"n": 5}, "lower of a number"),
        ("year(n) = 5", {"n": True}, "year of a boolean"),
        ("n + INTERVAL 1 DAY > DATE '2026-01-01'", {"n": 5}, "a number plus an interval"),
        ("greatest(n, m) > 5", {"n": 5, "m": "x"}, "greatest of values of different kinds"),
        ("length(n) > 5", {"n": {"a": 1}}, "length of a value of no kind"),
        ("CASE WHEN n THEN 1 END > 5", {"n": "x"}, "a string for a condition"),
    ],
)
def test_what_has_no_value_is_null_and_counted(where: str, event: dict[str, object], reason: str) -> None:
    matcher = Matcher()
    matcher.subscribe("value", where)
    matcher.subscribe("null", f"({where}) IS NULL")
    for matches in (matcher.match(event).evidence.errors, evidence_of(matcher.match_batch([event] * 3))):
        assert [key.partition(": ")[2] for key in matches] == [reason]
    assert matcher.match(event).ids == ["null"]
    assert evaluate(parse(where), event) is None


def test_a_branch_that_is_not_taken_is_no_error() -> None:
    matcher = Matcher()
    matcher.subscribe("safe", "CASE WHEN m <> 0 THEN n % m ELSE -1 END = -1")
    found = matcher.match_batch([{"n": 1, "m": 0}, {"n": 1, "m": 1}, {"n": 5, "m": 3}])
    assert found["event"].to_pylist() == [0]
    assert evidence_of(found) == {}


def test_negative_zero_is_zero() -> None:
    matcher = Matcher()
    matcher.subscribe("zero", "-x = 0 AND x * 1.0e0 = 0 AND abs(x) = 0")
    assert matcher.match_batch([{"x": 0.0}, {"x": -0.0}, {"x": 0}])["event"].to_pylist() == [0, 1, 2]


def test_expressions_are_shared_and_stored(tmp_path: Path) -> None:
    texts = [f"price * quantity > {most} AND lower(name) = 'ada'" for most in range(50)]
    matcher = Matcher.from_table(pa.table({"id": [f"{n:02}" for n in range(50)], "where": texts}))
    assert matcher.attributes == {"price", "quantity", "name"}
    assert matcher.kinds == {"price": {Kind.NUMBER}, "quantity": {Kind.NUMBER}, "name": {Kind.STRING}}
    [state] = matcher._subscriptions.current().states
    assert len(state.segment.columns) == 2
    assert all(is_derived(column.attribute) for column in state.segment.columns)
    matcher.save(tmp_path / "index")
    matcher.close()
    event = {"price": 2.5, "quantity": 4, "name": "ADA"}
    with Matcher.open(tmp_path / "index") as opened:
        assert opened.match(event).ids == [f"{n:02}" for n in range(10)]
        opened.subscribe("new", "price * quantity = 10")
        opened.compact()
        opened.commit()
    with Matcher.open(tmp_path / "index", mode="read") as again:
        assert again.match(event).ids == [*(f"{n:02}" for n in range(10)), "new"]
        assert "(price * quantity) > 9  (it is 10.0)" in str(again.explain(event, "09"))


def test_nested_and_quoted_attributes() -> None:
    matcher = Matcher()
    matcher.subscribe("a", "\"user-agent\" || user.name = 'curlAda'")
    assert matcher.match({"user-agent": "curl", "user": {"name": "Ada"}}).ids == ["a"]
    table = pa.table({"user-agent": ["curl"], "user": [{"name": "Ada"}]})
    assert len(matcher.match_batch(table)) == 1


def test_no_name_of_an_event_is_a_derived_attribute() -> None:
    matcher = Matcher()
    matcher.subscribe("a", "x + 1 > 5")
    [state] = matcher._subscriptions.current().states
    name = state.segment.columns[0].attribute
    assert matcher.match({"x": 1}).ids == []
    with pytest.raises(SubscriptionError, match="NUL"):
        matcher.subscribe("b", f'"{name}" > 5')


def test_comparisons_with_the_history_compute_with_the_new_event() -> None:
    matcher = Matcher()
    matcher.subscribe("doubled", "price > ALL (SELECT price FROM history WHERE price > event.price / 4)")
    matcher.subscribe("left", "price * 2 < ANY (SELECT price FROM history)")
    matcher.subscribe("exists", "EXISTS (SELECT 1 FROM history h WHERE h.price = event.price + 1)")
    texts = {id: matcher[id].where for id in matcher}
    history: list[dict[str, float]] = []
    for price in (10, 3, 9, 50, 2, 49, 1.0):
        event = {"price": price}
        expected = [id for id in sorted(texts) if evaluate(parse(texts[id]), event, history)]
        assert matcher.match(event).ids == expected
        for id in texts:
            assert matcher.explain(event, id).matches == (id in expected)
        assert matcher.publish(event).ids == expected
        history.append(event)
    assert any(matcher.match({"price": price}).ids for price in (1, 8, 48))


def test_now_is_one_time_for_all_events() -> None:
    matcher = Matcher()
    matcher.subscribe("fresh", "published > now() - INTERVAL 7 DAYS")
    matcher.subscribe("age", "now() - published < INTERVAL '37 hours'")
    matcher.subscribe("today", "published::DATE = CURRENT_DATE")
    now = dt.datetime(2026, 1, 15, 12)
    days = [dt.datetime(2026, 1, 15), dt.datetime(2026, 1, 14), dt.datetime(2026, 1, 9), dt.datetime(2026, 1, 8)]
    expected = [["age", "fresh", "today"], ["age", "fresh"], ["fresh"], []]
    assert [matcher.match({"published": day}, now=now).ids for day in days] == expected
    for events in (pa.table({"published": days}), [{"published": day} for day in days]):
        found = matcher.match_batch(events, now=now)
        assert [[r["subscription"] for r in found.to_pylist() if r["event"] == n] for n in range(4)] == expected
    assert matcher.explain({"published": days[2]}, "fresh", now=now).matches
    assert not matcher.explain({"published": days[2]}, "fresh").matches
    assert matcher.match({"published": dt.datetime.now(dt.UTC)}).ids == ["age", "fresh", "today"]
    assert list(matcher.top_k({"published": days[0]}, 1, now=now)) == [("age", 1.0)]
    assert matcher.attributes == {"published"}
    assert matcher.kinds == {"published": {Kind.TIME}}
    late = matcher.match({"published": "2026-01-14"}, now=now)
    assert list(late.evidence.errors.values()) == [1], "the two share one derived attribute"


def test_now_is_compared_to_the_nanosecond() -> None:
    now = dt.datetime(2026, 1, 15)
    at = pa.array([0, 1, 1000, -1], pa.int64()).cast(pa.timestamp("ns"))
    at = pa.array([int(now.replace(tzinfo=dt.UTC).timestamp()) * 10**9 + n for n in (0, 1, 1000, -1)]).cast(at.type)
    matcher = Matcher()
    for op in ("<", "<=", "=", "<>", ">=", ">"):
        matcher.subscribe(op, f"at {op} now()")
        matcher.subscribe(f"flipped {op}", f"now() {op} at")
    found = matcher.match_batch(pa.table({"at": at}), now=now).to_pylist()
    by_event = [{row["subscription"] for row in found if row["event"] == n} for n in range(4)]
    after = {">", ">=", "<>", "flipped <", "flipped <=", "flipped <>"}
    before = {"<", "<=", "<>", "flipped >", "flipped >=", "flipped <>"}
    assert by_event == [{"<=", ">=", "=", "flipped <=", "flipped >=", "flipped ="}, after, after, before]


def test_bulk_shares_the_plan_of_texts_with_the_same_constants_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    by_sqlglot = parse_module.template_by_sqlglot

    def counted(shape: Shape) -> Template:
        parsed.append(shape)
        return by_sqlglot(shape)

    monkeypatch.setattr(parse_module, "template_by_sqlglot", counted)
    texts = [f"price * 1.{n % 3} < {n} AND round(x, {n % 2}) >= {n / 4}" for n in range(600)]
    form = normalise_texts([*texts, "price * 1.x < 5 AND round(x, 2) >= 1"])
    assert len(parsed) <= 12
    assert list(form.errors) == [600]
    found = form.conjunctions()
    for number in range(600):
        assert {frozenset(found[number])} == {frozenset(one) for one in normalise(parse(texts[number])).leaves}
    assert len(parsed) <= 24, "parsing one by one shares templates too"


def test_a_minus_is_a_sign_or_a_difference() -> None:
    event = {"price": 7}
    for text, truth in [
        ("price -1 > 5", True),
        ("price - 1 > 6", False),
        ("price-1=6", True),
        ("price > -1", True),
        ("price BETWEEN -1 AND 8 -1", True),
        ("price IN (-7, 8 - 1)", True),
        ("price - -1 = 8", True),
        ("price * -1 = -7", True),
        ("-1 < price", True),
        ("(price) -1 = 6", True),
        ("'a' < 'b' AND -price = -7", True),
    ]:
        assert evaluate(parse(text), event) is truth, text


def test_parameters() -> None:
    matcher = Matcher()
    matcher.subscribe("a", "author = :name AND price < :most", params={"name": "O'Brien; --", "most": Decimal("9.50")})
    matcher.subscribe(
        "b", "day >= :since AND symbol IN (:some)", params={"since": dt.date(2026, 1, 1), "some": ["X", "Y"]}
    )
    matcher.subscribe(
        "c", "x -:n = 1 AND y::INT = :m AND z IS NOT DISTINCT FROM :none", params={"n": -2, "m": 5, "none": None}
    )
    assert matcher.match({"author": "O'Brien; --", "price": 9}).ids == ["a"]
    assert matcher.match({"day": dt.date(2026, 1, 1), "symbol": "Y"}).ids == ["b"]
    assert matcher.match({"x": -1, "y": "5"}).ids == ["c"]
    rows = [
        {"id": "a", "where": "price < :most", "params": {"most": 5}},
        {"id": "b", "where": "price < :most", "params": {"least": 5}},
        {"id": "c", "where": "day = :day", "params": {"day": dt.date(2026, 1, 1)}},
        {"id": "d", "where": "price = 5"},
        {"id": "e", "where": "price < :most"},
    ]
    table = pa.table({"id": ["s"], "where": ["price < :most AND name = :n"], "params": [{"most": 2.5, "n": "x"}]})
    many = Matcher()
    assert [error.subscription for error in many.subscribe_many(rows)] == ["b", "e"]
    assert many.subscribe_many(table) == []
    assert many["c"].where == "day = DATE '2026-01-01'"
    assert many.match({"price": 2, "name": "x"}).ids == ["a", "s"]


def test_parameters_in_files(tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    lines = [{"id": "a", "where": "price < :most", "params": {"most": 5}}, {"id": "b", "where": "x", "params": 5}]
    file.write_text("\n".join(map(json.dumps, lines)))
    found = read_subscriptions(file)
    assert [error.subscription for error in found.rejected] == ["b"]
    assert Matcher.from_table(found)["a"].where == "price < 5"
    csv = tmp_path / "subscriptions.csv"
    csv.write_text('id,where,params\na,price < :most,"{""most"": 5}"\n')
    assert Matcher.from_table(read_subscriptions(csv))["a"].where == "price < 5"


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        ("a = :b", {}, "the parameter :b has no value"),
        ("a = 1", {"b": 1}, "no parameter :b"),
        ("a = ':b'", {"b": 1}, "no parameter :b"),
        ("a = :b", {"b": {}}, "the parameter :b is a dict"),
        ("a = :b", {"b": float("inf")}, "the parameter :b is inf"),
    ],
)
def test_parameters_in_error(text: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(SubscriptionError, match=message):
        bind_parameters(text, params)
    with pytest.raises(SubscriptionError, match=f"mine.*{message}"):
        Matcher().subscribe("mine", text, params=params)


def test_long_chains_are_read_and_matched() -> None:
    text = " + ".join(["a"] * 90)
    matcher = Matcher()
    matcher.subscribe("sum", f"{text} = 180")
    assert matcher.match({"a": 2}).ids == ["sum"]
    assert matcher.match_batch([{"a": 2}, {"a": "x"}, {"a": 10**30}])["event"].to_pylist() == [0]


@pytest.mark.parametrize(
    "word", ["desc", "ORDER", "group", "Limit", "set", "show", "table", "comment", "update", "load"]
)
def test_words_of_statements_are_names(word: str) -> None:
    event = {word: "x", "other": 1}
    for text in (f"{word} = 'x'", f"other = 1 AND {word} = 'x'", f"{word} IS NOT NULL", f"{word} || 'y' = 'xy'"):
        assert evaluate(parse(text), event) is True, text
    assert evaluate(parse(f"'{word}' = '{word}' AND other = 1"), event) is True
    with pytest.raises(SubscriptionError, match="a subquery on history has no"):
        parse("EXISTS (SELECT a FROM history ORDER BY a LIMIT 1)")


def test_a_difference_is_compared_with_a_time_that_is_written_as_a_string() -> None:
    event = {"day": dt.date(2026, 1, 31)}
    assert evaluate(parse("day + INTERVAL 1 DAY = '2026-02-01'"), event) is True
    assert evaluate(parse("day + 1 = '2026-02-01'"), event) is True


DAYS = [dt.date(2026, 1, 30), dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 0, 0, 0, 1), dt.datetime(2026, 1, 31)]
DAY_LITERALS = ["2026-01-31", "2026-01-31 00:00:00", "2026-01-31 00:00:00.000001", "2026-01-30 12:00:00", "0099-01-01"]
DAY_LITERALS += ["2026-01-31T00:00:00Z", "2026-01-31T01:00:00+01:00", "2026-01-31 00:00:00.000"]
NO_DAYS = ["2026-02-30", "2026-01-31T00:00:00X", "31.01.2026"]


@pytest.mark.parametrize("literal", DAY_LITERALS)
@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_a_string_that_reads_as_a_time_compares_with_times(op: str, literal: str) -> None:
    texts = {"": f"day {op} '{literal}'", "not": f"NOT ('{literal}' {op} day)"}
    typed = {"": f"day {op} TIMESTAMP '{literal}'", "not": f"NOT (TIMESTAMP '{literal}' {op} day)"}
    for key, text in texts.items():
        expected = [evaluate(parse(typed[key]), {"day": day}) for day in DAYS]
        assert [evaluate(parse(text), {"day": day}) for day in DAYS] == expected
        matcher = Matcher.from_table(pa.table({"id": [f"{n}" for n in range(6)], "where": [text] * 6}))
        rows = [row for row, truth in enumerate(expected) if truth]
        times = [dt.datetime(day.year, day.month, day.day) if type(day) is dt.date else day for day in DAYS]
        for events in ([{"day": day} for day in DAYS], pa.table({"day": pa.array(times, pa.timestamp("us"))})):
            assert sorted(set(matcher.match_batch(events)["event"].to_pylist())) == rows
        # Strings compare as strings, as ever.
        for day in ("2026-01-31", "2026-01-31 00:00:00", "2026", "x"):
            assert evaluate(parse(text), {"day": day}) is evaluate(
                parse(text.replace("day", "lower(day)")), {"day": day}
            )


@pytest.mark.parametrize("literal", NO_DAYS)
def test_a_string_that_reads_as_no_time_compares_with_strings_alone(literal: str) -> None:
    for op in ("=", "<", ">="):
        assert evaluate(parse(f"day {op} '{literal}'"), {"day": DAYS[0]}) is None
        assert evaluate(parse(f"day {op} '{literal}'"), {"day": literal}) is (op != "<")


def test_lists_and_bounds_that_read_as_times() -> None:
    days = [dt.date(2026, 1, day) for day in (1, 2, 3)]
    for text in (
        "day IN ('2026-01-01', '2026-01-03', 'x', NULL)",
        "day BETWEEN '2026-01-01' AND '2026-01-01 12:00:00' OR day BETWEEN '2026-01-03' AND '2026-01-04'",
        "day IS NOT DISTINCT FROM '2026-01-01' OR day IN ('2026-01-03')",
    ):
        assert [evaluate(parse(text), {"day": day}) is True for day in days] == [True, False, True]
        matcher = Matcher()
        matcher.subscribe("a", text)
        assert matcher.match_batch([{"day": day} for day in days])["event"].to_pylist() == [0, 2]
        assert matcher.match_batch([{"day": str(day)} for day in days])["event"].to_pylist() == [0, 2]
        assert matcher.attributes == {"day"}
        assert matcher.explain({"day": days[0]}, "a").matches
    assert "day >= '2026-01-01'" in str(_explained("day >= '2026-01-01'", {"day": days[0]}))


def _explained(where: str, event: dict[str, object]) -> str:
    matcher = Matcher()
    matcher.subscribe("a", where)
    return str(matcher.explain(event, "a")).partition("\n")[2]


SINGLE = [
    *(
        "a * b > 5",
        "a + 1 = 6",
        "a % b = 1",
        "lower(s) = 'é'",
        "length(s) > 0",
        "coalesce(a, 7) = 7",
        "a IS NULL OR a > 0",
    ),
    *("user.age + 1 = 37", "day + 1 = DATE '2026-02-01'", "at < now()", "concat(s, a) = 'x5'", "s = '5'", "a // b = 2"),
    *("CASE WHEN a IS NULL THEN TRUE END", "greatest(a, b) = 5", "len(tags) = 2", "5 < ANY(tags)"),
]
SINGLE_EVENTS: list[dict[str, object]] = [
    {},
    {"a": 5, "b": 2, "s": "x"},
    {"a": 5, "b": 0},
    {"a": "5", "b": 2, "s": 5},
    {"a": float("nan"), "b": 2.5, "s": "É"},
    {"a": 10**30, "b": 10**30},
    {"a": True, "s": "bad \ud800", "tags": [1, 6]},
    {"user": {"age": 36}, "day": dt.date(2026, 1, 31), "at": dt.datetime(2020, 1, 1)},
    {"user.age": 36, "a": None, "at": None, "tags": "no list"},
]


@pytest.mark.parametrize("event", SINGLE_EVENTS, ids=str)
def test_a_single_event_is_computed_as_a_batch_is(event: dict[str, object]) -> None:
    # More than are compared one by one, so that there is a segment.
    wheres = SINGLE * 10
    matcher = Matcher.from_table(pa.table({"id": [f"{n}" for n in range(len(wheres))], "where": wheres}))
    both = matcher.match_batch([event, {}])
    found = [row["subscription"] for row in both.to_pylist() if row["event"] == 0]
    single = matcher.match(event)
    assert sorted(single.ids) == sorted(found)
    read = EventBatch([event]).event(0)
    assert sorted(found) == sorted(f"{n}" for n, where in enumerate(wheres) if evaluate(parse(where), read) is True)
    reasons = {"a remainder by zero", "overflow", "* of a string", "a division by zero"}
    for reason in reasons:
        expected = any(reason in key for key in errors_of(event, wheres))
        assert any(reason in key for key in single.evidence.errors) == expected


def errors_of(event: dict[str, object], wheres: list[str]) -> dict[str, int]:
    batch = EventBatch([event])
    for where in wheres:
        condition = parse(where)
        attribute = getattr(condition, "attribute", None)
        if attribute is not None:
            batch.column(attribute)
    return batch.unreadable


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("function", ["upper", "lower"])
def test_the_case_of_a_slice_changes_wherever_it_begins(type_: pa.DataType, function: str) -> None:
    """Arrow changes the case of other bytes if those of the slice are not the first of their buffer."""
    texts = [["Ada", "Abe", None, "Bob"][number * 7 % 4] for number in range(40)]
    column = pa.array(texts, type_)
    matcher = Matcher()
    matcher.subscribe("ada", f"{function}(s) = '{getattr('Ada', function)()}'")
    for start in range(30):
        found = matcher.match_batch(pa.table({"s": column.slice(start, 10)}))["event"].to_pylist()
        assert sorted(found) == [row for row, text in enumerate(texts[start : start + 10]) if text == "Ada"], start
