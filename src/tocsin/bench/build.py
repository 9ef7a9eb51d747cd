"""Building from texts of one shape, of 300, and of as many as there are texts, against parsing each text with sqlglot.

A text is three comparisons, or ten BETWEEN on ten of twenty attributes. What sqlglot does for each text is parse it; we
make the normal form that an index is built from, and the index.
"""

import random
import time

import pyarrow as pa

from tocsin.bench.runner import Report, Result
from tocsin.language.bulk import normalise_texts
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.matcher import Matcher

ATTRIBUTES = 20


def narrow(count: int, shapes: int, seed: int = 1) -> list[str]:
    """Texts of three comparisons with numbers, in turn of each of the shapes.

    >>> [text.count(" AND ") for text in narrow(2, 1)]
    [2, 2]
    """
    draw = random.Random(f"{shapes} {seed}")
    written = [
        " AND ".join(
            f"a{attribute:02} {draw.choice(('<', '<=', '>', '>='))} {{:.2f}}"
            for attribute in draw.sample(range(ATTRIBUTES), 3)
        )
        for _ in range(shapes)
    ]
    return [written[number % shapes].format(*(100 * draw.random() for _ in range(3))) for number in range(count)]


def wide(count: int, seed: int = 1) -> list[str]:
    """Texts of ten ranges, on ten of the attributes in any order: nearly as many shapes as texts."""
    draw = random.Random(seed)
    return [
        " AND ".join(
            f"a{attribute:02} BETWEEN {100 * draw.random():.2f} AND {100 + 100 * draw.random():.2f}"
            for attribute in draw.sample(range(ATTRIBUTES), ATTRIBUTES // 2)
        )
        for _ in range(count)
    ]


def run(
    *, subscriptions: int = 1_000_000, sample: int = 2_000, repeats: int = 2, seed: int = 1, quick: bool = False
) -> Report:
    """Build from each set of texts, and let sqlglot alone parse a sample of the same; compare the time a text.

    All is processor time, in turn, and the best of the repeats counts: the machine may be shared.
    """
    import sqlglot

    if quick:
        subscriptions, sample, repeats = min(subscriptions, 20_000), min(sample, 300), 1
    many = max(subscriptions // 10, 1)
    workloads = {
        "3 ranges, 1 shape": (narrow(subscriptions, 1, seed), 20),
        "3 ranges, 300 shapes": (narrow(subscriptions, min(300, many), seed), 20),
        f"3 ranges, {many:,} shapes": (narrow(subscriptions, many, seed), 8),
        "10 of 20 attributes, shapes as texts": (wide(many, seed), 8),
    }
    report = Report("build", {"subscriptions": subscriptions, "sample": sample, "seed": seed, "quick": quick})
    for workload, (texts, expected) in workloads.items():
        some = texts[:: max(len(texts) // sample, 1)][:sample]
        table = pa.table({"id": [f"{number:07}" for number in range(len(texts))], "where": texts})
        forms, builds, parses = [], [], []
        normalise_texts(some)
        for _ in range(repeats):
            start = time.process_time()
            form = normalise_texts(texts)
            forms.append((time.process_time() - start) / len(texts))
            start = time.process_time()
            for text in some:
                sqlglot.parse_one(text, dialect="duckdb")
            parses.append((time.process_time() - start) / len(some))
            start = time.process_time()
            Matcher().subscribe_many(table)
            builds.append((time.process_time() - start) / len(texts))
        best = min(parses)
        for engine, seconds in (("normal form", min(forms)), ("build", min(builds)), ("sqlglot parse", best)):
            result = Result(f"{engine}: {workload}", build_s=seconds * len(texts))
            result.extra |= {"texts": len(texts), "us_per_text": seconds * 1e6, "ratio": best / seconds}
            report.results.append(result)
        ratio = best / min(forms)
        report.claim(
            f"the normal form of texts of {workload} is at least {expected} times as fast as parsing each with sqlglot",
            f">= {expected}",
            f"{ratio:.1f}",
            ratio >= expected,
        )
        one_by_one, together = (
            sum(len(normalise(parse(text)).leaves) for text in some),
            len(normalise_texts(some).owner),
        )
        if form.errors or one_by_one != together or len(form.owner) + len(form.never) != len(texts):
            report.disagreements.append(f"{workload}: {together} conjunctions together, {one_by_one} one by one")
    return report
