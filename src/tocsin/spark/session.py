"""Start a Spark session for the commands and the tests; a program that uses `tocsin.spark` has its own.

No other module of `tocsin.spark` sets an option of a session.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tocsin.errors import OptionError, TocsinError
from tocsin.spark.java import environment, java_environment

ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java options: no bounds checks in Arrow, and no second test for NULL, which Spark makes before each value."""

KEEP_MEMORY = {
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
"""Python workers keep the memory of a batch for the next one: Arrow's (mimalloc) and NumPy's (glibc)."""

SETTINGS = {
    # A worker that returns memory to the system spends a tenth of its time on page faults to get it again.
    **KEEP_MEMORY,
    # The JVM takes a match from Python at two thirds of the cost.
    "spark.driver.extraJavaOptions": ARROW_OPTIONS,
    "spark.executor.extraJavaOptions": ARROW_OPTIONS,
    # Rows in a batch to Python and back: see docs/spark.md for the measurement.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A small task costs half as much over a Unix socket as over TCP, and a tenth with a worker that is reused.
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

    The output of the JVM goes to a file, which an error names and which is removed otherwise; `verbose` shows it.
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
    # Workers use this interpreter, not the first python3 on the PATH; what the user has set is kept.
    defaults = {"PYSPARK_PYTHON": sys.executable} | ({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})
    unset = {name: value for name, value in defaults.items() if name not in os.environ}
    with java_environment(), environment(unset), _stderr_to(log):
        try:
            return builder.getOrCreate()
        except Exception as error:
            where = f"What Spark wrote is in {log}" if log else "What Spark wrote is above"
            raise TocsinError(f"Spark did not start: {error}", where) from error


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
    """Redirect the standard error of processes that are started here to `log`, for their lifetime."""
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
