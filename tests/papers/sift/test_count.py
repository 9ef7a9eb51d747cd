"""Count keeps the contract of phase 2."""

from contracts.conjunction_matcher_contract import ConjunctionMatcherContract
from tocsin.papers.sift.count import Count


class TestCount(ConjunctionMatcherContract):
    kind = Count
