"""What may be asked for: limits of one subscription, of a tenant, and of one event.

A condition within the limits of one subscription is parsed and indexed in a few seconds at most, whatever it says; what
is beyond them is refused before it is parsed. The defaults are far above what people write. Whoever generates larger
conditions raises them: `Matcher(limits=Limits(text_bytes=50_000_000))`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tocsin.errors import OptionError, SubscriptionError

_LITERAL = re.compile(r"'[^']*'")
_STRING = re.compile(r"'[^']*(?:''[^']*)*'")
"""With quotes inside, which are doubled."""
TENANT_TAG = "tenant"
"""The tag whose value is the tenant of a subscription; one without it has none."""
_MOST_OF_A_CHARACTER = 4
"""Bytes in UTF-8."""
_MAY_BE_NONE = ("subscriptions", "tenant_always_true")
RAISE = "raise the limit: Limits({0}=...), or --limit {0}=... of a command"


@dataclass(frozen=True)
class Limits:
    """The most that one subscription, one tenant or one event may have; None is without limit.

    Those of a subscription hold wherever subscriptions come in, in the matcher, on Spark and in the server. Those of a
    tenant hold for all subscriptions together whose tag `tenant` has one value; `requests` in the server alone.

    >>> Limits(predicates=0)
    Traceback (most recent call last):
        ...
    tocsin.errors.OptionError: the limit predicates is 0. Use a positive number, or None for no limit
    """

    predicates: int | None = 100_000
    """Of one subscription; a list counts once. A tenant of a server: over all its alternatives."""
    attributes: int | None = 10_000
    """That one subscription names. Each takes some arrays and 0.15 ms when it is indexed, however rare."""
    text_bytes: int | None = 1_000_000
    """Of one condition, in UTF-8."""
    string_bytes: int | None = 100_000
    """Of one string constant, in UTF-8: a pattern, words, a polygon."""
    list_items: int | None = 250_000
    """Of all lists of one condition."""
    id_bytes: int | None = 10_000
    """Of the id of a subscription, in UTF-8."""
    tags: int | None = 1_000
    """Of one subscription, its weights included."""
    tag_bytes: int | None = 100_000
    """Of all tags and weights of one subscription, names and values, in UTF-8."""
    subscriptions: int | None = 10_000_000
    """Of one tenant, as all that follow."""
    tenant_predicates: int | None = 100_000_000
    """Of all its subscriptions, over all alternatives; a list counts once."""
    tenant_text_bytes: int | None = 10_000_000_000
    """Of all its conditions, in UTF-8."""
    tenant_list_items: int | None = 100_000_000
    """Of all its lists; commas are counted."""
    tenant_attributes: int | None = 100_000
    """Distinct ones, in all its subscriptions."""
    tenant_always_true: int | None = 10_000
    """Subscriptions that every event satisfies."""
    matches: int | None = 10_000_000
    """Of one event."""
    requests: float | None = None
    """Of one tenant, a second."""

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and limit <= 0 and (limit < 0 or field.name not in _MAY_BE_NONE):
                raise OptionError(f"the limit {field.name} is {limit}", "Use a positive number, or None for no limit")

    def check_text(self, id: str, where: str) -> None:
        """Raise SubscriptionError if a condition, or its id, is too long to be parsed. O(1) for most."""
        self._check(id, "id_bytes", f"its id {id[:20]!r}… has {{}} bytes", _bytes(id), "Shorten it")
        size = _bytes(where)
        self._check(id, "text_bytes", "the condition has {} bytes", size, "Split the subscription")
        if self.string_bytes is not None and size > self.string_bytes:
            longest = max((_bytes(string) - 2 for string in _STRING.findall(where)), default=0)
            self._check(id, "string_bytes", "a string constant has {} bytes", longest, "Shorten it")
        if self.list_items is not None and where.count(",") >= self.list_items:
            items = _LITERAL.sub("", where).count(",") + 1
            self._check(id, "list_items", "its lists have {} items", items, "Split the subscription")

    def allow_texts(self, id_length: int, where_length: int) -> bool:
        """Tell whether no condition and no id of at most so many characters can be too long to be parsed.

        >>> Limits().allow_texts(100, 10_000), Limits(list_items=100).allow_texts(10, 1_000)
        (True, False)
        """
        of_texts = (self.text_bytes, self.string_bytes, self.list_items)
        return all(limit is None or _MOST_OF_A_CHARACTER * where_length <= limit for limit in of_texts) and (
            self.id_bytes is None or _MOST_OF_A_CHARACTER * id_length <= self.id_bytes
        )

    def check_tags(self, id: str, *given: object) -> None:
        """Raise SubscriptionError if a subscription has too many tags and weights, or too long ones."""
        mappings = [one for one in given if isinstance(one, Mapping)]
        count = sum(map(len, mappings))
        if count:
            self._check(id, "tags", "it has {} tags and weights", count, "Drop some")
            size = sum(_bytes(str(text)) for one in mappings for item in one.items() for text in item)
            self._check(id, "tag_bytes", "its tags and weights have {} bytes", size, "Shorten them")

    def _check(self, id: str, name: str, what: str, size: int, way_out: str) -> None:
        limit = getattr(self, name)
        if limit is not None and size > limit:
            message = f"{what.format(f'{size:,}')}, and at most {limit:,} are allowed"
            raise SubscriptionError(message, f"{way_out}, or {RAISE.format(name)}", subscription=id[:200] or None)


def _bytes(text: str) -> int:
    """Return the length of a text in UTF-8; text that is not Unicode is refused elsewhere."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
