"""When a match may be told: digests, repetitions, a rate, quiet hours. Pure functions of settings and time.

Every match of an inbox is held until it is due. Without settings it is due at once. What has to wait comes as one
entry, a digest, so that waiting never makes a burst.
"""

import datetime as dt
import json
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.delivery.addresses import key_names
from tocsin.errors import OptionError
from tocsin.model.lookup import lookup

MATCH_FIELDS = ("subscription", "score")
"""Names that mean the match itself; all others are attributes of its event."""


@dataclass(frozen=True)
class Digest:
    """Collect matches for so many seconds, or until there are so many."""

    seconds: float
    matches: int


@dataclass(frozen=True)
class Rate:
    """At most so many entries within so many seconds."""

    entries: int
    seconds: float


@dataclass(frozen=True)
class QuietHours:
    """Tell nothing from one time of day to another."""

    begin: dt.time
    end: dt.time
    zone: zoneinfo.ZoneInfo

    def over(self, now: float) -> float:
        """Return the time at which it is not quiet: `now`, or the end of the quiet hours that `now` lies in."""
        here = dt.datetime.fromtimestamp(now, self.zone)
        clock = here.time()
        if self.begin <= self.end:
            is_quiet, days = self.begin <= clock < self.end, 0
        else:
            is_quiet, days = clock >= self.begin or clock < self.end, int(clock >= self.begin)
        if not is_quiet:
            return now
        day = here.date() + dt.timedelta(days=days)
        return dt.datetime.combine(day, self.end, self.zone).timestamp()


@dataclass(frozen=True)
class Webhook:
    """Where entries are sent, and the secret that signs them."""

    url: str
    secret: str


@dataclass(frozen=True)
class Settings:
    """How a subscriber wants to be told."""

    digest: Digest | None = None
    dedupe: tuple[str, ...] = ()
    rate: Rate | None = None
    quiet: QuietHours | None = None
    webhook: Webhook | None = None
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """As they were given."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Settings":
        """Read settings from JSON. Raises OptionError with the name of what is wrong.

        >>> Settings.of({"digest": {"minutes": 5}, "dedupe": "subscription, isbn"}).dedupe
        ('subscription', 'isbn')
        """
        unknown = sorted(set(document) - _EXAMPLES.keys())
        if unknown:
            raise OptionError(f"an inbox has no setting {unknown[0]!r}", f"Use {', '.join(sorted(_EXAMPLES))}")
        return cls(
            _part(document, "digest", _digest),
            tuple(_part(document, "dedupe", _dedupe) or ()),
            _part(document, "rate", lambda given: Rate(_positive(given, "entries", int), _seconds(given, 60))),
            _part(document, "quiet", _quiet),
            _part(document, "webhook", _webhook),
            dict(document),
        )

    def key(self, match: Mapping[str, Any], event: Mapping[str, Any]) -> str | None:
        """Return what makes a match a repetition of another; None if nothing does."""
        if not self.dedupe:
            return None
        values = [match[name] if name in MATCH_FIELDS else lookup(event, name) for name in self.dedupe]
        return json.dumps(values, default=str)

    def due(self, now: float, first_held: float, held: int, told: Sequence[float]) -> float:
        """Return when the matches that are held may be told, given the times of entries told lately, in order.

        >>> rarely = Settings(rate=Rate(2, 60))
        >>> rarely.due(100.0, 100.0, 1, [10.0, 50.0]), rarely.due(100.0, 100.0, 1, [50.0, 70.0])
        (100.0, 110.0)
        """
        time = now
        if self.digest is not None and held < self.digest.matches:
            time = max(time, first_held + self.digest.seconds)
        if self.rate is not None and len(told) >= self.rate.entries:
            time = max(time, told[-self.rate.entries] + self.rate.seconds)
        return time if self.quiet is None else self.quiet.over(time)


_EXAMPLES: dict[str, Any] = {
    "digest": {"minutes": 10, "matches": 50},
    "dedupe": ["subscription", "isbn"],
    "rate": {"entries": 5, "minutes": 1},
    "quiet": {"from": "22:00", "to": "07:00", "zone": "Europe/Athens"},
    "webhook": {"url": "https://example.org/hook", "secret": "at least 16 characters"},
}
"""Each setting with all its fields; those in minutes may be in seconds."""


def _part(document: Mapping[str, Any], name: str, read: Any) -> Any:
    given, example = document.get(name), _EXAMPLES[name]
    if given is None:
        return None
    try:
        if isinstance(example, Mapping):
            if not isinstance(given, Mapping):
                raise ValueError("it is not an object")
            seconds = ["seconds"] if "minutes" in example else []
            unknown = sorted(map(str, given.keys() - {*example, *seconds}))
            if unknown:
                raise ValueError(f"it has no field {unknown[0]!r}")
        return read(given)
    except OptionError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        # What was given is not repeated: a webhook has a secret.
        reason = f"it needs {error}" if isinstance(error, KeyError) else str(error)
        raise OptionError(f"{name}: {reason}", f"Write it as {json.dumps(example)}") from error


def _positive(given: Mapping[str, Any], name: str, kind: Any, default: Any = None) -> Any:
    value = kind(given.get(name, default) if default is not None else given[name])
    if not 0 < value < float("inf"):
        raise OptionError(f"{name} is {value}", "Give a number above 0")
    return value


def _seconds(given: Mapping[str, Any], default: float) -> float:
    if "minutes" in given:
        return 60 * float(_positive(given, "minutes", float))
    return float(_positive(given, "seconds", float, default))


def _digest(given: Mapping[str, Any]) -> Digest:
    if not given:
        raise ValueError("it needs minutes, matches, or both")
    most = int(_positive(given, "matches", int, 1_000_000))
    return Digest(_seconds(given, 365 * 86_400), most)


def _dedupe(given: Any) -> list[str]:
    names = key_names(given)
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("it is a list of names")
    return names


def _quiet(given: Mapping[str, Any]) -> QuietHours:
    begin, end = (dt.time.fromisoformat(given[name]) for name in ("from", "to"))
    if begin.tzinfo or end.tzinfo:
        raise ValueError("times of day have no zone of their own")
    zone = given.get("zone", "UTC")
    try:
        return QuietHours(begin, end, zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {zone!r}") from None


def _webhook(given: Mapping[str, Any]) -> Webhook:
    url, secret = given["url"], given["secret"]
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ValueError("url begins with http:// or https://")
    if not isinstance(secret, str) or len(secret) < 16:
        raise ValueError("secret has at least 16 characters")
    return Webhook(url, secret)
