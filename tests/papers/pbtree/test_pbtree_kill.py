"""A killed process loses nothing that it committed, and corrupts nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_workloads.py")


def kill(folders: list[Path], first: int, count: int) -> list[dict[str, object]]:
    """Kill `count` workloads, a share in each folder, at the same time."""
    share = count // len(folders)
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), str(first + i * share), str(share)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i, folder in enumerate(folders)
    ]
    results = []
    for process in running:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        results += [json.loads(line) for line in output.splitlines()]
    return results


def require_survival(results: list[dict[str, object]]) -> None:
    for result in results:
        assert result["problem"] is None, result
        # A commit may have become durable just before the kill, without a report.
        assert result["found"] in (result["reported"], int(str(result["reported"])) + 1), result


def test_two_hundred_workloads_killed_at_random_points(tmp_path: Path, folder: Path) -> None:
    """On a disk most kills meet a process that waits for a sync, in memory one that works."""
    results = kill([tmp_path, tmp_path, folder], first=0, count=201)
    assert len(results) == 201
    require_survival(results)
    assert sum(1 for result in results if result["log"]) > 50, "most kills leave a log behind to recover from"
    assert len({result["reported"] for result in results}) > 10, "kills come at different points"


@pytest.mark.slow
def test_two_thousand_more(tmp_path: Path, folder: Path) -> None:
    require_survival(kill([tmp_path, tmp_path, folder, folder], first=1000, count=2000))
