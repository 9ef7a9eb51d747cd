"""The expressions of an index as arrays, in which equal parts are stored once.

Names are numbered from 1; 0 stands for all names that no expression mentions. Three tables hold distinct sequences of
integers, numbered from 0 (`CatalogTables` names their fields):

- *structures*: the steps of a path without filters, a tag and the gap to the step before for each;
- *filters*: what is compared with what; or the number of a path, for a filter that is a path;
- *paths*: a structure and, for each filter, the number of its step and of the filter. An expression is a path; the
  paths inside filters stand in the same table, always before the paths that use them.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.forks import cached
from tocsin.invariants import check_starts, check_type, check_within, demand
from tocsin.predicates.xpath.expression import ANY, Filter, Step, Steps
from tocsin.predicates.xpath.kernels.filters import (
    ATTRIBUTE,
    FILTER_KIND,
    FILTER_LENGTH,
    FILTER_NAME,
    FILTER_NUMBER,
    FILTER_OPERATOR,
    FILTER_PATH,
    FILTER_TEXT,
    GREATER_EQUAL,
    NO_OPERATOR,
    PATH,
    STRING,
    TEXT,
    CatalogTables,
)
from tocsin.predicates.xpath.kernels.paths import ANY_TAG
from tocsin.predicates.xpath.kernels.tokens import Names, enter_names
from tocsin.predicates.xpath.syntax import COMPARISONS, to_number

Scalar = TypeVar("Scalar", bound=np.generic)
Fields = TypeVar("Fields", bound=NamedTuple)

_KINDS: Final = {"attribute": ATTRIBUTE, "text": TEXT, "string": STRING, "path": PATH}
_OPERATOR_CODES: Final = {operator: code for code, operator in enumerate(("", *COMPARISONS))}
_TABLES: Final = ("structures", "filters", "paths")


class Catalog:
    """Names and tables of expressions. Equal expressions have the same path.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> catalog, paths = Catalog.build([parse_xpath(text).paths[0] for text in ("/a/b", "/a/b[@x]", "/a/b")])
    >>> paths.tolist(), catalog.names
    ([0, 1, 0], {'a': 1, 'b': 2, 'x': 3})
    >>> catalog.tables.structures.tolist(), catalog.tables.paths.tolist()
    ([1, 3, 2, 3], [0, 0, 1, 0])
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays = {name: frozen(array) for name, array in arrays.items()}
        data, bounds = arrays["names.data"].tobytes(), arrays["names.offsets"].tolist()
        self.names = {data[bounds[name] : bounds[name + 1]].decode(): name for name in range(1, len(bounds) - 1)}
        self.most_nested = int(arrays["nested"][0])
        filters, filter_offsets = self._arrays["filters.data"], self._arrays["filters.offsets"]
        self.tables = CatalogTables(
            structures=self._arrays["structures.data"],
            structure_offsets=self._arrays["structures.offsets"],
            filters=filters,
            filter_offsets=filter_offsets,
            filter_bytes=filters.view(np.uint8),
            numbers=frozen(_numbers(filters, filter_offsets)),
            paths=self._arrays["paths.data"],
            path_offsets=self._arrays["paths.offsets"],
        )

    @classmethod
    def build(cls, expressions: Sequence[Steps]) -> tuple["Catalog", Int32s]:
        """Return the catalog of expressions, one path each, and the number of each path. Cost: linear."""
        builder = _Builder()
        path_of = np.fromiter(map(builder.add, expressions), np.int32, len(expressions))
        return cls(builder.arrays()), path_of

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, which the constructor takes."""
        return self._arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all tables, names included."""
        tables = sum(self._arrays[f"{name}.{part}"].nbytes for name in _TABLES for part in ("data", "offsets"))
        return tables + sum(len(name) + 100 for name in self.names)

    @cached
    def hashed_names(self) -> Names:
        """The names in the order of their ids, and the hash table that finds them, made by the first document."""
        offsets = self._arrays["names.offsets"]
        slots = np.zeros(1 << (2 * len(offsets)).bit_length(), dtype=np.int32)
        names = Names(self._arrays["names.data"], offsets, slots)
        enter_names(names)
        return names

    def structure_of_paths(self) -> Int32s:
        """Return the structure of each path."""
        return self.tables.paths[self.tables.path_offsets[:-1]]

    def check_arrays(self, path_of: Int32s) -> None:
        """Demand what keeps the kernels within their arrays; `path_of` has the paths of the expressions."""
        check_type("names.data", self._arrays["names.data"], np.uint8)
        for name in ("names", *_TABLES):
            data, offsets = self._arrays[f"{name}.data"], self._arrays[f"{name}.offsets"]
            check_type(f"{name}.offsets", offsets, np.int32)
            check_starts(f"{name}.offsets", offsets, offsets.size - 1, data.size)
            if name != "names":
                check_type(f"{name}.data", data, np.int32)
        demand(len(self.names) == self._arrays["names.offsets"].size - 2, "names.data", "names are not distinct")
        check_within("nested", self._arrays["nested"], 0, 2**31)
        demand(self._arrays["nested"].size == 1, "nested", "it is not a number")
        self._check_structures()
        self._check_filters()
        self._check_paths(path_of)

    def _check_structures(self) -> None:
        lengths = np.diff(self.tables.structure_offsets)
        demand((lengths > 0) & (lengths % 2 == 0), "structures.offsets", "a structure is not some steps")
        check_within("structures.data", self.tables.structures[::2], ANY_TAG, len(self.names) + 1)
        check_within("structures.data", self.tables.structures[1::2], 0, 2**31)

    def _check_filters(self) -> None:
        filters, first = self.tables.filters, self.tables.filter_offsets[:-1]
        lengths = np.diff(self.tables.filter_offsets)
        demand(lengths > FILTER_PATH, "filters.offsets", "a filter has no kind or no path")
        kinds = filters[first + FILTER_KIND]
        check_within("filters.data", kinds, ATTRIBUTE, PATH + 1)
        is_path = kinds == PATH
        check_within("filters.data", filters[first[is_path] + FILTER_PATH], 0, self.tables.path_offsets.size - 1)
        first, lengths = first[~is_path], lengths[~is_path]
        demand(lengths >= FILTER_TEXT, "filters.offsets", "a filter lacks a field")
        check_within("filters.data", filters[first + FILTER_NAME], 0, len(self.names) + 1)
        check_within("filters.data", filters[first + FILTER_OPERATOR], NO_OPERATOR, GREATER_EQUAL + 1)
        text = filters[first + FILTER_LENGTH].astype(np.int64)
        demand((text >= 0) & (text <= 4 * (lengths - FILTER_TEXT)), "filters.data", "a text is longer than its filter")

    def _check_paths(self, path_of: Int32s) -> None:
        tables = self.tables
        paths, first = tables.paths, tables.path_offsets[:-1]
        lengths = np.diff(tables.path_offsets)
        demand(lengths % 2 == 1, "paths.offsets", "a path is not a structure and its filters")
        check_within("paths.data", paths[first], 0, tables.structure_offsets.size - 1)
        # The rows (step, filter) behind the structure of each path.
        path = np.repeat(np.arange(lengths.size), lengths // 2)
        place = np.arange(path.size) - np.repeat(np.cumsum(lengths // 2) - lengths // 2, lengths // 2)
        steps, filters = (paths[first[path] + 1 + 2 * place + part] for part in range(2))
        most = np.diff(tables.structure_offsets)[paths[first[path]]] // 2
        demand((steps >= 0) & (steps < most), "paths.data", "a filter is on a step that its path does not have")
        check_within("paths.data", filters, 0, tables.filter_offsets.size - 1)
        at = tables.filter_offsets[filters]
        is_path = tables.filters[at + FILTER_KIND] == PATH
        inner = tables.filters[at[is_path] + FILTER_PATH]
        demand(inner < path[is_path], "filters.data", "a path inside a filter does not come first")
        # The paths within each path, which has the larger number: room for them is made once.
        nested: dict[int, int] = {}
        for outer, within in zip(path[is_path].tolist(), inner.tolist(), strict=True):
            nested[outer] = min(nested.get(outer, 0) + 1 + nested.get(within, 0), 2**31)
        deepest = max((nested.get(one, 0) for one in np.unique(path_of).tolist()), default=0) if nested else 0
        demand(deepest == self.most_nested, "nested", f"it is not {deepest}")

    def check(self) -> None:
        """Assert the invariants."""
        tables = self.tables
        for name in _TABLES:
            data, offsets = self._arrays[f"{name}.data"], self._arrays[f"{name}.offsets"]
            parts = [data[begin:end].tobytes() for begin, end in pairwise(offsets)]
            assert offsets[-1] == len(data), "the sequences fill their array"
            assert len(set(parts)) == len(parts), "sequences are distinct"
        assert list(self.names.values()) == list(range(1, len(self.names) + 1)), "names have dense ids from 1"
        for path in range(len(tables.path_offsets) - 1):
            for used in tables.paths[tables.path_offsets[path] : tables.path_offsets[path + 1]][2::2]:
                encoded = tables.filters[tables.filter_offsets[used] :]
                assert encoded[FILTER_KIND] != PATH or encoded[FILTER_PATH] < path, "a path inside a filter comes first"


class _Builder:
    """Number names and sequences in the order in which they first occur."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {"": 0}
        # Sequences as the bytes of their integers: a key needs less room than a tuple, and joined they are the table.
        self.structures: dict[bytes, int] = {}
        self.filters: dict[bytes, int] = {}
        self.paths: dict[bytes, int] = {}
        self.known: dict[int, int] = {}
        self.most_nested = 0

    def add(self, steps: Steps) -> int:
        """Return the number of a path; the caller keeps it, so that its `id` is its own."""
        path = self.known.get(id(steps))
        if path is None:
            path = self.known[id(steps)] = self.path(steps)
            self.most_nested = max(self.most_nested, _count_nested(steps))
        return path

    def path(self, steps: Sequence[Step]) -> int:
        structure = [
            field
            for step in steps
            for field in (ANY_TAG if step.tag == ANY else self.name(step.tag), 2 * step.distance + step.exact)
        ]
        path = [_intern(self.structures, structure)]
        for place, step in enumerate(steps):
            for condition in step.filters:
                path += (place, self.filter(condition))
        return _intern(self.paths, path)

    def filter(self, condition: Filter) -> int:
        if condition.kind == "path":
            return _intern(self.filters, [PATH, self.path(condition.path)])
        text = condition.value if isinstance(condition.value, str) else ""
        ordered = condition.operator not in ("=", "!=")
        number = condition.value if isinstance(condition.value, float) else to_number(text) if ordered else float("nan")
        by_number = isinstance(condition.value, float) or (ordered and condition.operator != "")
        encoded = text.encode()
        padded = array("i", encoded + bytes(-len(encoded) % 4))
        head = (_KINDS[condition.kind], self.name(condition.name), _OPERATOR_CODES[condition.operator], by_number)
        return _intern(self.filters, [*head, *array("i", array("d", [number]).tobytes()), len(encoded), *padded])

    def name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        names = [name.encode() for name in self.names]
        arrays: dict[str, npt.NDArray[Any]] = {
            "names.data": np.frombuffer(b"".join(names), np.uint8),
            "names.offsets": _ends(map(len, names)),
            "nested": np.array([self.most_nested]),
        }
        for name, table in zip(_TABLES, (self.structures, self.filters, self.paths), strict=True):
            arrays[f"{name}.data"] = np.frombuffer(b"".join(table), np.int32)
            arrays[f"{name}.offsets"] = _ends(len(sequence) // 4 for sequence in table)
        return arrays


def frozen(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return a view that cannot be written, like arrays from a file, so that kernels are compiled for one kind only."""
    view = values.view()
    view.flags.writeable = False
    return view


def frozen_fields(kind: type[Fields], arrays: Mapping[str, npt.NDArray[Any]], prefix: str = "") -> Fields:
    """Return the NamedTuple of arrays whose fields stand under a prefix, frozen."""
    return kind._make(frozen(arrays[prefix + name]) for name in kind._fields)


def _intern(table: dict[bytes, int], sequence: Iterable[int]) -> int:
    return table.setdefault(array("i", sequence).tobytes(), len(table))


def _ends(lengths: Iterable[int]) -> Int32s:
    """Return 0 and the running sums."""
    return np.cumsum([0, *lengths]).astype(np.int32)


def _numbers(filters: Int32s, offsets: Int32s) -> Float64s:
    """Return the number that each filter compares with; NaN for a filter that is a path."""
    numbers = np.full(len(offsets) - 1, np.nan)
    values = np.flatnonzero(filters[offsets[:-1] + FILTER_KIND] != PATH)
    halves = filters[offsets[values][:, None] + np.array([FILTER_NUMBER, FILTER_NUMBER + 1])]
    numbers[values] = halves.view(np.float64)[:, 0]
    return numbers


def _count_nested(steps: Sequence[Step]) -> int:
    return sum(1 + _count_nested(condition.path) for step in steps for condition in step.filters if condition.path)
