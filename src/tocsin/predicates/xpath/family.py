"""xpath_exists on one attribute, as a segment uses it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Ragged
from tocsin.model.condition import XPathExists
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.readable import decoded
from tocsin.model.values import Kind
from tocsin.predicates.protocol import Arrays, Probed
from tocsin.predicates.xpath import StructureIndex, parse_xpath
from tocsin.registry import xpath_index

AUTO: Final = "auto"
"""The name of the product's own index."""


class XPathFamily:
    """xpath_exists on one attribute. The index is built, or opened, when it is first needed."""

    texts = None

    def __init__(self, attribute: str, count: int, name: str, index: Callable[[], StructureIndex]) -> None:
        self.attributes = {attribute}
        self.kinds = [(attribute, Kind.STRING)]
        self.count = count
        self._attribute = attribute
        self._name = name
        self._index = cache(index)

    @classmethod
    def build(
        cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str], name: str = AUTO
    ) -> "XPathFamily":
        """Keep the expressions of the tests for the index of that name."""
        paths = [str(test.path) for test in tests if isinstance(test, XPathExists)]

        def index() -> StructureIndex:
            built = xpath_index(name)
            built.build([parse_xpath(path, namespaces) for path in paths])
            return built

        return cls(attribute, len(paths), name, index)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "XPathFamily":
        """Return the family that `arrays` came from, without copying them."""
        counted = arrays.get("alternatives.count")
        count = len(arrays["path_of"]) if counted is None else int(counted[0])
        name = arrays["name"].tobytes().decode() if "name" in arrays else AUTO

        def index() -> StructureIndex:
            opened = xpath_index(name)
            opened.restore(arrays)
            return opened

        return cls(attribute, count, name, index)

    def arrays(self) -> Arrays:
        """Return the state of the index, and its name unless it is the product's own."""
        named = {} if self._name == AUTO else {"name": np.frombuffer(self._name.encode(), np.uint8)}
        return {**self._index().arrays(), **named}

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays."""
        self._index().check_arrays()

    def probe(self, batch: EventBatch) -> Probed:
        """Match the documents; one that cannot be read is NULL, and reported."""
        documents = _documents(batch, self._attribute)
        found = self._index().match_batch(documents)
        present = np.array([-1 if document is None else 0 for document in documents], np.int32)
        present[list(found.errors)] = -1
        return Probed(
            Ragged(found.offsets, found.ids),
            present,
            errors=dict(Counter(f"{self._attribute}: {error.message}" for error in found.errors.values())),
        )


def _documents(batch: EventBatch, attribute: str) -> list[str | bytes | None]:
    column = batch.column(attribute)
    if column is None:
        return [None] * len(batch)
    if isinstance(column, list):
        return [value if isinstance(value, (str, bytes)) else None for value in column]
    texts = decoded(column)
    types, kind = pa.types, texts.type
    if (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    ):
        documents: list[str | bytes | None] = texts.to_pylist()
        return documents
    return [None] * len(batch)
