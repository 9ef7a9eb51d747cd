"""within_distance and within_polygon on the points of one pair of attributes, as a segment uses them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Float64s, Ragged
from tocsin.invariants import demand
from tocsin.model.condition import WithinDistance, WithinPolygon
from tocsin.model.events import EventBatch
from tocsin.model.expression_tree import AttributeValue, Call, expression_of
from tocsin.model.predicate import Test
from tocsin.model.values import Kind
from tocsin.predicates.places.index import Places
from tocsin.predicates.protocol import Arrays, Probed


class PlaceFamily:
    """The areas around one derived attribute: a point."""

    texts = None
    kinds: Collection[tuple[str, Kind]] = ()

    def __init__(self, attribute: str, index: Places) -> None:
        self.attributes = {attribute}
        self.count = index.count
        self._attribute, self._index = attribute, index

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:  # noqa: ARG003  # for XPath
        """Build from tests on areas."""
        return cls(attribute, Places.build([t for t in tests if isinstance(t, (WithinDistance, WithinPolygon))]))

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the family that `arrays` came from, without copying them."""
        return cls(attribute, Places(arrays))

    def arrays(self) -> Arrays:
        """Return the state as named arrays."""
        return self._index.arrays()

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays, and an attribute that is a point."""
        demand(isinstance(expression_of(self._attribute), Call), "attribute", "it is not a point")
        self._index.check_arrays()

    def probe(self, batch: EventBatch) -> Probed:
        """Judge all areas for every event; one without a point has none, and all its tests are NULL."""
        latitude, longitude = _points(self._attribute, batch)
        present = np.where(np.isnan(latitude), -1, 0).astype(np.int32)
        return Probed(Ragged(*self._index.probe(latitude, longitude)), present)


def _points(attribute: str, batch: EventBatch) -> tuple[Float64s, Float64s]:
    """Return the points of a batch; NaN where there is none. Floats are read as they are, others by definition."""
    point = expression_of(attribute)
    assert isinstance(point, Call), "a point is derived"
    names = [operand.name for operand in point.operands if isinstance(operand, AttributeValue)]
    columns = [batch.column(name) for name in names]
    if len(columns) == 2 and all(isinstance(c, pa.Array) and pa.types.is_floating(c.type) for c in columns):
        latitude, longitude = (
            np.asarray(column.cast(pa.float64()).fill_null(float("nan")))  # type: ignore[union-attr]  # of Arrow
            for column in columns
        )
        if (np.abs(latitude) <= 90).all() and (longitude >= -180).all() and (longitude < 180).all():
            return latitude, longitude
    found = np.full((len(batch), 2), np.nan)
    for row, value in enumerate(batch.values(attribute) or ()):
        if value is not None:
            found[row] = value
    return found[:, 0].copy(), found[:, 1].copy()
