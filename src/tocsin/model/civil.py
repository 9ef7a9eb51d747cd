"""Days, months and years of points in time, for integers and for arrays of them alike, in any year.

Times are microseconds since 1970 in UTC. The calendar is the Gregorian one, also before it was introduced.
"""

from typing import Any

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

TICKS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": 7 * DAY,
}
"""The units that have the same length everywhere, in microseconds."""
MONTHS = {"month": 1, "quarter": 3, "year": 12}
"""The units that are months."""
MONDAY = -3
"""The day number of a Monday: 1970 began on a Thursday."""


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day of a day, counted from 1970.

    Years begin in March here, so that the leap day is their last and 153 days are any five months from March on.

    >>> civil(0), civil(-1), civil(11_016)
    ((1970, 1, 1), (1969, 12, 31), (2000, 2, 29))
    """
    shifted = days + 719_468
    era, of_era = shifted // 146_097, shifted % 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = (from_march + 2) % 12 + 1
    return era * 400 + year + (from_march >= 10), month, day


def days_of(year: Any, month: Any, day: Any) -> Any:
    """Return the number of a day, counted from 1970.

    >>> days_of(2000, 2, 29), days_of(1969, 12, 31)
    (11016, -1)
    """
    from_march = (month + 9) % 12
    year = year - (month <= 2)
    of_year = (153 * from_march + 2) // 5 + day - 1
    of_era = year % 400 * 365 + year % 400 // 4 - year % 400 // 100 + of_year
    return year // 400 * 146_097 + of_era - 719_468


def months_of(time: Any) -> Any:
    """Return the months from the beginning of year 0 to that of a time."""
    year, month, _ = civil(time // DAY)
    return year * 12 + month - 1


def add_months(time: Any, months: int, least: Any = min) -> Any:
    """Return a time some months later, on the last day of a month that is too short; `least` is `min`, or an array's.

    >>> civil(add_months(days_of(2026, 1, 31) * DAY, 1) // DAY)
    (2026, 2, 28)
    """
    year, month, day = civil(time // DAY)
    whole = year * 12 + month - 1 + months
    first, next_first = days_of(whole // 12, whole % 12 + 1, 1), days_of((whole + 1) // 12, (whole + 1) % 12 + 1, 1)
    return least(first + day - 1, next_first - 1) * DAY + time % DAY


def truncated(unit: str, time: Any) -> Any:
    """Return the beginning of the unit that a time lies in.

    >>> civil(truncated("week", days_of(2026, 11, 15) * DAY) // DAY)
    (2026, 11, 9)
    """
    if unit in MONTHS:
        whole = months_of(time) // MONTHS[unit] * MONTHS[unit]
        return days_of(whole // 12, whole % 12 + 1, 1) * DAY
    origin = MONDAY * DAY if unit == "week" else 0
    return (time - origin) // TICKS[unit] * TICKS[unit] + origin


def boundaries(unit: str, start: Any, end: Any) -> Any:
    """Return how many times a unit begins after `start`, up to `end`.

    >>> boundaries("month", days_of(2026, 1, 31) * DAY, days_of(2026, 2, 1) * DAY)
    1
    """
    if unit in MONTHS:
        return months_of(end) // MONTHS[unit] - months_of(start) // MONTHS[unit]
    origin = MONDAY * DAY if unit == "week" else 0
    return (end - origin) // TICKS[unit] - (start - origin) // TICKS[unit]


def whole_units(unit: str, start: Any, end: Any) -> Any:
    """Return how many whole units, each of a fixed length, lie between two times; negative if `end` is earlier.

    >>> whole_units("day", 0, 3 * DAY - 1), whole_units("day", 3 * DAY - 1, 0)
    (2, -2)
    """
    elapsed = end - start
    return abs(elapsed) // TICKS[unit] * ((elapsed > 0) * 2 - 1)


PARTS = {
    "year": lambda time: civil(time // DAY)[0],
    "quarter": lambda time: (civil(time // DAY)[1] + 2) // 3,
    "month": lambda time: civil(time // DAY)[1],
    "week": lambda time: _week(time // DAY),
    "day": lambda time: civil(time // DAY)[2],
    "dayofweek": lambda time: (time // DAY + 4) % 7,
    "isodow": lambda time: (time // DAY + 3) % 7 + 1,
    "dayofyear": lambda time: time // DAY - days_of(civil(time // DAY)[0], 1, 1) + 1,
    "hour": lambda time: time // HOUR % 24,
    "minute": lambda time: time // MINUTE % 60,
    "second": lambda time: time // SECOND % 60,
    "millisecond": lambda time: time % MINUTE // 1_000,
    "microsecond": lambda time: time % MINUTE,
}
"""What can be extracted from a time, all of them integers. A week is the ISO one, and Sunday is dayofweek 0."""
PART_NAMES = {
    **{f"{name}s": name for name in (*TICKS, *MONTHS)},
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "doy": "dayofyear",
    "weekofyear": "week",
    "dayofmonth": "day",
    "ms": "millisecond",
    "us": "microsecond",
}
"""Other names of units and parts."""


def _week(day: Any) -> Any:
    """Return the ISO week of a day: the week with the first Thursday of a year is its first."""
    thursday = day + 3 - (day + 3) % 7
    return (thursday - days_of(civil(thursday)[0], 1, 1)) // 7 + 1
