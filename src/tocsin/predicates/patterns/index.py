"""The index of patterns: which of many LIKE patterns match each text, their literal fragments found in one pass."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Int8s, Int32s, Int64s
from tocsin.model.predicate import Pattern, Wildcard
from tocsin.model.text import lower
from tocsin.predicates.patterns.kernels import (
    ANYWHERE,
    AT_END,
    AT_START,
    LEVELS,
    MANY,
    ONE,
    WHOLE,
    Fragments,
    choose_windows,
    fill_buckets,
    find_patterns,
    lower_ascii,
)
from tocsin.predicates.texts import TextBytes, TextIndex, as_bytes

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
            case: Fragments(*(self._arrays[f"{case}_{name}"] for name in Fragments._fields)) for case in _CASES
        }
        # Work arrays of zeros that a probe takes, or makes, and gives back as they were.
        self._scratch: dict[str, list[Int8s]] = {case: [] for case in _CASES}

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
            arrays |= {f"{case}_{name}": array for name, array in _fragments(of_case)._asdict().items()}
            lists = [owners[each] for each in of_case]
            arrays[f"{case}_owner_offsets"] = np.cumsum([0, *map(len, lists)]).astype(np.int64)
            arrays[f"{case}_owners"] = np.array([p for owner in lists for p in owner], np.int32)
        return cls(arrays)

    @property
    def predicate_count(self) -> int:
        """The number of predicates."""
        return int(self._arrays["predicate_count"][0])

    def probe_batch(self, column: pa.Array | pa.ChunkedArray) -> tuple[Int64s, Int32s]:
        """Return where the predicates that hold for each text start, and these, ascending; a NULL has none."""
        found = self.search(column)
        return found.offsets, found.predicates

    def probe_text(self, text: str) -> Int32s:
        """Return the predicates that hold for one text, ascending."""
        predicates: set[int] = set()
        for case in _CASES:
            index = self._index[case]
            if not len(index.kind):
                continue
            if case == "lowered":
                data = np.frombuffer(bytearray((text if text.isascii() else lower(text)).encode().lower()), np.uint8)
            else:
                data = np.frombuffer(text.encode(), np.uint8)
            _, found, _ = self._find(case, TextBytes(np.array([0, data.size]), data))
            starts, owners = self._arrays[f"{case}_owner_offsets"], self._arrays[f"{case}_owners"]
            for pattern in found.tolist():
                predicates.update(owners[starts[pattern] : starts[pattern + 1]].tolist())
        return np.array(sorted(predicates), np.int32)

    def _find(self, case: str, texts: TextBytes) -> tuple[Int64s, Int32s, int]:
        """Return what `find_patterns` does for texts that are lowered if this case is."""
        index = self._index[case]
        try:
            done = self._scratch[case].pop()
        except IndexError:
            done = np.zeros(len(index.kind), np.int8)
        found = find_patterns(texts.offsets, texts.data, index, done)
        self._scratch[case].append(done)
        return found

    def search(self, column: pa.Array | pa.ChunkedArray) -> FoundPatterns:
        """Do what `probe_batch` does, and count the patterns compared."""
        # A pair (text, predicate) is one number, so that the pairs of both cases sort and merge as numbers.
        pairs = np.empty(0, np.int64)
        verified = 0
        for case in _CASES:
            index = self._index[case]
            if not len(index.kind):
                continue
            texts = as_bytes(column, lower if case == "lowered" else None)
            if case == "lowered":
                texts = texts._replace(data=lower_ascii(texts.data))
            offsets, found, compared = self._find(case, texts)
            verified += int(compared)
            rows = np.repeat(np.arange(len(column)), np.diff(offsets))
            pairs = np.concatenate([pairs, self._with_owners(case, rows, found)])
        if len(pairs):
            pairs = np.unique(pairs)
        if column.null_count:
            pairs = pairs[column.is_valid().to_numpy(zero_copy_only=False)[pairs // self.predicate_count]]
        bounds = np.searchsorted(pairs, np.arange(len(column) + 1) * self.predicate_count).astype(np.int64)
        return FoundPatterns(bounds, (pairs % max(self.predicate_count, 1)).astype(np.int32), verified)

    def _with_owners(self, case: str, rows: Int64s, found: Int32s) -> Int64s:
        """Return the pairs (text, predicate) of all predicates that have a pattern that was found."""
        owner_offsets, owners = self._arrays[f"{case}_owner_offsets"], self._arrays[f"{case}_owners"]
        starts, lengths = owner_offsets[found], np.diff(owner_offsets)[found]
        shift = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        predicates = owners[np.arange(len(shift)) + shift]
        pairs: Int64s = np.repeat(rows, lengths) * self.predicate_count + predicates
        return pairs

    def check(self) -> None:
        """Assert what must be true of the arrays."""
        for case, index in self._index.items():
            patterns = len(index.kind)
            filed = sorted([*index.bucket_patterns.tolist(), *index.unfiled.tolist()])
            assert filed == list(range(patterns)), "a pattern is in one bucket, or compared always"
            assert np.count_nonzero(index.table) == len(index.bucket_starts) - 1, "each bucket has a slot"
            assert np.all(np.diff(index.bucket_starts) > 0), "no bucket is empty"
            assert len(index.program_offsets) == patterns + 1, "each pattern has a program"
            assert bool(index.levels.any()) == (len(index.bucket_patterns) > 0), "windows are hashed if any is filed"
            assert np.all(index.window_offset < np.maximum(index.literal_length, 1)), "a window lies in its literal"
            owners = self._arrays[f"{case}_owners"]
            assert owners.max(initial=-1) < self.predicate_count, "patterns belong to predicates"


def _fragments(patterns: Sequence[Pattern]) -> Fragments:
    """Return the arrays for the patterns of one case, numbered as given."""
    literals: list[bytes] = []
    literal_counts, programs, kinds = [0], [], []
    for each in patterns:
        parts = [lower(part) if each.ignore_case and isinstance(part, str) else part for part in each.parts]
        own = [part.encode() for part in parts if isinstance(part, str) and part]
        literals += own
        literal_counts.append(len(own))
        programs.append(np.array([code for part in parts for code in _program(part)], np.int16))
        kinds.append(_kind(parts))
    data = np.frombuffer(b"".join(literals), np.uint8)
    offsets = np.cumsum([0, *map(len, literals)]).astype(np.int64)
    literal, window, level, hashes = choose_windows(data, offsets, np.cumsum(literal_counts).astype(np.int64))
    has_literal = np.flatnonzero(literal >= 0)
    buckets, bucket = np.unique(hashes[has_literal], return_inverse=True)
    bits, table = fill_buckets(buckets)
    levels = np.zeros(LEVELS, np.bool_)
    levels[level[has_literal]] = True
    of_pattern = np.where(literal >= 0, literal, len(literals))
    return Fragments(
        literal_data=data,
        literal_start=np.append(offsets[:-1], 0)[of_pattern],
        literal_length=np.append(np.diff(offsets), 0)[of_pattern].astype(np.int32),
        window_offset=window,
        kind=np.array(kinds, np.int8),
        program_offsets=np.cumsum([0, *map(len, programs)]).astype(np.int64),
        program=np.concatenate([*programs, np.empty(0, np.int16)]),
        unfiled=np.flatnonzero(literal < 0).astype(np.int32),
        levels=levels,
        filter=bits,
        table=table,
        bucket_starts=np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=len(buckets)))]).astype(np.int64),
        bucket_patterns=has_literal[np.argsort(bucket, kind="stable")].astype(np.int32),
    )


def _program(part: str | Wildcard) -> list[int]:
    if isinstance(part, str):
        return list(part.encode())
    return [ONE] * part.least + [MANY] * part.many


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
