"""The index of areas: which of many circles and polygons lie around each point.

An area is filed in the cells that its box touches, on the level of the grid whose cells are just larger than the box:
so these are at most four. A point looks into one cell of each level that occurs. A cell of level L is 180 / 2**L
degrees wide and high. A circle around a pole has a box of all longitudes, and a box across the date line goes on at the
other side.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.invariants import check_ascending, check_fields, check_starts, check_within, demand
from tocsin.model.condition import WithinDistance, WithinPolygon
from tocsin.model.places import EARTH_RADIUS, haversine_of, rings
from tocsin.predicates.places.kernels import LEVEL_BITS, NO_CIRCLE, ROW_BITS, Areas, find_areas

DEEPEST = 24
"""The finest level: cells of one metre."""
_MARGIN = 1e-9
"""Degrees that a box is larger than its circle, for the rounding of the sines: a tenth of a millimetre."""
Area = WithinDistance | WithinPolygon


class Places:
    """Find the areas around points. A probe costs a search for each level, and a test for each area in its cells.

    >>> paris = WithinDistance("p", 48.85, 2.35, 10_000.0)
    >>> index = Places.build([paris, WithinPolygon("p", "POLYGON ((2 48, 3 48, 3 49, 2 49, 2 48))")])
    >>> starts, found = index.probe(np.array([48.86, 48.1, 0.0]), np.array([2.36, 2.1, 0.0]))
    >>> starts.tolist(), found.tolist()
    ([0, 2, 3, 3], [0, 1, 1])
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._areas = Areas(*(arrays[name] for name in Areas._fields))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the whole state as named arrays, which the constructor takes."""
        return self._areas._asdict()

    @property
    def count(self) -> int:
        """The number of areas."""
        return len(self._areas.limit)

    @classmethod
    def build(cls, areas: Sequence[Area]) -> Self:
        """Build for areas, numbered in this order; about linear in their number and their edges."""
        size = len(areas)
        north, east, reach, limit = (np.zeros(size) for _ in range(4))
        limit[:] = NO_CIRCLE
        edges: list[tuple[float, float, float, float]] = []
        edge_starts = np.zeros(size + 1, np.int64)
        boxes = np.empty((size, 4))
        for number, area in enumerate(areas):
            if isinstance(area, WithinDistance):
                north[number], east[number] = float(area.latitude), float(area.longitude)  # type: ignore[arg-type]  # bound
                reach[number] = min(float(area.metres) / EARTH_RADIUS, np.pi)  # type: ignore[arg-type]
                limit[number] = haversine_of(float(area.metres))  # type: ignore[arg-type]
            else:
                polygon = rings(str(area.polygon))
                corners = np.array([corner for ring in polygon for corner in ring])
                boxes[number] = *corners.min(axis=0), *corners.max(axis=0)
                edges += [(*a, *b) for ring in polygon for a, b in itertools.pairwise(ring)]
            edge_starts[number + 1] = len(edges)
        circles = limit >= 0
        boxes[circles] = _boxes(north[circles], east[circles], reach[circles])
        levels, cells, cell_starts, members = _filed(boxes)
        radians = np.radians(north), np.radians(east)
        edge_rows = np.array(edges, np.float64).reshape(-1, 4)
        found = Areas(levels, cells, cell_starts, members, *radians, np.cos(radians[0]), limit, edge_starts, edge_rows)
        return cls(found._asdict())

    def probe(self, latitude: Float64s, longitude: Float64s) -> tuple[Int64s, Int32s]:
        """Return where the areas around each point start, and these, ascending; none for a latitude that is NaN."""
        return self.search(latitude, longitude)[:2]

    def search(self, latitude: Float64s, longitude: Float64s) -> tuple[Int64s, Int32s, int]:
        """Do what `probe` does, and count the areas that were verified."""
        return find_areas(latitude, longitude, self._areas)

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays."""
        areas = self._areas
        check_fields(Areas, areas, {"edges": 4})
        check_within("levels", areas.levels, 0, DEEPEST + 1)
        check_ascending("levels", areas.levels)
        check_ascending("cells", areas.cells)
        check_starts("cell_starts", areas.cell_starts, areas.cells.size, areas.members.size)
        check_within("members", areas.members, 0, self.count)
        for name in ("north", "east", "cosine"):
            demand(getattr(areas, name).size == self.count, name, "not each area has one")
        check_starts("edge_starts", areas.edge_starts, self.count, len(areas.edges))

    def check(self) -> None:
        """Assert what must be true of the arrays."""
        areas = self._areas
        assert np.all(np.diff(areas.cells) > 0), "cells are found by a binary search"
        assert set(areas.members.tolist()) == set(range(self.count)), "each area is in some cell"
        assert np.bincount(areas.members, minlength=1).max(initial=0) <= 4, "a box touches at most four cells"
        assert set((areas.cells >> LEVEL_BITS).tolist()) == set(areas.levels.tolist()), "levels are those of the cells"


def _boxes(north: Float64s, east: Float64s, reach: Float64s) -> Float64s:
    """Return the boxes of circles, in degrees: south, west, north, east; `reach` are angles in radians."""
    latitude = np.radians(north)
    pole = np.abs(latitude) + reach >= np.pi / 2 - 1e-12
    width = np.full(len(north), np.pi)
    width[~pole] = np.arcsin(np.minimum(np.sin(reach[~pole]) / np.cos(latitude[~pole]), 1.0))
    wide, high = np.degrees(width) + _MARGIN, np.degrees(reach) + _MARGIN
    low, top = np.maximum(north - high, -90.0), np.minimum(north + high, 90.0)
    return np.stack([low, east - wide, top, east + wide], axis=1)


def _filed(boxes: Float64s) -> tuple[Int64s, Int64s, Int64s, Int32s]:
    """Return the levels that occur, the cells, where the areas of each cell start, and these."""
    south, west, north, east = boxes.T
    extent = np.maximum(np.maximum(north - south, east - west), 1e-12)
    level = np.clip(np.floor(np.log2(180.0 / extent)), 0, DEEPEST).astype(np.int64)
    size = 180.0 / (1 << level)
    columns = np.int64(2) << level
    rows = [((edge + 90.0) / size).astype(np.int64) for edge in (south, north)]
    # A box as wide as the Earth touches both cells of level 0.
    lanes = [np.floor((edge + 180.0) / size).astype(np.int64) % columns for edge in (west, east)]
    everywhere = (east - west) > size
    lanes = [np.where(everywhere, lane, given) for lane, given in zip((0, 1), lanes, strict=True)]
    keys = [(level << LEVEL_BITS) | (row << ROW_BITS) | lane for row in rows for lane in lanes]
    pairs = np.unique(np.stack([np.concatenate(keys), np.tile(np.arange(len(boxes)), 4)], axis=1), axis=0)
    cells, first = np.unique(pairs[:, 0], return_index=True)
    starts = np.append(first, len(pairs)).astype(np.int64)
    return np.unique(level), cells, starts, pairs[:, 1].astype(np.int32)
