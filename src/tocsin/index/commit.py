"""Parts to the files of an index folder and back."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tocsin.errors import StorageError
from tocsin.index.form import FORM_VERSION
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.index.snapshot import Part
from tocsin.storage import container
from tocsin.storage.container import Container
from tocsin.storage.folder import Folder

_TRIES = 100


def commit(folder: Folder, number: int, parts: Sequence[Part], options: Options) -> None:
    """Write what is not on disk yet, then the snapshot that names everything; if that fails, all is as before.

    What the snapshot does not name stays until `Folder.clean`.
    """
    before = [(part, part.file, part.changes_file) for part in parts]
    written = []
    try:
        for part in parts:
            if part.file is None:
                written.append(folder.new_name("segment"))
                container.write(folder.path / written[-1], part.segment.container())
                part.file = written[-1]
            if not part.is_committed:
                written.append(folder.new_name("changes"))
                container.write(folder.path / written[-1], _changes(part))
                part.changes_file = written[-1]
        entries = [{"segment": part.file, "changes": part.changes_file, "subscriptions": len(part)} for part in parts]
        files = [name for part in parts for name in (part.file, part.changes_file) if name is not None]
        for name in files:
            if not (folder.path / name).exists():
                raise StorageError(f"{folder.path} lacks its file {name}", "Save to another folder")
        folder.commit(number, {"options": options.document(), "parts": entries}, files)
    except BaseException:
        for part, file, changes_file in before:
            part.file, part.changes_file = file, changes_file
        folder.remove_new(written)
        raise


def load(folder: Folder, known: Sequence[Part] = ()) -> tuple[int, Options, tuple[Part, ...]]:
    """The newest snapshot's number, options and parts; segments that `known` parts have mapped are not mapped again.

    The writer may remove files while they are being opened: then there is a newer snapshot, and it is read instead.
    """
    missing = FileNotFoundError()
    for _ in range(_TRIES):
        number = folder.committed()
        try:
            return _load(folder, number, known)
        except FileNotFoundError as error:
            missing = error
            if folder.newest() == number:
                break
    raise missing_file(folder, missing)


def missing_file(folder: Folder, error: FileNotFoundError) -> StorageError:
    """Return the error for a file that the newest snapshot names and that is not there."""
    name = Path(str(error.filename)).name
    return StorageError(f"{folder.path} lacks its file {name}", "Restore it from a copy, or build the index again")


def _load(folder: Folder, number: int, known: Sequence[Part]) -> tuple[int, Options, tuple[Part, ...]]:
    content = folder.read(number)
    segments = {part.file: part.segment for part in known if part.file is not None}
    parts = []
    for entry in content["parts"]:
        segment = segments.get(entry["segment"])
        if segment is None:
            segment = _read_segment(folder.path / entry["segment"])
        part = Part(segment)
        if entry["changes"] is not None:
            arrays = container.read(folder.path / entry["changes"]).arrays
            scores = dict(zip(arrays["rescored"].tolist(), arrays["scores"].tolist(), strict=True))
            part = Part(segment, arrays["dropped"].tolist(), scores)
        part.file, part.changes_file = entry["segment"], entry["changes"]
        parts.append(part)
    return number, Options.of(content["options"]), tuple(parts)


def _read_segment(path: Path) -> Segment:
    stored = container.read(path)
    if stored.meta["form_version"] != FORM_VERSION:
        raise container.other_version(path, "normal form", stored.meta["form_version"], FORM_VERSION)
    return Segment.of(stored)


def verify(folder: Folder) -> list[str]:
    """Read every file of the newest snapshot and compare checksums; return the files, or raise StorageError."""
    number, _, parts = load(folder)
    files = [name for part in parts for name in (part.file, part.changes_file) if name is not None]
    for name in files:
        container.verify(folder.path / name)
    for part in parts:
        part.segment.check()
    return [f"snapshot-{number:06}.json", *files]


def _changes(part: Part) -> Container:
    return Container(
        {
            "dropped": np.array(sorted(part.dropped), np.int32),
            "rescored": np.array(list(part.scores), np.int32),
            "scores": np.array(list(part.scores.values()), np.float64),
        },
        {},
    )
