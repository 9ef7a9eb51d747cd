"""The library of the five papers, loaded by name only (`tocsin.registry`)."""
