"""An array whose items change, for readers that each keep it as it was when they came."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import numpy.typing as npt

Item = TypeVar("Item", bool, float)
Array = npt.NDArray[Any]

SPARE = 1024
"""How many changes of the same items are kept in order before the log is written anew."""


class Versions(Generic[Item]):
    """Copies of one array, lent to readers and given back when they are gone.

    A copy that comes back lacks only the changes that were made meanwhile. So a reader costs the changes since the last
    one, and a whole copy only when all others are in use.

    >>> import numpy as np
    >>> scores = Versions(lambda: np.ones(3), {})
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
        """Makes a copy of the array as it was before all changes."""
        self.items: dict[int, Item] = dict(items)
        """The items that were changed."""
        self._log = list(items)
        """The places of changed items, in the order of the changes."""
        self._spare: list[tuple[Array, int]] = []
        """Copies that no reader has, each with how much of the log it follows."""

    def change(self, place: int, item: Item) -> None:
        """Change an item for readers that come from now on. O(1)."""
        self.items[place] = item
        self._log.append(place)

    def lend(self) -> tuple[Array, Callable[[], None]]:
        """A copy with all changes, and what to call when its reader is gone."""
        if len(self._log) > 2 * len(self.items) + SPARE:
            # Copies that are given back later go to the old list, and with it.
            self._log, self._spare = list(self.items), []
        array, follows = self._spare.pop() if self._spare else (self._original(), 0)
        missed = self._log[follows:]
        if missed:
            array[missed] = [self.items[place] for place in missed]
        return array, partial(self._spare.append, (array, len(self._log)))
