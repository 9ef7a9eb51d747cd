"""Sort a part of an array of numbers, for kernels.

An array's own `sort` takes 0.8 s to compile in each kernel that calls it, this one 0.15 s: the first words and patterns
of a new process waited for it.
"""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s


@kernel
def sort_part(values: Int32s, first: int, last: int) -> None:
    """Sort `values[first:last]` in place.

    By Shell's method, with gaps of 1, 4, 13, 40 and so on: lists of what holds for an event are short, and mostly come
    in runs that are in order.
    """
    gap = 1
    while 3 * gap < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        # Unsigned indexes cannot be negative, which would be asked for each.
        step, behind = np.uint64(gap), np.uint64(first + gap)
        for place in range(behind, np.uint64(last)):
            value = values[place]
            free = np.uint64(place)
            while free >= behind and values[free - step] > value:
                values[free] = values[free - step]
                free -= step
            values[free] = value
        gap //= 3
