"""The PB+tree: a predicate index on disk for one ordered attribute.

B. Wang, W. Zhang, M. Kitsuregawa, "Design of B+tree-Based Predicate Index for Efficient Event Matching", APWeb 2004.
Read it in this order: `keys`, `pages` and `items` (what a page holds), `log`, `meta` and `pager` (how pages survive),
`sidset`, `leaves`, `lists` (the structure), `operators`, `tree` (the public class), `bulk`, `check`, `phase1`,
`index`.
"""

from tocsin.papers.pbtree.index import PBTreeIndex
from tocsin.papers.pbtree.phase1 import PBTreePhase1
from tocsin.papers.pbtree.tree import PBPlusTree

__all__ = ["PBPlusTree", "PBTreeIndex", "PBTreePhase1"]
