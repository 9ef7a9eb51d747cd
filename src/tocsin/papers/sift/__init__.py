"""SIFT: which conjunctions of predicates hold, given the predicates that hold.

C. Tryfonopoulos, M. Koubarakis and others, on the dissemination of text under the Boolean model: four algorithms of
T. W. Yan and H. Garcia-Molina's SIFT, measured in main memory. The paper speaks of documents and profiles of words;
here a predicate is a number, and a conjunction may also forbid predicates.

| in the paper | here |
| --- | --- |
| 2.1 Brute Force | `brute_force.py` |
| 2.2 Count | `count.py` |
| 2.3 Key | `key.py`; with the rarest word as key it is the product's: `conjunctions/key/` |
| 2.4 Tree, Figure 1 | `tree.py` |
| 3.1 and 3.2, models of documents and profiles, Table 1 | `Model` in `experiments.py` |
| 3.2 Figure 2, 4.2 Figure 3, 4.3 Figure 4; similarity q of Table 1 | `experiments.py` |

Not in the paper: one protocol with insertion and deletion (`protocol.py`). The loops of all four are in `kernels.py`.

Run `tocsin bench sift`, or `tocsin draw profile-tree`. The note is docs/internals/words.md.
"""
