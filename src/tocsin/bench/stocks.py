"""A made-up day on a stock market: quotes, news about the companies, and the alerts that people set on both.

The same seed gives the same data, byte for byte.
"""

import datetime as dt
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Record = dict[str, object]

OPENING = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)
SECTORS = ("energy", "banks", "chips", "retail", "health", "transport", "media", "mining")
EXCHANGES = ("Amsterdam", "Frankfurt", "London", "New York", "Tokyo")
SOURCES = ("Harbour Wire", "Morning Ledger", "Street Talk", "The Examiner")
SYLLABLES = (
    "al",
    "ber",
    "cor",
    "dan",
    "el",
    "fen",
    "gar",
    "hol",
    "ist",
    "kas",
    "lor",
    "mer",
    "nor",
    "pel",
    "ros",
    "tan",
)

TOPICS = {
    "earnings": "profit rose in the quarter while analysts had expected a loss",
    "warning": "issued a profit warning as demand for its products fell",
    "merger": "agreed to a merger with a smaller rival after months of talks",
    "lawsuit": "faces a lawsuit over patents and denies the claims",
    "recall": "announced a product recall after reports of overheating batteries",
    "strike": "workers voted for a strike over pay at its largest plant",
    "dividend": "raised its dividend and plans to buy back shares",
    "chief": "named a new chief executive from outside the company",
    "factory": "will build a factory near the port and hire two thousand people",
    "outage": "services recovered after an outage that lasted most of the day",
}
FILLERS = (
    "The shares were little changed in early trading.",
    "A spokesperson declined to comment on the details.",
    "Analysts called the news a surprise and raised their targets.",
    "Regulators are expected to look into the matter next month.",
    "The company last gave an outlook in January.",
    "Trading volumes were twice the average of the past year.",
)


class Company:
    """A listed company, with the price that its quotes move around."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.name = "".join(chance.choices(SYLLABLES, k=3)).capitalize()
        self.symbol = f"{self.name[:3].upper()}{number}"
        self.sector = chance.choice(SECTORS)
        self.exchange = chance.choice(EXCHANGES)
        self.price = round(chance.lognormvariate(3.5, 0.8), 2)


def companies(seed: int = 1, count: int = 300) -> list[Company]:
    """The listed companies."""
    chance = random.Random(f"companies {seed}")
    return [Company(number, chance) for number in range(count)]


def events(count: int = 20_000, seed: int = 1) -> Iterator[Record]:
    """Quotes, and one piece of news for every four of them, in the order of time.

    >>> quote = next(events(1))
    >>> quote["id"], quote["kind"], quote["time"]
    ('e000000', 'quote', '2026-03-02T09:30:00+00:00')
    """
    chance = random.Random(f"events {seed}")
    listed = companies(seed)
    for number in range(count):
        company = chance.choice(listed)
        event: Record = {
            "id": f"e{number:06d}",
            "kind": "news" if number % 5 == 4 else "quote",
            "time": (OPENING + dt.timedelta(seconds=number)).isoformat(),
            "symbol": company.symbol,
            "sector": company.sector,
        }
        yield event | (_news(company, chance) if event["kind"] == "news" else _quote(company, chance))


def _quote(company: Company, chance: random.Random) -> Record:
    opening = company.price
    change = round(chance.gauss(0, 2), 2)
    price = round(opening * (1 + change / 100), 2)
    spread = abs(chance.gauss(0, 0.01)) * opening
    return {
        "exchange": company.exchange,
        "open": opening,
        "price": price,
        "high": round(max(opening, price) + spread, 2),
        "low": round(min(opening, price) - spread, 2),
        "change": change,
        "volume": int(chance.lognormvariate(9, 1.5)),
    }


def _news(company: Company, chance: random.Random) -> Record:
    tags = chance.sample(list(TOPICS), k=chance.choice((1, 1, 2)))
    sentences = [f"{company.name} {TOPICS[tag]}." for tag in tags]
    return {
        "source": chance.choice(SOURCES),
        "published": (OPENING.date() - dt.timedelta(days=chance.randrange(10))).isoformat(),
        "headline": f"{company.name}: {tags[0]} in {company.sector}",
        "body": " ".join(sentences + chance.sample(FILLERS, k=3)),
        "tags": tags,
        "sentiment": round(chance.uniform(-1, 1), 2),
        "premium": chance.random() < 0.2,
    }


def subscriptions(count: int = 50_000, seed: int = 1) -> Iterator[Record]:
    """Alerts of some thousand people: prices, moves, volumes, words in the news, dates, tags.

    >>> list(next(subscriptions(1)))
    ['id', 'where', 'score']
    """
    chance = random.Random(f"subscriptions {seed}")
    listed = companies(seed)
    kinds, weights = zip(*ALERTS, strict=True)
    for number in range(count):
        alert = chance.choices(kinds, weights)[0]
        yield {
            "id": f"person-{number % max(1, count // 10)}/alert-{number}",
            "where": alert(chance.choice(listed), chance),
            "score": round(chance.uniform(0.5, 5), 1),
        }


def _price(company: Company, chance: random.Random) -> str:
    limit = round(company.price * chance.uniform(1.0, 1.06), 2)
    return f"symbol = '{company.symbol}' AND price >= {limit}"


def _bargain(company: Company, chance: random.Random) -> str:
    high = round(company.price * chance.uniform(0.94, 1.0), 2)
    return f"symbol = '{company.symbol}' AND price BETWEEN {round(high * 0.97, 2)} AND {high}"


def _move(company: Company, chance: random.Random) -> str:
    percent = round(chance.uniform(2, 6), 1)
    return f"symbol = '{company.symbol}' AND change NOT BETWEEN {-percent} AND {percent}"


def _sector(company: Company, chance: random.Random) -> str:
    return (
        f"sector = '{company.sector}' AND exchange IN ('{company.exchange}', '{chance.choice(EXCHANGES)}') "
        f"AND volume > {chance.randrange(200, 900) * 1000} AND change < {-chance.uniform(3, 6):.1f}"
    )


def _rally(company: Company, chance: random.Random) -> str:
    return f"symbol = '{company.symbol}' AND price > open AND change > {chance.uniform(1, 4):.1f}"


def _words(company: Company, chance: random.Random) -> str:
    word = chance.choice(("profit", "merger rival", "patent*", "strike pay", "outage", "executive", "factory port"))
    return f"symbol = '{company.symbol}' AND has_words(body, '{word}')"


def _phrase(company: Company, chance: random.Random) -> str:
    phrase = chance.choice(("profit warning", "product recall", "chief executive", "voted for a strike"))
    return f"sector = '{company.sector}' AND has_phrase(body, '{phrase}') AND sentiment < {-chance.uniform(0.9, 1):.3f}"


def _headline(company: Company, chance: random.Random) -> str:
    topic = chance.choice(list(TOPICS))
    return f"headline LIKE '{company.name}:%{topic}%' AND source <> '{chance.choice(SOURCES)}'"


def _tags(company: Company, chance: random.Random) -> str:
    tag = chance.choice(list(TOPICS))
    return f"symbol = '{company.symbol}' AND array_contains(tags, '{tag}') AND premium"


def _recent(company: Company, chance: random.Random) -> str:
    day = OPENING.date() - dt.timedelta(days=chance.randrange(4))
    start = OPENING + dt.timedelta(minutes=chance.randrange(300))
    return (
        f"symbol = '{company.symbol}' AND (published >= DATE '{day}' OR change > 5) "
        f"AND time >= TIMESTAMP '{start:%Y-%m-%d %H:%M:%S}'"
    )


ALERTS: tuple[tuple[Callable[[Company, random.Random], str], int], ...] = (
    (_price, 28),
    (_bargain, 15),
    (_move, 14),
    (_sector, 8),
    (_rally, 8),
    (_words, 10),
    (_phrase, 3),
    (_headline, 4),
    (_tags, 5),
    (_recent, 5),
)
"""The kinds of alerts, and how many in a hundred are of each."""


def write(folder: Path, event_count: int, subscription_count: int, seed: int = 1) -> tuple[Path, Path]:
    """Write `events.jsonl` and `subscriptions.jsonl` into `folder`; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return (
        _write_lines(folder / "events.jsonl", events(event_count, seed)),
        _write_lines(folder / "subscriptions.jsonl", subscriptions(subscription_count, seed)),
    )


def _write_lines(path: Path, records: Iterable[Record]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path
