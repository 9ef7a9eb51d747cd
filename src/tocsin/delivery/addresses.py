"""Whose inbox a match belongs to, and the columns by which repetitions are found."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from tocsin.model.subscription import Subscription

INBOX = "inbox"
"""The column with the name of the inbox."""


class SubscriptionLookup(Protocol):
    """What an address is looked up in: a Matcher."""

    def __contains__(self, id: object) -> bool: ...
    def __getitem__(self, id: str) -> Subscription: ...


def inboxes_of(subscriptions: SubscriptionLookup, ids: Iterable[str], tag: str) -> list[str | None]:
    """Return the inbox of each subscription: the value of its `tag`; None if it has none or was removed since."""
    return [subscriptions[id].tags.get(tag) if id in subscriptions else None for id in ids]


def addressed(matches: pa.RecordBatch, subscriptions: SubscriptionLookup, tag: str) -> pa.RecordBatch:
    """Return the matches with the inbox of each, NULL for those of nobody.

    >>> matches = pa.record_batch({"event": [0, 0], "subscription": ["a", "gone"]})
    >>> addressed(matches, {"a": Subscription("a", "x > 1", tags={"user": "ada"})}, "user").column(INBOX).to_pylist()
    ['ada', None]
    """
    column = matches.column("subscription")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    names = inboxes_of(subscriptions, encoded.dictionary.cast(pa.string()).to_pylist(), tag)
    inboxes = pa.array(names, pa.string()).take(encoded.indices)
    return pa.RecordBatch.from_arrays([*matches.columns, inboxes], names=[*matches.schema.names, INBOX])


def key_names(dedupe: str | Sequence[str]) -> list[str]:
    """Return the names whose values make two matches of an inbox the same, from a list or a text with commas.

    >>> key_names("subscription, isbn")
    ['subscription', 'isbn']
    """
    return [name.strip() for name in (dedupe.split(",") if isinstance(dedupe, str) else dedupe)]
