"""Conjunctions of wide ranges: bitsets of those that fail, by block, column and cell."""
