"""`tocsin import`: exported rules become a file of subscriptions, and what cannot be had is reported."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from tocsin.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.conftest import Run, WriteLines


@pytest.mark.parametrize("form", ["hits", "bulk", "lines", "array"])
def test_exported_queries_become_a_file_of_subscriptions(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, form: str
) -> None:
    queries = {"cheap": {"range": {"price": {"lt": 10}}}, "like": {"fuzzy": {"author": "Ann"}}}
    sources = [{"query": query, "user": "ada", "version": 3} for query in queries.values()]
    ids = list(queries)
    hits = [{"_index": "q", "_id": id, "_source": source} for id, source in zip(ids, sources, strict=True)]
    if form == "hits":
        file = write_lines("q.json", [json.dumps({"took": 1, "hits": {"hits": hits}}, indent=1)])
    elif form == "bulk":
        lines: list[Mapping[str, object] | str] = []
        for id, source in zip(ids, sources, strict=True):
            lines += [{"index": {"_id": id}}, source]
        file = write_lines("q.ndjson", lines)
    elif form == "lines":
        file = write_lines("q.jsonl", [{"id": id, **source} for id, source in zip(ids, sources, strict=True)])
    else:
        file = write_lines("q.json", [json.dumps(hits)])
    target = tmp_path / "s.parquet"
    answer = run("import", "percolator", file, "--output", target)
    assert answer.code == 1
    assert "│ like " in answer.err
    assert "fuzzy" in answer.err
    table = parquet.read_table(target)
    assert table.column_names[:2] == ["id", "where"]
    assert table.to_pylist()[0] | {"where": ""} == {
        "id": "cheap", "where": "", "score": 1.0, "weights": [], "tags": [("user", "ada")],
    }  # fmt: skip
    matcher = Matcher.from_table(table)
    assert matcher.match({"price": 5}).ids == ["cheap"]
    assert run("import", "percolator", file, "--output", target).code == 2


def test_what_is_not_a_query_is_reported_and_sinks_no_other(run: "Run", tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(
        '[1, "a", {"query": 3}, {"_source": 4}, {"id": "good", "query": {"match_all": {}}}]'
    )
    answer = run("import", "percolator", tmp_path / "odd.json", "--output", tmp_path / "s.jsonl")
    assert (answer.code, answer.err.count("not an object")) == (1, 3)
    assert json.loads((tmp_path / "s.jsonl").read_text())["id"] == "good"
    for text in ("3", '{"hits": 3}', '{"hits": {"hits": 3}}', "[]"):
        (tmp_path / "odd.json").write_text(text)
        assert run("import", "percolator", tmp_path / "odd.json", "--output", tmp_path / f"{len(text)}.csv").code <= 1


def test_rules_that_are_not_yaml_are_reported(run: "Run", tmp_path: Path) -> None:
    for name, content in (("a.yml", b"title: [a\n"), ("b.yml", b"\xff\xfe"), ("c.yml", b"just text\n")):
        (tmp_path / name).write_bytes(content)
    answer = run("import", "sigma", tmp_path, "--output", tmp_path / "s.jsonl")
    assert (answer.code, answer.err.count("not a file of rules")) == (1, 3)
    assert (tmp_path / "s.jsonl").read_text() == ""


def test_a_mapping_says_what_fields_are(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    queries = write_lines("q.jsonl", [{"id": "new", "query": {"range": {"day": {"gte": "2026-01-01"}}}}])
    mapping = write_lines("m.json", [{"q": {"mappings": {"properties": {"day": {"type": "date"}}}}}])
    target = tmp_path / "s.jsonl"
    assert "give the mapping" in run("import", "percolator", queries, "--output", target).err
    assert run("import", "percolator", queries, "--output", target, "--overwrite", "--mapping", mapping).code == 0
    assert json.loads(target.read_text())["where"] == "\"day\" >= TIMESTAMP '2026-01-01 00:00:00'"
    for wrong in (tmp_path / "nowhere.json", queries):
        assert run("import", "percolator", queries, "--output", target, "--mapping", wrong).code == 2
