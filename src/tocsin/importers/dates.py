"""Dates as Elasticsearch writes them in ranges: partial ones, epochs, formats, and date math.

Math on a fixed date is done here; math on `now` becomes an expression, which is computed when an event is matched. As
in Elasticsearch, a bound of `gt` or `lte` means the last instant of what it names or is rounded to, that of `gte` or
`lt` the first; a date before `||` is not rounded itself; and a time zone is that of dates without one, of rounding and
of months.
"""

import calendar
import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tocsin.importers.sql import literal


class DateMathError(ValueError):
    """A date that is not understood."""


@dataclass(frozen=True)
class Moment:
    """A point in time as SQL; with `is_end`, the instant just before it is meant."""

    sql: str
    is_end: bool


_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?"
    r"(?:[T ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_PATTERNS = {"yyyy": "year", "uuuu": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}
_STEP = re.compile(r"(?P<sign>[+-])(?P<count>\d*)(?P<unit>[yMwdhHms])|/1?(?P<rounded>[yMwdhHms])")
_UNITS = {
    "y": "year",
    "M": "month",
    "w": "week",
    "d": "day",
    "h": "hour",
    "H": "hour",
    "m": "minute",
    "s": "second",
}
_LAST = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class _Step:
    """A step of date math: so many units later, or rounded to a unit."""

    unit: str
    count: int | None
    """None: rounded."""


def date_bound(value: Any, *, round_up: bool, format: str | None = None, zone: str | None = None) -> Moment:
    """Read a bound of a range of dates; `round_up` for `gt` and `lte`.

    >>> date_bound("2026-01-31||+1M/d", round_up=False).sql, date_bound("2026-01", round_up=True).sql
    ("TIMESTAMP '2026-02-28 00:00:00'", "TIMESTAMP '2026-01-02 00:00:00'")
    >>> date_bound("now-7d/d", round_up=False).sql
    "date_trunc('day', now() - INTERVAL 7 DAY)"
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    text, has_math, math = str(value).partition("||")
    if text.startswith("now"):
        return _from_now(list(_steps(text[3:], value)), round_up, _zone(zone))
    at, is_end = _read(text, round_up and not has_math, format, zone)
    at = at.astimezone(_zone(zone))
    for step in _steps(math, value):
        if step.count is not None:
            at = _moved(at, step.count, step.unit)
        else:
            at, is_end = _rounded(at, step.unit), round_up
            at = _moved(at, 1, step.unit) - _LAST if round_up else at
    at = (at + _LAST if is_end else at).astimezone(dt.UTC).replace(tzinfo=None)
    return Moment(literal(at), is_end)


def _steps(math: str, value: Any) -> Iterator[_Step]:
    place = 0
    while place < len(math):
        step = _STEP.match(math, place)
        if step is None:
            raise DateMathError(f"{value!r} is not date math")
        if step["rounded"]:
            yield _Step(_UNITS[step["rounded"]], None)
        else:
            yield _Step(_UNITS[step["unit"]], int(step["sign"] + (step["count"] or "1")))
        place = step.end()


def _from_now(steps: list[_Step], round_up: bool, zone: dt.tzinfo) -> Moment:
    """Write date math on `now` as an expression, in the time of a zone."""
    offset = zone.utcoffset(None) or dt.timedelta()
    minutes = offset // dt.timedelta(minutes=1)
    sql, is_end = _later("now()", minutes, "minute"), False
    for number, step in enumerate(steps, start=1):
        if step.count is not None:
            sql = _later(sql, step.count, step.unit)
            continue
        sql, is_end = f"date_trunc('{step.unit}', {sql})", round_up
        if round_up:
            sql = _later(sql, 1, step.unit)
            if number < len(steps):  # a month after the last instant is not the one after the next
                sql = _later(sql, -1, "microsecond")
    if is_end and steps[-1].count is not None:
        sql = _later(sql, 1, "microsecond")
    return Moment(_later(sql, -minutes, "minute"), is_end)


def _later(sql: str, count: int, unit: str) -> str:
    return f"{sql} {'-' if count < 0 else '+'} INTERVAL {abs(count)} {unit.upper()}" if count else sql


def _read(text: str, round_up: bool, format: str | None, zone: str | None) -> tuple[dt.datetime, bool]:
    """A date by one of its formats, and whether the last instant of what it names is meant."""
    for one in (format or "strict_date_optional_time||epoch_millis").split("||"):
        if one in ("epoch_millis", "epoch_second"):
            if re.fullmatch(r"-?\d+", text):
                scale = 1000 if one == "epoch_millis" else 1
                return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(text) / scale), False
            continue
        found = _expression(one).fullmatch(text)
        if found is not None:
            return _filled(found.groupdict(), round_up, zone)
    raise DateMathError(f"{text!r} is not a date of the format {format or 'strict_date_optional_time'}")


def _expression(format: str) -> "re.Pattern[str]":
    if format.endswith(("date_optional_time", "date_time", "date_time_no_millis")) or format in ("date", "strict_date"):
        return _ISO
    parts = re.split(r"(yyyy|uuuu|MM|dd|HH|mm|ss|S+|XXX|'[^']*')", format)
    expression = ""
    for part in parts:
        if part in _PATTERNS:
            expression += rf"(?P<{_PATTERNS[part]}>\d{{{len(part)}}})"
        elif part and set(part) == {"S"}:
            expression += rf"(?P<fraction>\d{{{len(part)}}})"
        elif part == "XXX":
            expression += r"(?P<zone>Z|[+-]\d\d:\d\d)"
        elif re.search("[A-Za-z]", part.strip("'")) and not part.startswith("'"):
            raise DateMathError(f"the format {format!r} is not understood")
        else:
            expression += re.escape(part.strip("'"))
    return re.compile(expression)


def _filled(fields: dict[str, str | None], round_up: bool, zone: str | None) -> tuple[dt.datetime, bool]:
    given = {key: int(value) for key, value in fields.items() if value and key not in ("zone", "fraction")}
    if "year" not in given:
        raise DateMathError("a date without a year")
    fraction = fields.get("fraction")
    is_end = round_up and fraction is None
    last = {"hour": 23, "minute": 59, "second": 59} if is_end else {"hour": 0, "minute": 0, "second": 0}
    micros = 999_999 if is_end else int((fraction or "0").ljust(6, "0")[:6])
    filled = {"month": 1, "day": 1} | last | given
    try:
        at = dt.datetime(**filled, microsecond=micros, tzinfo=_zone(fields.get("zone") or zone))
    except ValueError as error:
        raise DateMathError(str(error)) from error
    return at.astimezone(dt.UTC), is_end


def _zone(name: str | None) -> dt.tzinfo:
    if name is None or name in ("Z", "UTC"):
        return dt.UTC
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if offset is None:
        raise DateMathError(f"the time zone {name!r} changes with the season: give an offset such as +01:00")
    minutes = int(offset[2]) * 60 + int(offset[3])
    return dt.timezone(dt.timedelta(minutes=-minutes if offset[1] == "-" else minutes))


def _rounded(at: dt.datetime, unit: str) -> dt.datetime:
    """The beginning of the unit that a time is in; a week begins on Monday."""
    units = ("year", "month", "day", "hour", "minute", "second")
    first = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
    smaller = units[units.index("day" if unit == "week" else unit) + 1 :]
    rounded = at.replace(microsecond=0, **{name: first[name] for name in smaller})  # type: ignore[arg-type]
    return rounded - dt.timedelta(days=rounded.weekday()) if unit == "week" else rounded


def _moved(at: dt.datetime, count: int, unit: str) -> dt.datetime:
    if unit not in ("year", "month"):
        return at + dt.timedelta(**{f"{unit}s": count})
    months = at.year * 12 + at.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    return at.replace(year=year, month=month + 1, day=min(at.day, calendar.monthrange(year, month + 1)[1]))
