"""The examples run, and show what they promise."""

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient import NotebookClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
# The kernel's own machinery warns about what is not ours.
@pytest.mark.filterwarnings("ignore")
def test_notebooks_run_and_draw(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 3
    assert "search-00001: does not match" in outputs[-1]["text"]


def test_notebooks_are_kept_without_outputs() -> None:
    for path in EXAMPLES.glob("*.ipynb"):
        assert all(not cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells)


def test_sigma_on_spark_finds_and_explains(spark: "SparkSession") -> None:
    example = runpy.run_path(str(EXAMPLES / "sigma_on_spark" / "alerts.py"))
    alerts = example["find_alerts"](spark)
    # By the rules read beside the events: 1 and 8 are encoded commands, 2 is one of the deployment; 3 and 8 come from
    # Office; 4 uploads and 5 does not; 6 is a disabled account and 7 a wrong password.
    severities = [alert.partition(":")[0] for alert in alerts]
    assert severities == ["critical", "critical", "high", "high", "medium", "low"]
    hosts = [alert.partition(" on ")[2].partition(" at ")[0] for alert in alerts]
    assert hosts == ["pc-11", "pc-11", "pc-17", "pc-11", "web-1", "dc-1"]
    assert all(": matches:" in alert and "FAILS" not in alert.split("alternative 2")[0] for alert in alerts)
