"""Evidence from workers to the driver: what was matched, how long it took, and which values could not be used.

A task knows its evidence when it ends. In a classic session it goes to the driver in an accumulator, once a task. Spark
Connect has no accumulators. There a task yields one more row, whose score is NaN and whose subscription is the
evidence as JSON; `observe` collects these rows and a filter drops them. That would do in a classic session as well,
but costs the JVM 10 to 40 percent of a job on `local[2]`, since it looks at every match.
"""

import functools
import json
import logging
import math
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tocsin.model.result import Evidence
from tocsin.spark._placement.ship import is_connect

MAX_KEPT = 4096
"""The driver keeps the evidence of so many shards of calls, the newest: a stream has new ones with every batch."""

_log = logging.getLogger(__name__)
_lock = threading.Lock()

Key = tuple[str, int]
"""A call of `match`, and the number of a shard in it."""


class MatchEvidence:
    """Collect the evidence of a lazy DataFrame of matches: pass it to `match`, run an action, then call `get`.

    In a classic session it covers all actions so far. Under Spark Connect it covers the first.
    """

    def __init__(self) -> None:
        self._call = uuid.uuid4().hex
        self._context: SparkContext | None = None
        self._observed: list[Observation] = []

    def get(self) -> Evidence:
        """Return the sum over all tasks that have ended; every event counts once, in however many shards."""
        with _lock:
            kept = {} if self._context is None else _accumulator(self._context).value
            shards = [found for (call, _), found in kept.items() if call == self._call]
            for observed in self._observed:
                shards.append(Evidence())
                for row in observed.get.get("evidence", ()):
                    shards[-1].add_events(Evidence(**json.loads(row)))
            total = Evidence(events=max((shard.events for shard in shards), default=0))
            for shard in shards:
                total.add_segment(shard)
        return total

    def reporter(self, events: DataFrame, schema: StructType, shard: int = 0) -> "Reporter":
        """Return what the tasks report by, to be given to `observe` as well."""
        if not is_connect(events.sparkSession):
            self._context = events.sparkSession.sparkContext
            return Reporter((self._call, shard), _accumulator(self._context), None)
        # Spark Connect observes no stream.
        return Reporter((self._call, shard), None, None if events.isStreaming else to_arrow_schema(schema))

    def observe(self, matches: DataFrame, reporter: "Reporter") -> DataFrame:
        """Take the rows that report evidence out of the matches, if there are any."""
        if reporter.rows is None:
            return matches
        self._observed.append(Observation())
        is_report = F.isnan("score")
        reports = F.collect_list(F.when(is_report, F.col("subscription")))
        return matches.observe(self._observed[-1], reports.alias("evidence")).filter(~is_report)


_last: MatchEvidence | None = None


def remembered(evidence: MatchEvidence) -> MatchEvidence:
    """Let `last_evidence` give this one."""
    global _last
    _last = evidence
    return evidence


def last_evidence() -> Evidence:
    """Return the evidence of the last call of `match` in this process, as far as its tasks have ended; and log it."""
    found = Evidence() if _last is None else _last.get()
    _log.info("%s", describe(found))
    return found


@dataclass(frozen=True)
class Reporter:
    """How a task reports its evidence; travels in its closure."""

    key: Key
    accumulator: "Accumulator[dict[Key, Evidence]] | None"
    rows: pa.Schema | None
    """The columns of the matches, if the evidence is a row."""

    def report(self, matches: Iterable[pa.RecordBatch], evidence: Evidence) -> Iterator[pa.RecordBatch]:
        """Yield the matches, then report the evidence, which is complete when they are."""
        schema = self.rows
        for batch in matches:
            schema = batch.schema
            yield batch
        if self.accumulator is not None:
            self.accumulator.add({self.key: evidence})
            return
        _warn(evidence, Evidence())
        if self.rows is not None and evidence.events:
            row = {"subscription": json.dumps(vars(evidence)), "score": math.nan}
            yield pa.RecordBatch.from_pylist([row], schema=schema)


class _EvidenceSum(AccumulatorParam[dict[Key, Evidence]]):
    """Adds evidence by key; the driver warns of what it meets for the first time."""

    def zero(self, value: dict[Key, Evidence]) -> dict[Key, Evidence]:  # noqa: ARG002 (as Spark calls it)
        return {}

    def addInPlace(  # noqa: N802 (as Spark calls it)
        self, value1: dict[Key, Evidence], value2: dict[Key, Evidence]
    ) -> dict[Key, Evidence]:
        with _lock:
            for key, found in value2.items():
                known = value1.setdefault(key, Evidence())
                if TaskContext.get() is None:
                    _warn(found, known)
                known.add_events(found)
            while len(value1) > MAX_KEPT:
                del value1[next(iter(value1))]
        return value1


@functools.lru_cache(maxsize=1)
def _accumulator(context: SparkContext) -> "Accumulator[dict[Key, Evidence]]":
    return context.accumulator({}, _EvidenceSum())


def describe(evidence: Evidence) -> str:
    """Return a line for a log: counts, seconds by phase, and the values that were not used."""
    phases = "encode", "match", "history", "rank"
    seconds = ", ".join(f"{phase} {getattr(evidence, f'{phase}_s'):.2f} s" for phase in phases)
    counts = f"{evidence.events:,} events, {evidence.candidates:,} candidates, {evidence.matches:,} matches"
    if evidence.audited:
        counts += f", {evidence.audited:,} pairs audited with {evidence.disagreements:,} disagreements"
    return "; ".join([f"{counts}; {seconds}", *(f"{name}: {values}" for name, values in evidence.unused_values())])


def _warn(found: Evidence, known: Evidence) -> None:
    new = Evidence(
        mismatches={name: count for name, count in found.mismatches.items() if name not in known.mismatches},
        errors={name: count for name, count in found.errors.items() if name not in known.errors},
    )
    for name, values in new.unused_values():
        _log.warning("%s count as NULL; in one task: %s", name, values)
