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


def test_what_the_page_of_the_papers_names_is_there() -> None:
    """Files are in the folder of their paper or where their path says; names of XPath indexes are taken."""
    from tocsin.papers.gpx import XPATH_INDEXES

    sections = re.split(r"\n## ", (ROOT / "docs" / "papers.md").read_text())[1:]
    assert len(sections) == len(NAMES)
    folders = dict(zip(("tatbul", "sift", "pbtree", "ranked", "gpx"), sections, strict=True))
    for name, section in folders.items():
        assert f"tocsin bench {name}" in section
        for path in set(re.findall(r"[`/ ]((?:[\w-]+/)*\w+\.py)`", section)):
            places = [ROOT / path, FOLDER.parent / path, FOLDER / name / path]
            inside = [*(FOLDER.parent / "predicates").rglob(Path(path).name), *(ROOT / "tests").rglob(Path(path).name)]
            assert any(place.exists() for place in places) or ("/" not in path and inside), path
    assert set(re.findall(r'xpath="([\w-]+)"', folders["gpx"])) <= set(XPATH_INDEXES)
