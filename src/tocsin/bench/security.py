"""3,600 security rules over 20,000 log events, the time to build counted, against DuckDB query by query.

The rules have the shape of Sigma's: for one kind of log, lists of fragments that a path or a command line contains,
begins or ends with, whatever their case, some of them all at once, and exceptions. They and the events are made here
from invented words. An event has the eight to fourteen attributes of its kind of log, all others are NULL; most of its
values are repeated from event to event, command lines hardly ever. DuckDB counts the matches of each rule over the same
table; both engines are timed in processor time.
"""

import time
from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa

from tocsin.bench.runner import Report, Result
from tocsin.bench.words import spell
from tocsin.matcher import Matcher

# For each kind of log its weight, among rules and among events, and its attributes, those that rules name most first.
LOGS: dict[str, tuple[float, str]] = {
    "process": (
        0.40,
        "CommandLine Image ParentImage OriginalFileName ParentCommandLine User IntegrityLevel Hashes CurrentDirectory "
        "Description Product Company LogonId ParentUser",
    ),
    "file": (0.10, "TargetFilename Image User CreationTime ProcessGuid Contents PreviousName RuleName"),
    "registry": (0.11, "TargetObject Details Image EventType NewName User Computer ProcessGuid"),
    "module": (0.06, "ImageLoaded Image Signature SignatureStatus Signed FileVersion OriginalFileName Hashes"),
    "network": (
        0.05,
        "DestinationHostname Image DestinationIp DestinationPortName SourceHostname Initiated Protocol User SourceIp",
    ),
    "script": (0.08, "ScriptBlockText Path ScriptBlockId MessageNumber HostApplication ContextInfo Payload Computer"),
    "dns": (0.02, "QueryName Image QueryResults QueryStatus User RecordType AnswerName Computer"),
    "pipe": (0.02, "PipeName Image EventType User ProcessGuid Computer AccessMask PipeServer"),
    "access": (0.03, "TargetImage SourceImage GrantedAccess CallTrace SourceUser TargetUser SourceGuid TargetGuid"),
    "service": (0.03, "ServiceName ImagePath ServiceType StartType AccountName ServiceFileName Provider Channel"),
    "logon": (
        0.03,
        "TargetUserName LogonProcessName WorkstationName AuthenticationPackageName IpAddress SubjectUserName LogonGuid "
        "ElevatedToken TargetDomainName SubjectDomainName",
    ),
    "object": (
        0.03,
        "ObjectName ObjectType AccessList ObjectServer SubjectUserSid AttributeValue ShareName Properties",
    ),
    "web": (
        0.03,
        "cs_uri_query cs_user_agent cs_uri_stem cs_method sc_status cs_referer cs_host cs_cookie s_ip cs_username",
    ),
    "proxy": (0.02, "c_uri c_useragent c_uri_extension cs_bytes r_dns c_uri_query c_ip sc_bytes cs_version c_cookie"),
    "cloud": (
        0.04,
        "eventName eventSource requestParameters errorCode userAgent userIdentity sourceIp awsRegion responseElements "
        "eventCategory recipientAccount additionalData",
    ),
    "identity": (
        0.03,
        "operationName properties_message resultType initiatedBy targetResources conditionalAccess clientApp riskState "
        "deviceDetail loggedByService tenantName correlation",
    ),
    "mail": (0.01, "Operation Workload Parameters ClientInfo MailboxOwner ItemSubject FolderPath ResultStatus"),
    "audit": (0.03, "a0 a1 a2 a3 exe key comm proctitle cwd syscall_name tty auid_name"),
    "shell": (0.02, "message facility program hostname terminal session_owner shell_command working_directory"),
    "database": (0.01, "statement db_user database_name client_application error_text schema_name table_name role"),
}
FIRST_FEW = 3
"""Rules name the first attributes of a log most often."""
FOLDERS = (
    "C:\\Windows\\System32\\",
    "C:\\Program Files\\",
    "C:\\Users\\Public\\",
    "C:\\ProgramData\\",
    "/usr/bin/",
    "/tmp/",
)
ENDINGS = (".exe", ".exe", ".exe", ".dll", ".ps1", ".bat", ".vbs", ".sh", ".js")
FREE_TEXTS = {"CommandLine", "ParentCommandLine", "ScriptBlockText", "Payload", "cs_uri_query", "c_uri", "message"}
"""Attributes whose values are made of many words, different from event to event."""
LONG_TEXTS = {"ScriptBlockText": 300, "Payload": 150}
"""The words of a value, on the average; the other free texts have 15."""
RARELY_REPEATED = {
    "Hashes",
    "ProcessGuid",
    "ScriptBlockId",
    "LogonGuid",
    "LogonId",
    "SourceGuid",
    "TargetGuid",
    "CreationTime",
}
"""Attributes with a value of random digits."""


class Invented:
    """Words and what is made of them: programs, folders, options, names of functions and of registry keys."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.words = spell(np.random.default_rng(seed), 3_000)
        self.programs = [word + ENDINGS[n % len(ENDINGS)] for n, word in enumerate(self.words[:700])]

    def pick(self, choices: Sequence[str], skew: float = 1.0) -> str:
        """Choose one; with a skew beyond 1 rather one of the first."""
        return choices[int(len(choices) * self.random.random() ** skew)]

    def fragment(self) -> str:
        """Make what a rule looks for in a path or a command line."""
        word, other = self.pick(self.words, 2.0), self.pick(self.words, 2.0)
        made = (
            f"\\{self.pick(self.programs, 2.0)}",
            f"Invoke-{word.title()}{other.title()}",
            f" -{word} ",
            f" /{word[:2]} ",
            f"\\{word.title()}\\{other.title()}\\",
            f"{word}_{other}",
            f"--{word}={other}",
            word + other,
            f"{word}.{other}",
            word,
        )
        return self.random.choice(made)

    def path(self) -> str:
        """Make the path of a program; a few are frequent."""
        name = self.pick(self.programs, 4.0)
        return FOLDERS[len(name) % len(FOLDERS)] + name

    def value(self, attribute: str) -> str:
        """Make the value of an attribute of an event."""
        if attribute in RARELY_REPEATED:
            return self.random.randbytes(16).hex().upper()
        if attribute in FREE_TEXTS:
            count = int(self.random.expovariate(1 / LONG_TEXTS.get(attribute, 15)))
            parts = [
                self.fragment() if self.random.random() < 0.05 else self.pick(self.words, 2.0) for _ in range(count)
            ]
            return f"{self.path()} {' '.join(parts)}"
        if "Image" in attribute or "ile" in attribute or "ath" in attribute or "Object" in attribute:
            return self.path() if self.random.random() < 0.8 else self.path() + self.fragment()
        return f"{self.pick(self.words, 6.0)} {self.pick(self.words[:50], 3.0)}"


def literal(text: str) -> str:
    """Write a text as it stands inside a pattern whose escape is ``^``.

    >>> literal("50%_o'clock")
    "50^%^_o''clock"
    """
    for mark in "^%_":
        text = text.replace(mark, f"^{mark}")
    return text.replace("'", "''")


def _test(invented: Invented, attribute: str) -> str:
    how = invented.random.random()
    text = literal(invented.fragment() if how < 0.85 else invented.path())
    before, behind = ("%", "%") if how < 0.6 else ("%", "") if how < 0.85 else ("", "%") if how < 0.95 else ("", "")
    return f"{attribute} ILIKE '{before}{text}{behind}' ESCAPE '^'"


def _selection(invented: Invented, attributes: Sequence[str]) -> str:
    """Make a list of fragments for one attribute: any of them, or all."""
    random = invented.random
    attribute = random.choice(attributes[:FIRST_FEW] if random.random() < 0.7 else attributes)
    count = min(1 + int(random.expovariate(0.2)), 60)
    if random.random() < 0.2:
        return "(" + " AND ".join(_test(invented, attribute) for _ in range(min(count, 4))) + ")"
    return "(" + " OR ".join(_test(invented, attribute) for _ in range(count)) + ")"


def _exception(invented: Invented, attributes: Sequence[str]) -> str:
    """Make what a rule does not hold for; an attribute that an event does not have is not a reason."""
    one, two = invented.random.choices(attributes[: FIRST_FEW + 1], k=2)
    if one == two:
        return f"({one} IS NULL OR NOT {one} ILIKE '{invented.random.choice(FOLDERS)}%')"
    return f"({one} IS NULL OR NOT {_test(invented, one)} OR {two} IS NULL OR NOT {_test(invented, two)})"


def rules(invented: Invented, count: int) -> list[str]:
    """Make rules: one to three selections that must hold, or one of several, and up to two exceptions.

    >>> len(rules(Invented(1), 3))
    3
    """
    made = []
    for attributes in _logs(invented, count):
        selections = [_selection(invented, attributes) for _ in range(invented.random.randrange(1, 4))]
        exceptions = [_exception(invented, attributes) for _ in range(invented.random.randrange(3))]
        joined = (" OR " if invented.random.random() < 0.15 else " AND ").join(selections)
        made.append(" AND ".join([f"({joined})", *exceptions]))
    return made


def events(invented: Invented, count: int) -> pa.Table:
    """Make log events as a table with a column for every attribute of every log.

    >>> events(Invented(1), 2).shape
    (2, 166)
    """
    attributes = dict.fromkeys(name for _, names in LOGS.values() for name in names.split())
    columns: dict[str, list[str | None]] = {name: [None] * count for name in attributes}
    for row, names in enumerate(_logs(invented, count)):
        for name in names:
            columns[name][row] = invented.value(name)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _logs(invented: Invented, count: int) -> list[list[str]]:
    """Draw logs by their weight; return their attributes."""
    weights, names = zip(*LOGS.values(), strict=True)
    return [drawn.split() for drawn in invented.random.choices(names, weights, k=count)]


def _by_duckdb(table: pa.Table, texts: Sequence[str]) -> int:
    """Count the matches of each rule with a query of its own, on one thread."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE events AS SELECT * FROM given")
        queries = (f"SELECT count(*) FROM events WHERE {text}" for text in texts)
        return sum(connection.execute(query).fetchall()[0][0] for query in queries)


def run(*, quick: bool = False, seed: int = 1, repeats: int = 3) -> Report:
    """Build and match the rules, and let DuckDB run each of them as a query; seconds are processor time."""
    rule_count, event_count = (400, 2_000) if quick else (3_609, 20_240)
    invented = Invented(seed)
    texts, table = rules(invented, rule_count), events(invented, event_count)
    tests = sum(text.count("ILIKE") for text in texts)
    report = Report(
        "security",
        {"rules": rule_count, "tests": tests, "attributes": table.num_columns, "events": event_count, "seed": seed},
    )
    few = Matcher()
    few.subscribe_many(pa.table({"id": ["a", "b"], "where": texts[:2]}))
    few.match_batch(table.slice(0, 200))

    start = time.process_time()
    matcher = Matcher()
    rejected = matcher.subscribe_many(pa.table({"id": [str(n) for n in range(rule_count)], "where": texts}))
    built = time.process_time() - start
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        found = matcher.match_batch(table)
        seconds.append(time.process_time() - start)
    match = min(seconds)
    for bad in rejected:
        report.disagreements.append(f"a rule was refused: {bad}")
    report.results.append(
        Result(
            "tocsin",
            build_s=built,
            events_per_s=event_count / match,
            matches=found.num_rows,
            extra={"ms_per_event": match / event_count * 1e3, "build_and_match_s": built + seconds[0]},
        )
    )
    start = time.process_time()
    matches = _by_duckdb(table, texts)
    theirs = time.process_time() - start
    report.results.append(
        Result(
            "DuckDB, query by query",
            events_per_s=event_count / theirs,
            matches=matches,
            extra={"ms_per_event": theirs / event_count * 1e3, "build_and_match_s": theirs},
        )
    )
    report.expect_equal_matches()
    per_event, whole = match / event_count * 1e3, theirs / (built + seconds[0])
    report.claim("a batch takes at most 0.03 ms an event", "0.03", f"{per_event:.4f}", per_event <= 0.03)
    report.claim("with the build, faster than DuckDB query by query", "1", f"{whole:.2f}", whole >= 1)
    return report
