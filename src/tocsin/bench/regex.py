"""10,000 regular expressions over 100,000 log lines, against pyarrow and DuckDB one by one, and RE2's own Filter.

The expressions look like those of log and security rules: words around classes, counted and optional parts,
alternatives, anchors, some whatever their case. Each is a subscription, and the lines are one batch. Arrow and DuckDB
judge expression by expression, so that every `RIVAL_STEP`-th is timed and the sum scaled. google-re2's Filter finds
literals of all expressions first, line by line from Python. All seconds are processor time.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.bench.patterns import make_lines
from tocsin.bench.runner import Cell, Report, Result, processor_timed
from tocsin.bench.words import spell
from tocsin.matcher import Matcher

RIVAL_STEP = 500
FILTERED_LINES = 1_000
_ENDINGS = ("exe|dll", "ps1|bat", "exe|dll|ps1|bat")


def make_expressions(random: np.random.Generator, words: list[str], count: int) -> list[str]:
    """Distinct expressions of six forms.

    >>> made = make_expressions(np.random.default_rng(1), ["aa", "bb", "cc", "dd"], 20)
    >>> len(set(made))
    20
    """
    made: dict[str, None] = {}
    while len(made) < count:
        one, two = (words[n] for n in random.integers(0, len(words), 2))
        form = random.random()
        if form < 0.4:
            text = f"{one}[-/ =]+{two}"
        elif form < 0.6:
            text = rf"\b{one}\d*\.({_ENDINGS[len(two) % len(_ENDINGS)]})\b"
        elif form < 0.75:
            text = f"{one}.*{two}"
        elif form < 0.85:
            text = f"(?i){one}[a-z]{{0,4}} ?{two}"
        elif form < 0.95:
            text = rf"({one}|{two})=[^ ]+\.ps1"
        else:
            text = rf"^.{{0,20}}{one}[^a-z].*(\d+|{two})$"
        made[text] = None
    return list(made)


def run(*, quick: bool = False, seed: int = 1, repeats: int = 3) -> Report:
    """Lines a second of a matcher, of pyarrow and DuckDB expression by expression, and of RE2's Filter."""
    import duckdb
    import re2

    random = np.random.default_rng(seed)
    expression_count, line_count = (1_000, 5_000) if quick else (10_000, 100_000)
    words = spell(random, 20_000)
    expressions = make_expressions(random, words, expression_count)
    lines = make_lines(random, words, line_count)
    table = pa.table({"line": pa.array(lines, pa.large_string())})
    report = Report("regex", {"expressions": expression_count, "lines": line_count, "seed": seed})
    wheres = [f"regexp_matches(line, '{expression}')" for expression in expressions]
    with Matcher() as few:
        few.subscribe_many(pa.table({"id": ["a", "b"], "where": wheres[:2]}))
        few.match_batch(table.slice(0, 200))

    matcher = Matcher()
    subscriptions = pa.table({"id": [str(n) for n in range(expression_count)], "where": wheres})
    build_s, rejected = processor_timed(
        lambda: (matcher.subscribe_many(subscriptions), matcher.match_batch(table[:2]))[0]
    )
    for bad in rejected:
        report.disagreements.append(f"an expression was refused: {bad}")
    runs = [processor_timed(lambda: matcher.match_batch(table)) for _ in range(repeats)]
    ours, found = min(seconds for seconds, _ in runs), runs[0][1]
    report.results.append(
        Result(
            "tocsin",
            build_s=build_s,
            events_per_s=line_count / ours,
            matches=found.num_rows,
            extra=_per_line(ours, line_count),
        )
    )

    sample = expressions[::RIVAL_STEP]
    counts = pa.compute.value_counts(found["subscription"]).to_pylist()
    by_id = {each["values"]: each["counts"] for each in counts}
    expected = [by_id.get(str(n), 0) for n in range(0, expression_count, RIVAL_STEP)]
    arrow_s, by_arrow = processor_timed(
        lambda: [pc.sum(pc.match_substring_regex(table["line"], pattern=text)).as_py() for text in sample]
    )
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE log AS SELECT * FROM given")
        query = "SELECT count(*) FROM log WHERE regexp_matches(line, '{}')"
        duckdb_s, by_duckdb = processor_timed(
            lambda: [connection.execute(query.format(text)).fetchall()[0][0] for text in sample]
        )
    for name, theirs in (("pyarrow", by_arrow), ("DuckDB", by_duckdb)):
        if theirs != expected:
            report.disagreements.append(f"{name} finds other lines for some expressions")
    scale = expression_count / len(sample)
    for name, seconds in (("pyarrow", arrow_s), ("DuckDB", duckdb_s)):
        report.results.append(
            Result(
                f"{name}, one by one (scaled)",
                events_per_s=line_count / seconds / scale,
                extra=_per_line(seconds * scale, line_count),
            )
        )
    by_filter = re2.Filter()
    filter_build_s, _ = processor_timed(lambda: ([by_filter.Add(text) for text in expressions], by_filter.Compile()))
    few_lines = lines[:FILTERED_LINES]
    filter_s, _ = processor_timed(lambda: [by_filter.Match(line) for line in few_lines])
    report.results.append(
        Result(
            "google-re2 Filter",
            build_s=filter_build_s,
            events_per_s=len(few_lines) / filter_s,
            extra=_per_line(filter_s, len(few_lines)),
        )
    )
    ratio = min(arrow_s, duckdb_s) * scale / ours
    report.claim("at least 100 times the faster of both, one by one", "100", f"{ratio:,.0f}", ratio >= 100)
    return report


def _per_line(seconds: float, lines: int) -> dict[str, Cell]:
    return {"us_per_line": seconds / lines * 1e6}
