"""A pool of copies of one array: the items change, and each reader keeps the array as it was when it came."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import numpy.typing as npt

Item = TypeVar("Item", bool, float)
Array = npt.NDArray[Any]

SPARE = 1024
"""How many repeated changes of the same items the log may hold before it is rewritten."""


class ArrayPool(Generic[Item]):
    """Copies of one array, lent to readers and given back when they are gone.

    A copy that comes back lacks only the changes that were made meanwhile. So a reader costs the changes since the last
    one, and a whole copy only when all others are in use.

    >>> import numpy as np
    >>> scores = ArrayPool(lambda: np.ones(3), {})
    >>> scores.change(1, 2.5)
    >>> first, give_back = scores.lend()
    >>> scores.change(0, 4.0)
    >>> second, _ = scores.lend()
    >>> first.tolist(), second.tolist()
    ([1.0, 2.5, 1.0], [4.0, 2.5, 1.0])
    >>> give_back()
    >>> scores.lend()[0] is first, first.tolist()
    (True, [4.0, 2.5, 1.0])
    """

    def __init__(self, original: Callable[[], Array], items: Mapping[int, Item]) -> None:
        self._original = original
        """Returns a copy of the array as it was before all changes."""
        self.items: dict[int, Item] = dict(items)
        """The items that were changed."""
        self._log = list(items)
        """The places of changed items, in the order of the changes."""
        self._spare: list[tuple[Array, int]] = []
        """Copies that no reader has, each with the length of the log that it includes."""

    def change(self, place: int, item: Item) -> None:
        """Change an item for readers that come from now on. O(1)."""
        self.items[place] = item
        self._log.append(place)

    def lend(self) -> tuple[Array, Callable[[], None]]:
        """Return a copy with all changes, and the function to call when its reader is gone."""
        if len(self._log) > 2 * len(self.items) + SPARE:
            # Copies that are still lent refer to the old log; they return to the old list and are freed with it.
            self._log, self._spare = list(self.items), []
        array, included = self._spare.pop() if self._spare else (self._original(), 0)
        missed = self._log[included:]
        if missed:
            array[missed] = [self.items[place] for place in missed]
        return array, partial(self._spare.append, (array, len(self._log)))
