"""Conjunctions that most events satisfy: blocks of them that are found as one."""
