"""Random subscriptions that look back, arriving before, between and after the events, against DuckDB."""

import datetime as dt
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tocsin import Matcher

NUMBERS, TEXTS = ["i", "j", "k"], ["s", "t"]
OPS = ["<", "<=", "=", "<>", ">=", ">"]
START = dt.datetime(2026, 1, 1)


def table_of(count: int, draw: random.Random) -> pa.Table:
    """Events with NULLs, skew, integers and floats, texts and times."""
    rows = [
        {
            "n": n,
            "i": draw.choice([None, *range(12)]),
            "j": draw.choice([None, 0.5, 1.0, 1.5, *map(float, range(8))]),
            "k": draw.choice([None, *[3] * 6, *range(-40, 40)]),
            "s": draw.choice([None, *"aaabcd"]),
            "t": draw.choice([None, "", "b", "zz", f"text {draw.randrange(50)}"]),
            "d": draw.choice([None, START + dt.timedelta(minutes=n * 7 + draw.randrange(200))]),
        }
        for n in range(count)
    ]
    schema = {"n": pa.int64(), "i": pa.int64(), "j": pa.float64(), "k": pa.int64()}
    schema |= {"s": pa.string(), "t": pa.string(), "d": pa.timestamp("us")}
    return pa.Table.from_pylist(rows, pa.schema(schema))


class Text:
    """A condition in both dialects: `event` and `history` of Tocsin, rows e and h of one table in DuckDB."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def pair(self) -> tuple[str, str]:
        names = self._draw.choice([NUMBERS, TEXTS, ["d"]])
        return self._draw.choice(names), self._draw.choice(names)

    def literal(self, name: str) -> str:
        if name == "d":
            at = START + dt.timedelta(minutes=self._draw.randrange(3000))
            return f"TIMESTAMP '{at}'"
        if name in TEXTS:
            return repr(self._draw.choice(["a", "b", "", "text 7", "x"]))
        return str(self._draw.choice([0, 1, 1.5, 3, 7, -10, 100]))

    def term(self) -> str:
        old, new = self.pair()
        op = self._draw.choice(OPS)
        kind = self._draw.randrange(8)
        if kind < 4:
            return f"h.{old} {op} event.{new}"
        if kind < 7:
            return f"h.{old} {op} {self.literal(old)}"
        return f"h.{old} IS {self._draw.choice(['', 'NOT '])}NULL"

    def where(self) -> str:
        terms = [self.term() for _ in range(self._draw.randrange(4))]
        if len(terms) > 1 and self._draw.random() < 0.4:
            terms[:2] = [f"{self._draw.choice(['', 'NOT '])}({terms[0]} {self._draw.choice(['AND', 'OR'])} {terms[1]})"]
        if self._draw.random() < 0.1:
            terms.append(f"h.i {self._draw.choice(['', 'NOT '])}BETWEEN 2 AND event.k")
        if self._draw.random() < 0.1:
            terms.append(f"h.s {self._draw.choice(['', 'NOT '])}IN ('a', 'd')")
        if self._draw.random() < 0.15:
            terms.append(f"h.d >= event.d - INTERVAL {self._draw.choice([30, 300, 3000])} MINUTES")
        return self._draw.choice([" AND ", " AND ", " OR "]).join(terms)

    def subquery(self, selected: str) -> str:
        where = self.where()
        return f"(SELECT {selected} FROM history h{' WHERE (' if where else ''}{where}{')' if where else ''})"

    def test(self) -> str:
        if self._draw.random() < 0.35:
            return f"EXISTS {self.subquery('1')}"
        if self._draw.random() < 0.1:
            return f"{self.subquery('count(*)')} {self._draw.choice(['> 0', '= 0', '<> 0', '< 1', '>= 1'])}"
        if self._draw.random() < 0.3:
            selected = self._draw.choice(
                ["count(*)", "count(h.s)", *(f"{of}(h.{n})" for of in ("sum", "avg") for n in NUMBERS)]
            )
            value = self._draw.choice([*(f"event.{name}" for name in NUMBERS), "0", "2", "5", "10", "1.5", "-7", "100"])
            sides = [value, self.subquery(selected)]
            self._draw.shuffle(sides)
            return f" {self._draw.choice(OPS)} ".join(sides)
        old, new = self.pair()
        if self._draw.random() < 0.3:
            value = f"event.{new}" if self._draw.random() < 0.7 else self.literal(old)
            extreme = self.subquery(f"{self._draw.choice(['min', 'max'])}(h.{old})")
            return f"{value} {self._draw.choice(OPS)} {extreme}"
        quantifier = self._draw.choice(["ANY", "ALL"])
        return f"event.{new} {self._draw.choice(OPS)} {quantifier} {self.subquery(f'h.{old}')}"

    def condition(self) -> str:
        tests = [self.test() for _ in range(self._draw.choice([1, 1, 1, 2]))]
        parts = [test if self._draw.random() < 0.7 else f"NOT ({test})" for test in tests]
        if self._draw.random() < 0.4:
            name = self._draw.choice(NUMBERS)
            parts.append(f"event.{name} {self._draw.choice(OPS)} {self.literal(name)}")
        return self._draw.choice([" AND ", " OR "]).join(parts)


def for_duckdb(text: str, retain: int | None) -> str:
    """The same over one table: the history of row e are the rows h with a lower number."""
    earlier = "FROM events h WHERE h.n < e.n" + (f" AND h.n >= e.n - {retain}" if retain else "")
    text = text.replace("FROM history h WHERE", f"{earlier} AND").replace("FROM history h", earlier)
    return text.replace("event.", "e.")


@pytest.mark.parametrize(
    ("subscriptions", "count", "retain"),
    [(40, 120, None), (25, 80, 10), pytest.param(300, 1500, None, marks=pytest.mark.slow)],
)
def test_duckdb_agrees_whenever_subscriptions_come(subscriptions: int, count: int, retain: int | None) -> None:
    draw = random.Random(subscriptions)
    events = table_of(count, draw)
    texts = {f"s{number}": Text(draw).condition() for number in range(subscriptions)}
    arrival = {id: draw.choice([0, draw.randrange(count), count - 1]) for id in texts}
    matcher = Matcher(retain_events=retain, background_merge=False)
    found: set[tuple[int, str]] = set()
    at = 0
    while at < count:
        for id, when in arrival.items():
            if when <= at and id not in matcher:
                matcher.subscribe(id, texts[id])
        later = [when for when in arrival.values() if when > at]
        stop = min([*later, at + draw.choice([1, 1, 7, 100, 400]), count])
        batch = events.slice(at, stop - at)
        if stop == at + 1 and draw.random() < 0.5:
            row: dict[str, Any] = batch.to_pylist()[0]
            found |= {(at, id) for id in matcher.publish(row).ids}
        else:
            rows = matcher.publish_batch(batch).to_pylist()
            found |= {(at + row["event"], row["subscription"]) for row in rows}
        at = stop
    with duckdb.connect(config={"threads": 1}) as judge:
        judge.register("rows", events)
        judge.execute("CREATE TABLE events AS FROM rows")
        expected = set()
        for id, text in texts.items():
            sql = for_duckdb(text, retain)
            numbers = judge.execute(f"SELECT e.n FROM events e WHERE e.n >= {arrival[id]} AND ({sql})").fetchall()
            expected |= {(n, id) for (n,) in numbers}
    wrong = found ^ expected
    assert not wrong, {texts[id] for _, id in wrong}
    assert found
