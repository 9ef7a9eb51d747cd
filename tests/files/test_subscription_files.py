"""Files of subscriptions, and output folders that are whole or not there."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tocsin.errors import OptionError, SubscriptionError
from tocsin.files.subscription_files import read_subscriptions
from tocsin.storage.atomic_files import whole_folder


def complaints(errors: list[SubscriptionError]) -> dict[str | None, str]:
    return {error.subscription: error.message for error in errors}


def test_json_lines_with_every_kind_of_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.jsonl"
    path.write_text(
        '{"id": "a", "where": "x = 1", "score": 2}\n'
        "\n"
        '{"id": 7, "where": "x = 2", "tags": {"owner": "q"}, "weights": {"x": 0.5}, "note": "ignored"}\n'
        "{broken\n"
        "[1, 2]\n"
        '{"where": "x = 3"}\n'
        '{"id": "no where"}\n'
        '{"id": "number", "where": 5}\n'
        '{"id": "score", "where": "x = 4", "score": "high"}\n'
        '{"id": "tags", "where": "x = 4", "tags": 3}\n'
        '{"id": "weights", "where": "x = 4", "weights": [1]}\n'
        '{"id": "text as weight", "where": "x = 4", "weights": {"x": "1"}}\n'
        '{"id": "huge weight", "where": "x = 4", "weights": {"x": 1' + "0" * 400 + "}}\n"
        '{"id": "number as tag", "where": "x = 4", "tags": {"owner": 1}}\n'
    )
    read = read_subscriptions(path)
    table, errors = read.table, read.rejected
    assert table.to_pylist() == [
        {"id": "a", "where": "x = 1", "score": 2.0, "weights": None, "tags": None},
        {"id": "7", "where": "x = 2", "score": None, "weights": [("x", 0.5)], "tags": [("owner", "q")]},
    ]
    found = complaints(errors)
    wrong_within = ["text as weight", "huge weight", "number as tag"]
    assert list(found) == [
        "line 4",
        "line 5",
        "line 6",
        "no where",
        "number",
        "score",
        "tags",
        "weights",
        *wrong_within,
    ]
    assert found["line 4"].startswith("not JSON")
    assert found["line 5"] == "not an object"
    assert found["line 6"] == "no id"
    assert found["no where"] == "its condition is missing"
    assert found["number"] == "its condition is not a text but 5"
    assert found["score"] == 'its score is "high"'


@pytest.mark.parametrize("malformed", [b"\\ud800", b"caf\xe9", b"\xed\xa0\x80"], ids=["escape", "latin-1", "bytes"])
def test_text_that_is_none_is_rejected_and_the_rest_taken(tmp_path: Path, malformed: bytes) -> None:
    path = tmp_path / "subscriptions.jsonl"
    lines = [
        b'{"id": "a", "where": "x = 1"}',
        b'{"id": "where", "where": "x = \'@\'"}',
        b'{"id": "@", "where": "x = 1"}',
        b'{"id": "tags", "where": "x = 1", "tags": {"@": "y"}}',
        b'{"id": "b", "where": "x = 2", "note": "@"}',
        b'{"id": "pair", "where": "x = \'\\ud83d\\ude00\'"}',
    ]
    path.write_bytes(b"\n".join(lines).replace(b"@", malformed))
    read = read_subscriptions(path)
    table, errors = read.table, read.rejected
    assert table["id"].to_pylist() == ["a", "b", "pair"]
    assert table["where"].to_pylist()[2] == "x = '\U0001f600'"
    found = complaints(errors)
    assert list(found) == ["where", "line 3", "tags"]
    for message in found.values():
        assert message.encode()


def test_csv_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.csv"
    path.write_bytes(b"id,where\na,x = 1\nb,x = 'caf\xe9'\ncaf\xe9,x = 1\nd,x = 'caf\xc3\xa9'\n")
    read = read_subscriptions(path)
    table, errors = read.table, read.rejected
    assert table.to_pylist() == [{"id": "a", "where": "x = 1"}, {"id": "d", "where": "x = 'café'"}]
    assert list(complaints(errors)) == ["b", "line 4"]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.csv"
    path.write_text('id,where,score\na,"x IN (1, 2)",2.5\nb,x = 1,\nc,\nd,x IN (1, 2),1,2\n')
    read = read_subscriptions(path)
    table, errors = read.table, read.rejected
    assert table.to_pylist() == [
        {"id": "a", "where": "x IN (1, 2)", "score": 2.5},
        {"id": "b", "where": "x = 1", "score": None},
    ]
    assert complaints(errors) == {"c": "its condition is missing", "line 5": "more fields than columns"}


def test_weights_and_tags_are_json_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.csv"
    rows = ['a,x = 1,"{""x"": 0.5}","{""tenant"": ""acme""}"', "b,x = 1,,", "c,x = 1,5,", "d,x = 1,,tenant"]
    path.write_text("\n".join(["id,where,weights,tags", *rows]))
    read = read_subscriptions(path)
    table, errors = read.table, read.rejected
    assert table.to_pylist() == [
        {"id": "a", "where": "x = 1", "weights": [("x", 0.5)], "tags": [("tenant", "acme")]},
        {"id": "b", "where": "x = 1", "weights": None, "tags": None},
    ]
    assert complaints(errors) == {"c": 'its weights is "5"', "d": 'its tags is "tenant"'}


def test_parquet_is_cast_to_the_types_of_subscriptions(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": [1], "where": ["x = 1"], "other": [2]}), tmp_path / "s.parquet")
    read = read_subscriptions(tmp_path / "s.parquet")
    table, errors = read.table, read.rejected
    assert table.to_pylist() == [{"id": "1", "where": "x = 1"}]
    assert errors == []
    parquet.write_table(pa.table({"id": [1], "condition": ["x = 1"]}), tmp_path / "wrong.parquet")
    with pytest.raises(OptionError, match=r"no column 'where'\. It has id, condition"):
        read_subscriptions(tmp_path / "wrong.parquet")


def test_files_that_are_missing_or_of_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no file"):
        read_subscriptions(tmp_path / "nowhere.jsonl")
    (tmp_path / "s.xml").write_text("")
    with pytest.raises(OptionError, match=r"Name it with one of \.jsonl"):
        read_subscriptions(tmp_path / "s.xml")


def fill(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "part").write_text(text)


def test_an_output_folder_appears_as_a_whole(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "out"
    with whole_folder(output, overwrite=False) as new:
        fill(new, "new")
        assert not output.exists()
    assert (output / "part").read_text() == "new"
    assert list(output.parent.iterdir()) == [output]


def test_an_existing_output_is_refused_or_replaced(tmp_path: Path) -> None:
    output = tmp_path / "out"
    fill(output, "old")
    with pytest.raises(OptionError, match="--overwrite"), whole_folder(output, overwrite=False):
        pass
    with whole_folder(output, overwrite=True) as new:
        fill(new, "new")
        assert (output / "part").read_text() == "old"
    assert (output / "part").read_text() == "new"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_after_a_failure_nothing_has_changed(tmp_path: Path, failure: type[BaseException]) -> None:
    output = tmp_path / "out"
    fill(output, "old")

    def fail() -> None:
        with whole_folder(output, overwrite=True) as new:
            fill(new, "half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert (output / "part").read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_a_job_that_wrote_nothing_leaves_the_old_output(tmp_path: Path) -> None:
    output = tmp_path / "out"
    fill(output, "old")
    with pytest.raises(FileNotFoundError), whole_folder(output, overwrite=True):
        pass
    assert (output / "part").read_text() == "old"
