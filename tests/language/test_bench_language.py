"""The benchmark of the language runs, and both ways of normalising agree on its texts."""

from tocsin.bench.language import SHAPES, run, texts
from tocsin.language.bulk import normalise_texts


def test_run() -> None:
    report = run(subscriptions=400, sample=40, repeats=1)
    assert report.disagreements == []
    assert [result.engine for result in report.results] == ["tocsin, many texts", "tocsin, one text", "sqlglot parse"]
    assert len(report.claims) == 1


def test_every_text_is_accepted() -> None:
    form = normalise_texts(texts(5 * len(SHAPES)))
    assert form.errors == {}
    assert form.never == []
