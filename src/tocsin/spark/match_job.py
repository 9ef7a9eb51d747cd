"""The job behind `tocsin match` and `tocsin demo`: match files and write a folder of matches."""

import contextlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

from tocsin.files.job import MatchJob, MatchJobResult
from tocsin.matcher import Matcher
from tocsin.spark.evidence import MatchEvidence, describe
from tocsin.spark.match import match
from tocsin.spark.read_files import MALFORMED, read_events

Progress = Callable[[int, int], None]
"""Called with the number of tasks that are done, and of all tasks."""

POLL_SECONDS = 0.2

_log = logging.getLogger(__name__)


def match_files(
    session: SparkSession,
    matcher: Matcher,
    events: Path,
    output: Path,
    job: MatchJob | None = None,
    *,
    format: str = "parquet",
    progress: Progress | None = None,
) -> MatchJobResult:
    """Match the events of a file, or a folder of files, and write the matches to the new folder `output`."""
    start = time.perf_counter()
    job = job or MatchJob()
    id = job.id or "id"
    read = {*matcher.attributes, *job.keep, *filter(None, [job.order])}
    kinds = {name: matcher.kinds.get(name, set()) for name in read}
    source = read_events(session, events, kinds, id)
    frame, seen, evidence = source.events, Observation(), MatchEvidence()
    if source.can_be_malformed:
        malformed = F.col(MALFORMED)
        frame = frame.observe(seen, F.count(malformed).alias("bad")).filter(malformed.isNull())
    with tempfile.TemporaryDirectory(prefix="tocsin-index-") as index, _polled(session, progress):
        matcher.save(index)
        matches = match(
            source.path if source.format == "parquet" else frame,
            index,
            id=id,
            order=job.order,
            keep_columns=job.keep,
            tags=job.tags,
            evidence=evidence,
            top_k=job.question.k if job.question else None,
            mode=job.question.mode if job.question else "exact",
            score_by=job.question.score_by if job.question else "sum",
            interval=job.question.interval if job.question else "overlaps",
            ranked_index=job.question.index if job.question else "auto",
        )
        matches.write.format("json" if format == "jsonl" else format).save(str(output))
    done, bad = evidence.get(), seen.get["bad"] if source.can_be_malformed else 0
    _log.info("%s: %s", output, describe(done))
    outcome = MatchJobResult(done.events, done.matches, time.perf_counter() - start, done, bad)
    if outcome.bad_events:
        outcome.bad_lines = source.bad_lines()
    return outcome


@contextlib.contextmanager
def _polled(session: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Report the progress of the running stages from a thread."""
    if progress is None:
        yield
        return
    finished = threading.Event()
    tracker = session.sparkContext.statusTracker()

    def poll() -> None:
        while not finished.wait(POLL_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            running = [stage for stage in stages if stage is not None]
            if running:
                progress(sum(s.numCompletedTasks for s in running), sum(s.numTasks for s in running))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
