"""GPX-Matcher: path expressions as conjunctions of predicates, documents as sets of predicates that hold."""

from typing import Final, Literal

import numpy as np

from tocsin._kernels.xpath_gpx import COUNTING, FIRST, LAST, Conjunctions, match_conjunctions
from tocsin._kernels.xpath_predicates import END_FROM, KIND_SHIFT
from tocsin._kernels.xpath_tokens import Documents
from tocsin.predicates.xpath.document import MAX_BYTES
from tocsin.predicates.xpath.encoding import Ints, Longs, encode_catalog, publish_documents
from tocsin.predicates.xpath.index import StructureIndex, offsets_of

Access = Literal["all", "first", "last"]
_CODES: Final = {"all": COUNTING, "first": FIRST, "last": LAST}


class GPXIndex(StructureIndex):
    """Match conjunctions of predicates: by counting, or under the first or last predicate of each as access predicate.

    A conjunction is filed under all its predicates (GPX), that of its last tag (GPX-ap) or its first one (GPX-apf).

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = GPXIndex("last")
    >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
    >>> index.match("<a><b/><x><c><d/></c></x></a>").tolist()
    [0, 1]
    """

    def __init__(self, access: Access = "all", max_bytes: int = MAX_BYTES) -> None:
        self.access = access
        super().__init__(max_bytes)

    def _build_structures(self, chosen: Ints) -> None:
        encoding = encode_catalog(self.catalog, chosen)
        first = encoding.ids[encoding.offsets[:-1]]
        wild = encoding.of_length()[first]
        values = encoding.values()[first]
        tagged, lengths = np.flatnonzero(~wild), np.flatnonzero(wild)
        lengths = lengths[np.argsort(values[lengths], kind="stable")]
        starts, ends = encoding.offsets[:-1], encoding.offsets[1:]
        # The last predicate on a tag: before one on the end of the path, unless that is the only one.
        open_ended = (encoding.predicates.keys[encoding.ids[ends - 1]] >> KIND_SHIFT == END_FROM) & (ends - starts > 1)
        access = starts if self.access == "first" else ends - 1 - open_ended
        if self.access != "all":
            tagged = tagged[np.lexsort((~open_ended[tagged], encoding.ids[access[tagged]]))]
        counts = (ends - starts)[tagged]
        offsets = np.zeros(len(tagged) + 1, dtype=np.int32)
        np.cumsum(counts, out=offsets[1:])
        ids = encoding.ids[np.repeat(starts[tagged] - offsets[:-1], counts) + np.arange(offsets[-1])]
        if self.access == "all":
            filed, owner = ids, np.repeat(np.arange(len(tagged)), counts)
        else:
            filed, owner = encoding.ids[access[tagged]], np.arange(len(tagged))
        size = len(encoding.predicates.keys)
        posting_offsets = offsets_of(filed, size)
        still_open = np.bincount(filed[open_ended[tagged][owner]], minlength=size)
        self._encoding = encoding
        self._conjunctions = Conjunctions(
            offsets,
            ids,
            posting_offsets,
            (posting_offsets[:-1] + still_open).astype(np.int32),
            owner[np.argsort(filed, kind="stable")].astype(np.int32),
            chosen[np.concatenate([tagged, lengths])],
            values[lengths],
        )

    def _structures(self, documents: Documents) -> tuple[Longs, Ints]:
        publications = publish_documents(documents, self._encoding, self._tag_count)
        table = self.catalog.structures
        return match_conjunctions(
            documents,
            publications.documents,
            publications.rows,
            publications.offsets,
            publications.ids,
            self._conjunctions,
            table.data,
            table.offsets,
            self._encoding.predicates.keys,
            self._tag_count,
            _CODES[self.access],
            self._evidence,
        )

    def _nbytes(self) -> int:
        # The encoding's own ids are those of the conjunctions, but for the lengths.
        predicates = self._encoding.predicates
        return sum(array.nbytes for array in (*predicates, *self._conjunctions))

    def _check(self) -> None:
        conjunctions = self._conjunctions
        keys = self._encoding.predicates.keys
        assert (np.diff(keys) > 0).all(), "predicates are distinct and in order"
        filed = np.repeat(np.arange(len(keys)), np.diff(conjunctions.posting_offsets))
        for predicate, candidate in zip(filed, conjunctions.postings, strict=True):
            own = conjunctions.predicates[conjunctions.offsets[candidate] : conjunctions.offsets[candidate + 1]]
            assert predicate in own, "a conjunction is filed under its own predicates"
        assert (np.diff(conjunctions.lengths) >= 0).all(), "lengths ascend"
