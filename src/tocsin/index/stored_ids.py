"""The ids of the subscriptions in an index folder, read without what matches them, which takes longer to load."""

from tocsin.arrays import Strings
from tocsin.invariants import check_strings
from tocsin.storage import container
from tocsin.storage.folder import Folder

MOST_READ = 1_000_000
"""Ids that are read: so many take 0.15 s, where all of the library takes 0.4 s to load."""


def stored_ids(folder: Folder) -> list[str] | None:
    """Return the ids of the newest snapshot, in no order; None if there are very many.

    Raises StorageError for a damaged file, and FileNotFoundError for one that the writer has removed meanwhile.
    """
    number = folder.committed()
    content = folder.read(number)
    with container.reading(folder.snapshot(number)):
        ids = list(content["fresh"]["ids"]) if content.get("fresh") else []
        parts = [(folder.path / part["segment"], part["changes"]) for part in content["parts"]]
        if sum(part["subscriptions"] for part in content["parts"]) > MOST_READ:
            return None
    for segment, changes in parts:
        dropped: set[int] = set()
        if changes is not None:
            with container.reading(folder.path / changes):
                dropped = set(container.read(folder.path / changes).arrays["dropped"].tolist())
        arrays = container.read(segment).arrays
        with container.reading(segment):
            stored = Strings(arrays["ids.offsets"], arrays["ids.bytes"])
            check_strings("ids", stored)
            ids += [id for place, id in enumerate(stored.arrow().to_pylist()) if place not in dropped]
    return ids
