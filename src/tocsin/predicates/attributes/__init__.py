"""Comparisons of two attributes of one event."""
