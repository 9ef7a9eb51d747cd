"""Ship an index to the workers, or tell them where to map it."""

import functools
import hashlib
import logging
import os
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

_SERVER = "SPARK_CONNECT_LOCAL_URL"
"""Set by a Spark Connect server for the processes that it starts beside itself, such as that of `foreachBatch`."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Index:
    """The folder of an index that was built, and reports of the rejected subscriptions and of warnings."""

    path: Path
    rejected: DataFrame
    """The columns `subscription`, `position` (in its text) and `reason`."""
    warnings: DataFrame
    """What is probably not meant, if a schema was given; the same columns."""


@dataclass(frozen=True)
class Place:
    """Where a worker finds an index: a folder, or the unpacked artifact of that name."""

    name: str
    is_artifact: bool
    fingerprint: str

    def folder(self) -> str:
        """Return the folder to open on this worker."""
        return str(Path(SparkFiles.get(self.name)) / "index") if self.is_artifact else self.name


def place(path: Path, session: SparkSession, ship: bool | None = None) -> Place:
    """Decide where workers find the index, and ship it if they do not see the folders of the driver."""
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
        # The name has the fingerprint, so the artifact that is there is the same.
        if error.getCondition() != "DUPLICATED_ARTIFACT":
            raise
    _log.info("shipped the index %s to the workers as %s", path, archive.name)
    return Place(archive.name, True, print_)


def fingerprint(path: Path) -> str:
    """Hash the names, sizes and times of the files in the folder; their content is not read."""
    digest = hashlib.sha256(str(path.absolute()).encode())
    for file in _files(path):
        state = (path / file).stat()
        digest.update(f"\n{file} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()[:20]


def _files(path: Path) -> list[Path]:
    """Return the relative paths of the files that workers need: no pinned snapshots, no lock of the writer."""
    inside = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return sorted(file for file in inside if file.parts[0] not in ("views", "write.lock"))


def _workers_are_here(session: SparkSession) -> bool:
    """Return whether this process and the workers are on one machine: that of a driver with a local master."""
    master = session.conf.get("spark.master") or ""
    is_driver = not is_connect(session) or _SERVER in os.environ
    return is_driver and master.startswith("local") and not master.startswith("local-cluster")


def is_connect(session: object) -> bool:
    """Return whether the driver is a Spark Connect server: so is any session that is not a classic one for certain."""
    return not isinstance(session, SparkSession)


@functools.cache
def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tocsin-")


def scratch() -> Path:
    """Return a folder for files that lazy DataFrames need; it is removed when the process ends."""
    return Path(_scratch_folder().name)
