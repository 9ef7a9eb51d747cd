"""An index that every worker can map: naming it, and getting it there."""

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


def place(path: Path, session: SparkSession, ship: bool | None = None) -> Place:
    """Decide where workers shall find the index, and ship it there if they do not see the driver's folders."""
    print_ = fingerprint(path)
    if ship is None:
        ship = not _workers_are_here(session)
    if not ship:
        return Place(str(path.absolute()), False, print_)
    archive = scratch() / f"tocsin-{print_}.tar"
    if not archive.exists():
        with tarfile.open(archive, "w") as tar:
            for file in _files(path):
                tar.add(path / file, arcname=f"index/{file}")
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
    for file in _files(path):
        state = (path / file).stat()
        digest.update(f"\n{file} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()[:20]


def _files(path: Path) -> list[Path]:
    """The files of the folder that workers need, by their paths in it: neither views nor the lock of the writer."""
    inside = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return sorted(file for file in inside if file.parts[0] not in ("views", "write.lock"))


def _workers_are_here(session: SparkSession) -> bool:
    """Whether driver and workers are one machine: a classic session on a local master."""
    master = session.conf.get("spark.master") or ""
    return master.startswith("local") and not master.startswith("local-cluster") and not is_connect(session)


def is_connect(session: SparkSession) -> bool:
    """Whether the driver is a Spark Connect server, elsewhere."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@functools.cache
def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tocsin-")


def scratch() -> Path:
    """A folder of this process for what lazy DataFrames still need; removed when the process ends."""
    return Path(_scratch_folder().name)
