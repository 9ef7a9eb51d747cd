"""Write segments and their changes to an index folder, and read them back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tocsin.errors import StorageError
from tocsin.index.form import FORM_VERSION
from tocsin.index.intake import SubscriptionRows, parse_rows
from tocsin.index.options import Options
from tocsin.index.segment import MappedSegment, Segment
from tocsin.index.snapshot import IN_SNAPSHOT, LiveSegment
from tocsin.invariants import check_type, check_within
from tocsin.model.subscription import Subscription
from tocsin.storage import container
from tocsin.storage.container import Container
from tocsin.storage.folder import Folder

_TRIES = 100


def commit(
    folder: Folder, number: int, segments: Sequence[LiveSegment], options: Options, fresh: Sequence[Subscription] = ()
) -> None:
    """Write what is not on disk yet, then the snapshot that names everything; undo all of it on failure.

    The snapshot itself holds the `fresh` subscriptions, as they were given: a commit of a few is one file. Files that
    the snapshot does not name stay until `Folder.clean`.
    """
    before = [(live, live.file, live.changes_file) for live in segments]
    written = []
    try:
        for live in segments:
            if not live.file:
                written.append(folder.new_name("segment"))
                container.write(folder.path / written[-1], live.segment.container())
                live.file = written[-1]
            if not live.is_committed:
                written.append(folder.new_name("changes"))
                container.write(folder.path / written[-1], _changes(live))
                live.changes_file = written[-1]
        entries = [
            {"segment": live.file, "changes": live.changes_file, "subscriptions": len(live)} for live in segments
        ]
        files = [name for live in segments for name in (live.file, live.changes_file) if name is not None]
        for name in files:
            if not (folder.path / name).exists():
                raise StorageError(f"{folder.path} lacks its file {name}", "Save to another folder")
        rows = SubscriptionRows.of(fresh)
        held = {**rows._asdict(), "scores": rows.scores.tolist()}
        folder.commit(number, {"options": options.document(), "parts": entries, "fresh": held}, files)
    except BaseException:
        for live, file, changes_file in before:
            live.file, live.changes_file = file, changes_file
        folder.remove_new(written)
        raise


def write_segment(folder: Folder, segment: Segment) -> LiveSegment:
    """Write a segment for the next commit and return it mapped, so that its memory is free."""
    name = folder.new_name("segment")
    container.write(folder.path / name, segment.container())
    live = LiveSegment(_read_segment(folder.path / name))
    live.file = name
    return live


Verify = Literal["open", "lazy", "full"]
"""When the files of an index are verified: see `Matcher.open`."""


def load(
    folder: Folder, known: Sequence[LiveSegment] = (), verify: Verify = "open"
) -> tuple[int, Options, tuple[LiveSegment, ...]]:
    """Read the number, options and segments of the newest snapshot; files that `known` has mapped are not mapped again.

    Whatever `verify` says, nothing is used before it is verified. The writer may remove files while they are being
    opened; then there is a newer snapshot, which is read instead.
    """
    missing = FileNotFoundError()
    for _ in range(_TRIES):
        number = folder.committed()
        try:
            return _load(folder, number, known, verify)
        except FileNotFoundError as error:
            missing = error
            if folder.newest() == number:
                break
    raise missing_file(folder, missing)


def missing_file(folder: Folder, error: FileNotFoundError) -> StorageError:
    """Return the error for a file that the newest snapshot names and that is not there."""
    name = Path(str(error.filename)).name
    return StorageError(f"{folder.path} lacks its file {name}", "Restore it from a copy, or build the index again")


def _load(
    folder: Folder, number: int, known: Sequence[LiveSegment], verify: Verify
) -> tuple[int, Options, tuple[LiveSegment, ...]]:
    content = folder.read(number)
    with container.reading(folder.snapshot(number)):
        return number, *_load_content(folder, content, known, verify)


def _load_content(
    folder: Folder, content: Mapping[str, Any], known: Sequence[LiveSegment], verify: Verify
) -> tuple[Options, tuple[LiveSegment, ...]]:
    mapped = {live.file: live.segment for live in known if live.file}
    segments = []
    for entry in content["parts"]:
        segment = mapped.get(entry["segment"])
        if segment is None:
            segment = _read_segment(folder.path / entry["segment"])
            if verify != "lazy":
                segment.verify(everything=verify == "full")
        live = LiveSegment(segment)
        if entry["changes"] is not None:
            live = LiveSegment(segment, *_read_changes(folder.path / entry["changes"], len(segment)))
        live.file, live.changes_file = entry["segment"], entry["changes"]
        segments.append(live)
    options = Options.of(content["options"])
    fresh = fresh_rows(content)
    if fresh.ids:
        rows, form, errors = parse_rows(fresh, options)
        if errors:
            raise errors[0]
        segments.append(LiveSegment(Segment.build(rows, form, options)))
        segments[-1].file = IN_SNAPSHOT
    return options, tuple(segments)


def fresh_rows(content: Mapping[str, Any]) -> SubscriptionRows:
    """Return the subscriptions that a snapshot itself holds; those before version 5 hold none."""
    rows = content.get("fresh") or SubscriptionRows.of([])._asdict()
    return SubscriptionRows(**{**rows, "scores": np.array(rows["scores"], np.float64)})


def _read_segment(path: Path) -> MappedSegment:
    stored = container.read(path)
    with container.reading(path):
        if stored.meta["form_version"] != FORM_VERSION:
            raise container.other_version(path, "normal form", stored.meta["form_version"], FORM_VERSION)
    return Segment.of(stored)


def _read_changes(path: Path, subscriptions: int) -> tuple[list[int], dict[int, float]]:
    """Return the subscriptions of a segment that were dropped, and the scores that were changed."""
    arrays = container.read(path).arrays
    with container.reading(path):
        for name in ("dropped", "rescored"):
            check_type(name, arrays[name], np.int32)
            check_within(name, arrays[name], 0, subscriptions)
        check_type("scores", arrays["scores"], np.float64)
        scores = dict(zip(arrays["rescored"].tolist(), arrays["scores"].tolist(), strict=True))
    return arrays["dropped"].tolist(), scores


def verify(folder: Folder) -> list[str]:
    """Read every file of the newest snapshot, compare checksums and check all that an answer relies on.

    Returns the files, or raises StorageError.
    """
    number, _, segments = load(folder, verify="full")
    for live in segments:
        with container.reading(folder.path / (live.file or folder.snapshot(number).name)):
            live.segment.check()
    return [
        folder.snapshot(number).name,
        *(name for live in segments for name in (live.file, live.changes_file) if name),
    ]


def _changes(live: LiveSegment) -> Container:
    return Container(
        {
            "dropped": np.array(sorted(live.dropped), np.int32),
            "rescored": np.array(list(live.scores), np.int32),
            "scores": np.array(list(live.scores.values()), np.float64),
        },
        {},
    )
