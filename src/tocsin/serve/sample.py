"""The running example of `tocsin serve --demo`: alerts on a made-up market, and quotes that keep coming."""

import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

USERS = ("ada", "bob", "eve")
SYMBOLS = ("ACME", "GLOBEX", "INITECH", "UMBRELLA", "HOOLI", "STARK", "WAYNE", "WONKA")
NEWS = (
    "quarterly earnings beat expectations",
    "takeover rumours lift the shares",
    "regulator opens an inquiry",
    "dividend raised for the tenth year",
    "profit warning after a weak quarter",
)
PAUSE_S = 0.2
_NAMED = (
    ("cheap-acme", "ada", "symbol = 'ACME' AND price < 40", 1.0),
    ("takeover", "ada", "has_words(news, 'takeover')", 3.0),
    ("record", "bob", "symbol = 'HOOLI' AND price > ALL (SELECT price FROM history WHERE symbol = event.symbol)", 2.0),
    ("warning", "eve", "news LIKE '%warning%' OR news LIKE '%inquiry%'", 2.0),
)


def subscriptions(count: int = 2000) -> Iterator[dict[str, Any]]:
    """Return the alerts of the example."""
    chosen = random.Random(1)
    for id, user, where, score in _NAMED:
        yield {"id": id, "where": where, "score": score, "subscriber": user}
    for number in range(count):
        low = chosen.randint(5, 150)
        where = f"symbol = '{chosen.choice(SYMBOLS)}' AND price BETWEEN {low} AND {low + 2}"
        if number % 3 == 0:
            where += f" AND volume >= {chosen.randint(1, 9) * 1000}"
        user = chosen.choice(USERS) if number % 50 == 0 else f"user{number % 500}"
        yield {"id": f"alert-{number:04}", "where": where, "subscriber": user}


def quotes() -> Iterator[dict[str, Any]]:
    """Return quotes without end: prices walk at random, now and then there is news."""
    chosen = random.Random(2)
    prices = {symbol: chosen.uniform(20, 120) for symbol in SYMBOLS}
    while True:
        symbol = chosen.choice(SYMBOLS)
        prices[symbol] = max(5.0, prices[symbol] * chosen.uniform(0.97, 1.03))
        event: dict[str, Any] = {
            "symbol": symbol,
            "price": round(prices[symbol], 2),
            "volume": chosen.randint(1, 10_000),
        }
        if chosen.random() < 0.15:
            event["news"] = f"{symbol}: {chosen.choice(NEWS)}"
        yield event


def play(address: str) -> None:
    """Load the alerts and publish a quote every now and then, in a thread, as long as the server answers."""
    place = urlsplit(address)

    def send(method: str, path: str, body: bytes, kind: str) -> None:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=300)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            connection.getresponse().read()
        finally:
            connection.close()

    def run() -> None:
        lines = "\n".join(json.dumps(row) for row in subscriptions()).encode()
        coming = quotes()
        try:
            send("POST", "/subscriptions:bulk", lines, "application/x-ndjson")
            first = b"\n".join(json.dumps(event).encode() for event in itertools.islice(coming, 500))
            send("POST", "/publish", first, "application/x-ndjson")
            for event in coming:
                send("POST", "/publish", json.dumps({"event": event}).encode(), "application/json")
                time.sleep(PAUSE_S)
        except OSError:
            # The server has ended, and with it the example.
            return

    threading.Thread(target=run, name="demo", daemon=True).start()
