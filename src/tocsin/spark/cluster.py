"""Run a Spark standalone cluster on this machine, from the PySpark that pip installs.

    python -m tocsin.spark.cluster --workers 2

runs one until Ctrl-C or SIGTERM and prints the address of its master, for `tocsin match --master`.
"""

import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tocsin.errors import TocsinError
from tocsin.sigterm import unwound_by_sigterm
from tocsin.spark.java import java_environment
from tocsin.spark.session import ARROW_OPTIONS, LOCAL_SETTINGS

SECONDS_TO_START = 120

SETTINGS = {
    **LOCAL_SETTINGS,
    # Each worker is a machine of its own: executors of one core, which start fast.
    "spark.executor.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {ARROW_OPTIONS}",
    "spark.executor.memory": "512m",
}
"""What a session on such a cluster needs."""


@contextlib.contextmanager
def standalone_cluster(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Start a master and workers and yield the address of the master when all are registered; stop them at the end."""
    with (
        unwound_by_sigterm(),
        tempfile.TemporaryDirectory(prefix="tocsin-cluster-", ignore_cleanup_errors=True) as folder,
        contextlib.ExitStack() as stack,
    ):
        log = Path(folder) / "log"
        port = _free_port()
        address = f"spark://127.0.0.1:{port}"
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        stack.enter_context(_daemon("master.Master", [*where, "--port", str(port)], log))
        _wait(log, "Starting Spark master", 1)
        for number in range(workers):
            size = ["--cores", str(cores), "--memory", memory, "--work-dir", f"{folder}/worker-{number}"]
            stack.enter_context(_daemon("worker.Worker", [*where, *size, address], log))
        _wait(log, "Successfully registered with master", workers)
        yield address


@contextlib.contextmanager
def _daemon(name: str, arguments: list[str], log: Path) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with log.open("ab") as file, java_environment() as java:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            env={**os.environ, **environment, "JAVA_HOME": str(java)},
            start_new_session=True,
        )
    try:
        yield
    finally:
        # The daemon and its executors are one process group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(log: Path, text: str, times: int) -> None:
    """Wait until the log has the text that many times."""
    end = time.monotonic() + SECONDS_TO_START
    while len(re.findall(text, log.read_text(errors="replace") if log.exists() else "")) < times:
        if time.monotonic() > end:
            raise TocsinError("the cluster did not start", f"It wrote: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Run a cluster until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    given = parser.parse_args()
    with (
        standalone_cluster(given.workers, given.cores, given.memory) as address,
        contextlib.suppress(KeyboardInterrupt),
    ):
        print(address, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
