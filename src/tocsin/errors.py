"""The errors of Tocsin, one tree. Each names the culprit and ends with the way out."""


class TocsinError(Exception):
    """Base of every error that Tocsin raises on purpose."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message = message
        self.hint = hint


class SubscriptionError(TocsinError):
    """A subscription that cannot be accepted: which one, where in its text, why, and what to write instead."""

    def __init__(
        self, message: str, hint: str = "", *, subscription: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(message, hint)
        self.subscription = subscription
        self.position = position

    def __str__(self) -> str:
        place = "" if self.subscription is None else f"subscription {self.subscription!r}"
        if self.position is not None:
            place += f"{', ' if place else ''}position {self.position}"
        text = super().__str__()
        return f"{place}: {text}" if place else text

    def of(self, subscription: str) -> "SubscriptionError":
        """The same error, naming the subscription it belongs to."""
        return SubscriptionError(self.message, self.hint, subscription=subscription, position=self.position)


class TenantLimitError(SubscriptionError):
    """A subscription with which its tenant would have more than it may, see `Limits`."""


class UnknownSubscriptionError(TocsinError, KeyError):
    """An id that no subscription has."""

    __str__ = TocsinError.__str__


class EventError(TocsinError):
    """An event, or a batch of them, that cannot be read."""


class OptionError(TocsinError, ValueError):
    """An argument with a value that is not among those allowed."""


class StorageError(TocsinError):
    """A file of an index that is missing, damaged, locked or of another version."""


class MissingDependencyError(TocsinError, ImportError):
    """An optional part of Tocsin that is not installed."""
