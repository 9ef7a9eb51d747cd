"""What all processes of a server are told when they start."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServerSettings:
    """Where everything is, and what is allowed."""

    index: str
    state: str
    """The folder of inboxes and keys."""
    runtime: str
    """A folder that is gone when the server ends: the board, and the socket of the writer."""
    workers: int
    keys: str
    data: str | None = None
    """The folder under which Parquet files may be asked for."""
    max_body: int = 32 << 20
    """Bytes of one request."""
    body_seconds: float = 20.0
    """How long a client may take to send a request."""
    allow_private_webhooks: bool = False
    audit: float = 0.0
    """The share of pairs of an event and a subscription that workers judge a second time."""

    @property
    def board(self) -> Path:
        """The file of the shared numbers."""
        return Path(self.runtime, "board")

    @property
    def socket(self) -> Path:
        """The Unix socket of the writer."""
        return Path(self.runtime, "writer")

    @property
    def costs(self) -> Path:
        """The subscriptions that cost the writer most, with their shares of the time of a published event."""
        return Path(self.runtime, "costs.json")

    @property
    def inboxes(self) -> Path:
        """The file of the inboxes."""
        return Path(self.state, "inboxes.sqlite")

    @property
    def audit_log(self) -> Path:
        """What an audit disagreed with, a line each."""
        return Path(self.state, "audit.jsonl")

    def to_json(self) -> str:
        """Return the settings as the argument of a child process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> "ServerSettings":
        """Return the settings that `to_json` gave."""
        return cls(**json.loads(text))
