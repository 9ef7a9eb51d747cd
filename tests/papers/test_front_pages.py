"""The docstring of each paper's folder names every file, and only files that are there."""

import importlib
import re
from pathlib import Path

import pytest

from tocsin import papers

ROOT = Path(__file__).parents[2]
FOLDER = Path(papers.__path__[0])
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_front_page_names_every_file_of_its_folder(name: str) -> None:
    page = importlib.import_module(f"tocsin.papers.{name}").__doc__ or ""
    there = {path.name for path in (FOLDER / name).glob("*.py")} - {"__init__.py"}
    named = set(re.findall(r"`(\w+\.py)`", page))
    assert there - named == set(), "each file of the folder is named"
    for path in re.findall(r"`?((?:docs|tests)/[\w/.]+|(?:predicates|conjunctions)/[\w/.]*\w/?)`?", page):
        assert (ROOT / path.rstrip(".")).exists() or (FOLDER.parent / path).exists(), path
    assert named - there <= {path.name for path in FOLDER.parent.rglob("*.py")}, "what is named exists"
    assert f"`tocsin bench {name}`" in page
    assert "docs/internals/" in page
