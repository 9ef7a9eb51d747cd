"""Normalising subscriptions by shape, against parsing each text with sqlglot.

The texts are of twenty shapes over all families of the language, with literals drawn anew for each.
"""

import random
import time

from tocsin.bench.runner import Report, Result
from tocsin.language.bulk import normalise_texts
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse

SHAPES = (
    "price < {i}",
    "price BETWEEN {x} AND {y}",
    "price > {x} AND volume > {i}",
    "author = '{w}' AND price BETWEEN {x} AND {y}",
    "symbol IN ('{w}', '{v}', 'X{i}')",
    "symbol = '{w}' AND (price < {x} OR price > {y})",
    "a0 BETWEEN {x} AND {y} AND a1 BETWEEN {x} AND {y} AND a2 BETWEEN {x} AND {y}",
    "a3 >= {x} AND a3 <= {y} AND a4 = {i}",
    "day > DATE '2026-01-{d}' AND price < {y}",
    "at < TIMESTAMP '2026-01-{d} 12:00:00' AND symbol <> '{w}'",
    "title LIKE '{w}%' AND volume >= {i}",
    "title LIKE '%{w}%' AND NOT (volume < {i})",
    "title ILIKE '%{w}_{v}%'",
    "has_words(body, '{w} {v}')",
    "has_words(body, '{w}*') AND price < {y}",
    "has_phrase(body, '{w} {v}') AND symbol = 'X{i}'",
    "array_contains(tags, '{w}') AND price IS NOT NULL",
    "high > low AND close >= {x}",
    "price < ANY (SELECT price FROM history) AND symbol = '{w}'",
    "EXISTS (SELECT 1 FROM history h WHERE h.symbol = event.symbol AND h.price > {x})",
)
WORDS = tuple(
    f"{first}{second}" for first in ("mer", "sol", "tor", "vel", "nor") for second in ("an", "ik", "os", "um")
)


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of the twenty shapes in turn.

    >>> texts(2)[0].startswith("price < ")
    True
    """
    draw = random.Random(seed)
    return [
        SHAPES[number % len(SHAPES)].format(
            i=draw.randrange(1000),
            x=round(draw.random(), 6),
            y=round(1 + draw.random(), 6),
            w=draw.choice(WORDS),
            v=draw.choice(WORDS),
            d=f"{draw.randrange(1, 29):02}",
        )
        for number in range(count)
    ]


def run(
    *, subscriptions: int = 1_000_000, sample: int = 2_000, repeats: int = 3, seed: int = 1, quick: bool = False
) -> Report:
    """Normalise all texts, and let sqlglot alone parse a sample of them; compare the time a text.

    Both are measured in processor time, in turn, and the best of the repeats counts: the machine may be shared.
    """
    import sqlglot

    if quick:
        subscriptions, sample = min(subscriptions, 100_000), min(sample, 1_000)
    where = texts(subscriptions, seed)
    some = where[:sample]
    normalise_texts(some)
    ours, theirs, single = [], [], []
    for _ in range(repeats):
        start = time.process_time()
        form = normalise_texts(where)
        ours.append((time.process_time() - start) / len(where))
        start = time.process_time()
        for text in some:
            sqlglot.parse_one(text, dialect="duckdb")
        theirs.append((time.process_time() - start) / len(some))
        start = time.process_time()
        for text in some:
            normalise(parse(text))
        single.append((time.process_time() - start) / len(some))
    report = Report(
        "language",
        {"subscriptions": subscriptions, "shapes": len(SHAPES), "sample": sample, "seed": seed, "quick": quick},
    )
    for engine, seconds in (("tocsin, many texts", ours), ("tocsin, one text", single), ("sqlglot parse", theirs)):
        best = min(seconds)
        report.results.append(
            Result(engine, build_s=best * subscriptions, extra={"us_per_text": best * 1e6, "ratio": min(theirs) / best})
        )
    expected = sum(len(normalise(parse(text)).leaves) for text in some)
    found = int((form.owner < sample).sum())
    if expected != found or form.errors:
        report.disagreements.append(
            f"{found} conjunctions by columns, {expected} one by one, {len(form.errors)} errors"
        )
    ratio = min(theirs) / min(ours)
    report.claim(
        "normalising texts of 20 shapes is at least 10 times as fast as parsing each with sqlglot",
        ">= 10",
        f"{ratio:.1f}",
        ratio >= 10,
    )
    return report
