"""Several attributes together, as the paper combines them: one index each, and the AND of their bitmaps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Int32s
from tocsin.errors import OptionError
from tocsin.papers.tatbul.endpoints import Endpoints, Interval
from tocsin.papers.tatbul.layers import LayeredIndex

Condition = Interval | Sequence[Interval]
"""What a conjunction asks of one attribute: a value in one interval, or in one of several."""

Build = Callable[[Int32s, Int32s, Int32s], LayeredIndex]
"""What builds the index of one attribute, such as `IntervalIndex.build`."""


@dataclass(frozen=True)
class Attribute:
    """The index of one attribute; its predicates have the numbers of their conjunctions. `free` ask nothing of it."""

    endpoints: Endpoints
    index: LayeredIndex
    free: BitMap


class Conjunctions:
    """Conjunctions of conditions on ordered attributes, matched by one index for each attribute.

    Each attribute narrows the set of conjunctions still alive; then each verifies what is left, which only the Cluster
    Index needs, whose answers say what may hold. Naive evaluates every predicate, Lazy those of conjunctions alive.

    >>> from tocsin.papers.tatbul import IntervalIndex, point
    >>> two = Conjunctions(IntervalIndex.build, [{"x": Interval(10, 25), "y": point(80)}, {"x": Interval(20, 45)}])
    >>> two.match({"x": 20, "y": 80}), two.match({"x": 30})
    (BitMap([0, 1]), BitMap([1]))
    """

    def __init__(self, build: Build, conjunctions: Sequence[Mapping[str, Condition]]) -> None:
        self.everything = BitMap(range(len(conjunctions)))
        self.attributes: dict[str, Attribute] = {}
        for name in dict.fromkeys(name for conjunction in conjunctions for name in conjunction):
            asking = [number for number, conjunction in enumerate(conjunctions) if name in conjunction]
            conditions = [conjunctions[number][name] for number in asking]
            intervals = [(c,) if isinstance(c, Interval) else tuple(c) for c in conditions]
            endpoints = Endpoints.of(interval for several in intervals for interval in several)
            lo, hi, which = endpoints.ranges(intervals)
            built = build(lo, hi, np.array(asking, np.int32)[which])
            self.attributes[name] = Attribute(endpoints, built, self.everything - BitMap(asking))

    def match(self, event: Mapping[str, float]) -> BitMap:
        """Return the conjunctions that hold for `event`; one that asks for a missing attribute does not."""
        alive = self.everything
        codes = {
            name: int(attribute.endpoints.codes([event[name]])[0])
            for name, attribute in self.attributes.items()
            if name in event
        }
        for name, attribute in self.attributes.items():
            asking = alive - attribute.free
            held = attribute.index.narrow(codes[name], asking) if name in codes else BitMap()
            alive = (alive & attribute.free) | held
        for name, code in codes.items():
            free = self.attributes[name].free
            alive = (alive & free) | self.attributes[name].index.verify(code, alive - free)
        return alive

    @property
    def evaluations(self) -> int:
        """The predicate evaluations of all attributes so far."""
        return sum(attribute.index.evaluations for attribute in self.attributes.values())

    def attribute(self, name: str) -> Attribute:
        """Return the attribute called `name`. Raises OptionError if no conjunction asks for it."""
        if name not in self.attributes:
            raise OptionError(f"no conjunction asks for {name!r}", f"There are {', '.join(sorted(self.attributes))}")
        return self.attributes[name]
