"""GPX-Matcher's encoding: an expression is a conjunction of predicates on the positions of tags on a path.

Four kinds, written as in the paper (M. Sadoghi, I. Burcea, H.-A. Jacobsen: GPX-Matcher, EDBT 2011): the position of a
tag, ``p(a) = 1`` or ``p(a) >= 1``; its distance to the end, ``end(a) >= 2``; the distance of two tags, ``d(a, b) = 1``
or ``d(a, b) >= 1``; and for wildcards only, ``length >= 3``. The k-th step with one tag is written ``a^k``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.expression import XPath
from tocsin.predicates.xpath.kernels.paths import distinct_paths
from tocsin.predicates.xpath.kernels.predicate_tables import (
    FIRST_OCCURRENCE,
    FIRST_SHIFT,
    KIND_SHIFT,
    LENGTH_FROM,
    MAX_KIND,
    MAX_OCCURRENCE,
    MAX_TAG,
    MAX_VALUE,
    POSITION_FROM,
    SECOND_OCCURRENCE,
    SECOND_SHIFT,
    Predicates,
    Publications,
    encode_structures,
    enter_predicates,
    publish,
)
from tocsin.predicates.xpath.kernels.tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_FORMS: Final = (
    "p({a}) = {v}",
    "p({a}) >= {v}",
    "end({a}) >= {v}",
    "d({a}, {b}) = {v}",
    "d({a}, {b}) >= {v}",
    "length >= {v}",
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """Structures as conjunctions: structure i is the conjunction of ids[offsets[i]:offsets[i + 1]], in step order."""

    predicates: Predicates
    offsets: Ints
    ids: Ints

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.predicates.keys.nbytes + self.predicates.slots.nbytes + self.offsets.nbytes + self.ids.nbytes

    def kinds(self) -> Longs:
        """The kind of each predicate."""
        return self.predicates.keys >> KIND_SHIFT & MAX_KIND

    def of_length(self) -> npt.NDArray[np.bool_]:
        """Which predicates are on the length of the path."""
        found: npt.NDArray[np.bool_] = self.kinds() == LENGTH_FROM
        return found

    def values(self) -> Ints:
        """The value of each predicate."""
        return (self.predicates.keys & MAX_VALUE).astype(np.int32)

    def tables(self) -> Ints:
        """The predicate that begins the table of each: the first one on the same tags."""
        tags = self.predicates.keys >> SECOND_SHIFT
        return np.searchsorted(tags, tags).astype(np.int32)

    def shared_tags(self) -> Ints:
        """The tag that each predicate shares with one before it in a conjunction; 0 for those on a position."""
        first = self.predicates.keys >> FIRST_SHIFT & MAX_TAG
        return np.where(self.kinds() > POSITION_FROM, first, 0).astype(np.int32)

    def describe(self, names: Sequence[str]) -> list[list[str]]:
        """Each conjunction in the paper's notation; names are those of the catalog, in the order of their ids."""
        texts = [_describe(int(key), names) for key in self.predicates.keys]
        return [[texts[i] for i in self.ids[a:b]] for a, b in zip(self.offsets, self.offsets[1:], strict=False)]


def encode_catalog(catalog: Catalog, structures: Ints) -> Encoding:
    """Encode the given structures of a catalog. Cost: linear, but for sorting the predicates."""
    assert len(catalog.names) <= MAX_TAG, "a tag has 20 bits in a predicate"
    keys, offsets = encode_structures(catalog.structures.data, catalog.structures.offsets, structures)
    distinct, ids = np.unique(keys, return_inverse=True)
    slots = np.full(1 << (len(distinct) * 3 // 2).bit_length(), -1, dtype=np.int32)
    predicates = Predicates(distinct, slots)
    enter_predicates(predicates)
    return Encoding(predicates, offsets.astype(np.int32), ids.astype(np.int32))


def encode(expressions: Sequence[XPath]) -> tuple[Encoding, Catalog]:
    """Encode expressions, one conjunction each in their order; filters are left to the document.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> encoding, catalog = encode([parse_xpath("/a/a/*/*"), parse_xpath("a//b/c")])
    >>> encoding.describe(list(catalog.names))
    [['p(a) = 1', 'd(a, a^2) = 1', 'end(a^2) >= 2'], ['d(a, b) >= 1', 'd(b, c) = 1']]
    """
    catalog = Catalog()
    paths = catalog.add(expressions)
    return encode_catalog(catalog, catalog.structure_of_paths()[paths]), catalog


def publish_documents(
    documents: Documents, predicates: Predicates, tags: int, attributes: tuple[Longs, Ints] | None = None
) -> Publications:
    """Turn documents into publications: phase 1 of GPX-Matcher.

    `attributes` are the predicates on attributes that hold on each row: rows that have any are on paths of their own.
    """
    offsets, held = attributes or (np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32))
    paths, rows = distinct_paths(documents, np.diff(offsets) > 0)
    starts, ids, tested = publish(documents, rows, predicates, tags)
    return Publications(paths, rows, starts, ids, offsets, held, tested)


def _describe(key: int, names: Sequence[str]) -> str:
    def tag(shift: int, occurrence_shift: int) -> str:
        number = key >> shift & MAX_TAG
        occurrence = key >> occurrence_shift & MAX_OCCURRENCE
        return (names[number - 1] if number else "") + (f"^{occurrence}" if occurrence > 1 else "")

    first, second = tag(FIRST_SHIFT, FIRST_OCCURRENCE), tag(SECOND_SHIFT, SECOND_OCCURRENCE)
    return _FORMS[key >> KIND_SHIFT & MAX_KIND].format(a=first, b=second, v=key & MAX_VALUE)
