"""Tags: which subscriptions have which labels."""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int32s, Int64s, Strings
from tocsin.invariants import check_starts, check_strings, check_type, check_within


@dataclass(frozen=True)
class TagIndex:
    """For each tag, as the text `["name", "value"]`, the subscriptions that have it.

    >>> index = TagIndex.build(['{"tags": {"tenant": "acme"}}', "", '{"tags": {"tenant": "zeta"}}'])
    >>> index.having([("tenant", "acme")], 3).tolist()
    [True, False, False]
    """

    names: Strings
    """Sorted."""
    starts: Int64s
    members: Int32s

    @classmethod
    def build(cls, extras: Sequence[str]) -> "TagIndex":
        """Build from the JSON extras of each subscription."""
        members: dict[str, list[int]] = {}
        for number, text in enumerate(extras):
            if text:
                for name, value in json.loads(text).get("tags", {}).items():
                    members.setdefault(_key(name, value), []).append(number)
        names = sorted(members)
        sizes = [len(members[name]) for name in names]
        return cls(
            Strings.of(names),
            np.cumsum([0, *sizes]).astype(np.int64),
            np.array([number for name in names for number in members[name]], np.int32),
        )

    def having(self, tags: Sequence[tuple[str, str]], count: int) -> Bools:
        """Whether each of `count` subscriptions has all the tags. O(count)."""
        have = np.ones(count, bool)
        for name, value in tags:
            key = _key(name, value)
            place = bisect_left(range(len(self.names)), key, key=self.names.__getitem__)
            one = np.zeros(count, bool)
            if place < len(self.names) and self.names[place] == key:
                one[self.members[self.starts[place] : self.starts[place + 1]]] = True
            have &= one
        return have

    def has(self, name: str) -> bool:
        """Whether some subscription has a tag of this name."""
        start = _start(name)
        first = bisect_left(range(len(self.names)), start, key=self.names.__getitem__)
        return first < len(self.names) and self.names[first].startswith(start)

    def values(self, name: str, count: int) -> tuple[list[str], Int32s]:
        """The values that a tag has, and the place among them of each of `count` subscriptions, -1 without the tag."""
        start = _start(name)
        first = bisect_left(range(len(self.names)), start, key=self.names.__getitem__)
        place, values = np.full(count, -1, np.int32), list[str]()
        while first + len(values) < len(self.names) and self.names[first + len(values)].startswith(start):
            key = first + len(values)
            place[self.members[self.starts[key] : self.starts[key + 1]]] = len(values)
            values.append(json.loads(self.names[key])[1])
        return values, place

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays."""
        names = self.names
        return {"offsets": names.offsets, "bytes": names.data, "starts": self.starts, "members": self.members}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "TagIndex":
        """The index that `arrays` came from, without copying."""
        return cls(Strings(arrays["offsets"], arrays["bytes"]), arrays["starts"], arrays["members"])

    def check_arrays(self, subscriptions: int) -> None:
        """Demand what keeps a look-up within the arrays."""
        check_strings("", self.names, joint="")
        check_type("starts", self.starts, np.int64)
        check_type("members", self.members, np.int32)
        check_starts("starts", self.starts, len(self.names), self.members.size)
        check_within("members", self.members, 0, subscriptions)


def _key(name: str, value: Any) -> str:
    return json.dumps([name, str(value)], ensure_ascii=False)


def _start(name: str) -> str:
    """Return what the texts of all tags of a name begin with."""
    return f"{json.dumps([name], ensure_ascii=False)[:-1]}, "
