"""Spark's Python daemon with Tocsin loaded: workers are forks of it and start ready to match.

`local_session` sets it; in a session of your own: ``spark.python.daemon.module = tocsin.spark._worker.daemon``.
"""

import gc
import select

import pyarrow as pa
from pyspark.daemon import manager

from tocsin._compile import load_compiler
from tocsin.matcher import Matcher
from tocsin.spark._worker.batches import match_slices


def load() -> int:
    """Match two events, so that modules and compiled kernels are loaded; return the number of matches."""
    load_compiler()
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many(pa.table({"id": ["x", "y"], "where": ["a > 1 AND b < 2", "s = 'x' OR a > 5"]}))
    events = pa.RecordBatch.from_pydict({"n": [1, 2], "a": [2, 3], "b": [1.0, 3.0], "s": ["x", "z"]})
    return sum(batch.num_rows for batch in match_slices(matcher.match_batch, [events]))


def is_left_alone() -> bool:
    """Tell whether the JVM has ended meanwhile: standard input is closed, and nothing comes there before we answer."""
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable)


if __name__ == "__main__":
    load()
    # A worker runs the garbage collector after each task; to scan the objects loaded so far took 0.1 s a task.
    gc.collect()
    gc.freeze()
    # The manager would make its socket and fail to say so, and the file would stay.
    if not is_left_alone():
        manager()
