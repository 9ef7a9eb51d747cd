"""Keyword profiles under the Boolean model (SIFT): Brute Force, Count, Key and Tree."""
