"""When a match may be told, by the book."""

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.delivery.policy import Digest, QuietHours, Rate, Settings
from tocsin.delivery.webhook import backoff
from tocsin.errors import OptionError

TIMES = st.times(max_value=dt.time(23, 59)).map(lambda time: time.replace(second=0, microsecond=0))


@given(TIMES, TIMES, st.integers(0, 2_000_000_000), st.sampled_from(["UTC", "Europe/Athens", "Asia/Kolkata"]))
def test_quiet_hours_end_at_their_end(begin: dt.time, end: dt.time, now: int, zone: str) -> None:
    there = zoneinfo.ZoneInfo(zone)
    over = QuietHours(begin, end, there).over(float(now))
    clock = dt.datetime.fromtimestamp(now, there).time()
    quiet = begin <= clock < end if begin <= end else clock >= begin or clock < end
    assert (over > now) == quiet or over == now
    if quiet:
        # A clock that is put forward or back makes the night an hour shorter or longer.
        assert over - now <= 25 * 3600
        assert dt.datetime.fromtimestamp(over, there).time().replace(second=0) in (end, _an_hour_later(end))


def _an_hour_later(time: dt.time) -> dt.time:
    return (dt.datetime.combine(dt.date(2000, 1, 1), time) + dt.timedelta(hours=1)).time()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 40))
def test_a_rate_is_never_exceeded(gaps: list[int], entries: int, seconds: int) -> None:
    settings = Settings(rate=Rate(entries, seconds))
    now = 0.0
    told: list[float] = []
    for gap in gaps:
        now = max(now + gap, settings.due(now + gap, now + gap, 1, told))
        told.append(now)
    for place in range(entries, len(told)):
        assert told[place] - told[place - entries] >= seconds


def test_a_digest_waits_for_time_or_number() -> None:
    settings = Settings(digest=Digest(60.0, 10))
    assert settings.due(100.0, 90.0, 9, []) == 150.0
    assert settings.due(100.0, 90.0, 10, []) == 100.0
    assert settings.due(151.0, 90.0, 1, []) == 151.0


def test_without_settings_everything_is_due_at_once() -> None:
    assert Settings().due(5.0, 5.0, 1, [4.9] * 100) == 5.0
    assert Settings().key({"subscription": "a", "score": 1.0}, {}) is None


def test_nested_attributes_make_a_key() -> None:
    settings = Settings.of({"dedupe": "subscription, user.name"})
    match = {"subscription": "a", "score": 1.0}
    assert settings.key(match, {"user": {"name": "Ada"}}) == '["a", "Ada"]'
    assert settings.key(match, {}) == '["a", null]'


@pytest.mark.parametrize(
    "document",
    [
        {"digest": {"minutes": -1}},
        {"digest": {"matches": "many"}},
        {"digest": 5},
        {"rate": {}},
        {"rate": {"entries": float("inf")}},
        {"quiet": {"from": "10:00"}},
        {"quiet": {"from": "10:00", "to": "11:00", "zone": "Nowhere/Land"}},
        {"quiet": {"from": "10:00+02:00", "to": "11:00"}},
        {"dedupe": [1]},
        {"dedupe": ""},
        {"webhook": {"url": "ftp://x", "secret": "0123456789abcdef"}},
        {"webhook": {"url": "http://x", "secret": "short"}},
        {"unknown": 1},
    ],
)
def test_bad_settings_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Settings.of(document)


def test_waits_double_up_to_ten_minutes() -> None:
    for attempt in range(1, 30):
        assert 0.75 * min(2 ** (attempt - 1), 600) <= backoff(attempt) <= 1.25 * min(2 ** (attempt - 1), 600)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"digest": {"minute": 5}}, "digest: it has no field 'minute'"),
        ({"digest": {}}, "digest: it needs minutes, matches, or both"),
        ({"webhook": "https://example.org/0123456789abcdef"}, "webhook: it is not an object"),
        ({"rate": 5}, "rate: it is not an object"),
        ({"rate": {"minutes": 5}}, "rate: it needs 'entries'"),
        ({"quiet": {"from": "22:00", "to": "07:00", "zone": "Mars"}}, "quiet: there is no time zone 'Mars'"),
        ({"webhook": {"url": "ftp://x", "secret": "0123456789abcdef"}}, "webhook: url begins with http:// or https://"),
    ],
)
def test_a_bad_setting_is_named_and_its_secret_is_not_told(document: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.of(document)
    assert refused.value.message == said
    assert "0123456789abcdef" not in str(refused.value)
