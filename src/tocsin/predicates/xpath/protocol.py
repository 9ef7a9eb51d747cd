"""What every index of path expressions offers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tocsin.errors import EventError
from tocsin.predicates.xpath.expression import XPath


@dataclass(frozen=True, slots=True)
class XPathMatches:
    """Which expressions hold on each document: ids[offsets[d]:offsets[d + 1]], sorted, for document d.

    A document that could not be read has no ids, and its error stands in `errors` under its place.
    """

    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]
    errors: dict[int, EventError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, document: int) -> npt.NDArray[np.int32]:
        return self.ids[self.offsets[document] : self.offsets[document + 1]]


@dataclass(frozen=True, slots=True)
class XPathStatistics:
    """The work done since the index was built.

    `steps` are what time goes to, one by one: elements and states visited, predicates tested, conjunctions looked at,
    steps of structures followed along a path.
    `candidates` are conjunctions, states or predicates looked at, whatever the algorithm counts; `filtered` are
    expressions that match in structure and whose filters were evaluated; `memo_hits` and `memo_misses` are elements
    whose path was known and new, `memo_resets` is how often the memory was full.
    """

    documents: int = 0
    expressions: int = 0
    distinct: int = 0
    steps: int = 0
    candidates: int = 0
    filtered: int = 0
    memo_hits: int = 0
    memo_misses: int = 0
    memo_resets: int = 0


class XPathIndex(Protocol):
    """Find the expressions that hold on a document. Ids are 0, 1, 2, ... in the order of arrival."""

    def build(self, expressions: Sequence[XPath]) -> None:
        """Replace what the index holds."""

    def insert(self, expression: XPath) -> int:
        """Add one expression and return its id."""

    def delete(self, expression_id: int) -> None:
        """Remove one expression."""

    def match(self, document: str | bytes) -> npt.NDArray[np.int32]:
        """The sorted ids of the expressions that hold; raises EventError if the document cannot be read."""

    def match_batch(self, documents: Sequence[str | bytes | None]) -> XPathMatches:
        """The same for many documents at once; errors are reported, not raised."""

    @property
    def nbytes(self) -> int:
        """Bytes of the expressions and of what finds them."""

    @property
    def statistics(self) -> XPathStatistics:
        """The work done since the index was built."""

    def check(self) -> None:
        """Assert the invariants."""
