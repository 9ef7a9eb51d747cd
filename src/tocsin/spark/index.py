"""From subscriptions to an index that every worker can map: building it, naming it, getting it there."""

import functools
import hashlib
import logging
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

from tocsin.engine.matcher import Matcher
from tocsin.errors import OptionError

COLUMN_TYPES = {"id": "string", "where": "string", "score": "double", "weights": None, "tags": None}
"""The columns of a DataFrame of subscriptions that count, and the type that each is read as."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Index:
    """A folder of mapped files made from subscriptions, and a report of those that could not be taken."""

    path: Path
    rejected: DataFrame
    """The columns `subscription`, `position` (in its text) and `reason`."""


@dataclass(frozen=True)
class Place:
    """Where a worker finds an index: in a folder, or in the unpacked artifact of that name."""

    name: str
    is_artifact: bool
    fingerprint: str

    def folder(self) -> str:
        """The folder to open, on the worker that asks."""
        return str(Path(SparkFiles.get(self.name)) / "index") if self.is_artifact else self.name


def build(subscriptions: DataFrame, path: str | Path | None = None) -> Index:
    """Build the index of the subscriptions `id, where[, score]` in `path`, or in a folder that this process removes.

    Subscriptions that cannot be taken are left out and reported in `rejected`. The subscriptions go through the driver.
    """
    missing = [name for name in ("id", "where") if name not in subscriptions.columns]
    if missing:
        raise OptionError(
            f"the subscriptions have no column {' and no column '.join(map(repr, missing))}",
            f"They have {', '.join(subscriptions.columns)}; rename with withColumnsRenamed",
        )
    wanted = [
        F.col(name).cast(type_) if type_ else F.col(name)
        for name, type_ in COLUMN_TYPES.items()
        if name in subscriptions.columns
    ]
    matcher = Matcher.from_table(subscriptions.select(*wanted).toArrow())
    if path is None:
        path = tempfile.mkdtemp(prefix="index-", dir=_scratch())
    matcher.save(path)
    if matcher.rejected:
        _log.warning("%d subscriptions were rejected, the first: %s", len(matcher.rejected), matcher.rejected[0])
    report = [(error.subscription, error.position, f"{error.message}. {error.hint}") for error in matcher.rejected]
    schema = "subscription string, position int, reason string"
    return Index(Path(path), subscriptions.sparkSession.createDataFrame(report, schema))


def place(path: Path, session: SparkSession, ship: bool | None = None) -> Place:
    """Decide where workers shall find the index, and ship it there if they do not see the driver's folders."""
    print_ = fingerprint(path)
    if ship is None:
        ship = not _workers_are_here(session)
    if not ship:
        return Place(str(path.absolute()), False, print_)
    archive = _scratch() / f"tocsin-{print_}.tar"
    if not archive.exists():
        with tarfile.open(archive, "w") as tar:
            tar.add(path, arcname="index")
    try:
        session.addArtifacts(str(archive), archive=True)
    except PySparkRuntimeError as error:
        # The name holds the fingerprint: what is there already is the same.
        if error.getCondition() != "DUPLICATED_ARTIFACT":
            raise
    _log.info("shipped the index %s to the workers as %s", path, archive.name)
    return Place(archive.name, True, print_)


def fingerprint(path: Path) -> str:
    """A name for what the folder holds now: files, sizes and times of change. Reads no content."""
    digest = hashlib.sha256(str(path.absolute()).encode())
    for file in sorted(path.rglob("*")):
        state = file.stat()
        digest.update(f"\n{file.relative_to(path)} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()[:20]


def _workers_are_here(session: SparkSession) -> bool:
    """Whether driver and workers are one machine: a classic session on a local master."""
    master = session.conf.get("spark.master") or ""
    is_connect = type(session).__module__.startswith("pyspark.sql.connect")
    return master.startswith("local") and not master.startswith("local-cluster") and not is_connect


@functools.cache
def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """The folder of this process for what lazy DataFrames still need; removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="tocsin-")


def _scratch() -> Path:
    return Path(_scratch_folder().name)
