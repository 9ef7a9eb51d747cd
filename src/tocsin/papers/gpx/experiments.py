"""GPX-Matcher's experiments again (Figures 2 to 6), on document types of our own, and the speed promised beyond them.

Times are processor times of one thread, total filtering time as in the paper: parsing, matching, collecting the ids.
Engines take turns, and the median of their turns counts.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from lxml import etree

from tocsin.bench.runner import Figure, Report, Result
from tocsin.errors import TocsinError
from tocsin.papers.gpx import XPATH_INDEXES
from tocsin.papers.gpx.workload import DTDS, generate_documents, generate_expressions
from tocsin.predicates.xpath import StructureIndex, XPath, parse_xpath

ENGINES: Final = ("auto", "gpx-ap", "gpx", "gpx-apf", "yfilter", "bpa")
TOP: Final = ("auto", "gpx-ap", "gpx", "yfilter")
_TURNS: Final = 5
_DRAWN: Final = 250_000
"""Expressions that are generated where more are needed with duplicates: the others are drawn from them."""
_ROLE: Final = {"newswire": "NITF", "protein": "PSD", "astronomy": "NASA"}


def run(quick: bool = False, seed: int = 1, figure: list[int] | None = None) -> Report:
    """Run the experiments; `quick` takes a tenth of the expressions and fewer documents and points.

    `figure` chooses among the paper's figures, 2 to 6; without it all of them are run.
    """
    report = Report("gpx", {"quick": quick, "seed": seed, "documents": _documents(quick)})
    parts = {2: _distinct, 3: _duplicates, 4: _operators, 5: _lengths, 6: _filters}
    chosen = figure or list(parts)
    for number in chosen:
        if number not in parts:
            raise TocsinError(f"The paper has no experiment in Figure {number}", "Choose from 2 to 6.")
    for number in chosen:
        parts[number](report, quick, seed)
    _against_lxml(report, quick, seed)
    _nested(report)
    return report


def _documents(quick: bool, share: int = 1) -> int:
    """How many documents: fewer, by `share`, where each yields many ids or where there are many points."""
    return (40 if quick else 200) // share


def _parse(texts: Sequence[str]) -> list[XPath]:
    known: dict[str, XPath] = {}
    return [known[text] if text in known else known.setdefault(text, parse_xpath(text)) for text in texts]


def _built(name: str, expressions: Sequence[XPath]) -> StructureIndex:
    index = XPATH_INDEXES[name]()
    index.build(expressions)
    return index


def _seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """The median processor time of `work`, so that a busy machine counts little."""
    spent = []
    for _ in range(repeat):
        start = time.thread_time()
        work()
        spent.append(time.thread_time() - start)
    return statistics.median(spent)


def _filtering(
    report: Report, engines: Sequence[str], texts: Sequence[str], documents: Sequence[bytes], label: str
) -> dict[str, float]:
    """Total filtering time of each engine in milliseconds a document; all must find the same."""
    expressions = _parse(texts)
    indexes = {name: _built(name, expressions) for name in engines}
    answers = {name: index.match_batch(documents).ids for name, index in indexes.items()}
    turns: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(_TURNS):
        for name, index in indexes.items():
            start = time.thread_time()
            index.match_batch(documents)
            turns[name].append(time.thread_time() - start)
    times = {name: 1000 * statistics.median(spent) / len(documents) for name, spent in turns.items()}
    for name, index in indexes.items():
        done = index.statistics
        report.results.append(
            Result(
                name,
                events_per_s=1000 / times[name],
                matches=None,
                bytes_per_subscription=index.nbytes / len(texts),
                extra={
                    "experiment": label,
                    "expressions": len(texts),
                    "distinct": done.distinct,
                    "ms_per_document": times[name],
                    "matches_per_document": len(answers[name]) / len(documents),
                    "candidates_per_document": done.candidates / done.documents,
                },
            )
        )
    first = answers[engines[0]]
    report.disagreements += [
        f"{label}: {name} differs from {engines[0]}" for name in engines if not np.array_equal(answers[name], first)
    ]
    return times


def _sweep(
    report: Report,
    name: str,
    title: str,
    x: str,
    points: Sequence[tuple[float, Sequence[str], Sequence[bytes]]],
    engines: Sequence[str],
) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {engine: [] for engine in engines}
    for value, texts, documents in points:
        for engine, spent in _filtering(report, engines, texts, documents, f"{name}, {x} {value:g}").items():
            series[engine].append((value, spent))
    report.figures.append(Figure(f"gpx_{name}", title, x, "ms a document", series, log_y=True))
    return series


def _distinct(report: Report, quick: bool, seed: int) -> None:
    """Figure 2: distinct expressions, L = 6, W = 0.2, DO = 0.2."""
    for dtd, most in (("newswire", 90_000), ("protein", 9_000), ("astronomy", 9_000)):
        if quick:
            most //= 10
        documents = generate_documents(dtd, _documents(quick), seed=seed)
        texts = generate_expressions(dtd, most, seed=seed)
        most = len(texts)
        counts = [most] if quick else [most // 9, most // 3, most]
        points = [(count, texts[:count], documents) for count in counts]
        series = _sweep(
            report, f"2_{dtd}", f"Figure 2: distinct expressions, {_ROLE[dtd]}-like", "distinct", points, ENGINES
        )
        last = {name: spent[-1][1] for name, spent in series.items()}
        if dtd == "newswire":
            rate = last["yfilter"] / last["gpx-ap"]
            report.claim(f"GPX-ap against YFilter at {most:,} distinct", "at least 5 times", f"{rate:.1f}", rate >= 5)
            rate = last["gpx"] / last["gpx-ap"]
            report.claim("GPX-ap against GPX (paper: an order of magnitude)", "at least 10", f"{rate:.1f}", rate >= 10)
            rate = last["gpx-apf"] / last["gpx"]
            report.claim("GPX-apf gains nothing over GPX (paper)", "at least 0.8", f"{rate:.2f}", rate >= 0.8)
            report.claim(
                f"GPX-ap and YFilter at {most:,} distinct, ms a document",
                "paper, 90,000: under 1 and 18",
                f"{last['gpx-ap']:.2f} and {last['yfilter']:.2f}",
                last["gpx-ap"] < 1,
            )
            size = _built("auto", _parse(texts)).nbytes / most
            report.claim("bytes a distinct expression", "at most 150", f"{size:.0f}", size <= 150)
        if dtd == "protein":
            rate = last["yfilter"] / last["gpx"]
            report.claim(
                f"GPX against YFilter, {_ROLE[dtd]}-like (paper)", "more than 3 times", f"{rate:.2f}", rate > 3
            )
        rate = last["yfilter"] / last["auto"]
        report.claim(f"auto against YFilter, {_ROLE[dtd]}-like", "faster", f"{rate:.1f} times", rate > 1)


def _duplicates(report: Report, quick: bool, seed: int) -> None:
    """Figure 3: with duplicates, NITF-like (a), PSD-like (b) and all three types mixed (c)."""
    for part, kinds in (("a", DTDS[:1]), ("b", DTDS[1:2]), ("c", DTDS)):
        share = len(kinds)
        documents = [
            document for dtd in kinds for document in generate_documents(dtd, _documents(quick, 5 * share), seed=seed)
        ]
        sample = (25_000 if quick else 250_000) // share
        base = [text for dtd in kinds for text in generate_expressions(dtd, sample, distinct=False, seed=seed)]
        chance = random.Random(seed)
        counts = [100_000] if quick else [500_000, 1_000_000, 2_000_000, 4_000_000]
        points = [(count / 1e6, chance.choices(base, k=count), documents) for count in counts]
        which = "mixed" if share > 1 else f"{_ROLE[kinds[0]]}-like"
        name = "3_mixed" if share > 1 else f"3_{kinds[0]}"
        title = f"Figure 3{part}: with duplicates, {which}"
        series = _sweep(report, name, title, "million expressions", points, TOP)
        best = min(series["gpx"][-1][1], series["yfilter"][-1][1]) / series["gpx-ap"][-1][1]
        report.claim(
            f"GPX-ap against the better of GPX and YFilter, duplicates, {which} (paper: an order of magnitude)",
            "at least 10 times", f"{best:.1f}", best >= 10,
        )  # fmt: skip
        if part == "a":
            _million(report, points[-1][1] if quick else points[1][1], documents)


def _million(report: Report, texts: Sequence[str], documents: Sequence[bytes]) -> None:
    """Add the promises for a million expressions."""
    index = _built("auto", _parse(texts))
    once = _built("auto", sorted(set(_parse(texts)), key=str))
    batch, distinct = index.encode(documents), once.encode(documents)
    parsing = _seconds(lambda: index.encode(documents))
    cold = _seconds(lambda: once.match_encoded(distinct), repeat=1)
    found = _seconds(lambda: once.match_encoded(distinct))
    warm = _seconds(lambda: index.match_encoded(batch))
    each = (index.nbytes - once.nbytes) / (len(index) - len(once))
    size = f"{len(texts):,} expressions"
    rate = found / parsing
    report.claim(f"{size}: distinct ones found, warm, over parsing", "at most 1", f"{rate:.2f}", rate <= 1)
    report.claim(f"{size}: distinct ones found, cold", "at most 5", f"{cold / parsing:.2f}", cold <= 5 * parsing)
    report.claim(f"{size}: every id written, warm, over parsing", "at most 1", f"{warm / parsing:.2f}", warm <= parsing)
    report.claim("bytes a duplicate", "at most 12", f"{each:.1f}", each <= 12)


def _operators(report: Report, quick: bool, seed: int) -> None:
    """Figure 4: the probability of wildcards and of descendant operators."""
    count = 5_000 if quick else 2_000_000
    values = (0.0, 0.7) if quick else (0.0, 0.2, 0.45, 0.7)
    for dtd in DTDS[:1] if quick else DTDS:
        documents = generate_documents(dtd, _documents(quick, 10), seed=seed)
        for option, fixed, letter in (("wildcard", "descendant", "W"), ("descendant", "wildcard", "DO")):
            points = []
            for value in values:
                chances = {option: value, fixed: 0.2}
                texts = generate_expressions(
                    dtd,
                    min(count, _DRAWN),
                    distinct=False,
                    wildcard=chances["wildcard"],
                    descendant=chances["descendant"],
                    seed=seed,
                )
                points.append((value, random.Random(seed).choices(texts, k=count), documents))
            title = f"Figure 4: probability of {'*' if letter == 'W' else '//'}, {_ROLE[dtd]}-like"
            series = _sweep(report, f"4_{dtd}_{letter}", title, letter, points, TOP)
            if option == "descendant" and dtd == "newswire":
                ap = [spent for _, spent in series["gpx-ap"]]
                growth = ap[-1] / ap[0]
                report.claim("GPX-ap flat over DO (paper)", "0.7 costs under 2 times 0", f"{growth:.1f}", growth < 2)


def _lengths(report: Report, quick: bool, seed: int) -> None:
    """Figure 5: expressions and documents of 6 to 12 levels (a), expressions of 6 to 10 in documents of 10 (b)."""
    count = 5_000 if quick else 50_000
    documents = generate_documents("newswire", _documents(quick, 2), levels=10, seed=seed)
    lengths = (6, 10) if quick else (6, 7, 8, 9, 10)
    points = [
        (float(length), generate_expressions("newswire", count, length=length, seed=seed), documents)
        for length in lengths
    ]
    title = "Figure 5b: length of expressions, documents of 10 levels, NITF-like"
    series = _sweep(report, "5b_newswire", title, "length", points, TOP)
    best = min(series["gpx"][-1][1], series["yfilter"][-1][1]) / series["gpx-ap"][-1][1]
    name = "GPX-ap against the better of GPX and YFilter, 10 long in 10 levels (paper: an order of magnitude)"
    report.claim(name, "at least 10 times", f"{best:.1f}", best >= 10)
    points = []
    for length in (6, 10) if quick else (6, 8, 10, 12):
        documents = generate_documents("newswire", _documents(quick, 2), levels=length, seed=seed)
        texts = generate_expressions("newswire", count, length=length, seed=seed)
        points.append((float(length), texts, documents))
    _sweep(report, "5_newswire", "Figure 5a: length of expressions and documents, NITF-like", "length", points, TOP)
    _claim_bytes(report, f"up to {points[-1][0]:g} long", "5_newswire")


def _filters(report: Report, quick: bool, seed: int) -> None:
    """Figure 6: 0 to 10 filters on attributes (a, b); one or two, and the number of expressions (c, d)."""
    size = 5_000 if quick else 500_000
    for dtd in DTDS[:1] if quick else DTDS[:2]:
        documents = generate_documents(dtd, _documents(quick, 10), seed=seed)
        numbers = (0, 2) if quick else (0, 1, 2, 5, 10)
        texts_of = {count: generate_expressions(dtd, size, filters=count, seed=seed) for count in {1, *numbers}}
        points = [(count, texts_of[count], documents) for count in numbers]
        for number in (1, 2):
            texts = texts_of[number]
            counts = [len(texts)] if quick else [len(texts) // 5, len(texts) // 2, len(texts)]
            growing = [(count / 1000, texts[:count], documents) for count in counts]
            title = f"Figure 6{'c' if dtd == DTDS[0] else 'd'}: {number} filters, {_ROLE[dtd]}-like"
            series = _sweep(
                report, f"6_{dtd}_{number}", title, "thousand expressions", growing, ("auto", "gpx-ap", "yfilter")
            )
            rate = series["yfilter"][-1][1] / series["gpx-ap"][-1][1]
            name = f"GPX-ap against YFilter, {number} filters, {_ROLE[dtd]}-like (paper: significantly faster)"
            report.claim(name, "at least 1.5 times", f"{rate:.1f}", rate >= 1.5)
        title = f"Figure 6: filters on attributes, {_ROLE[dtd]}-like"
        series = _sweep(report, f"6_{dtd}", title, "filters an expression", points, ("auto", "gpx-ap", "yfilter"))
        most, ap, postponed = points[-1][0], series["gpx-ap"][-1][1], series["yfilter"][-1][1]
        name = f"GPX-ap, filters inline, against YFilter at {most} filters, {_ROLE[dtd]}-like (paper)"
        report.claim(name, "at least 1.5 times", f"{postponed / ap:.1f}", postponed >= 1.5 * ap)
        rates = [ap / auto for (_, ap), (_, auto) in zip(series["gpx-ap"], series["auto"], strict=True)]
        name = f"auto against GPX-ap, 0 to {most} filters, {_ROLE[dtd]}-like, the worst of them"
        report.claim(name, "at least 0.9 times", f"{min(rates):.2f}", min(rates) >= 0.9)
        _claim_bytes(report, f"up to {most} filters, {_ROLE[dtd]}-like", f"6_{dtd}")


def _claim_bytes(report: Report, which: str, experiment: str) -> None:
    """The most memory that the better indexes took in an experiment."""
    sizes = [
        result.bytes_per_subscription or 0.0
        for result in report.results
        if result.engine in ("auto", "gpx-ap") and str(result.extra["experiment"]).startswith(experiment)
    ]
    report.claim(f"bytes a distinct expression, {which}", "at most 150", f"{max(sizes):.0f}", max(sizes) <= 150)


def _against_lxml(report: Report, quick: bool, seed: int) -> None:
    """lxml evaluates compiled expressions one by one, on trees that are there already."""
    count = 1_000 if quick else 10_000
    texts = generate_expressions("newswire", count, seed=seed)
    documents = generate_documents("newswire", 20, seed=seed)
    compiled = [etree.XPath(f"boolean({text})") for text in texts]
    trees = [etree.fromstring(document) for document in documents]
    slow = _seconds(lambda: [[evaluate(tree) for evaluate in compiled] for tree in trees], repeat=1)
    index = _built("auto", _parse(texts))
    many = list(documents) * 10
    index.match_batch(many)
    batch = index.encode(many)
    fast = _seconds(lambda: index.match_encoded(batch)) / 10
    whole = _seconds(lambda: index.match_batch(many)) / 10
    name = f"lxml one by one at {count:,} distinct, over auto"
    least = count // 10
    report.claim(f"{name}, documents read by both", f"at least {least}", f"{slow / fast:,.0f}", slow >= least * fast)
    report.claim(f"{name} with its parsing", "reported", f"{slow / whole:,.0f}", True)


def _nested(report: Report) -> None:
    """Forty nested equal tags against forty distinct ones, in steps, with the expressions that repeat them."""
    tags = [f"t{number}" for number in range(40)]
    for name in ENGINES:
        steps = []
        for nest in (["a"] * 40, tags):
            index = _built(name, _parse(["//" + "//".join(nest[:length]) for length in range(1, 39)]))
            opened = "".join(f"<{tag}>" for tag in nest)
            index.match(opened + "".join(f"</{tag}>" for tag in reversed(nest)))
            steps.append(index.statistics.steps)
        rate = steps[0] / steps[1]
        report.claim(
            f"steps for 40 equal nested tags over 40 distinct, {name}", "at most 20", f"{rate:.1f}", rate <= 20
        )
