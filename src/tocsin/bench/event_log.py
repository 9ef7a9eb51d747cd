"""The workload `event-log`: rules over XML events by the values of elements, and documents with many names."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

from tocsin.bench.runner import Report, Result
from tocsin.predicates.xpath import XPathIndex, parse_xpath

_TURNS: Final = 5
_SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "element": lambda number: f"/Event/System[EventID = {number}]",
    "attribute below": lambda number: f"/Event[System/Provider/@Name = 'x{number}']",
    "attribute": lambda number: f"/Event/System/Provider[@Name = 'x{number}']",
    "two elements": lambda number: f"/Event[System[EventID = {number} and Level = 4]]",
    "alternatives": lambda number: f"*[System[(EventID = {number} or EventID = {number + 1}) and Level = 4]]",
    "verified by lxml": lambda number: f"/Event[System/EventID = {number}][not(UserData)]",
}

_PROMISED: Final = ("element", "attribute below")


def run(rules: int = 100_000, names: int = 300_000, events: int = 200, quick: bool = False) -> Report:
    """Measure a document in milliseconds, matched alone and in a batch, against `rules` rules of each shape.

    The last index has `names` distinct tag names, which a single match should not pay for.
    """
    if quick:
        rules, names, events = rules // 20, names // 20, events // 10
    report = Report("event-log", {"rules": rules, "names": names, "events": events, "quick": quick})
    documents = [_event(7 * number % rules) for number in range(events)]
    for shape, write in _SHAPES.items():
        alone = _measure(report, shape, [write(number) for number in range(rules)], documents)
        if shape in _PROMISED:
            report.claim(f"{rules:,} rules, {shape}", "at most 0.4 ms a document", f"{alone:.3f}", alone <= 0.4)
    alone = _measure(report, "names", [f"/Event/System/n{number}" for number in range(names)], documents)
    report.claim(f"{names:,} tag names", "a single match under 10 ms", f"{alone:.3f}", alone < 10)
    return report


def _event(number: int) -> str:
    return (
        f"<Event><System><Provider Name='x{number}'/><EventID>{number}</EventID><Level>4</Level><Time at='5'/></System>"
        f"<EventData><Data Name='a'>{number}</Data><Data Name='b'>z</Data></EventData></Event>"
    )


def _measure(report: Report, shape: str, texts: Sequence[str], documents: Sequence[str]) -> float:
    """Add the results of one index; return the milliseconds that a document takes alone, the median of turns."""
    start = time.process_time()
    index = XPathIndex()
    index.build([parse_xpath(text) for text in texts])
    built = time.process_time() - start
    matches = sum(len(index.match(document)) for document in documents)
    alone, together = [], []
    for _ in range(_TURNS):
        start = time.process_time()
        for document in documents:
            index.match(document)
        alone.append(time.process_time() - start)
        start = time.process_time()
        index.match_batch(documents)
        together.append(time.process_time() - start)
    each = statistics.median(alone) / len(documents)
    report.results.append(
        Result(
            shape,
            events_per_s=1 / each,
            matches=matches,
            bytes_per_subscription=index.nbytes / len(texts),
            extra={
                "rules": len(texts),
                "ms_alone": 1000 * each,
                "ms_in_a_batch": 1000 * statistics.median(together) / len(documents),
                "build_s": built,
                "verified_per_document": index.statistics.verified / index.statistics.documents,
            },
        )
    )
    return 1000 * each
