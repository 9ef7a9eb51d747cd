"""Insertion and deletion for structures that are built once: layers of them, as in the logarithmic method.

A new range goes to a small buffer that is scanned. A full buffer becomes a layer, together with every layer up to twice
as large as what it joins. So each layer is more than twice as large as the next, a probe visits at most
log2(n / BUFFER) layers and the buffer, and an entry that is rebuilt is then in a layer half as large again, which
happens at most log1.5(n / BUFFER) times. A deleted predicate is marked dead in its layers; a layer more than half dead
is rebuilt. An update costs O(log n) times the cost of building one entry, amortised.
"""

from abc import ABC, abstractmethod
from array import array
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.arrays import Int32s
from tocsin.errors import OptionError
from tocsin.papers.tatbul.drawing import Drawing, as_svg, as_text
from tocsin.papers.tatbul.protocol import Answers, CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, Structure

BUFFER = 32


def bitmap(ids: Int32s) -> BitMap:
    """Pack ids into a bitmap."""
    return BitMap(array("I", ids.astype(np.uint32).tobytes()))


def plain_names(first: int, last: int) -> str:
    """Show codes as they are."""
    return str(first) if first == last else f"{first}..{last}"


class Layer:
    """One structure and which of its entries were deleted since."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.dead = np.zeros(len(structure.entries.lo), np.bool_)
        self.deaths = 0

    @property
    def size(self) -> int:
        """The number of entries, dead ones included."""
        return len(self.dead)

    @property
    def live(self) -> Entries:
        """The entries that were not deleted."""
        return self.structure.entries.take(~self.dead)

    def of(self, predicate: int) -> slice:
        """Where the entries of `predicate` stand."""
        owners = self.structure.entries.predicate
        return slice(int(np.searchsorted(owners, predicate)), int(np.searchsorted(owners, predicate, "right")))

    def bury(self, predicate: int) -> bool:
        """Mark the entries of `predicate` dead; say whether any was alive."""
        where = self.of(predicate)
        buried = int((~self.dead[where]).sum())
        self.dead[where] = True
        self.deaths += buried
        return buried > 0


class LayeredIndex(ABC):
    """A `PredicateIndex` made of frozen structures; subclasses say which."""

    def __init__(self) -> None:
        self.evaluations = 0
        self._layers: list[Layer] = []
        self._buffer: list[tuple[int, int, int]] = []

    @classmethod
    def build(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, predicate: npt.ArrayLike | None = None) -> Self:
        """Index the ranges from ``lo[i]`` to ``hi[i]`` of predicate ``predicate[i]``, or of predicate ``i``."""
        index = cls()
        index._add(Entries.of(lo, hi, predicate))
        return index

    @abstractmethod
    def _freeze(self, entries: Entries) -> Structure:
        """Build the structure of this index over `entries`."""

    def probe(self, code: int) -> Int32s:
        """Return the predicates that hold for `code`, sorted."""
        return self.probe_batch([code]).ids

    def probe_bitmap(self, code: int) -> BitMap:
        """Return the predicates that hold for `code` as a bitmap."""
        return bitmap(self.probe(code))

    def probe_batch(self, codes: npt.ArrayLike) -> Answers:
        """Return the predicates that hold for each of `codes`, sorted for each."""
        batch = np.ascontiguousarray(codes, np.int32)
        parts: list[Answers] = []
        for layer in self._layers:
            found = layer.structure.find(batch)
            self.evaluations += found.evaluations
            parts.append(self._living(layer, found))
        if self._buffer:
            parts.append(self._scan_buffer(batch))
        if len(parts) == 1:
            return parts[0]
        return _union(parts, len(batch))

    def _living(self, layer: Layer, found: Found) -> Answers:
        """Turn positions into predicates and leave out the deleted."""
        ids = layer.structure.entries.predicate[found.positions]
        if not layer.deaths:
            return Answers(found.offsets, ids)
        kept = ~layer.dead[found.positions]
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        return Answers(before[found.offsets], ids[kept])

    def _scan_buffer(self, codes: Int32s) -> Answers:
        lo, hi, predicate = self._buffered()
        self.evaluations += len(lo) * int((codes >= 0).sum())
        rows, columns = np.nonzero((lo <= codes[:, None]) & (codes[:, None] <= hi))
        offsets = np.searchsorted(rows, np.arange(len(codes) + 1)).astype(np.int64)
        return Answers(offsets, predicate[columns])

    def insert(self, predicate: int, lo: int, hi: int) -> None:
        """Add a range to a predicate, new or known; an empty range (``lo > hi``) adds nothing.

        O(log n) times the cost of building one entry, amortised.
        """
        if predicate < 0 or lo < 0:
            raise OptionError(f"predicate {predicate} or its first code {lo} is negative", "Codes and ids begin at 0")
        if lo > hi:
            return
        self._buffer.append((predicate, lo, hi))
        if len(self._buffer) > BUFFER:
            predicates, los, his = np.array(self._buffer, np.int32).T
            self._buffer = []
            self._add(Entries.of(los, his, predicates))

    def delete(self, predicate: int) -> None:
        """Remove a predicate with all its ranges. O(log n), and a rebuild of a layer when half of it is dead.

        Raises OptionError if the index has no such predicate.
        """
        kept = [entry for entry in self._buffer if entry[0] != predicate]
        found = [layer for layer in self._layers if layer.bury(predicate)]
        if not found and len(kept) == len(self._buffer):
            raise OptionError(f"the index has no predicate {predicate}", "Insert it before you delete it")
        self._buffer = kept
        stale = [layer for layer in found if 2 * layer.deaths > layer.size]
        self._layers = [layer for layer in self._layers if layer not in stale]
        for layer in stale:
            self._add(layer.live)

    def _add(self, entries: Entries) -> None:
        """Make `entries` a layer, together with every layer up to twice as large."""
        while self._layers and self._layers[-1].size <= 2 * len(entries.lo):
            parts = (self._layers.pop().live, entries)
            entries = Entries.of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        if len(entries.lo):
            self._layers.append(Layer(self._freeze(entries)))

    def narrow(self, code: int, alive: BitMap) -> BitMap:
        """Return those of `alive` that may hold for `code`: here, that do."""
        return alive & self.probe_bitmap(code)

    def verify(self, code: int, alive: BitMap) -> BitMap:  # noqa: ARG002 - an exact index has nothing left to verify
        """Return those of `alive`, which `narrow` left, that hold for `code`."""
        return alive

    def evaluate(self, code: int, predicates: BitMap) -> BitMap:
        """Evaluate just these predicates one by one: an evaluation for each of their ranges. O(n)."""
        chosen = np.frombuffer(predicates.to_array(), np.uint32)
        holds = BitMap()
        for entries in (*(layer.live for layer in self._layers), self._buffered()):
            among = entries.take(np.isin(entries.predicate, chosen))
            self.evaluations += len(among.lo)
            holds |= bitmap(among.predicate[(among.lo <= code) & (code <= among.hi)])
        return holds

    def _buffered(self) -> Entries:
        columns = np.array(self._buffer, np.int32).reshape(-1, 3).T
        return Entries.of(columns[1], columns[2], columns[0])

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(layer.structure.nodes for layer in self._layers)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(layer.structure.nbytes + layer.dead.nbytes for layer in self._layers) + 12 * len(self._buffer)

    def check(self) -> None:
        """Assert every invariant of the layers and of their structures. O(size)."""
        assert len(self._buffer) <= BUFFER, "a full buffer becomes a layer"
        sizes = [layer.size for layer in self._layers]
        assert all(a > 2 * b for a, b in pairwise(sizes)), "a layer joins every layer up to twice as large"
        for layer in self._layers:
            assert layer.deaths == int(layer.dead.sum()), "deaths are counted as they are marked"
            assert 2 * layer.deaths <= layer.size, "a layer more than half dead is rebuilt"
            layer.structure.entries.check()
            layer.structure.check()

    def drawing(self, names: CodeNames | None = None, depth: int = 8) -> Drawing:
        """Return the tree to be shown; several layers stand below one root."""
        shown = tuple(layer.structure.drawing(names or plain_names, depth) for layer in self._layers)
        if len(shown) == 1 and not self._buffer:
            return shown[0]
        return Drawing(0, -1, f"{len(shown)} layers, {len(self._buffer)} ranges in the buffer", children=shown)

    def draw(self, code: int | None = None, names: CodeNames | None = None, depth: int = 8) -> str:
        """Return the tree as text down to `depth`, with the path of `code` marked."""
        return as_text(self.drawing(names, depth), code)

    def draw_svg(self, code: int | None = None, names: CodeNames | None = None, depth: int = 8) -> str:
        """Return the tree as an SVG image down to `depth`, with the path of `code` marked."""
        return as_svg(self.drawing(names, depth), code)


def _union(parts: list[Answers], size: int) -> Answers:
    """Join the answers of several layers, each predicate once."""
    if not parts:
        return Answers(np.zeros(size + 1, np.int64), np.empty(0, np.int32))
    rows = np.concatenate([np.repeat(np.arange(size), np.diff(part.offsets)) for part in parts])
    pairs = np.unique(rows << 32 | np.concatenate([part.ids for part in parts]).astype(np.int64))
    offsets = np.searchsorted(pairs >> 32, np.arange(size + 1)).astype(np.int64)
    return Answers(offsets, (pairs & 0xFFFFFFFF).astype(np.int32))
