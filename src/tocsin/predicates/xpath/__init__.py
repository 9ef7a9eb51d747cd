"""XPath: path expressions over XML documents, parsed, encoded and matched by the million.

Expressions come in once: `syntax` reads all of XPath 1.0 into a tree, `fragment` turns that into the paths that an
index knows, `parser` joins both and returns the canonical form of `expression`; `catalog` stores the parts that
expressions share, each once, as arrays; `index` files them. One document goes through these files in this order:

1. `family` takes the documents of a batch from their column and hands them to `index`.
2. `document` has lxml check a document, then `kernels/tokens` turn its bytes into arrays: elements with their tags,
   parents and levels, attributes, texts.
3. `index` asks `kernels/memo` which *structures*, expressions without their filters, match: a look-up for each element
   whose path of tags was seen before.
4. `filtered_paths` finds the expressions with filters: `kernels/predicate_tables` say which predicates hold on the
   document's attributes, values and tags, `kernels/guards` which paths with filters follow.
5. `structure_index` joins both: `kernels/filters` evaluates what is left, filters on nested paths, and
   `kernels/collect` writes the sorted ids of the paths that hold.
6. `alternatives` leads from paths to expressions: those of several paths, and those of which lxml evaluates the rest.

`oracle` asks lxml itself, expression by expression: the definition of what holds, and `explain`'s failing step.
"""

from tocsin.predicates.xpath.expression import Filter, Step, XPath
from tocsin.predicates.xpath.index import XPathIndex
from tocsin.predicates.xpath.parser import parse_xpath
from tocsin.predicates.xpath.structure_index import StructureIndex, XPathMatches, XPathStatistics

__all__ = [
    "Filter",
    "Step",
    "StructureIndex",
    "XPath",
    "XPathIndex",
    "XPathMatches",
    "XPathStatistics",
    "parse_xpath",
]
