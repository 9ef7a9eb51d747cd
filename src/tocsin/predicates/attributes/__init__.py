"""Comparisons of two attributes."""
