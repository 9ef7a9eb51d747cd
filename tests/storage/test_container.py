"""Files of named arrays: they come back as they were, mapped and not copied, and damage is named."""

import json
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tocsin.errors import StorageError
from tocsin.storage.container import MAGIC, READABLE, VERSION, Container, read, verify, write

DTYPES = ["<i4", ">i4", "<i8", "<u8", "u1", "?", "<f8", ">f8", "<f4"]
ARRAYS = st.dictionaries(
    st.text(max_size=8),
    st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_side=0, max_side=9))),
    max_size=5,
)
META = st.recursive(st.none() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("container") / "one.tocsin"


def same(left: Mapping[str, npt.NDArray[Any]], right: dict[str, npt.NDArray[Any]]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].shape == right[name].shape
        and left[name].dtype.kind == right[name].dtype.kind
        and left[name].tobytes() == right[name].astype(left[name].dtype).tobytes()
        for name in left
    )


@given(arrays=ARRAYS, meta=META)
def test_what_was_written_is_read(path: Path, arrays: dict[str, npt.NDArray[Any]], meta: Any) -> None:
    write(path, Container(arrays, {"said": meta}))
    verify(path)
    back = read(path)
    assert back.meta == {"said": meta}
    assert list(back.arrays) == list(arrays)
    assert same(back.arrays, arrays)


def test_strided_and_transposed_arrays_are_written_in_order(path: Path) -> None:
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    arrays: dict[str, npt.NDArray[Any]] = {"every": table[:, ::2], "turned": table.T, "back": table[::-1]}
    write(path, Container(arrays, {}))
    assert same(read(path).arrays, arrays)


def test_the_file_is_little_endian_aligned_and_as_documented(path: Path) -> None:
    write(path, Container({"a": np.array([1, 2], ">i4"), "b": np.array([3.5])}, {"x": 1}))
    raw = path.read_bytes()
    magic, version, crc, position, length = struct.unpack_from("<8sIIQQ", raw)
    assert (magic, version) == (MAGIC, VERSION)
    text = raw[position : position + length]
    assert zlib.crc32(text) == crc
    assert position + length == len(raw)
    directory = json.loads(text)
    assert directory["meta"] == {"x": 1}
    ones, threes = struct.pack("<ii", 1, 2), struct.pack("<d", 3.5)
    assert directory["arrays"] == {
        "a": ["<i4", [2], 64, 8, zlib.crc32(ones)],
        "b": ["<f8", [1], 128, 8, zlib.crc32(threes)],
    }
    assert raw[64:72] == ones
    assert raw[128:136] == threes


def test_arrays_are_mapped_and_read_only(path: Path) -> None:
    write(path, Container({"a": np.arange(1000)}, {}))
    array = read(path).arrays["a"]
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    # The name can go while the pages are mapped.
    path.unlink()
    assert array.sum() == 499_500


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_or_harmless(path: Path, place: float, bit: int) -> None:
    arrays: dict[str, npt.NDArray[Any]] = {"codes": np.arange(40, dtype=np.int32), "scores": np.linspace(0, 1, 9)}
    write(path, Container(arrays, {"columns": ["x"]}))
    raw = bytearray(path.read_bytes())
    at = int(place * len(raw))
    raw[at] ^= 1 << bit
    path.write_bytes(raw)
    # Header, arrays and directory: nothing else is ever read.
    position = struct.unpack_from("<Q", path.read_bytes(), 16)[0] if at >= 32 else 0
    counts = at < 32 or 64 <= at < 64 + 160 or 256 <= at < 256 + 72 or at >= position
    if counts:
        with pytest.raises(StorageError, match=r"one\.tocsin"):
            verify(path)
    else:
        verify(path)
        assert same(read(path).arrays, arrays)


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_short_file_is_refused(path: Path, share: float) -> None:
    write(path, Container({"codes": np.arange(40)}, {}))
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises(StorageError, match=r"one\.tocsin is damaged"):
        read(path)


def test_a_damaged_array_is_named(path: Path) -> None:
    write(path, Container({"codes": np.arange(4), "scores": np.ones(4)}, {}))
    raw = bytearray(path.read_bytes())
    raw[128] ^= 1
    path.write_bytes(raw)
    read(path)
    with pytest.raises(StorageError, match=r"one\.tocsin is damaged: array 'scores' does not match its checksum"):
        verify(path)


def test_another_version_is_refused_by_number(path: Path) -> None:
    write(path, Container({}, {}))
    raw = bytearray(path.read_bytes())
    struct.pack_into("<I", raw, 8, VERSION + 1)
    path.write_bytes(raw)
    with pytest.raises(StorageError, match=rf"has format version {VERSION + 1}, .* version {VERSION}\. Update Tocsin"):
        read(path)
    struct.pack_into("<I", raw, 8, READABLE - 1)
    path.write_bytes(raw)
    with pytest.raises(StorageError, match=rf"version {READABLE - 1}, .*\. Run `tocsin index upgrade {path.parent}`"):
        read(path)
    assert not read(path, oldest=READABLE - 1).arrays


def test_a_file_of_somebody_else_is_refused(path: Path) -> None:
    path.write_bytes(b"PAR1" * 20)
    with pytest.raises(StorageError, match="is not a Tocsin file"):
        read(path)


def test_a_missing_file_is_told_apart(tmp_path: Path) -> None:
    """A reader that finds a file gone looks for a newer snapshot: this is not damage."""
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "gone.tocsin")
    with pytest.raises(StorageError, match="is not a regular file"):
        read(tmp_path)


@pytest.mark.parametrize("folder", ["missing", "a_file"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / "a_file").write_text("")
    with pytest.raises(StorageError, match=f"cannot write .*{folder}/one.tocsin: No"):
        write(tmp_path / folder / "one.tocsin", Container({}, {}))


@pytest.mark.parametrize("use", [read, verify])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path, use: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "segment-0a.tocsin")
    with pytest.raises(StorageError, match=r"segment-0a\.tocsin is not a regular file"):
        use(tmp_path / "segment-0a.tocsin")
