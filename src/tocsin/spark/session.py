"""Start a Spark session for the commands and the tests; a program that uses `tocsin.spark` has its own.

No other module of `tocsin.spark` sets an option of a session.
"""

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no stubs
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


class LocalSession(SparkSession):
    """What `local_session` gives: a session to use as it is, or as a context that ends with it.

    One that was already running is left alone at the end of the context. One that was started is stopped then, or else
    at the end of the process.
    """

    def __init__(self, session: SparkSession, log: Path | None, was_started: bool) -> None:
        super().__init__(session.sparkContext, session._jsparkSession)
        self._log = log
        self._was_started = was_started
        if was_started:
            # A JVM with a query under way would keep the process waiting.
            atexit.register(self._stop_at_exit)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop what was started. After an error of Spark's the file that the JVM wrote to is kept and named."""
        if not self._was_started:
            return
        # What Tocsin refuses is not of Spark's doing.
        if self._log is not None and isinstance(error, Exception) and not isinstance(error, TocsinError):
            error.add_note(f"What Spark wrote is in {self._log}")
            self._log = None
        self.stop()

    def stop(self) -> None:
        """Stop the session, however it came to be; once it is stopped, nothing happens."""
        atexit.unregister(self._stop_at_exit)
        try:
            if self.sparkContext._jsc is not None:
                super().stop()
        finally:
            if self._log is not None:
                self._log.unlink(missing_ok=True)

    def _stop_at_exit(self) -> None:
        # The kernel of a notebook ends its children, the JVM among them, before it ends.
        with contextlib.suppress(Py4JError, OSError):
            self.stop()


def local_session(
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    name: str = "tocsin",
    verbose: bool = False,
) -> LocalSession:
    """Return the session that runs in this process, or start one on `master`.

    ``with local_session() as session:`` stops what it started; ``session = local_session()`` suits a notebook. The
    output of the JVM goes to a file, which an error names and which is removed otherwise; `verbose` shows it.
    """
    if master.startswith("sc://"):
        raise OptionError(
            f"{master!r} is a Spark Connect server, and this job writes files next to its driver",
            "Give local[*], spark://…, yarn or k8s://…, or call tocsin.spark.match from your own Connect session",
        )
    running = SparkSession.getActiveSession()
    if running is not None:
        return LocalSession(running, None, was_started=False)
    builder = SparkSession.builder.appName(name).master(master)
    local = LOCAL_SETTINGS if master.startswith("local") else {}
    for key, value in {**SETTINGS, **local, **(settings or {})}.items():
        builder = builder.config(key, value)
    log = None if verbose else _log_file()
    return LocalSession(_start(builder, log, local=bool(local)), log, was_started=True)


def _start(builder: SparkSession.Builder, log: Path | None, local: bool) -> SparkSession:
    # Workers use this interpreter, not the first python3 on the PATH; what the user has set is kept.
    defaults = {"PYSPARK_PYTHON": sys.executable} | ({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})
    unset = {name: value for name, value in defaults.items() if name not in os.environ}
    with java_environment(), environment(unset), _stderr_to(log):
        try:
            return builder.getOrCreate()
        except KeyboardInterrupt:
            if log is not None:
                log.unlink()
            raise
        except Exception as error:
            where = f"What Spark wrote is in {log}" if log else "What Spark wrote is above"
            raise TocsinError(f"Spark did not start: {error}", where) from error


def _log_file() -> Path:
    handle, name = tempfile.mkstemp(prefix="tocsin-spark-", suffix=".log")
    os.close(handle)
    return Path(name)


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
