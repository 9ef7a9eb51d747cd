"""Small plots of a back-test: matches gained and lost by day, or by subscription if the events have no time."""

from collections.abc import Sequence
from html import escape

import pyarrow as pa

MOST_BARS = 60
"""The bars of a plot: the last days, or the subscriptions with the most changes."""
WIDTH = 24
"""The characters of the longest bar."""

Bar = tuple[str, int, int]
"""A label, and the matches gained and lost."""


def bars(summary: pa.Table) -> tuple[str, list[Bar]]:
    """Return what the bars of a summary are by, and the bars.

    >>> counts = {"subscription": ["a", "b"], "day": pa.nulls(2, pa.date32()), "gained": [1, 3], "lost": [0, 4]}
    >>> bars(pa.table(counts))
    ('subscription', [('b', 3, 4), ('a', 1, 0)])
    """
    by = "day" if len(summary) > summary["day"].null_count else "subscription"
    added = summary.group_by(by).aggregate([("gained", "sum"), ("lost", "sum")])
    rows = zip(*(added[name].to_pylist() for name in (by, "gained_sum", "lost_sum")), strict=True)
    if by == "day":
        found = [("no day" if day is None else str(day), gained, lost) for day, gained, lost in rows]
        return by, sorted(found)[-MOST_BARS:]
    return by, sorted(rows, key=lambda bar: (-bar[1] - bar[2], bar[0]))[:MOST_BARS]


def as_text(summary: pa.Table) -> str:
    """Draw a summary in characters.

    >>> counts = {"subscription": ["a", "b"], "day": pa.nulls(2, pa.date32()), "gained": [1, 0], "lost": [0, 4]}
    >>> print(as_text(pa.table(counts)))
    subscription  lost                        gained
    b             4 ████████████████████████  0
    a             0                           1 ██████
    """
    by, found = bars(summary)
    if not found:
        return "no match is gained or lost"
    most = max(max(gained, lost) for _, gained, lost in found)
    digits, label = len(f"{most:,}"), max(len(by), *(len(name) for name, _, _ in found))
    lines = [f"{by:<{label}}  {'lost':<{digits + WIDTH + 3}}gained"]
    for name, gained, lost in found:
        parts = (f"{count:>{digits + 1},} {'█' * -(-count * WIDTH // most)}" for count in (lost, gained))
        left, right = parts
        lines.append(f"{name:<{label}} {left:<{digits + WIDTH + 3}}{right}".rstrip())
    return "\n".join(lines)


def as_svg(summary: pa.Table) -> str:
    """Draw a summary as SVG: gained upwards, lost downwards.

    >>> counts = {"subscription": ["a"], "day": pa.nulls(1, pa.date32()), "gained": [2], "lost": [1]}
    >>> as_svg(pa.table(counts)).count("<rect")
    2
    """
    by, found = bars(summary)
    most = max((max(gained, lost) for _, gained, lost in found), default=0) or 1
    step, half = 14, 100
    width, height = step * max(len(found), 1) + 90, 2 * half + 90
    shapes: list[str] = []
    for place, (name, gained, lost) in enumerate(found):
        x = 60 + place * step
        shapes += _bar(x, half + 20 - half * gained / most, half * gained / most, "#2a7", f"{name}: {gained:,} gained")
        shapes += _bar(x, half + 20, half * lost / most, "#c44", f"{name}: {lost:,} lost")
        at = x + 9, 2 * half + 28
        shapes.append(f'<text transform="translate({at[0]} {at[1]}) rotate(60)">{escape(name)}</text>')
    return _document(width, height, by, [*shapes, *_axis(half, most, width)])


def _bar(x: int, y: float, height: float, colour: str, title: str) -> Sequence[str]:
    if not height:
        return ()
    title = escape(title)
    return (
        f'<rect x="{x}" y="{y:.1f}" width="10" height="{height:.1f}" fill="{colour}"><title>{title}</title></rect>',
    )


def _axis(half: int, most: int, width: int) -> Sequence[str]:
    return (
        f'<line x1="55" x2="{width}" y1="{half + 20}" y2="{half + 20}" stroke="#888"/>',
        f'<text x="50" y="28" text-anchor="end">{most:,}</text>',
        f'<text x="50" y="{half + 24}" text-anchor="end">0</text>',
        f'<text x="50" y="{2 * half + 20}" text-anchor="end">{most:,}</text>',
    )


def _document(width: int, height: int, by: str, shapes: Sequence[str]) -> str:
    title = f'<text x="60" y="12">matches gained (above) and lost (below) by {by}</text>'
    body = "\n".join([title, *shapes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="10">\n{body}\n</svg>\n'
    )
