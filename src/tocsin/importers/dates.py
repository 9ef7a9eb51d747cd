"""Dates as Elasticsearch writes them in ranges: partial ones, epochs, formats, and date math on a fixed anchor."""

import calendar
import datetime as dt
import re
from dataclasses import dataclass
from typing import Any


class DateMathError(ValueError):
    """A date that is not understood, or that depends on when it is read."""


@dataclass(frozen=True)
class Moment:
    """A point in time; with `is_end`, the instant just before it is meant."""

    at: dt.datetime
    is_end: bool


_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?"
    r"(?:[T ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_PATTERNS = {"yyyy": "year", "uuuu": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}
_STEP = re.compile(r"(?P<rounding>/)(?P<of>[yMwdhHms])|(?P<sign>[+-])(?P<count>\d+)(?P<unit>[yMwdhHms])")
_LAST = dt.timedelta(microseconds=1)


def date_bound(value: Any, *, round_up: bool, format: str | None = None, zone: str | None = None) -> Moment:
    """Read a bound of a range of dates; what it leaves open is filled up to the end for `gt` and `lte`.

    >>> date_bound("2026-01-31||+1M/d", round_up=False).at.date(), date_bound("2026-01", round_up=True).at.isoformat()
    (datetime.date(2026, 2, 28), '2026-01-02T00:00:00+00:00')
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    text, _, steps = str(value).partition("||")
    if text.startswith("now"):
        raise DateMathError(f"{value!r} depends on when it is read")
    at, is_end = _read(text, round_up, format, zone)
    place = 0
    while place < len(steps):
        step = _STEP.match(steps, place)
        if step is None:
            raise DateMathError(f"{value!r} is not date math")
        if step["rounding"]:
            at = _rounded(at, step["of"])
            if round_up:
                at, is_end = _moved(at, 1, step["of"]) - _LAST, True
            else:
                is_end = False
        else:
            at = _moved(at, int(step["sign"] + step["count"]), step["unit"])
        place = step.end()
    return Moment(at + _LAST if is_end else at, is_end)


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
    start = {
        "y": {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0},
        "M": {"day": 1, "hour": 0, "minute": 0, "second": 0},
        "w": {"hour": 0, "minute": 0, "second": 0},
        "d": {"hour": 0, "minute": 0, "second": 0},
        "h": {"minute": 0, "second": 0},
        "H": {"minute": 0, "second": 0},
        "m": {"second": 0},
        "s": {},
    }[unit]
    rounded = at.replace(microsecond=0, **start)  # type: ignore[arg-type]
    return rounded - dt.timedelta(days=rounded.weekday()) if unit == "w" else rounded


def _moved(at: dt.datetime, count: int, unit: str) -> dt.datetime:
    if unit in "yM":
        months = at.year * 12 + at.month - 1 + count * (12 if unit == "y" else 1)
        year, month = divmod(months, 12)
        day = min(at.day, calendar.monthrange(year, month + 1)[1])
        return at.replace(year=year, month=month + 1, day=day)
    name = {"w": "weeks", "d": "days", "h": "hours", "H": "hours", "m": "minutes", "s": "seconds"}[unit]
    return at + dt.timedelta(**{name: count})
