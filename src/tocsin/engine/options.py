"""What holds for all subscriptions of a matcher."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.errors import OptionError
from tocsin.language.bulk import normalise_texts
from tocsin.language.normal_form import NormalForm
from tocsin.language.normalise import DEFAULT_LIMIT
from tocsin.matching.two_phase import PHASE_1, PHASE_2
from tocsin.predicates.xpath import parse_xpath


@dataclass(frozen=True)
class Options:
    """The limits, the prefixes of XPath expressions, and the algorithms, if the user chose them."""

    limit: int = DEFAULT_LIMIT
    """The most conjunctions that one subscription may become."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    index: str = "auto"
    """The phase 1 index of ordered attributes: `auto` matches by access pairs, the others are the papers'."""
    matcher: str = "auto"
    """The phase 2 matcher; any but `auto` goes through an index for each attribute."""

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise OptionError(f"limit is {self.limit}", "It must be at least 1")
        for sort, name, known in (("index", self.index, PHASE_1), ("matcher", self.matcher, PHASE_2)):
            if name not in ("auto", *known):
                raise OptionError(f"there is no {sort} {name!r}", f"Choose one of auto, {', '.join(known)}")

    @property
    def is_auto(self) -> bool:
        """Whether Tocsin chooses how to match."""
        return self.index == self.matcher == "auto"

    def normalise(self, texts: Sequence[str], ids: Sequence[str]) -> NormalForm:
        """The normal form of many texts, with those in error reported."""
        return normalise_texts(texts, ids, self.limit, self.check_xpath)

    def check_xpath(self, path: str) -> None:
        """Raise SubscriptionError if a path expression cannot be understood."""
        parse_xpath(path, self.namespaces)

    def document(self) -> dict[str, Any]:
        """The options as JSON."""
        return {**vars(self), "namespaces": dict(self.namespaces)}
