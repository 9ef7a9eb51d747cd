"""What holds for all subscriptions of a matcher."""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from tocsin.errors import OptionError, SubscriptionError
from tocsin.language.bulk import no_collection, normalise_texts
from tocsin.language.by_clauses import normalise_clauses
from tocsin.language.normal_form import NormalForm
from tocsin.language.normalise import Expression, normalise
from tocsin.language.parse import parse, parse_pieces
from tocsin.language.shape import split
from tocsin.model.analyzer import Analyzer, Analyzers
from tocsin.model.condition import Condition
from tocsin.model.limits import Limits
from tocsin.registry import IndexName, MatcherName, XPathName, check_name

HistoryKept: TypeAlias = Literal["all"] | Sequence[str] | None
"""What is remembered of published events: all of them, some attributes, or nothing."""

LONG_TEXT = 10_000
"""The garbage collector pauses while a text of so many characters is normalised: it took half of the time for 4,096
conjunctions of 10, and found nothing."""


@dataclass(frozen=True)
class Options:
    """The limits, the prefixes of XPath expressions, analyzers, and the algorithms, if the user chose them."""

    limits: Limits = field(default_factory=Limits)
    """The most that one subscription may have."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    index: IndexName = "auto"
    """The phase 1 index of ordered attributes: `auto` matches by access pairs, the others are the papers'."""
    matcher: MatcherName = "auto"
    """The phase 2 matcher; any but `auto` goes through an index for each attribute, `reference` through none."""
    retain_events: int | None = None
    """How many published events are history; None: all."""
    retain_age: dt.timedelta | int | None = None
    """How much older than the newest an event of the history may be, by `age_attribute`."""
    age_attribute: str | None = None
    xpath: XPathName = "auto"
    """The index of path expressions: the product's own or one of GPX-Matcher's."""
    history: HistoryKept = "all"
    """What is remembered of published events; a subscription that looks back at anything else is refused."""
    analyzers: Analyzers = field(default_factory=dict)
    """What counts as the same word, by attribute."""
    shards: int | None = None
    """The shards that the segments are divided into, see `index/reshard.py`; merges keep them. None: no shards."""

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards < 1:
            raise OptionError(f"shards is {self.shards}", "It must be at least 1")
        if isinstance(self.history, str) and self.history != "all":
            raise OptionError(f"history is {self.history!r}", 'Pass "all", a list of attributes, or None')
        if self.history is not None and self.history != "all":
            object.__setattr__(self, "history", tuple(self.history))
        check_name("index", self.index, IndexName)
        check_name("matcher", self.matcher, MatcherName)
        check_name("XPath index", self.xpath, XPathName)

    @property
    def is_auto(self) -> bool:
        """Whether Tocsin chooses how to match."""
        return self.index == self.matcher == "auto"

    @property
    def kept(self) -> frozenset[str] | None:
        """The attributes that are remembered of published events; None: all."""
        if self.history == "all":
            return None
        return frozenset((*(self.history or ()), *filter(None, [self.age_attribute])))

    def normalise(self, texts: Sequence[str], ids: Sequence[str]) -> NormalForm:
        """The normal form of many texts, with those in error reported."""
        most = _most(self.limits.attributes)
        return normalise_texts(
            texts, ids, _most(self.limits.predicates), self.check_xpath, self.analyzers, most_attributes=most
        )

    def normalise_one(self, text: str, id: str) -> Expression:
        """The normal form of one text. Raises SubscriptionError."""
        try:
            most, most_attributes = _most(self.limits.predicates), _most(self.limits.attributes)
            with no_collection() if len(text) >= LONG_TEXT else nullcontext():
                pieces = split(text)
                planned = normalise_clauses(pieces, most, self.analyzers, most_attributes)
                if planned is not None:
                    return planned
                return normalise(parse_pieces(pieces, self.analyzers), most, self.check_xpath, most_attributes)
        except SubscriptionError as error:
            raise error.of(id) from None

    def parse(self, text: str) -> Condition:
        """The condition of a text. Raises SubscriptionError."""
        return parse(text, self.analyzers)

    def check_xpath(self, path: str) -> None:
        """Raise SubscriptionError if a path expression cannot be understood."""
        # Loaded here: lxml and the index of paths take 0.1 s, which a command that refuses a condition does not have.
        from tocsin.predicates.xpath import parse_xpath

        parse_xpath(path, self.namespaces)

    def document(self) -> dict[str, Any]:
        """The options as JSON."""
        age = self.retain_age
        micros = age // dt.timedelta(microseconds=1) if isinstance(age, dt.timedelta) else None
        return {
            **vars(self),
            "limits": asdict(self.limits),
            "namespaces": dict(self.namespaces),
            "analyzers": {attribute: one.document() for attribute, one in self.analyzers.items()},
            "retain_age": age if micros is None else [micros],
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Options":
        """The options that `document` came from; an earlier version had one limit."""
        document = dict(document)
        age, most = document["retain_age"], document.pop("max_predicates", Limits().predicates)
        limits = Limits(**document["limits"]) if "limits" in document else Limits(predicates=most)
        if isinstance(age, list):
            age = dt.timedelta(microseconds=age[0])
        analyzers = {name: Analyzer(**given) for name, given in document.get("analyzers", {}).items()}
        return cls(**{**document, "retain_age": age, "limits": limits, "analyzers": analyzers})


def _most(limit: int | None) -> float:
    return math.inf if limit is None else limit
