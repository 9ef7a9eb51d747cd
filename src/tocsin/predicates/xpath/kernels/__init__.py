"""Kernels of the XPath index, listed in the order in which a document meets them.

- `characters`, `tokens`: from bytes to arrays of elements, attributes and texts;
- `paths`: the distinct paths of a document, and positions on a path as bits of a word;
- `memo`: which structures match, remembered path by path;
- `predicate_tables`, `guards`: which paths with filters match;
- `filters`, `collect`: the filters that are left are evaluated, and ids are written;
- `hashing`: hash tables and growing arrays, for all of them.

Kernels count their work in an array of evidence, whose fields are named here.
"""

FILTERED, STEPS, CANDIDATES, MEMO_HITS, MEMO_MISSES, MEMO_RESETS = range(6)
"""Fields of the evidence, in the order of `XPathStatistics`, which says what each one counts."""
