"""BruteForce keeps the contract of phase 2."""

from contracts.conjunction_matcher_contract import ConjunctionMatcherContract
from tocsin.papers.sift.brute_force import BruteForce


class TestBruteForce(ConjunctionMatcherContract):
    kind = BruteForce
