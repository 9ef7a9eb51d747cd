"""Where workers find an index, and how its name follows its content."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.spark._placement.ship import fingerprint, place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def folder(path: Path) -> Path:
    (path / "segment").mkdir(parents=True)
    (path / "segment" / "codes.npy").write_bytes(b"12345")
    return path


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    index = folder(tmp_path / "index")
    before = fingerprint(index)
    assert fingerprint(index) == before
    (index / "segment" / "codes.npy").write_bytes(b"123456")
    longer = fingerprint(index)
    os.utime(index / "segment" / "codes.npy", ns=(1, 1))
    touched = fingerprint(index)
    (index / "more").write_bytes(b"")
    assert len({before, longer, touched, fingerprint(index)}) == 4


def test_on_a_local_master_the_folder_is_mapped_in_place(spark: "SparkSession", tmp_path: Path) -> None:
    index = folder(tmp_path / "index")
    found = place(index, spark)
    assert not found.is_artifact
    assert found.folder() == str(index)


def test_a_shipped_folder_arrives_whole(spark: "SparkSession", tmp_path: Path) -> None:
    found = place(folder(tmp_path / "index"), spark, ship=True)
    arrived = Path(found.folder())
    assert arrived != tmp_path / "index"
    assert (arrived / "segment" / "codes.npy").read_bytes() == b"12345"
