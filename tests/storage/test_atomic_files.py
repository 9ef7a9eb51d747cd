"""Files are there whole or not at all, and replace others only if they may."""

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tocsin.errors import StorageError
from tocsin.storage.atomic_files import write_file


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match=r"cannot write .*file: No space left on device"):
        write_file(path, fail)
    assert path.read_text() == "old"
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_is_there_is_not_replaced_unless_it_may_be(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "no hard links here", str(source), None, str(target))

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a.json"
    write_file(path, lambda file: file.write(b"first"), replace=False)
    with pytest.raises(StorageError, match=r"a\.json exists already"):
        write_file(path, lambda file: file.write(b"second"), replace=False)
    assert path.read_bytes() == b"first"
    write_file(path, lambda file: file.write(b"third"))
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]
