"""Webhooks: the signature of a body, the time of the next try, and one request over the wire."""

import hashlib
import hmac
import http.client
import ipaddress
import random
import socket
import ssl
import urllib.parse

from tocsin.errors import OptionError

SIGNATURE = "Tocsin-Signature"
IDEMPOTENCY_KEY = "Idempotency-Key"
ATTEMPTS = 10
"""Tries before an entry is a dead letter: with the waits of `backoff`, 8.5 minutes."""
TIMEOUT_S = 10.0


def sign(secret: str, time: int, body: bytes) -> str:
    """Return the signature header of a body: its time, and the HMAC-SHA256 of `time.body`.

    >>> header = sign("it is a secret!!", 1000, b"{}")
    >>> [is_signed(header, "it is a secret!!", body, now=1060) for body in (b"{}", b"[]")]
    [True, False]
    """
    digest = hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={time},v1={digest}"


def is_signed(header: str, secret: str, body: bytes, now: float, tolerance: float = 300.0) -> bool:
    """Whether a header is the signature of a body, made within `tolerance` seconds of `now`; for receivers."""
    try:
        time = int(dict(part.split("=", 1) for part in header.split(","))["t"])
    except (ValueError, KeyError):
        return False
    return abs(now - time) <= tolerance and hmac.compare_digest(header, sign(secret, time, body))


def backoff(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt, counted from 1: doubling to 10 minutes, with jitter."""
    longest: float = min(2.0 ** (attempt - 1), 600.0)
    return longest * random.uniform(0.75, 1.25)


def check_public(url: str) -> None:
    """Raise OptionError unless every address of a URL's host is one of the public internet."""
    _addresses(url, public_only=True)


def _addresses(url: str, *, public_only: bool) -> list[str]:
    try:
        parts = urllib.parse.urlsplit(url)
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, ValueError, UnicodeError) as error:
        raise OptionError(f"the host of {url} cannot be found: {error}", "Check the address") from error
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if public_only and not ipaddress.ip_address(address.partition("%")[0]).is_global:
            raise OptionError(
                f"{url} leads to {address}, which is not a public address",
                "Use a public host, or start the server with --allow-private-webhooks",
            )
    return addresses


def post(url: str, body: bytes, headers: dict[str, str], *, public_only: bool) -> str:
    """Send a body; return "" if the receiver took it, or why it did not. Redirects are not followed.

    With `public_only` the connection goes to the address that was checked, so that a name which changes its address
    between check and connection leads nowhere else.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection: http.client.HTTPConnection
    try:
        address = _addresses(url, public_only=public_only)[0]
        port = parts.port or (443 if parts.scheme == "https" else 80)
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        plain = socket.create_connection((address, port), TIMEOUT_S)
        if parts.scheme == "https":
            plain = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        connection.sock = plain
        try:
            connection.request("POST", path, body, headers)
            status = connection.getresponse().status
        finally:
            connection.close()
    except OptionError as error:
        return error.message
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if 200 <= status < 300 else f"status {status}"
