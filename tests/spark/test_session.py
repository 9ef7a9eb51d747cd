"""`local_session`: an object or a context, one that runs already, and what is left behind."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]  # it has no stubs
from pyspark.sql import SparkSession

from tocsin.spark.session import LocalSession, local_session

SCRIPT = """
import glob, os, tempfile
from tocsin.spark import local_session

session = local_session("local[1]", {"spark.sql.shuffle.partitions": "1"})
print(session.range(3).count(), len(glob.glob(os.path.join(tempfile.gettempdir(), "tocsin-spark-*.log"))))
session.readStream.format("rate").load().writeStream.format("memory").queryName("under_way").start()
"""


def test_one_that_runs_is_left_alone(spark: SparkSession) -> None:
    with local_session() as session:
        assert session.range(3).count() == 3
    assert session.range(2).count() == 2
    assert spark.range(2).count() == 2


def test_a_plain_object_ends_with_the_process_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "3 1\n"), done.stderr
    assert list(tmp_path.glob("tocsin-spark-*")) == []


def test_a_session_whose_jvm_is_gone_leaves_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of a notebook ends the JVM before it ends itself."""

    def fail(_: SparkSession) -> None:
        raise Py4JNetworkError("the JVM is gone")

    monkeypatch.setattr(SparkSession, "stop", fail)
    session = LocalSession.__new__(LocalSession)
    session._sc = SimpleNamespace(_jsc="there")  # type: ignore[assignment]  # all that it is asked for
    session._log, session._was_started = tmp_path / "tocsin-spark.log", True
    session._log.touch()
    session._stop_at_exit()
    assert list(tmp_path.iterdir()) == []
