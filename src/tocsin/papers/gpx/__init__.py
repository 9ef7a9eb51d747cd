"""GPX: which path expressions select something in a document.

M. Sadoghi, I. Burcea, H.-A. Jacobsen, "GPX-Matcher: A Generic Boolean Predicate-based XPath Expression Matcher", EDBT
2011, and the two rivals that it measures.

| in the paper | here |
| --- | --- |
| 3.1 and 3.2, expressions and paths as predicates, Tables 1 and 2 | `publications.py` |
| 3.1.3 examples, 3.3 matching | tests/papers/gpx/test_xpath_paper.py |
| 4.1 predicate tables, Figure 1 | the product: `predicates/xpath/kernels/predicate_tables.py` |
| 4.2 counting: GPX | `gpx.py`, `conjunctions.py`, `counting_kernels.py` |
| 4.2 access predicates: GPX-ap, GPX-apf | `gpx.py`, `cluster_kernels.py` |
| 3.1.4 filters on attributes | the product: `predicates/xpath/filtered_paths.py` |
| 5, YFilter (Y. Diao and others, TODS 2003) | `yfilter.py`, `yfilter_kernels.py` |
| 5, BPA (S. Hou, H.-A. Jacobsen, ICDE 2006) | `bpa.py`, `bpa_kernels.py` |
| 5, document types and generators | `workload.py` |
| 5, Figures 2 to 6 | `experiments.py` |

Run `tocsin bench gpx`. The note is docs/internals/xpath.md.
"""

from collections.abc import Callable
from typing import Final

from tocsin.papers.gpx.bpa import BPAIndex
from tocsin.papers.gpx.gpx import GPXIndex
from tocsin.papers.gpx.yfilter import YFilterIndex
from tocsin.predicates.xpath.index import XPathIndex
from tocsin.predicates.xpath.structure_index import StructureIndex

XPATH_INDEXES: Final[dict[str, Callable[[], StructureIndex]]] = {
    "auto": XPathIndex,
    "gpx": lambda: GPXIndex("all"),
    "gpx-ap": lambda: GPXIndex("last"),
    "gpx-apf": lambda: GPXIndex("first"),
    "yfilter": YFilterIndex,
    "bpa": BPAIndex,
}
"""Every index of path expressions by its name."""

__all__ = ["XPATH_INDEXES", "BPAIndex", "GPXIndex", "YFilterIndex"]
