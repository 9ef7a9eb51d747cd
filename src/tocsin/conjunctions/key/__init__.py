"""Conjunctions of tests alone, each filed under its rarest test."""
