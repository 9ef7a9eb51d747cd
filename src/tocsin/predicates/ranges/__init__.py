"""Comparisons of an attribute with constants: values become codes, comparisons ranges of codes."""
