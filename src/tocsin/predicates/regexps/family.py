"""regexp_matches on one attribute, as a segment uses it."""

from collections.abc import Mapping, Sequence
from typing import Self

from tocsin.model.condition import RegexpMatches
from tocsin.model.predicate import Test
from tocsin.predicates.regexps.index import Regexps
from tocsin.predicates.texts import TextFamily


class RegexpFamily(TextFamily):
    """Regular expressions on one attribute."""

    index_type = Regexps

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:  # noqa: ARG003  # for XPath
        """Build from tests on expressions."""
        expressions = [str(test.expression) for test in tests if isinstance(test, RegexpMatches)]
        return cls(attribute, Regexps.build(expressions))
