"""What runs in a Python worker: record batches of events in, record batches of matches out. No Spark in here.

Memory is bounded however many subscriptions an event matches: a batch is matched in slices, each sized by what the
slices before it gave, and every slice leaves in batches of at most `ROWS` matches.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from tocsin.engine.matcher import Matcher
from tocsin.errors import StorageError

ROWS = 1 << 16
"""The most matches in one record batch of the output."""

PAIRS = 1 << 20
"""The matches that one slice shall have; twenty bytes each."""

FIRST_SLICE = 64
GROWTH = 8
"""A slice has at most this many times the events of the one before."""

COLUMNS = ("event", "subscription", "score")


def match_batches(
    batches: Iterable[pa.RecordBatch],
    path: str,
    fingerprint: str,
    names: Sequence[str],
    rows: int = ROWS,
    pairs: int = PAIRS,
) -> Iterator[pa.RecordBatch]:
    """Match every batch against the index in `path`; yield batches of `event, subscription, score`.

    The columns of the batches are the attributes `names`; the first also names the events, and `event` has its type.
    The index is opened once a process for each `fingerprint`.
    """
    matcher = open_index(path, fingerprint)
    size = FIRST_SLICE
    for batch in batches:
        event_type = batch.schema.field(0).type
        batch = batch.rename_columns(names)
        start = 0
        while start < batch.num_rows:
            events = batch.slice(start, size)
            start += events.num_rows
            matches = matcher.match_batch(events, id=names[0])
            for chunk in matches.to_batches(max_chunksize=rows):
                yield pa.RecordBatch.from_arrays(
                    [
                        chunk.column("event").cast(event_type),
                        chunk.column("subscription").cast(pa.string()),
                        chunk.column("score").cast(pa.float64()),
                    ],
                    COLUMNS,
                )
            fitting = pairs * events.num_rows // max(matches.num_rows, 1)
            size = max(1, min(fitting, size * GROWTH))


@lru_cache(maxsize=2)
def open_index(path: str, fingerprint: str) -> Matcher:  # noqa: ARG001 (part of the key: what the path holds may change)
    """Open the index in `path` as mapped files, which all workers of a host share."""
    if not Path(path).is_dir():
        raise StorageError(
            f"there is no index in {path} on this worker",
            "Put it on storage that every worker mounts at this path, or let it be shipped: match(…, ship=True)",
        )
    return Matcher.open(path)
