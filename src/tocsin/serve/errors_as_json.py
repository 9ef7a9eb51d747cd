"""Errors of the library as HTTP answers: the status, and a document with message, position, culprit and hint."""

from typing import Any

from tocsin.errors import (
    EventError,
    OptionError,
    StorageError,
    SubscriptionError,
    TenantLimitError,
    TocsinError,
    UnknownSubscriptionError,
)

STATUS: dict[type[TocsinError], int] = {
    TenantLimitError: 429,
    SubscriptionError: 422,
    EventError: 422,
    UnknownSubscriptionError: 404,
    OptionError: 400,
    StorageError: 503,
}


class HttpError(TocsinError):
    """An error with a status of its own, such as a body that is too large."""

    def __init__(self, status: int, message: str, hint: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(message, hint)
        self.status = status
        self.headers = headers or {}
        self.position: int | None = None


def unknown_subscription(id: str) -> UnknownSubscriptionError:
    """Return the error for an id, as its tenant knows it, that no subscription has."""
    return UnknownSubscriptionError(f"there is no subscription {id!r}", "List them with GET /subscriptions")


def status_of(error: TocsinError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, HttpError):
        return error.status
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def document(error: TocsinError) -> dict[str, Any]:
    """Return an error as JSON; fields that it does not have are left out."""
    fields = {
        "type": type(error).__name__,
        "message": error.message,
        "hint": error.hint or None,
        "position": getattr(error, "position", None),
        "subscription": getattr(error, "subscription", None),
    }
    return {name: value for name, value in fields.items() if value is not None}
