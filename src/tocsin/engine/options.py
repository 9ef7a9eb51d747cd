"""What holds for all subscriptions of a matcher."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.errors import OptionError
from tocsin.language.bulk import normalise_texts
from tocsin.language.normal_form import NormalForm
from tocsin.language.normalise import DEFAULT_LIMIT
from tocsin.predicates.xpath import parse_xpath


@dataclass(frozen=True)
class Options:
    """The most conjunctions that one subscription may become, and the prefixes that XPath expressions may use."""

    limit: int = DEFAULT_LIMIT
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise OptionError(f"limit is {self.limit}", "It must be at least 1")

    def normalise(self, texts: Sequence[str], ids: Sequence[str]) -> NormalForm:
        """The normal form of many texts, with those in error reported."""
        return normalise_texts(texts, ids, self.limit, self.check_xpath)

    def check_xpath(self, path: str) -> None:
        """Raise SubscriptionError if a path expression cannot be understood."""
        parse_xpath(path, self.namespaces)

    def document(self) -> dict[str, Any]:
        """The options as JSON."""
        return {"limit": self.limit, "namespaces": dict(self.namespaces)}
