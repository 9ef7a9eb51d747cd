"""PB+tree: the predicates of one ordered attribute on disk.

B. Wang, W. Zhang, M. Kitsuregawa, "Design of B+tree-Based Predicate Index for Efficient Event Matching", APWeb 2004.

| in the paper | here |
| --- | --- |
| 4.2 structure, Figures 1 to 4 | `leaves.py` (the B+tree), `lists.py`, `items.py` (what both hold), `sidset.py` |
| 4.2 Figure 5, the example | `test_the_paper_example` in tests/papers/pbtree/test_pbtree_tree.py |
| 4.3 insertion, Figures 6 and 7 | `tree.py` (`insert`), `lists.py` (`insert`) |
| 4.4 search, Figures 8 and 9 | `tree.py` (`search`), `lists.py` (`collect`) |
| 4.5 deletion | `tree.py` (`delete`), `lists.py` (`remove`), `leaves.py` (`shrink`) |
| 2 the six operators | `operators.py` |
| 5 Table 1, space and time | measured by `experiments.py` |

Not in the paper: types of keys (`keys.py`), bytes of a page (`pages.py`), a file that survives crashes (`log.py`,
`meta.py`, `pager.py`), building at once (`bulk.py`), a check of all invariants (`check.py`), predicates that are unions
of ranges (`phase1.py`), the tree under the protocol of all interval indexes (`index.py`), trees in the file of a
segment (`segment_index.py`), and subscriptions beyond memory (`beyond_memory.py`).

Run `tocsin bench pbtree`, or `tocsin draw pbtree`. The note is docs/internals/pbtree.md.
"""

from tocsin.papers.pbtree.index import PBTreeIndex
from tocsin.papers.pbtree.phase1 import PBTreePhase1
from tocsin.papers.pbtree.tree import PBPlusTree

__all__ = ["PBPlusTree", "PBTreeIndex", "PBTreePhase1"]
