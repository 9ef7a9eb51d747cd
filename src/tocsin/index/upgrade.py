"""Upgrade an index folder of an older version in place.

Every version so far stores the ids, texts, scores, weights and tags of its subscriptions in the same arrays, and what
was dropped or rescored in the same files of changes. An upgrade reads only these, parses each text once, and commits
new segments as the next snapshot. Until then the old snapshot is the index, whatever moment the process dies in.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tocsin.arrays import Strings
from tocsin.errors import SubscriptionError
from tocsin.index import commit as store
from tocsin.index.form import FORM_VERSION
from tocsin.index.intake import SubscriptionRows, parse_rows
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.index.snapshot import LiveSegment
from tocsin.storage import container
from tocsin.storage.container import OLDEST, VERSION
from tocsin.storage.folder import Folder


class Upgrade(NamedTuple):
    """What an upgrade found and did."""

    version: int
    """The format version that the folder had."""
    subscriptions: int
    """How many subscriptions stand."""
    rejected: list[SubscriptionError]
    """The subscriptions whose texts the language of today refuses."""
    is_committed: bool
    """False if the folder was up to date, or if there are rejected subscriptions that must not be dropped."""


def upgrade(path: Path, *, drop_rejected: bool = False) -> Upgrade:
    """Commit an older index in the current version; its history stays as it is.

    If the language has become stricter and refuses some texts, nothing is changed unless `drop_rejected`. Raises
    StorageError if there is no index, if it is damaged or newer, or if another process writes it.
    """
    folder = Folder(path)
    folder.committed()
    folder.lock()
    try:
        return _upgrade(folder, drop_rejected)
    except FileNotFoundError as error:
        raise store.missing_file(folder, error) from error
    finally:
        folder.unlock()


def _upgrade(folder: Folder, drop_rejected: bool) -> Upgrade:
    number = folder.committed()
    content = folder.read(number, OLDEST)
    version, entries, fresh = content["version"], content["parts"], store.fresh_rows(content)
    if version == VERSION and all(_has_current_form(folder.path / entry["segment"]) for entry in entries):
        standing = sum(entry["subscriptions"] for entry in entries) + len(fresh.ids)
        return Upgrade(version, standing, [], is_committed=False)
    options = _options(content["options"])
    segments, rejected = [], []
    for live_rows in [*(_live_rows(folder.path, entry) for entry in entries), fresh]:
        rows, form, errors = parse_rows(live_rows, options)
        rejected += errors
        if rows.ids:
            segments.append(LiveSegment(Segment.build(rows, form, options)))
    is_committed = drop_rejected or not rejected
    if is_committed:
        folder.settle_history(number)
        store.commit(folder, number + 1, segments, options)
        folder.clean()
    return Upgrade(version, sum(len(live) for live in segments), rejected, is_committed)


def _has_current_form(segment: Path) -> bool:
    version = container.read(segment).meta["form_version"]
    if version > FORM_VERSION:
        raise container.other_version(segment, "normal form", version, FORM_VERSION)
    return bool(version == FORM_VERSION)


def _options(document: dict[str, Any]) -> Options:
    """Read the options of any version: until version 4 there was a limit on conjunctions, under two names."""
    gone = ("limit", "max_conjunctions")
    return Options.of({name: value for name, value in document.items() if name not in gone})


def _live_rows(folder: Path, entry: dict[str, Any]) -> SubscriptionRows:
    """Read the subscriptions of a segment that were not dropped, with the scores that they have now."""
    arrays = _checked_arrays(folder / entry["segment"])
    scores = arrays["scores"].copy()
    live = np.arange(scores.size)
    if entry["changes"] is not None:
        changes = _checked_arrays(folder / entry["changes"])
        scores[changes["rescored"]] = changes["scores"]
        live = np.delete(live, changes["dropped"])
    ids, texts, extras = (
        Strings(arrays[f"{name}.offsets"], arrays[f"{name}.bytes"]).arrow().to_pylist()
        for name in ("ids", "texts", "extras")
    )
    return SubscriptionRows(ids, texts, scores, extras).take(live)


def _checked_arrays(path: Path) -> dict[str, Any]:
    container.verify(path, OLDEST)
    return dict(container.read(path, OLDEST).arrays)
