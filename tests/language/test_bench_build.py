"""The benchmark of builds runs, on texts of as many shapes as it says."""

from tocsin.bench.build import narrow, run, wide
from tocsin.language.shape import split


def shapes(texts: list[str]) -> int:
    return len({tuple(split(text)[::2]) for text in texts})


def test_run() -> None:
    report = run(subscriptions=400, sample=20, repeats=1)
    assert report.disagreements == []
    assert len(report.results) == 12
    assert len(report.claims) == 4


def test_shapes() -> None:
    assert [shapes(narrow(500, count)) for count in (1, 5)] == [1, 5]
    assert shapes(narrow(500, 500)) > 490
    assert shapes(wide(200)) == 200
