"""Sort a part of an array of numbers, for kernels.

An array's own `sort` takes 0.8 s to compile in each kernel that calls it, this one 0.15 s: the first words and patterns
of a new process waited for it.
"""

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
        for place in range(first + gap, last):
            value = values[place]
            free = place
            while free >= first + gap and values[free - gap] > value:
                values[free] = values[free - gap]
                free -= gap
            values[free] = value
        gap //= 3
