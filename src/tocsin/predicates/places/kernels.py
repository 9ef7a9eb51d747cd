"""Find the circles and polygons around points, by cells of a grid of several sizes, and verify them."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.predicates.sort_kernel import sort_part

NO_CIRCLE = -1.0
"""The limit of an area that is a polygon."""
ROW_BITS, LEVEL_BITS = 29, 58
"""A cell is one number: its level, its row and its column."""


class Areas(NamedTuple):
    """Circles and polygons by number, and which of them touch each cell of the grid.

    Area m is around `north[m]`, `east[m]` (radians; `cosine` is that of the latitude) up to the haversine `limit[m]`,
    or a polygon with the edges ``edges[edge_starts[m]:edge_starts[m + 1]]``: latitude and longitude of both ends.
    """

    levels: Int64s
    cells: Int64s
    cell_starts: Int64s
    members: Int32s
    north: Float64s
    east: Float64s
    cosine: Float64s
    limit: Float64s
    edge_starts: Int64s
    edges: Float64s


@kernel
def find_areas(latitude: Float64s, longitude: Float64s, areas: Areas) -> tuple[Int64s, Int32s, int]:
    """Return where the areas around each point start, and these, ascending; and how many were verified.

    A point whose latitude is NaN has none.
    """
    levels, cells, cell_starts, members, centre_north, centre_east, centre_cosine, limit, edge_starts, edges = areas
    starts = np.zeros(len(latitude) + 1, np.int64)
    found = np.empty(max(2 * len(latitude), 64), np.int32)
    filled, verified = 0, 0
    for row in range(len(latitude)):
        first = filled
        degrees_north, degrees_east = latitude[row], longitude[row]
        if degrees_north == degrees_north:
            north, east = np.radians(degrees_north), np.radians(degrees_east)
            cosine = np.cos(north)
            for level in levels:
                size = 180.0 / (1 << level)
                cell = (
                    (level << LEVEL_BITS)
                    | (np.int64((degrees_north + 90.0) / size) << ROW_BITS)
                    | np.int64((degrees_east + 180.0) / size)
                )
                place = np.searchsorted(cells, cell)
                if place == len(cells) or cells[place] != cell:
                    continue
                for k in range(cell_starts[place], cell_starts[place + 1]):
                    area = members[k]
                    verified += 1
                    if limit[area] >= 0:
                        up = np.sin((centre_north[area] - north) / 2)
                        across = np.sin((centre_east[area] - east) / 2)
                        inside = up * up + cosine * centre_cosine[area] * across * across <= limit[area]
                    else:
                        inside = False
                        for turn in range(-1, 2):
                            x = degrees_east + 360.0 * turn
                            odd = False
                            for e in range(edge_starts[area], edge_starts[area + 1]):
                                if (edges[e, 1] > x) != (edges[e, 3] > x):
                                    slope = (edges[e, 2] - edges[e, 0]) * (x - edges[e, 1])
                                    odd ^= degrees_north < slope / (edges[e, 3] - edges[e, 1]) + edges[e, 0]
                            inside |= odd
                    if inside:
                        if filled == len(found):
                            longer = np.empty(2 * filled, np.int32)
                            for i in range(filled):
                                longer[i] = found[i]
                            found = longer
                        found[filled] = area
                        filled += 1
            sort_part(found, first, filled)
        starts[row + 1] = filled
    return starts, found[:filled].copy(), verified
