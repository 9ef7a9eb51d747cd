"""A million two-word subscriptions over Zipfian prose of 700 words, against SQLite FTS5 used the other way round.

FTS5 holds the subscriptions, a word in each of two columns, and is asked for those whose both columns have a word of
the text: one query a text, which is the fastest way found to use it. SQLite is built without FTS5 on some systems;
then the rival is left out.
"""

import sqlite3
from functools import partial

import numpy as np
import pyarrow as pa

from tocsin.arrays import Int32s, Int64s
from tocsin.bench.runner import Report, Result, timed
from tocsin.conjunctions.key.drift import Frequencies
from tocsin.conjunctions.key.index import KeyIndex
from tocsin.model.predicate import Word
from tocsin.model.text import tokens
from tocsin.papers.sift.experiments import fastest
from tocsin.predicates.words.index import Vocabulary

WORDS_A_TEXT = 700


def zipf(random: np.random.Generator, vocabulary: int, size: int, theta: float) -> Int32s:
    """Words (ranks from 0) with a probability of rank to the power of -theta."""
    weights = np.cumsum(np.arange(1, vocabulary + 1, dtype=np.float64) ** -theta)
    drawn: Int64s = np.searchsorted(weights, random.random(size) * weights[-1])
    return np.minimum(drawn, vocabulary - 1).astype(np.int32)


def spell(random: np.random.Generator, count: int) -> list[str]:
    """Distinct pronounceable words; frequent ones are not shorter, which favours nobody."""
    consonants, vowels = "bcdfghklmnprstvz", "aeiou"
    words: dict[str, None] = {}
    while len(words) < count:
        picks = random.integers(0, 80, random.integers(2, 5))
        words["".join(consonants[p // 5] + vowels[p % 5] for p in picks)] = None
    return list(words)


def run(*, quick: bool = False, seed: int = 1) -> Report:
    """Texts a second of the vocabulary with KeyIndex, and of FTS5."""
    random = np.random.default_rng(seed)
    subscriptions, vocabulary = (100_000, 50_000) if quick else (1_000_000, 100_000)
    texts, rival_texts = 500, 3
    report = Report("words", {"subscriptions": subscriptions, "vocabulary": vocabulary, "texts": texts, "seed": seed})
    spelled = spell(random, vocabulary)
    pairs = zipf(random, vocabulary, 2 * subscriptions, 0.5).reshape(-1, 2)
    prose = [
        " ".join(spelled[word].capitalize() + "." if n % 12 == 0 else spelled[word] for n, word in enumerate(row))
        for row in zipf(random, vocabulary, texts * WORDS_A_TEXT, 1.0).reshape(texts, -1).tolist()
    ]
    column = pa.array(prose)

    build_s, index = timed(partial(Vocabulary.build, [[Word(word)] for word in spelled]))
    named = np.bincount(pairs.ravel(), minlength=vocabulary)
    frequencies = Frequencies(named)
    frequencies.observe(*index.probe_batch(column[: texts // 10]))
    offsets = np.arange(0, 2 * subscriptions + 1, 2)
    ids = np.arange(subscriptions, dtype=np.int32)
    key_s, matcher = timed(partial(KeyIndex.build, ids, offsets, pairs.ravel(), frequencies.shares()))
    found, candidates = matcher.match(*index.probe_batch(column))
    words_s = fastest(lambda: index.probe_batch(column))
    seconds = fastest(lambda: matcher.match(*index.probe_batch(column)))
    # What has an entry per word belongs to the vocabulary.
    arrays = {name: array.nbytes for name, array in matcher.arrays().items() if name not in ("frequency", "starts")}
    memory = sum(arrays.values()) / subscriptions
    report.results.append(
        Result(
            "tocsin",
            build_s=build_s + key_s,
            events_per_s=texts / seconds,
            matches=int(np.count_nonzero(found[:, 0] < rival_texts)),
            bytes_per_subscription=memory,
            extra={"share_of_time_for_words": words_s / seconds, "candidates_per_event": candidates / texts},
        )
    )
    report.claim("memory: at most 40 bytes a subscription, and the vocabulary", "40", f"{memory:.1f}", memory <= 40)

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE s USING fts5(one, two, detail=column)")
    except sqlite3.OperationalError:
        return report
    rows = ((spelled[one], spelled[two]) for one, two in pairs.tolist())
    fts_build_s, _ = timed(lambda: connection.executemany("INSERT INTO s VALUES (?, ?)", rows))

    def match_with_fts(text: str) -> int:
        words = " OR ".join(sorted(set(tokens(text))))
        query = f"one:({words}) AND two:({words})"
        return int(connection.execute("SELECT count(*) FROM s WHERE s MATCH ?", [query]).fetchone()[0])

    matches = sum(map(match_with_fts, prose[:rival_texts]))
    fts_s = fastest(lambda: [match_with_fts(text) for text in prose[:rival_texts]], 1)
    rival = Result("SQLite FTS5", build_s=fts_build_s, events_per_s=rival_texts / fts_s, matches=matches)
    report.results.append(rival)
    report.expect_equal_matches()
    ratio = texts / seconds / (rival_texts / fts_s)
    report.claim("at least 20 times FTS5 used the other way round", "20", f"{ratio:,.0f}", ratio >= 20)
    return report
