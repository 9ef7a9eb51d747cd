"""The expressions of an index as arrays: what equal parts they share, each part once.

Four tables, each of distinct sequences with dense ids:

- *names*: tags and attributes; 0 is every name that no expression mentions;
- *structures*: the steps of a path without filters, two integers a step: the tag (-1 is any) and the gap to the step
  before, ``2 * distance + exact``;
- *filters*: kind, name, operator, the two halves of the number, the length of the string, the string itself in
  units of four bytes; or the kind PATH and the number of a path;
- *paths*: a structure, then for each filter the number of its step and of the filter. An expression is a path; the
  paths inside filters stand in the same table, always before the paths that use them.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tocsin.predicates.xpath.expression import ANY, Filter, Step, XPath
from tocsin.predicates.xpath.parser import OPERATORS, to_number
from tocsin.predicates.xpath.sequences import SequenceTable

ANY_TAG: Final = -1
KINDS: Final = {"attribute": 0, "text": 1, "string": 2, "path": 3}
OPERATOR_CODES: Final = {operator: code for code, operator in enumerate(("", *OPERATORS))}


class Catalog:
    """Intern expressions; equal ones get the same path id."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.structures = SequenceTable()
        self.filters = SequenceTable()
        self.paths = SequenceTable()
        self.most_nested = 0
        self._name_table: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all tables, names included."""
        tables = (self.structures, self.filters, self.paths)
        return sum(table.nbytes for table in tables) + sum(len(name) + 100 for name in self.names)

    def add(self, expressions: Sequence[XPath]) -> npt.NDArray[np.int32]:
        """Return the path id of each expression. Cost: linear; a look-up for an object that came before."""
        known: dict[int, int] = {}
        ids = np.empty(len(expressions), dtype=np.int32)
        for place, expression in enumerate(expressions):
            path = known.get(id(expression))
            if path is None:
                path = known[id(expression)] = self._path(expression.steps)
                self.most_nested = max(self.most_nested, _count_nested(expression.steps))
            ids[place] = path
        return ids

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The tables as named arrays."""
        self.shrink()
        data, offsets = self.name_arrays()
        arrays: dict[str, npt.NDArray[Any]] = {"names.data": data, "names.offsets": offsets}
        arrays["nested"] = np.array([self.most_nested])
        for name, table in (("structures", self.structures), ("filters", self.filters), ("paths", self.paths)):
            arrays |= {f"{name}.data": table.data, f"{name}.offsets": table.offsets}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Catalog":
        """The catalog that `arrays` came from, its tables without copying. Cost: linear in the names."""
        catalog = cls()
        data, offsets = arrays["names.data"], arrays["names.offsets"]
        text, bounds = data.tobytes(), offsets.tolist()
        for place in range(1, len(bounds) - 1):
            catalog.names[text[bounds[place] : bounds[place + 1]].decode()] = place
        catalog._name_table = data, offsets
        catalog.most_nested = int(arrays["nested"][0])
        catalog.structures, catalog.filters, catalog.paths = (
            SequenceTable.from_arrays(arrays[f"{name}.data"], arrays[f"{name}.offsets"])
            for name in ("structures", "filters", "paths")
        )
        return catalog

    def shrink(self) -> None:
        """Give back the room kept for growth."""
        for table in (self.structures, self.filters, self.paths):
            table.shrink()

    def name_arrays(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """The names in the order of their ids as UTF-8, and where each starts; the first is empty."""
        if self._name_table is None or len(self._name_table[1]) != len(self.names) + 2:
            encoded = [b"", *(name.encode() for name in self.names)]
            offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
            np.cumsum([len(name) for name in encoded], out=offsets[1:])
            self._name_table = np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets
        return self._name_table

    def filter_numbers(self) -> npt.NDArray[np.float64]:
        """The number that each filter compares with; NaN for those that do not."""
        numbers = np.full(len(self.filters), np.nan)
        starts = self.filters.offsets[: len(self.filters)]
        values = np.flatnonzero(self.filters.data[starts] != KINDS["path"])
        halves = self.filters.data[starts[values][:, None] + np.array([4, 5])]
        numbers[values] = halves.view(np.float64)[:, 0]
        return numbers

    def structure_of_paths(self) -> npt.NDArray[np.int32]:
        """The structure of each path."""
        return self.paths.data[self.paths.offsets[: len(self.paths)]]

    def check(self) -> None:
        """Assert the invariants."""
        for table in (self.structures, self.filters, self.paths):
            table.check()
        assert list(self.names.values()) == list(range(1, len(self.names) + 1)), "names have dense ids from 1"
        for path in range(len(self.paths)):
            for used in self.paths[path][2::2]:
                encoded = self.filters[int(used)]
                assert encoded[0] != KINDS["path"] or encoded[1] < path, "a path inside a filter comes first"

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names) + 1)

    def _path(self, steps: Sequence[Step]) -> int:
        structure = self.structures.intern(
            list(
                chain.from_iterable(
                    (ANY_TAG if step.tag == ANY else self._name(step.tag), 2 * step.distance + step.exact)
                    for step in steps
                )
            )
        )
        path = [structure]
        for place, step in enumerate(steps):
            for condition in step.filters:
                path += (place, self._filter(condition))
        return self.paths.intern(path)

    def _filter(self, condition: Filter) -> int:
        if condition.kind == "path":
            return self.filters.intern([KINDS["path"], self._path(condition.path)])
        text = condition.value if isinstance(condition.value, str) else ""
        ordered = condition.operator not in ("=", "!=")
        number = condition.value if isinstance(condition.value, float) else to_number(text) if ordered else float("nan")
        by_number = isinstance(condition.value, float) or (ordered and condition.operator != "")
        encoded = text.encode()
        padded = np.frombuffer(encoded + bytes(-len(encoded) % 4), dtype=np.int32)
        halves = np.array([number], dtype=np.float64).view(np.int32)
        name = self._name(condition.name) if condition.name else 0
        head = [KINDS[condition.kind], name, OPERATOR_CODES[condition.operator], int(by_number)]
        return self.filters.intern([*head, *halves.tolist(), len(encoded), *padded.tolist()])


def _count_nested(steps: Sequence[Step]) -> int:
    return sum(1 + _count_nested(condition.path) for step in steps for condition in step.filters if condition.path)
