"""What all tests share: how hard Hypothesis tries, and one Spark session that starts when the first test asks."""

import gc
import math
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

# Tests are small, and what they test is compiled code: tests/test_tiers.py has the other ways to run a kernel.
os.environ.setdefault("TOCSIN_KERNELS", "compiled")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Shared machines stall now and then: a slow example is not a failure. The examples of a run are always the same,
# so that none fails for another reason than what was changed; HYPOTHESIS_PROFILE=hunt tries many
# others, as does `make fuzz`.
settings.register_profile(
    "ci", deadline=None, max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("hunt", settings.get_profile("ci"), max_examples=10_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SPARK_SETTINGS = {
    # Small data: one partition after a shuffle, and a JVM that starts fast rather than runs fast.
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    # Columns of mapInArrow are matched by position: let a wrong name or type fail, not pass.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # Batches small enough that a test has several.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


@pytest.fixture(autouse=True, scope="session")
def unsynced_disk() -> Iterator[None]:
    """Do not wait for the disk, up to 100 ms each time: tests kill processes, never the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def little_garbage() -> None:
    """Leave to the garbage collector what this module makes: all tests and their modules are some million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The one Spark session of a test run; commands that run in this process use it as well."""
    from tocsin.spark.session import local_session

    with local_session("local[2]", SPARK_SETTINGS, name="tests") as session:
        yield session


@pytest.fixture
def unhurried_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let audits judge all that they are given: what they leave out depends on the speed of the machine."""
    from tocsin.index import audit

    monkeypatch.setattr(audit, "HEAD_START", math.inf)
    monkeypatch.setattr(audit, "MOST_WAITING", 10_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all tests that need the Spark session in one process of a parallel run, and mark them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


_undeclared: dict[str, list[str]] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run after which a kernel has more signatures than it declares: whoever calls it next would compile."""
    numba = sys.modules.get("tocsin._numba")
    if numba is not None:
        found = {".".join(name): signatures for name, signatures in numba.undeclared().items()}
        _undeclared.update({name: texts for name, texts in found.items() if name.startswith("tocsin.")})
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["undeclared"] = _undeclared
    elif _undeclared and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Gather what a process of a parallel run has found."""
    _undeclared.update(getattr(node, "workeroutput", {}).get("undeclared", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the kernels with more signatures than they declare."""
    for name, signatures in _undeclared.items():
        terminalreporter.write_line(f"{name} has more signatures than it declares:")
        for text in signatures:
            terminalreporter.write_line(f"    {text}")
