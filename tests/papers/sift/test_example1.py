"""Example 1 of the SIFT paper, by all four algorithms through a Matcher."""

from typing import cast

import pytest

from tocsin import Matcher
from tocsin.registry import MatcherName

DOCUMENT = "During a recent holiday in Milos I stayed in a wonderful hotel"


@pytest.mark.parametrize("name", ["brute-force", "count", "key", "tree"])
def test_example_1_holiday_in_milos_not_in_crete(name: str) -> None:
    matcher = Matcher(matcher=cast(MatcherName, name))
    matcher.subscribe("milos", "has_words(text, 'holiday') AND has_words(text, 'Milos')")
    matcher.subscribe("crete", "has_words(text, 'holiday') AND has_words(text, 'Crete')")
    assert matcher.match({"text": DOCUMENT}).ids == ["milos"]
