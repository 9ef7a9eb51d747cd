"""The elements of a list attribute as events, for conditions on one element."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tocsin.model.events import Event, EventBatch, taken
from tocsin.model.expression_tree import ELEMENT, is_derived, is_of_element
from tocsin.model.lookup import lookup
from tocsin.model.readable import Values

if TYPE_CHECKING:
    from tocsin.arrays import Bools, Int64s


class Elements(EventBatch):
    """The elements of the lists that the events of a batch have, as events with ELEMENT and all that theirs have.

    >>> elements = Elements(EventBatch([{"items": [{"price": 1}, None], "name": "a"}, {}]), "items")
    >>> elements.owner.tolist(), elements.column(f"{ELEMENT}.price"), elements.column("name")
    ([0, 0], [1, None], ['a', 'a'])
    """

    def __init__(self, batch: EventBatch, attribute: str) -> None:
        column = batch.column(attribute)
        self.owner: Int64s = np.empty(0, np.int64)
        """The event of each element, ascending."""
        self.has_list: Bools = np.zeros(len(batch), bool)
        elements: list[Event] | pa.Table = []
        if isinstance(column, list):
            lists = [value if isinstance(value, list) else None for value in column]
            self.has_list = np.array([value is not None for value in lists], bool)
            self.owner = np.repeat(np.arange(len(batch)), [len(value or ()) for value in lists])
            elements = [{ELEMENT: element} for value in lists for element in value or ()]
        elif column is not None and pa.types.is_large_list(column.type):
            self.has_list = np.asarray(column.is_valid())
            self.owner = np.asarray(column.value_parent_indices()).astype(np.int64)
            elements = pa.table({ELEMENT: column.flatten()})
        super().__init__(elements, batch.now)
        self._batch = batch

    @property
    def single(self) -> None:
        """None: an element alone does not have what its event has."""

    def _read_column(self, attribute: str) -> Values | None:
        if is_derived(attribute) or is_of_element(attribute):
            return super()._read_column(attribute)
        return taken(self._batch.column(attribute), self.owner)

    def lacks(self, attribute: str) -> bool:
        """Tell it of the elements or of the events, whatever has the attribute."""
        return super().lacks(attribute) if is_of_element(attribute) else self._batch.lacks(attribute)

    def names(self) -> list[str]:
        """Return ELEMENT and the names that some event has."""
        return [ELEMENT, *self._batch.names()]


class ElementOfEvent(Mapping[str, Any]):
    """One element of a list, as an event with ELEMENT and all that its event has."""

    def __init__(self, element: object, event: Event) -> None:
        self._element, self._event = element, event

    def __getitem__(self, attribute: str) -> Any:
        return self._element if attribute == ELEMENT else self._event[attribute]

    def __contains__(self, attribute: object) -> bool:
        # An event of a batch has every attribute, but knows nothing of the element.
        if not isinstance(attribute, str) or is_derived(attribute):
            return False
        return attribute == ELEMENT or (not is_of_element(attribute) and attribute in self._event)

    def __iter__(self) -> Iterator[str]:
        yield ELEMENT
        yield from self._event

    def __len__(self) -> int:
        return 1 + len(self._event)


def elements_of(event: Event, attribute: str) -> list[ElementOfEvent]:
    """Return the elements of a list attribute of one event; none if it does not have a list."""
    value = lookup(event, attribute)
    return [ElementOfEvent(element, event) for element in value] if isinstance(value, (list, tuple)) else []
