"""Tenants: who asks, what is theirs, and how much they may have.

A key belongs to a tenant and is bound to tags, `tenant` among them. The ids of a tenant's subscriptions begin with its
name and a slash inside the index; the tenant never sees that part. A key of an administrator is bound to nothing. Keys
are random texts of 256 bits, so that a plain SHA-256 of them is enough to keep in the file.
"""

import dataclasses
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tocsin.errors import OptionError, StorageError
from tocsin.model.limits import TENANT_TAG, Limits
from tocsin.model.subscription import Subscription
from tocsin.storage.atomic_files import write_file

SUBSCRIBER_TAG = "user"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


TENANT_LIMITS = Limits(
    predicates=200,
    text_bytes=20_000,
    subscriptions=100_000,
    tenant_attributes=10_000,
    tenant_always_true=100,
    matches=10_000,
    requests=1000.0,
)
"""The limits of a key that was added without any."""


@dataclass(frozen=True)
class Tenant:
    """Who asks: a tenant, or an administrator, to whom everything belongs and who has no name here."""

    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    @property
    def is_admin(self) -> bool:
        """Whether everything belongs to this one."""
        return not self.name

    @property
    def prefix(self) -> str:
        """What the ids of its subscriptions begin with inside the index."""
        return f"{self.name}/" if self.name else ""

    def owns(self, subscription: Subscription) -> bool:
        """Whether a subscription is this tenant's."""
        return subscription.id.startswith(self.prefix) and self.tags.items() <= subscription.tags.items()

    def bound(self, tags: Mapping[str, str] | None) -> dict[str, str]:
        """Return tags with those that the tenant is bound to. Raises OptionError if they contradict each other."""
        given = dict(tags or {})
        for name, value in self.tags.items():
            if given.setdefault(name, value) != value:
                raise OptionError(f"the tag {name} is {given[name]!r}", f"This key is bound to {name}={value}")
        return given

    def inbox(self, subscriber: str) -> str:
        """Return the name of a subscriber's inbox among those of all tenants."""
        return f"{self.name}/{subscriber}"


ADMIN = Tenant()


def inbox_of(subscription: Subscription) -> str | None:
    """Return the inbox that the matches of a subscription go to; None if it names no subscriber."""
    subscriber = subscription.tags.get(SUBSCRIBER_TAG)
    return None if subscriber is None else f"{subscription.tags.get(TENANT_TAG, '')}/{subscriber}"


class KeyFile:
    """The file of keys; it may be changed while the server runs, which looks at it once a second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._next_look = 0.0
        self._tenants: dict[str, Tenant] = {}

    def add(self, name: str, tags: Mapping[str, str], limits: Limits = TENANT_LIMITS, *, admin: bool = False) -> str:
        """Make a new key and return it; it cannot be read back from the file."""
        if not _NAME.fullmatch(name):
            raise OptionError(f"{name!r} cannot name a tenant", "Use letters, digits, dots, dashes and underscores")
        key = f"tocsin_{secrets.token_urlsafe(32)}"
        entry = {
            "id": secrets.token_hex(4),
            "name": name,
            "hash": hash_of(key),
            "admin": admin,
            "tags": {} if admin else {**tags, TENANT_TAG: name},
            "limits": dataclasses.asdict(Limits() if admin else limits),
            "added": int(time.time()),
        }
        self._write([*self.entries(), entry])
        return key

    def revoke(self, id: str) -> None:
        """Remove a key by its id. Raises OptionError if there is none."""
        entries = self.entries()
        left = [entry for entry in entries if entry["id"] != id]
        if len(left) == len(entries):
            raise OptionError(f"there is no key {id!r}", "List them with tocsin keys list")
        self._write(left)

    def entries(self) -> list[dict[str, Any]]:
        """Return all keys, without the keys themselves."""
        if not self.path.exists():
            return []
        try:
            entries: list[dict[str, Any]] = json.loads(self.path.read_text(encoding="utf-8"))["keys"]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{self.path} is damaged: it is not a file of keys", "Restore it") from error
        return entries

    def tenants(self) -> Mapping[str, Tenant]:
        """Return whom keys belong to, by their hashes; without any, everybody on this machine may do everything."""
        self._look()
        return self._tenants

    @property
    def is_open(self) -> bool:
        """Whether there is no key at all."""
        return not self.tenants()

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + 1.0
        try:
            status = self.path.stat()
        except FileNotFoundError:
            # A server that had keys does not open up because their file is gone.
            return
        seen = status.st_mtime_ns, status.st_ino
        if seen != self._seen:
            self._tenants = {
                entry["hash"]: ADMIN
                if entry["admin"]
                else Tenant(entry["name"], entry["tags"], Limits(**entry["limits"]))
                for entry in self.entries()
            }
            self._seen = seen

    def _write(self, entries: list[dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, lambda file: file.write(json.dumps({"keys": entries}, indent=1).encode()))
        os.chmod(self.path, 0o600)


def hash_of(key: str) -> str:
    """Return what the file keeps of a key."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
