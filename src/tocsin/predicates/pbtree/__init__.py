"""The PB+tree: a predicate index on disk for one ordered attribute.

B. Wang, W. Zhang, M. Kitsuregawa, "Design of B+tree-Based Predicate Index for Efficient Event Matching", APWeb 2004.
Read it in this order: `keys`, `pages` and `items` (what a page holds), `log`, `meta` and `pager` (how pages survive),
`sidset`, `leaves`, `lists` (the structure), `operators`, `tree` (the public class), `bulk`, `check`, `phase1`,
`index`.
"""

from tocsin.predicates.pbtree.index import PBTreeIndex
from tocsin.predicates.pbtree.phase1 import PBTreePhase1
from tocsin.predicates.pbtree.tree import PBPlusTree

__all__ = ["PBPlusTree", "PBTreeIndex", "PBTreePhase1"]
