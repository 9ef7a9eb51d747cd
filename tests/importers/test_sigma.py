"""Sigma rules, judged by pySigma's own SQLite backend, whose queries SQLite executes."""

import itertools
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sigma.backends.sqlite.sqlite import sqliteBackend
from sigma.collection import SigmaCollection

from tocsin.importers.sigma import import_rules
from tocsin.matcher import Matcher

FIELDS = ("Image", "CommandLine", "User", "Port", "Ip", "At")
VALUES: dict[str, list[Any]] = {
    "Image": [r"C:\Windows\System32\cmd.exe", r"c:\windows\POWERSHELL.exe", "", "50%_off.exe"],
    "CommandLine": [
        "powershell -enc SQBFAFgA",
        "PowerShell /ENC x",
        "whoami && net user",
        "a*b?c",
        "http://x/aGVsbG8=",
        "ADA",
        "Ada runs a_50% System",
    ],
    "User": ["SYSTEM", "ada", r"C:\Windows\System32\cmd.exe"],
    "Port": [22, 443, 8080],
    "Ip": ["10.1.2.3", "192.168.77.1", "192.168.128.1"],
    "At": ["2026-05-31 10:05:59", "2025-12-31T09:06:00"],
}
EVENTS = [dict(zip(FIELDS, values, strict=True)) for values in itertools.product(*(VALUES[name] for name in FIELDS))]

DETECTIONS = {
    "text in any case": "selection: {Image: 'c:\\windows\\powershell.EXE'}\n  condition: selection",
    "contains": "selection: {CommandLine|contains: ' -ENC '}\n  condition: selection",
    "startswith": "selection: {Image|startswith: 'c:\\win'}\n  condition: selection",
    "endswith": "selection: {Image|endswith: '\\cmd.exe'}\n  condition: selection",
    "all": "selection: {CommandLine|contains|all: [whoami, net]}\n  condition: selection",
    "one of several": "selection: {User: [system, ADA]}\n  condition: selection",
    "wildcards": "selection: {Image: 'c:*\\system3?\\\\*'}\n  condition: selection",
    "escaped wildcards": "selection: {CommandLine: 'a\\*b\\?c'}\n  condition: selection",
    "signs of SQL": "selection: {Image|contains: '%_'}\n  condition: selection",
    "empty text": "selection: {Image: ''}\n  condition: selection",
    "a number": "selection: {Port: 443}\n  condition: selection",
    "compared numbers": "selection: {Port|gte: 443, 'User': ada}\n  condition: selection",
    "less": "selection: {Port|lt: 443}\n  condition: selection",
    "a list of maps": "selection:\n    - {Port: 22}\n    - {User: ada, Port: 443}\n  condition: selection",
    "a network": "selection: {Ip|cidr: 192.168.0.0/17}\n  condition: selection",
    "networks": "selection: {Ip|cidr: [10.0.0.0/8, 192.168.128.0/30]}\n  condition: selection",
    "an expression": "selection: {CommandLine|re: 'net\\s+us[ei]r|^a.b'}\n  condition: selection",
    "base64": "selection: {CommandLine|base64|contains: hello}\n  condition: selection",
    "base64offset": "selection: {CommandLine|base64offset|contains: ello}\n  condition: selection",
    "wide": "selection: {CommandLine|wide|base64|contains: IEX}\n  condition: selection",
    "dashes of Windows": "selection: {CommandLine|windash|contains: ' -enc '}\n  condition: selection",
    "another field": "selection: {User|fieldref: Image}\n  condition: selection",
    "another field in another case": "selection: {CommandLine|fieldref: User}\n  condition: selection",
    "begins with another field": "selection: {CommandLine|fieldref|startswith: User}\n  condition: selection",
    "ends with another field": "selection: {CommandLine|fieldref|endswith: User}\n  condition: selection",
    "contains another field": "selection: {CommandLine|fieldref|contains: User}\n  condition: selection",
    "unlike another field": "selection: {User|fieldref|neq: Image}\n  condition: selection",
    "not this text": "selection: {User|neq: ADA}\n  condition: selection",
    "minute": "selection: {At|minute: 5}\n  condition: selection",
    "hour": "selection: {At|hour|gte: 10}\n  condition: selection",
    "day, month and year": "selection: {At|day: 31, At|month|lt: 6, At|year: 2026}\n  condition: selection",
    "not": "selection: {Port: 22}\n  filter: {User: ada}\n  condition: selection and not filter",
    "parentheses": "a: {Port: 22}\n  b: {User: ada}\n  c: {Ip: '10.1.2.3'}\n  condition: (a or b) and not (b and c)",
    "1 of": "s1: {Port: 22}\n  s2: {User: ada}\n  condition: 1 of s*",
    "all of": "s1: {Port: 22}\n  s2: {User: ada}\n  condition: all of s*",
    "all of them": "s1: {Port: 22}\n  s2: {User: ada}\n  condition: all of them",
    "null": "selection: {Image: null}\n  condition: selection",
}


def rule(detection: str, head: str = "") -> str:
    return f"title: A rule\n{head}logsource: {{category: test}}\ndetection:\n  {detection}\n"


def imported(tmp_path: Path, *texts: str, raw: str | None = None) -> tuple[Matcher, dict[str | None, str]]:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yml").write_text(text, encoding="utf-8")
    found = import_rules([tmp_path], raw=raw)
    matcher = Matcher()
    for subscription in found.subscriptions:
        matcher.subscribe(subscription.id, subscription.where, subscription.score, tags=subscription.tags)
    return matcher, {error.subscription: error.message for error in found.rejected}


@pytest.mark.parametrize("detection", DETECTIONS.values(), ids=DETECTIONS)
def test_a_rule_finds_what_sqlite_finds(tmp_path: Path, detection: str) -> None:
    [query] = sqliteBackend().convert(  # type: ignore[no-untyped-call]
        SigmaCollection.from_yaml(rule(detection))
    )
    with sqlite3.connect(":memory:") as database:
        database.create_function("REGEXP", 2, lambda expression, text: re.search(expression, str(text)) is not None)
        # Sigma compares without regard to case; the backend leaves that to the collation.
        columns = ", ".join(f"{field} COLLATE NOCASE" for field in FIELDS)
        database.execute(f"CREATE TABLE logs (number, {columns})")
        rows = [(number, *event.values()) for number, event in enumerate(EVENTS)]
        database.executemany(f"INSERT INTO logs VALUES ({', '.join('?' * (len(FIELDS) + 1))})", rows)
        expected = {row[0] for row in database.execute(query)}
    database.close()
    matcher, rejected = imported(tmp_path, rule(detection))
    assert rejected == {}
    assert set(matcher.match_batch(EVENTS)["event"].to_pylist()) == expected
    assert expected or "null" in detection


@pytest.mark.parametrize(
    ("detection", "event", "holds"),
    [
        ("s: {Port: 22}\n  f: {User: ada}\n  condition: s and not f", {"Port": 22}, True),
        ("s: {User|exists: true}\n  condition: s", {"User": ""}, True),
        ("s: {User|exists: false}\n  condition: s", {"Port": 22}, True),
        ("s: {User: null}\n  condition: s", {}, True),
        ("s: {Port: 22}\n  condition: s", {"Port": "22"}, True),
        ("s: {User|cased: ada}\n  condition: s", {"User": "ADA"}, False),
        ("s: {User|contains|cased: da}\n  condition: s", {"User": "ada"}, True),
        ("s: {User: true}\n  condition: s", {"User": True}, True),
        ("s: {User: true}\n  condition: s", {"User": "TRUE"}, True),
    ],
)
def test_what_sqlite_does_not_judge(tmp_path: Path, detection: str, event: dict[str, Any], holds: bool) -> None:
    """Missing fields, types that differ between log sources, and case, by Sigma's specification."""
    matcher, rejected = imported(tmp_path, rule(detection))
    assert rejected == {}
    assert bool(matcher.match(event).ids) is holds


def test_keywords_are_looked_for_in_the_raw_text(tmp_path: Path) -> None:
    text = rule("keywords: [Failed password, 'root*shell']\n  condition: keywords")
    matcher, rejected = imported(tmp_path, text)
    assert "say with --raw" in next(iter(rejected.values()))
    matcher, rejected = imported(tmp_path, text, raw="message")
    assert rejected == {}
    texts = ["x FAILED PASSWORD for y", "root got a shell", "failed", "shell root"]
    assert [bool(matcher.match({"message": text}).ids) for text in texts] == [True, True, False, False]


def test_metadata_become_score_and_tags(tmp_path: Path) -> None:
    head = (
        "id: 5013198e-4d6c-4ee1-a0e6-5e0b6a5d2f00\nlevel: high\nstatus: test\ntags: [attack.t1059, attack.execution]\n"
    )
    text = rule("s: {Port: 22}\n  condition: s", head).replace("{category: test}", "{product: windows, service: sshd}")
    matcher, _ = imported(tmp_path, text)
    [subscription] = matcher.subscriptions()
    assert (subscription.id, subscription.score) == ("5013198e-4d6c-4ee1-a0e6-5e0b6a5d2f00", 4.0)
    assert subscription.tags == {
        "title": "A rule",
        "level": "high",
        "status": "test",
        "product": "windows",
        "service": "sshd",
        "tags": "attack.t1059,attack.execution",
    }


def test_what_has_no_equivalent_is_reported_rule_by_rule(tmp_path: Path) -> None:
    good = rule("s: {Port: 22}\n  condition: s", "id: 00000000-0000-0000-0000-000000000001\nname: good\n")
    bad = {
        2: rule("s: {User|re: 'a(?=b)'}\n  condition: s", "id: 00000000-0000-0000-0000-000000000002\n"),
        3: rule("s: {User|week: 5}\n  condition: s", "id: 00000000-0000-0000-0000-000000000003\n"),
        4: "title: broken\nid: 00000000-0000-0000-0000-000000000004\nlogsource: {category: x}\n",
        5: rule("s: {User|expand: '%admins%'}\n  condition: s", "id: 00000000-0000-0000-0000-000000000005\n"),
    }
    correlation = (
        "title: many\nid: 00000000-0000-0000-0000-000000000006\ncorrelation:\n  type: event_count\n  rules: [good]\n"
        "  group-by: [User]\n  timespan: 5m\n  condition: {gte: 10}\n"
    )
    matcher, rejected = imported(tmp_path, f"{good}---\n{correlation}", *bad.values())
    assert list(matcher) == ["00000000-0000-0000-0000-000000000001"]
    reasons = {str(id)[-1]: message for id, message in rejected.items()}
    assert sorted(reasons) == ["2", "3", "4", "5", "6"]
    assert "invalid perl operator" in reasons["2"]
    assert "how weeks are counted" in reasons["3"]
    assert "etection" in reasons["4"]
    assert "placeholder" in reasons["5"].lower()
    assert "several events" in reasons["6"]


def test_a_correlation_of_rules_in_other_files_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    good = rule("s: {Port: 22}\n  condition: s", "id: 00000000-0000-0000-0000-000000000001\nname: good\n")
    correlation = (
        "title: many\nid: 00000000-0000-0000-0000-000000000006\ncorrelation:\n  type: event_count\n"
        "  rules: [of_another_file]\n  group-by: [User]\n  timespan: 5m\n  condition: {gte: 10}\n"
    )
    matcher, rejected = imported(tmp_path, f"{good}---\n{correlation}---\naction: unheard\n")
    assert list(matcher) == ["00000000-0000-0000-0000-000000000001"]
    assert "several events" in rejected.pop("00000000-0000-0000-0000-000000000006")
    assert ["unheard" in message for message in rejected.values()] == [True]


def test_filters_narrow_the_rules_of_other_files(tmp_path: Path) -> None:
    """pySigma says what a filter does: its SQLite backend has `and not` for it."""
    port = rule("s: {Port: 22}\n  condition: s", "id: 00000000-0000-0000-0000-000000000001\nname: port\n")
    other = rule("s: {Port: 22}\n  condition: s", "id: 00000000-0000-0000-0000-000000000002\nname: other\n")
    narrow = (
        "title: no robots\nid: 00000000-0000-0000-0000-000000000007\nlogsource: {category: x}\nfilter:\n"
        "  rules: [port]\n  robots: {User|startswith: bot}\n  condition: not robots\n"
    )
    idle = narrow.replace("[port]", "[nobody]").replace("07\n", "08\n")
    wrong = narrow.replace("  condition: not robots\n", "").replace("07\n", "09\n")
    source = port[port.index("logsource:") :].splitlines()[0]
    narrow, idle, wrong = (text.replace("logsource: {category: x}", source) for text in (narrow, idle, wrong))
    matcher, rejected = imported(tmp_path, port, other, narrow, idle, wrong)
    ids = {user: sorted(id[-1] for id in matcher.match({"Port": 22, "User": user}).ids) for user in ("Ada", "bot7")}
    assert ids == {"Ada": ["1", "2"], "bot7": ["2"]}
    assert {str(id)[-1]: message.split(":")[0] for id, message in rejected.items()} == {"8": "filter", "9": "filter"}
