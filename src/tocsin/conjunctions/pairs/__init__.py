"""Conjunctions with ranges, each filed under its two most selective predicates."""
