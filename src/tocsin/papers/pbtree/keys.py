"""The three key types of a PB+tree: how a constant is checked, packed into a page and compared with a value.

Keys of a page are one Python list, so that one `bisect` serves every type; integers and floats compare exactly with
each other there, which NumPy would not do beyond 2**53. Strings are kept as UTF-8: byte order is code point order.
"""

import math
import struct
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int64s
from tocsin.errors import OptionError

# int, float or bytes: one of them throughout a tree, which no type of Python can say.
Key: TypeAlias = Any
KeyArray: TypeAlias = npt.NDArray[Any]


class KeyType(Protocol):
    """What the pages need to know about the keys they hold."""

    name: str
    number: int

    def constant(self, value: object) -> Key:
        """The key of a predicate's constant; OptionError if this tree cannot hold it."""

    def probe(self, value: object) -> Key:
        """An event's value, to be compared with keys; None where no predicate can hold (NULL, NaN)."""

    def constants(self, values: Any) -> KeyArray:
        """Many constants as one array."""

    def size(self, key: Key) -> int:
        """Bytes of one key in a page."""

    def sizes(self, keys: KeyArray) -> Int64s:
        """Bytes of each key in a page."""

    def column(self, keys: list[Key]) -> int:
        """Bytes of all keys of a page."""

    def pack(self, keys: list[Key]) -> bytes:
        """The key column of a page."""

    def unpack(self, page: bytes, offset: int, count: int) -> tuple[list[Key], int]:
        """The keys of a page's key column, and where the column ends."""


class _Number:
    """A fixed column of 8 bytes a key."""

    name: str
    number: int
    _code: str

    def probe(self, value: object) -> Key:
        if value is None:
            return None
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            raise OptionError(f"{value!r} is not a number", f"Search this tree of {self.name} keys with a number")
        plain = value.item() if isinstance(value, np.generic) else value
        return None if isinstance(plain, float) and math.isnan(plain) else plain

    def size(self, key: Key) -> int:  # noqa: ARG002 - the protocol asks for it
        return 8

    def sizes(self, keys: KeyArray) -> Int64s:
        return np.full(len(keys), 8, np.int64)

    def column(self, keys: list[Key]) -> int:
        return 8 * len(keys)

    def pack(self, keys: list[Key]) -> bytes:
        return struct.pack(f"<{len(keys)}{self._code}", *keys)

    def unpack(self, page: bytes, offset: int, count: int) -> tuple[list[Key], int]:
        return list(struct.unpack_from(f"<{count}{self._code}", page, offset)), offset + 8 * count


class Integer(_Number):
    name, number, _code = "integer", 1, "q"

    def constant(self, value: object) -> Key:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise OptionError(f"{value!r} is not an integer", "Create the tree with key_type='float' for other numbers")
        if not -(2**63) <= value < 2**63:
            raise OptionError(f"{value} does not fit 64 bits", "Create the tree with key_type='float'")
        return int(value)

    def constants(self, values: Any) -> KeyArray:
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iu":
            raise OptionError(f"constants of type {array.dtype} are not integers", "Pass an array of int64")
        if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
            raise OptionError(f"{array.max()} does not fit 64 bits", "Create the tree with key_type='float'")
        return array.astype(np.int64)


class Float(_Number):
    name, number, _code = "float", 2, "d"

    def constant(self, value: object) -> Key:
        plain = self.probe(value)
        if plain is None:
            raise OptionError(f"{value!r} is not a constant to compare with", "Leave out predicates on NULL or NaN")
        try:
            key = float(plain)
        except OverflowError:
            key = math.inf
        if key != plain:
            raise OptionError(f"{plain} is not exactly a float", "Create the tree with key_type='integer'")
        return key + 0.0  # -0.0 and 0.0 are one key

    def constants(self, values: Any) -> KeyArray:
        given = np.asarray(values)
        if given.size and given.dtype.kind not in "iuf":
            raise OptionError(f"constants of type {given.dtype} are not numbers", "Pass an array of float64")
        array = given.astype(np.float64) + 0.0
        if np.isnan(array).any() or (given.dtype.kind in "iu" and (array.astype(given.dtype) != given).any()):
            raise OptionError("a constant is NaN or not exactly a float", "Leave it out, or use key_type='integer'")
        return array


class String:
    """A column of lengths (2 bytes each), then the UTF-8 bytes."""

    name, number = "string", 3

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def constant(self, value: object) -> Key:
        key = self.probe(value)
        if key is None:
            raise OptionError(f"{value!r} is not a constant to compare with", "Leave out predicates on NULL")
        if len(key) > self._limit:
            raise OptionError(
                f"a constant of {len(key)} bytes is longer than the {self._limit} that this page size allows",
                "Create the tree with a larger page_size",
            )
        return key

    def probe(self, value: object) -> Key:
        if value is None:
            return None
        if not isinstance(value, str):
            raise OptionError(f"{value!r} is not a string", "Search this tree of string keys with a string")
        return value.encode("utf-8", "surrogatepass")

    def constants(self, values: Any) -> KeyArray:
        listed = [self.constant(value) for value in values]
        array = np.empty(len(listed), np.object_)
        array[:] = listed
        return array

    def size(self, key: Key) -> int:
        return 2 + len(key)

    def sizes(self, keys: KeyArray) -> Int64s:
        return np.fromiter((2 + len(key) for key in keys), np.int64, len(keys))

    def column(self, keys: list[Key]) -> int:
        return 2 * len(keys) + sum(map(len, keys))

    def pack(self, keys: list[Key]) -> bytes:
        return struct.pack(f"<{len(keys)}H", *map(len, keys)) + b"".join(keys)

    def unpack(self, page: bytes, offset: int, count: int) -> tuple[list[Key], int]:
        keys: list[Key] = []
        position = offset + 2 * count
        for length in struct.unpack_from(f"<{count}H", page, offset):
            keys.append(page[position : position + length])
            position += length
        return keys, position


def key_type_named(name: str, page_size: int) -> KeyType:
    """The key type called `name`."""
    if name == "string":
        return String(page_size // 8 - 16)
    if name == "integer":
        return Integer()
    if name == "float":
        return Float()
    raise OptionError(f"key type {name!r} is unknown", "Choose 'integer', 'float' or 'string'")


KEY_TYPE_NAMES = ("", "integer", "float", "string")
