"""The index of patterns: which of many LIKE patterns match each text, their literal fragments found in one pass."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin._compile import AddressTable
from tocsin.arrays import Int8s, Int32s, Int64s
from tocsin.forks import cached
from tocsin.invariants import (
    check_fields,
    check_ranges,
    check_slots,
    check_starts,
    check_type,
    check_within,
    demand,
    under,
)
from tocsin.model.predicate import Pattern, Wildcard
from tocsin.model.text import lower
from tocsin.predicates.folding import LOWER
from tocsin.predicates.patterns.kernels import (
    ANYWHERE,
    AT_END,
    AT_START,
    BUCKET_BITS,
    LENGTHS,
    LEVELS,
    MANY,
    ONE,
    WHOLE,
    FiledWindows,
    Programs,
    Scan,
    choose_windows,
    fill_buckets,
    find_patterns,
    find_patterns_in_one,
    lower_ascii,
    merge_lists,
    prepare_scan,
)
from tocsin.predicates.texts import DistinctTexts, TextBytes, TextIndex, as_bytes, repeat_lists
from tocsin.tuning import TUNING

if TYPE_CHECKING:
    from tocsin.predicates.protocol import Arrays

_CASES = ("exact", "lowered")


class FoundPatterns(NamedTuple):
    """The predicates that hold: those of text r are ``predicates[offsets[r]:offsets[r + 1]]``, ascending.

    `verified` says how many patterns were compared with a text.
    """

    offsets: Int64s
    predicates: Int32s
    verified: int


class Patterns(TextIndex):
    """Find, in one pass over a column of texts, the predicates on patterns that hold for each text.

    A predicate holds if one of its patterns matches the whole text. A probe costs a few steps per byte of text, and a
    comparison for each pattern whose fragment (a window of up to 16 bytes) occurs; patterns without any literal are
    compared with every text. Patterns that ignore case are searched in the text in lower case.

    >>> from tocsin.model.text import like_pattern as like
    >>> index = Patterns.build([[like("%error%")], [like("%.EXE", ignore_case=True), like("a_c")]])
    >>> offsets, predicates = index.probe_batch(pa.array(["an error", "cmd.exe", "abc", None]))
    >>> offsets.tolist(), predicates.tolist()
    ([0, 1, 2, 3, 3], [0, 1, 1])
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__(arrays)
        self._index = {
            case: FiledWindows(*(self._arrays[f"{case}_{name}"] for name in FiledWindows._fields)) for case in _CASES
        }
        self._programs = {
            case: Programs(*(self._arrays[f"{case}_{name}"] for name in Programs._fields)) for case in _CASES
        }
        self._owners = {
            case: (self._arrays[f"{case}_owner_offsets"], self._arrays[f"{case}_owners"]) for case in _CASES
        }
        # Work arrays of zeros that a probe takes, or makes, and gives back as they were.
        self._scratch: dict[str, list[tuple[Int8s, Int8s]]] = {case: [] for case in _CASES}

    @cached
    def _scans(self) -> dict[str, Scan]:
        """What a probe reads first, by case. Made at the first probe: who only opens a segment does not need it."""
        return {case: prepare_scan(index, self._owners[case][0]) for case, index in self._index.items()}

    @classmethod
    def build(cls, predicates: Sequence[Iterable[Pattern]]) -> Self:
        """Build for predicates that are lists of patterns; about linear in the length of all patterns."""
        owners: dict[Pattern, list[int]] = {}
        for predicate, patterns in enumerate(predicates):
            for each in patterns:
                owners.setdefault(each, []).append(predicate)
        arrays: Arrays = {"predicate_count": np.array([len(predicates)])}
        for case in _CASES:
            of_case = [each for each in owners if each.ignore_case == (case == "lowered")]
            windows, programs = _fragments(of_case)
            fields = {**windows._asdict(), **programs._asdict()}
            arrays |= {f"{case}_{name}": array for name, array in fields.items()}
            lists = [owners[each] for each in of_case]
            arrays[f"{case}_owner_offsets"] = np.cumsum([0, *map(len, lists)]).astype(np.int64)
            arrays[f"{case}_owners"] = np.array([p for owner in lists for p in owner], np.int32)
        return cls(arrays)

    @property
    def predicate_count(self) -> int:
        """The number of predicates."""
        return int(self._arrays["predicate_count"][0])

    def probe_texts(self, texts: pa.Array) -> tuple[Int64s, Int32s]:
        """Return where the predicates that hold for each text start, and these, ascending; no text is NULL."""
        starts, predicates, _ = self._find(partial(_read, texts), len(texts))
        return starts, predicates

    def probe_text(self, text: str) -> Int32s:
        """Return the predicates that hold for one text, ascending."""
        if len(text) > TUNING.long_text or not self._addresses:
            return self._find(partial(_read_one, text), 1)[1]
        found = [self._find_in_one(case, text) for case in self._addresses]
        if len(found) == 1:
            return found[0]
        one, two = ((np.array([0, predicates.size]), predicates) for predicates in found)
        return merge_lists(one, two)[1]

    def _find_in_one(self, case: str, text: str) -> Int32s:
        """Return the predicates that hold for one short text by patterns of a case, ascending."""
        done, seen = self._work_arrays(case)
        data = _read_one(text, case).data
        predicates: Int32s = find_patterns_in_one(self._addresses[case].rows, data, done, seen)
        self._scratch[case].append((done, seen))
        return predicates

    def _work_arrays(self, case: str) -> tuple[Int8s, Int8s]:
        try:
            return self._scratch[case].pop()
        except IndexError:
            return np.zeros(len(self._index[case].kind), np.int8), np.zeros(self.predicate_count, np.int8)

    @cached
    def _addresses(self) -> dict[str, AddressTable]:
        """The arrays of each case that has patterns, for `find_patterns_in_one`."""
        return {
            case: AddressTable(*index, *self._programs[case], *self._scans[case], *self._owners[case])
            for case, index in self._index.items()
            if len(index.kind)
        }

    def search(self, column: pa.Array | pa.ChunkedArray) -> FoundPatterns:
        """Do what `probe_batch` does, and count the patterns compared."""
        distinct = DistinctTexts.of(column)
        starts, predicates, verified = self._find(partial(_read, distinct.texts), len(distinct.texts))
        return FoundPatterns(*repeat_lists(starts, predicates, distinct.place), verified)

    def _find(self, texts_of: Callable[[str], TextBytes], count: int) -> tuple[Int64s, Int32s, int]:
        """Find the predicates of `count` texts, given as each case reads them, and count the patterns compared."""
        found: tuple[Int64s, Int32s] | None = None
        verified = 0
        for case, index in self._index.items():
            if not len(index.kind):
                continue
            texts = texts_of(case)
            done, seen = self._work_arrays(case)
            starts, predicates, compared = find_patterns(
                texts.offsets,
                texts.data,
                index,
                self._programs[case],
                self._scans[case],
                self._owners[case],
                done,
                seen,
            )
            self._scratch[case].append((done, seen))
            verified += int(compared)
            lists = starts, predicates
            found = lists if found is None else merge_lists(found, lists)
        starts, predicates = found or (np.zeros(count + 1, np.int64), np.empty(0, np.int32))
        return starts, predicates, verified

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays."""
        counted = self._arrays["predicate_count"]
        check_type("predicate_count", counted, np.int64)
        demand(counted.size == 1 and counted[0] >= 0, "predicate_count", "it is not a number")
        for case, index in self._index.items():
            with under(f"{case}_"):
                check_windows(index)
                _check_programs(self._programs[case], index.kind.size)
                starts, owners = self._owners[case]
                check_type("owner_offsets", starts, np.int64)
                check_type("owners", owners, np.int32)
                check_starts("owner_offsets", starts, index.kind.size, owners.size)
                check_within("owners", owners, 0, self.predicate_count)

    def check(self) -> None:
        """Assert what must be true of the arrays."""
        for case, index in self._index.items():
            patterns, programs = len(index.kind), self._programs[case]
            filed = sorted([*index.bucket_patterns.tolist(), *programs.unfiled.tolist()])
            assert filed == list(range(patterns)), "a pattern is in one bucket, or compared always"
            assert np.count_nonzero(index.table) == len(index.bucket_starts) - 1, "each bucket has a slot"
            assert np.all(np.diff(index.bucket_starts) > 0), "no bucket is empty"
            assert len(programs.program_offsets) == patterns + 1, "each pattern has a program"
            assert bool(index.levels.any()) == (len(index.bucket_patterns) > 0), "windows are hashed if any is filed"
            assert np.all(index.window_offset < np.maximum(index.literal_length, 1)), "a window lies in its literal"
            owners = self._arrays[f"{case}_owners"]
            assert owners.max(initial=-1) < self.predicate_count, "patterns belong to predicates"


def check_windows(index: FiledWindows) -> None:
    """Demand what keeps the kernels within the arrays of windows."""
    check_fields(FiledWindows, index)
    patterns, buckets = index.kind.size, index.bucket_starts.size - 1
    for name in ("literal_start", "literal_length", "window_offset"):
        demand(getattr(index, name).size == patterns, name, "not each pattern has one")
    check_within("literal_length", index.literal_length, 0, 2**31)
    ends = index.literal_start + index.literal_length
    check_ranges("literal_start", index.literal_start, ends, index.literal_data.size)
    demand(index.levels.size == LEVELS, "levels", f"it has not {LEVELS} entries")
    demand(index.filter.size == index.table.size, "filter", "it is not as long as the table")
    # What a slot has besides the number of its bucket is compared, and leads nowhere.
    check_slots("table", index.table & BUCKET_BITS, buckets, 0)
    check_starts("bucket_starts", index.bucket_starts, buckets, index.bucket_patterns.size)
    check_within("bucket_patterns", index.bucket_patterns, 0, patterns)
    filed = index.bucket_patterns
    window = np.append(0, LENGTHS)[np.searchsorted(LENGTHS, index.literal_length[filed], side="right")]
    check_ranges("window_offset", index.window_offset[filed], index.window_offset[filed] + window, 2**31)
    inside = index.window_offset[filed] + window <= index.literal_length[filed]
    demand(inside, "window_offset", "a window is not in its literal")


def _check_programs(programs: Programs, patterns: int) -> None:
    check_fields(Programs, programs)
    check_starts("program_offsets", programs.program_offsets, patterns, programs.program.size)
    check_within("unfiled", programs.unfiled, 0, patterns)


def _read_one(text: str, case: str) -> TextBytes:
    """Return one text as patterns of a case read it."""
    data = np.frombuffer((text if case == "exact" else lower(text)).encode(), np.uint8)
    return TextBytes(np.array([0, data.size]), data)


def _read(texts: pa.Array, case: str) -> TextBytes:
    """Read texts as the patterns of a case see them."""
    if case == "exact":
        return as_bytes(texts)
    read = as_bytes(texts, LOWER)
    return read._replace(data=lower_ascii(read.data))


def _fragments(patterns: Sequence[Pattern]) -> tuple[FiledWindows, Programs]:
    """Return the arrays for the patterns of one case, numbered as given."""
    literals: list[list[bytes]] = []
    program_ends, kinds = [0], []
    program: list[int] = []
    for each in patterns:
        encoded = [
            (lower(part) if each.ignore_case else part).encode() if isinstance(part, str) else part
            for part in each.parts
        ]
        for part in encoded:
            program += part if isinstance(part, bytes) else [ONE] * part.least + [MANY] * part.many
        literals.append([part for part in encoded if isinstance(part, bytes) and part])
        program_ends.append(len(program))
        kinds.append(_kind(each.parts))
    windows, chosen = file_windows(literals, kinds)
    unfiled = np.flatnonzero(chosen < 0).astype(np.int32)
    return windows, Programs(np.array(program_ends, np.int64), np.array(program, np.int16), unfiled)


def file_windows(literals: Sequence[Sequence[bytes]], kinds: Sequence[int]) -> tuple[FiledWindows, Int64s]:
    """File patterns under windows of their literals, which are not empty; and say which literal each is filed under.

    The latter counts the literals of a pattern from 0; it is -1 if there are none.
    """
    flat = [literal for each in literals for literal in each]
    data = np.frombuffer(b"".join(flat), np.uint8)
    offsets = np.cumsum([0, *map(len, flat)]).astype(np.int64)
    firsts = np.cumsum([0, *map(len, literals)]).astype(np.int64)
    literal, window, level, hashes = choose_windows(data, offsets, firsts)
    has_literal = np.flatnonzero(literal >= 0)
    buckets, bucket = np.unique(hashes[has_literal], return_inverse=True)
    bits, table = fill_buckets(buckets)
    levels = np.zeros(LEVELS, np.bool_)
    levels[level[has_literal]] = True
    of_pattern = np.where(literal >= 0, literal, len(flat))
    windows = FiledWindows(
        literal_data=data,
        literal_start=np.append(offsets[:-1], 0)[of_pattern],
        literal_length=np.append(np.diff(offsets), 0)[of_pattern].astype(np.int32),
        window_offset=window,
        kind=np.array(kinds, np.int8),
        levels=levels,
        filter=bits,
        table=table,
        bucket_starts=np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=len(buckets)))]).astype(np.int64),
        bucket_patterns=has_literal[np.argsort(bucket, kind="stable")].astype(np.int32),
    )
    return windows, np.where(literal >= 0, literal - firsts[:-1], -1)


def _kind(parts: Sequence[str | Wildcard]) -> int:
    """Tell how the literal of a pattern with one literal and no ``_`` must lie; any other pattern is run whole."""
    anything = Wildcard(0, True)
    match parts:
        case [str()]:
            return AT_START | AT_END
        case [str(), Wildcard() as behind] if behind == anything:
            return AT_START
        case [Wildcard() as ahead, str()] if ahead == anything:
            return AT_END
        case [Wildcard() as ahead, str(), Wildcard() as behind] if ahead == behind == anything:
            return ANYWHERE
    return WHOLE
