"""xpath_exists on one attribute."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.engine.families.protocol import Arrays, Probed, Slices
from tocsin.engine.options import Options
from tocsin.model.condition import XPathExists
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.predicates.domain import Strings
from tocsin.predicates.xpath import AutoIndex, parse_xpath


class XPathFamily:
    """xpath_exists on one attribute. The index is built from the expressions when the first event comes."""

    def __init__(self, attribute: str, paths: Strings, namespaces: Mapping[str, str]) -> None:
        self.attributes = {attribute}
        self.count = len(paths)
        self._attribute = attribute
        self._paths = paths
        self._namespaces = namespaces
        self._index: AutoIndex | None = None

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], options: Options) -> "XPathFamily":
        """Keep the expressions of the tests."""
        paths = Strings.of([str(test.path) for test in tests if isinstance(test, XPathExists)])
        return cls(attribute, paths, options.namespaces)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "XPathFamily":
        """The family that `arrays` came from, without copying."""
        paths = Strings(arrays["offsets"], arrays["bytes"])
        return cls(attribute, paths, json.loads(arrays["namespaces"].tobytes()))

    def arrays(self) -> Arrays:
        """The expressions as text."""
        namespaces = np.frombuffer(json.dumps(dict(self._namespaces)).encode(), np.uint8)
        return {"offsets": self._paths.offsets, "bytes": self._paths.data, "namespaces": namespaces}

    def probe(self, batch: EventBatch) -> Probed:
        """Match the documents; one that is malformed is NULL, and reported."""
        if self._index is None:
            index = AutoIndex()
            index.build([parse_xpath(self._paths[place], self._namespaces) for place in range(self.count)])
            self._index = index
        documents = _documents(batch, self._attribute)
        found = self._index.match_batch(documents)
        present = np.array([-1 if document is None else 0 for document in documents], np.int32)
        present[list(found.errors)] = -1
        return Probed(
            Slices(found.offsets, found.ids),
            present,
            errors=dict(Counter(f"{self._attribute}: {error.message}" for error in found.errors.values())),
        )


def _documents(batch: EventBatch, attribute: str) -> list[str | bytes | None]:
    column = batch.column(attribute)
    if column is None:
        return [None] * len(batch)
    values = column if isinstance(column, list) else _readable(column).to_pylist()
    return [value if isinstance(value, (str, bytes)) else None for value in values]


def _readable(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
