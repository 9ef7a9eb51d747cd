"""A Spark session for the command line, the demo and the tests. A library user brings their own.

Nothing else in `tocsin.spark` sets an option of a session.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tocsin.errors import OptionError, TocsinError
from tocsin.spark.java import java_environment

ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java options: Arrow checks no bounds, and Spark, which asks for NULL before each value, is not asked again."""

KEEP_MEMORY = {
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
"""Python workers keep the memory of a batch for the next one: Arrow's (mimalloc) and NumPy's (glibc)."""

SETTINGS = {
    # A worker that gives memory back spends a tenth of its time on getting it again, page by page.
    **KEEP_MEMORY,
    # Taking a match from Python costs the JVM a third less.
    "spark.driver.extraJavaOptions": ARROW_OPTIONS,
    "spark.executor.extraJavaOptions": ARROW_OPTIONS,
    # One task moves this many rows a time to Python and back: see docs/spark.md for the measurement.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A small task costs half as much over a socket file as over TCP, and a tenth as much with a worker that lives on.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # Workers start with Tocsin and its kernels loaded.
    "spark.python.daemon.module": "tocsin.spark._worker.daemon",
    # Timestamps without a zone are taken as UTC, as everywhere in Tocsin.
    "spark.sql.session.timeZone": "UTC",
    # We show our own progress, and a terminal job needs no web server.
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}

# What a machine without a resolvable host name needs; all traffic stays on the machine.
LOCAL_SETTINGS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@contextlib.contextmanager
def local_session(
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    name: str = "tocsin",
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """Yield the session that runs in this process, or start one on `master` and stop it at the end.

    What the JVM writes goes to a file, which is named if something fails and removed if not; `verbose` shows it.
    """
    if master.startswith("sc://"):
        raise OptionError(
            f"{master!r} is a Spark Connect server, and this job writes files next to its driver",
            "Give local[*], spark://…, yarn or k8s://…, or call tocsin.spark.match from your own Connect session",
        )
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    builder = SparkSession.builder.appName(name).master(master)
    local = LOCAL_SETTINGS if master.startswith("local") else {}
    for key, value in {**SETTINGS, **local, **(settings or {})}.items():
        builder = builder.config(key, value)
    with contextlib.ExitStack() as stack:
        log = None if verbose else stack.enter_context(_log_file())
        session = _start(builder, log, local=bool(local))
        stack.callback(session.stop)
        yield session


def _start(builder: SparkSession.Builder, log: Path | None, local: bool) -> SparkSession:
    # Workers run the interpreter that runs this, not the first python3 on the PATH.
    defaults = {"PYSPARK_PYTHON": sys.executable} | ({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})
    with java_environment(), _environment(defaults), _stderr_to(log):
        try:
            return builder.getOrCreate()
        except Exception as error:
            where = f"What Spark wrote is in {log}" if log else "What Spark wrote is above"
            raise TocsinError(f"Spark did not start: {error}", where) from error


@contextlib.contextmanager
def _environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set what the user has not set, for as long as the JVM is being started."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextlib.contextmanager
def _log_file() -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="tocsin-spark-", suffix=".log")
    os.close(handle)
    path = Path(name)
    try:
        yield path
    except KeyboardInterrupt:
        path.unlink()
        raise
    except Exception as error:
        error.add_note(f"What Spark wrote is in {path}")
        raise
    else:
        path.unlink()


@contextlib.contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Let the processes started meanwhile write their errors to `log`; they keep it for their lifetime."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
