"""A decorator for small immutable classes of which a text makes one for each predicate."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def record(cls: type[_T]) -> type[_T]:
    """Make a dataclass with slots and a hash that nobody may change; the type checker sees to it.

    A frozen dataclass sees to it at run time as well, and takes four times as long to make: 0.51 µs for four fields
    instead of 0.14. A class that inherits equality keeps it.
    """
    compares = cls.__eq__ is object.__eq__
    return dataclass(slots=True, eq=compares, unsafe_hash=compares)(cls)
