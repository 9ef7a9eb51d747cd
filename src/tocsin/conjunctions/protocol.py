"""PHASE 2: which conjunctions hold. What a segment asks of an index of conjunctions.

A way to match is a folder with a class behind this protocol. What some ways can do and others cannot is a method that
answers None, so that nobody asks for the type of an index.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Ragged
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.predicates.ranges.quantize import ShortCodes

if TYPE_CHECKING:
    from tocsin.conjunctions.pairs.match import PairIndex


CodesOf = Callable[[Int32s], Int32s]
"""The codes of some events of a batch, by their numbers."""
Pairs = tuple[Int32s, int]
"""The (event, conjunction) rows that match, in no order, and the number of candidates that were verified."""


@dataclass(frozen=True)
class Filing:
    """What an index of conjunctions is built from."""

    conjunctions: Conjunctions
    """Distinct ones; those from `split` on have tests only, each TRUE or not TRUE, and one of them selective."""
    split: int
    popularity: list[Float64s]
    """For each column, the estimated share of events at or below each code, from -1 on."""
    test: Int32s
    """The test to file each conjunction under, or -1."""
    frequency: Float64s
    """How often each test is TRUE, on any scale."""
    short: Mapping[int, ShortCodes]
    """The columns whose short codes come with the events."""
    on_history: Bools
    """By test: whether it is judged against the history. Only access pairs can do without its truth."""
    algorithms: tuple[str, str] = ("auto", "auto")
    """The names of the phase 1 index and of the phase 2 matcher, as the user chose them."""


@dataclass(frozen=True)
class Step:
    """One choice of a plan, and its reason."""

    what: str
    choice: str
    reason: str


@dataclass(frozen=True)
class Extent:
    """What the numbers in an index of conjunctions lie within."""

    columns: int
    """Rows of codes: those of columns, of families of tests, and ANYTHING."""
    conjunctions: int


class ConjunctionIndex(Protocol):
    """Conjunctions, filed so that few are looked at to find those that an event satisfies. Immutable."""

    @classmethod
    def build(cls, filing: Filing) -> Self:
        """File conjunctions."""

    def match(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> Pairs:
        """Find the conjunctions of each event of a batch.

        If `needs_codes` is not the case, the events may come with short codes only; then `codes_of` gives the codes of
        a few events. `by_pairs` has what `pairs` found, if that was done for several segments together.
        """

    def match_lists(
        self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None
    ) -> tuple[Ragged, Pairs] | None:
        """Do the same as `match`; of a way that finds many conjunctions of one event in a row, as lists in no order.

        The candidates are those of both. None if there is no such way, so that `match` has to be asked.
        """

    @property
    def expects_many(self) -> bool:
        """Whether one event is expected to match so many conjunctions that lists of them are worth what they cost."""

    @property
    def needs_codes(self) -> bool:
        """Whether the codes of all events are needed, not only short ones."""

    @property
    def pairs(self) -> "PairIndex | None":
        """The part that shares the layout of a batch with other segments; None if there is no such part."""

    @property
    def found_as_one(self) -> Ragged | None:
        """Blocks of conjunctions: `match` may give the number of a block, behind all conjunctions, for all of it.

        None if there are none.
        """

    stays_on_disk: ClassVar[bool]
    """Whether an index from a file is meant to exceed memory: pages that a batch has read are given back behind it."""

    @property
    def rekeyed(self) -> int:
        """How often conjunctions were filed under new keys, since other tests had become rare."""

    @property
    def evaluations(self) -> int:
        """Predicate evaluations so far, of all threads; 0 where predicates are not evaluated one by one."""

    def derived_bytes(self) -> dict[str, int]:
        """Bytes, by part, of what is not in `arrays` because it is built from them."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], algorithms: tuple[str, str]) -> Self:
        """The index that `arrays` came from, without copying."""

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels within their arrays: once, of an index from a file. See `tocsin.invariants`."""

    def check(self) -> None:
        """Assert what an answer relies on, in a time that tests and `tocsin index verify` have."""

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how conjunctions are filed, and why; `what` of a step goes on from the name of the segment."""
