"""40,000 LIKE patterns over log lines of 300 characters, against pyarrow and against Aho-Corasick.

The patterns look like those of security rules: fragments of paths and command lines, many with a common ending. pyarrow
compares pattern by pattern, so that every `RIVAL_STEP`-th pattern is timed and the sum scaled. Aho-Corasick finds the
longest fragment of each pattern, line by line from Python, and does not yet say which patterns match.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.bench.runner import Report, Result, timed
from tocsin.bench.words import spell
from tocsin.model.text import like_pattern
from tocsin.papers.sift.experiments import fastest
from tocsin.predicates.patterns.index import Patterns

LINE = 300
RIVAL_STEP = 200
ENDINGS = (".exe", ".dll", ".ps1", ".bat")
SEPARATORS = ("\\", "/", " ", "=", "-")


def make_lines(random: np.random.Generator, words: list[str], count: int) -> list[str]:
    """Log lines: words between separators, now and then the name of a program."""
    lines = []
    for _ in range(count):
        picks = random.integers(0, len(words), LINE // 4).tolist()
        marks = random.integers(0, len(SEPARATORS) * 10, LINE // 4).tolist()
        parts = (
            SEPARATORS[mark % len(SEPARATORS)] + words[pick] + (ENDINGS[pick % len(ENDINGS)] if mark < 5 else "")
            for pick, mark in zip(picks, marks, strict=True)
        )
        lines.append("".join(parts)[:LINE])
    return lines


def make_patterns(random: np.random.Generator, words: list[str], count: int) -> list[str]:
    """Distinct patterns: fragments anywhere, fragments at the end, two fragments in order, single words."""
    patterns: dict[str, None] = {}
    while len(patterns) < count:
        one, two = (words[n] for n in random.integers(0, len(words), 2))
        before, between = (SEPARATORS[n] for n in random.integers(0, len(SEPARATORS), 2))
        kind = random.random()
        if kind < 0.6:
            made = f"%{before}{one}{between}{two}%"
        elif kind < 0.8:
            made = f"%{before}{one}{ENDINGS[len(two) % len(ENDINGS)]}"
        elif kind < 0.9:
            made = f"%{one}%{two}%"
        else:
            made = f"%{one}%"
        patterns[made] = None
    return list(patterns)


def run(*, quick: bool = False, seed: int = 1) -> Report:
    """Lines a second of the index of patterns, of pyarrow and of Aho-Corasick."""
    random = np.random.default_rng(seed)
    patterns_count, lines_count = (8_000, 2_000) if quick else (40_000, 10_000)
    words = spell(random, 20_000)
    patterns = make_patterns(random, words, patterns_count)
    lines = make_lines(random, words, lines_count)
    column = pa.array(lines)
    report = Report("patterns", {"patterns": patterns_count, "lines": lines_count, "seed": seed})

    build_s, index = timed(lambda: Patterns.build([[like_pattern(text)] for text in patterns]))
    found = index.search(column)
    seconds = fastest(partial(index.probe_batch, column))
    report.results.append(
        Result(
            "tocsin",
            build_s=build_s,
            events_per_s=lines_count / seconds,
            matches=len(found.predicates),
            bytes_per_subscription=index.nbytes / patterns_count,
            extra={"patterns_compared_per_line": found.verified / lines_count},
        )
    )
    sample = range(0, patterns_count, RIVAL_STEP)
    counts = [pc.sum(pc.match_like(column, patterns[n])).as_py() for n in sample]
    arrow_s = fastest(lambda: [pc.match_like(column, patterns[n]) for n in sample], 1)
    ours = np.bincount(found.predicates, minlength=patterns_count)[::RIVAL_STEP].tolist()
    if ours != counts:
        report.disagreements.append("pyarrow finds other lines for some patterns")
    arrow_s *= patterns_count / len(sample)
    report.results.append(Result("pyarrow match_like (scaled)", events_per_s=lines_count / arrow_s))
    ratio = arrow_s / seconds
    report.claim("at least 50 times pyarrow, pattern by pattern", "50", f"{ratio:,.0f}", ratio >= 50)

    import ahocorasick_rs

    fragments = [max(text.split("%"), key=len) for text in patterns]
    automaton_s, automaton = timed(lambda: ahocorasick_rs.AhoCorasick(fragments))
    search_s = fastest(lambda: [automaton.find_matches_as_indexes(line, overlapping=True) for line in lines])
    report.results.append(
        Result("ahocorasick-rs (fragments only)", build_s=automaton_s, events_per_s=lines_count / search_s)
    )
    ratio = search_s / seconds
    claim = "with verification, 0.7 of the speed of Aho-Corasick without"
    report.claim(claim, "0.7", f"{ratio:.2f}", ratio >= 0.7)
    return report
