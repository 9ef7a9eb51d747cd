"""LIKE and ILIKE."""
