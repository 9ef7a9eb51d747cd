"""The library of five papers: their algorithms behind the product's protocols, one folder each.

The docstring of each folder says which file has which section, figure and table. Nothing here is loaded before it is
asked for by name (`tocsin.registry`). `tocsin bench NAME` runs a paper's experiments; `docs/internals/` has the notes.
"""
