"""Many LIKE patterns in one pass over a text column: literal fragments by hashed windows, then verification.

Each pattern is filed under one *window* of its literals: 1 to 16 bytes (the longest of LENGTHS that fits), the one that
fewest patterns contain. The hashes of the windows of a text are made of those of shorter ones. A window whose hash is
in the filter leads to a bucket of patterns, and only these are compared with the text.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import bools_at, bytes_at, int8s_at, int16s_at, int32s_at, integers_at, kernel
from tocsin.arrays import Bools, Int8s, Int16s, Int32s, Int64s, UInt8s, UInt32s
from tocsin.predicates.sort_kernel import sort_part

ONE, MANY = 256, 257
"""What a program has instead of a literal byte: ``_`` and ``%``."""
ANYWHERE, AT_START, AT_END, WHOLE = 0, 1, 2, 4
"""Where the literal of a pattern must lie in the text (flags); WHOLE: the program of the pattern is run."""
LENGTHS = np.array([1, 2, 3, 4, 6, 8, 12, 16])
"""The bytes of a window of each level.

With powers of two only, 1,805,079 comparisons were made for 40,000 patterns and 10,000 lines, with these 209,580.
"""
LEVELS, LONGEST = len(LENGTHS), 16
# A window of each level is one of level _HEAD followed by one of level _TAIL.
_HEAD = np.array([0, 0, 1, 1, 3, 3, 5, 5])
_TAIL = np.array([0, 0, 0, 1, 1, 3, 3, 5])
_MULTIPLIERS = np.array([2654435761, 2246822519, 3266489917, 668265263, 374761393, 40503, 69069, 1664525], np.uint32)
_TWO, _THREE, FOUR, _SIX, EIGHT, _SIXTEEN = 1, 2, 3, 4, 5, 7
"""Levels by the bytes of their windows."""
_PAIRS = 32
_HEAD_SLOTS, _MOST_HEADS = 16, 1 << 18
_CHUNK = 1024
"""Windows of a text that are hashed at once, so that their hashes stay in the cache."""
_UPPER_A, _UPPER_Z, _TO_LOWER = ord("A"), ord("Z"), 32
_HASH_BITS = np.uint32((1 << 31) - 1)
_HASH_SHIFT = 32
BUCKET_BITS = (1 << _HASH_SHIFT) - 1


Ragged32 = tuple[Int64s, Int32s]
"""Lists of numbers: where they start, and the numbers."""


class Scan(NamedTuple):
    """What a scan reads instead of `FiledWindows`, made of it; a candidate then costs few cache misses.

    `short` and `long` are the heads of windows: for a hash of 4 and of 8 bytes, a bit for each level that has windows
    that begin so. `postings` has a row for each entry of `bucket_patterns`, with the fields below.
    """

    short: UInt8s
    long: UInt8s
    postings: Int64s


PATTERN, LITERAL, LENGTH, WINDOW, KIND, FIRST_OWNER, LAST_OWNER, FIELDS = range(8)
"""The fields of a posting: its pattern, where its literal starts, the bytes of that, where in it the window starts, its
kind, and where its owners start and end. With the eighth, a posting is a cache line of 64 bytes."""


class FiledWindows(NamedTuple):
    """Where patterns are filed: arrays by pattern, by bucket, by literal byte.

    The literal of pattern p is ``literal_data[literal_start[p]:]`` for `literal_length` bytes, its window begins
    `window_offset` into it, its `kind` says how it is compared. `levels` are those of the windows that occur, `filter`
    has a bit for each hash. A slot of `table` is 0 if it is free, or hash << 32 | bucket + 1; bucket b has
    ``bucket_patterns[bucket_starts[b]:bucket_starts[b + 1]]``.
    """

    literal_data: UInt8s
    literal_start: Int64s
    literal_length: Int32s
    window_offset: Int32s
    kind: Int8s
    levels: Bools
    filter: UInt8s
    table: Int64s
    bucket_starts: Int64s
    bucket_patterns: Int32s


class Programs(NamedTuple):
    """What patterns consist of.

    The program of pattern p is ``program[program_offsets[p]:program_offsets[p + 1]]``: bytes, ONE and MANY. `unfiled`
    patterns have no literal.
    """

    program_offsets: Int64s
    program: Int16s
    unfiled: Int32s


@kernel
def lower_ascii(data: UInt8s) -> UInt8s:
    """Return a copy with the letters A to Z in lower case."""
    lowered = np.empty(len(data), np.uint8)
    for i in range(len(data)):
        c = data[i]
        lowered[i] = c + _TO_LOWER if _UPPER_A <= c <= _UPPER_Z else c
    return lowered


@kernel
def hash_windows(text: UInt8s, start: int, count: int, level: int, hashes: UInt32s) -> None:
    """Write into hashes[level] the hash of each window in text[start:start + count], from those of lower levels."""
    # Rows and slices are taken out of the arrays first: so the compiler makes vectors of the loops (8 times as fast).
    multiplier, own = _MULTIPLIERS[level], hashes[level]
    if level == 0:
        windows = text[start : start + count]
        for i in range(count):
            own[i] = (np.uint32(windows[i]) + np.uint32(1)) * multiplier
        return
    head, tail = hashes[_HEAD[level]], hashes[_TAIL[level]][LENGTHS[_HEAD[level]] :]
    for i in range(count - LENGTHS[level] + 1):
        own[i] = head[i] * multiplier + tail[i]


@kernel
def final_hash(h: np.uint32) -> np.uint32:
    """Return the 31 bits that tell windows apart."""
    return (h ^ (h >> np.uint32(15))) & _HASH_BITS


@kernel
def choose_windows(data: UInt8s, offsets: Int64s, pattern_literals: Int64s) -> tuple[Int64s, Int32s, Int32s, Int64s]:
    """Choose a window for each pattern: one of the longest level that fits in a literal, that fewest literals contain.

    Literal s is data[offsets[s]:offsets[s + 1]]; pattern p has those from pattern_literals[p] on. Returns for each
    pattern the literal, -1 if it has none, where the window begins in it, its level and its hash.
    """
    patterns = len(pattern_literals) - 1
    size = 1 << 16
    while size < len(data):
        size *= 2
    counts = np.zeros(size, np.int32)
    longest = 1
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    hashes = np.empty((LEVELS, longest), np.uint32)
    for s in range(len(offsets) - 1):
        length = offsets[s + 1] - offsets[s]
        for level in range(LEVELS):
            hash_windows(data, offsets[s], length, level, hashes)
            for i in range(length - LENGTHS[level] + 1):
                counts[final_hash(hashes[level, i]) & (size - 1)] += 1
    literal = np.full(patterns, -1, np.int64)
    window = np.zeros(patterns, np.int32)
    levels = np.zeros(patterns, np.int32)
    chosen = np.zeros(patterns, np.int64)
    for p in range(patterns):
        best_level = -1
        for s in range(pattern_literals[p], pattern_literals[p + 1]):
            level = best_level + 1
            while level < LEVELS and LENGTHS[level] <= offsets[s + 1] - offsets[s]:
                best_level = level
                level += 1
        fewest = -1
        for s in range(pattern_literals[p], pattern_literals[p + 1]):
            length = offsets[s + 1] - offsets[s]
            for level in range(best_level + 1):
                hash_windows(data, offsets[s], length, level, hashes)
            for i in range(length - LENGTHS[best_level] + 1 if best_level >= 0 else 0):
                h = np.int64(final_hash(hashes[best_level, i]))
                if fewest < 0 or counts[h & (size - 1)] < fewest:
                    fewest = counts[h & (size - 1)]
                    literal[p], window[p], levels[p], chosen[p] = s, i, best_level, h
    return literal, window, levels, chosen


@kernel
def fill_buckets(hashes: Int64s) -> tuple[UInt8s, Int64s]:
    """Return the filter, a bit for each hash, and the table of the buckets, which are distinct hashes.

    There are at least two slots for each bucket, and 16 bits of the filter.
    """
    size = 64
    while size < 2 * len(hashes):
        size *= 2
    table = np.zeros(size, np.int64)
    bits = np.zeros(size, np.uint8)
    for bucket in range(len(hashes)):
        h = hashes[bucket]
        bits[(h >> 3) & (size - 1)] |= np.uint8(1 << (h & 7))
        place = h & (size - 1)
        while table[place] != 0:
            place = (place + 1) & (size - 1)
        table[place] = (h << _HASH_SHIFT) | (bucket + 1)
    return bits, table


@kernel
def is_continuation(byte: int) -> bool:
    """Tell whether a byte of UTF-8 continues a character."""
    return byte & 0xC0 == 0x80


@kernel
def find_pair(text: UInt8s, i: int, stop: int, first: int, second: int) -> int:
    """Return where in text[i:stop] two bytes stand side by side for the first time; `stop` if they do not."""
    # 32 pairs at a time without a branch. Indices are unsigned: else each would be asked whether it is negative.
    while i + _PAIRS < stop:
        hits = np.uint8(0)
        for j in range(np.uint64(i), np.uint64(i + _PAIRS)):
            hits |= np.uint8(text[j] == first) & np.uint8(text[j + np.uint64(1)] == second)
        if hits:
            break
        i += _PAIRS
    while i + 1 < stop and not (text[i] == first and text[i + 1] == second):
        i += 1
    return i if i + 1 < stop else stop


@kernel
def matches_program(program: Int16s, step: int, end: int, text: UInt8s, i: int, stop: int) -> bool:
    """Tell whether program[step:end] matches text[i:stop].

    When a step fails, the steps behind the last MANY are tried again one character further on; those before it need not
    be, for the first way to match them leaves the most text.
    """
    many = -1
    mark = i
    while i < stop:
        if step < end and program[step] == MANY:
            many = step
            mark = i
            step += 1
        elif step < end and program[step] == ONE:
            i += 1
            while i < stop and is_continuation(text[i]):
                i += 1
            step += 1
        elif step < end and program[step] == text[i]:
            i += 1
            step += 1
        elif many >= 0:
            step = many + 1
            mark += 1
            if step + 1 < end and program[step] < ONE and program[step + 1] < ONE:
                mark = find_pair(text, mark, stop, program[step], program[step + 1])
            elif step < end and program[step] < ONE:
                while mark < stop and text[mark] != program[step]:
                    mark += 1
            else:
                while mark < stop and is_continuation(text[mark]):
                    mark += 1
            i = mark
        else:
            return False
    while step < end and program[step] == MANY:
        step += 1
    return step == end


@kernel
def level_of(length: int) -> int:
    """Return the level of the longest window that fits into a literal of so many bytes; -1 if there is none."""
    level = LEVELS - 1
    while level >= 0 and LENGTHS[level] > length:
        level -= 1
    return level


@kernel
def prepare_scan(index: FiledWindows, owner_starts: Int64s) -> Scan:
    """Return what a scan reads.

    There are at least `_HEAD_SLOTS` heads for each pattern. A level whose windows are shorter than 8 bytes has its bit
    in all heads of 8.
    """
    literal_data, literal_start, literal_length, window_offset, kind = index[:5]
    patterns = index.bucket_patterns
    size = 1 << 12
    while size < _HEAD_SLOTS * len(patterns) and size < _MOST_HEADS:
        size *= 2
    short, long = np.zeros(size, np.uint8), np.full(size, (1 << EIGHT) - 1, np.uint8)
    postings = np.zeros((len(patterns), FIELDS), np.int64)
    hashes = np.empty((LEVELS, LENGTHS[EIGHT]), np.uint32)
    for place in range(len(patterns)):
        p = patterns[place]
        postings[place, PATTERN] = p
        postings[place, LITERAL] = literal_start[p]
        postings[place, LENGTH] = literal_length[p]
        postings[place, WINDOW] = window_offset[p]
        postings[place, KIND] = kind[p]
        postings[place, FIRST_OWNER] = owner_starts[p]
        postings[place, LAST_OWNER] = owner_starts[p + 1]
        level = level_of(literal_length[p])
        if level < FOUR:
            continue
        at = literal_start[p] + window_offset[p]
        for shorter in range(min(level, EIGHT) + 1):
            hash_windows(literal_data, at, min(LENGTHS[level], LENGTHS[EIGHT]), shorter, hashes)
        short[final_hash(hashes[FOUR, 0]) & (size - 1)] |= np.uint8(1 << level)
        if level >= EIGHT:
            long[final_hash(hashes[EIGHT, 0]) & (size - 1)] |= np.uint8(1 << level)
    return Scan(short, long, postings)


@kernel
def hash_at(level: int, hashes: UInt32s, i: int) -> np.uint32:
    """Return the hash of the window of a level that begins at i, from the hashes of up to 4 and of 8 bytes."""
    # Compiled, the product of two 32-bit numbers has 64 bits.
    if level <= FOUR or level == EIGHT:
        return np.uint32(hashes[level, i])
    if level == _SIX:
        return np.uint32(hashes[FOUR, i] * _MULTIPLIERS[_SIX] + hashes[_TWO, i + 4])
    tail = hashes[EIGHT, i + 8] if level == _SIXTEEN else hashes[FOUR, i + 8]
    return np.uint32(hashes[EIGHT, i] * _MULTIPLIERS[level] + tail)


@kernel
def candidates_of(
    hashes: UInt32s,
    count: int,
    levels: Bools,
    filter_bits: UInt8s,
    short: UInt8s,
    long: UInt8s,
    wanted: UInt8s,
    places: Int32s,
) -> int:
    """Write into `places` where windows begin that may be filed, and into `wanted` a bit for each level of them.

    Windows of 4 bytes and more pass if their heads do, shorter ones if `filter_bits` has them.
    """
    wanted[:] = 0
    filter_mask = len(filter_bits) - 1
    for level in range(FOUR):
        if levels[level]:
            for i in range(count):
                h = np.int64(final_hash(hashes[level, i]))
                wanted[i] |= ((filter_bits[(h >> 3) & filter_mask] >> (h & 7)) & 1) << level
    mask = np.uint32(len(short) - 1)
    by_four, by_eight = hashes[FOUR], hashes[EIGHT]
    filled = 0
    for i in range(count):
        bits = wanted[i] | (short[final_hash(by_four[i]) & mask] & long[final_hash(by_eight[i]) & mask])
        wanted[i] = bits
        places[filled] = i
        filled += bits != 0
    return filled


@kernel
def find_patterns(
    offsets: Int64s,
    text: UInt8s,
    index: FiledWindows,
    programs: Programs,
    scan: Scan,
    owned: Ragged32,
    done: Int8s,
    seen: Int8s,
) -> tuple[Int64s, Int32s, int]:
    """Return where the predicates that hold for each text start, these, ascending, and how many patterns were compared.

    All texts are hashed as one, 1,024 bytes at a time; a window that reaches into the next text is left out when it is
    compared. `done` is work space for patterns and `seen` for predicates, all 0, and both are left so.
    """
    # Arrays are taken out of the tuples once: inside a loop, each access would count a reference.
    literal_data, (program_offsets, program, unfiled) = index.literal_data, programs
    owner_starts, owners = owned
    levels, filter_bits, table, bucket_starts = index.levels, index.filter, index.table, index.bucket_starts
    short, long, postings = scan.short, scan.long, scan.postings
    rows = len(offsets) - 1
    found_offsets = np.zeros(rows + 1, np.int64)
    found = np.empty(1024 + 2 * len(seen), np.int32)
    settled = np.empty(len(done), np.int32)
    hashes = np.zeros((LEVELS, _CHUNK + LONGEST), np.uint32)
    wanted = np.empty(_CHUNK, np.uint8)
    places = np.empty(_CHUNK, np.int32)
    mask = len(table) - 1
    row, first, filled, settled_count, verified = 0, 0, 0, 0, 0
    base, end = offsets[0], offsets[rows]
    while row < rows:
        count = min(_CHUNK + LONGEST, end - base)
        few = 0
        if len(postings) > 0 and count > 0:
            for level in range(EIGHT + 1):
                if level != _SIX and (level != _THREE or levels[_THREE]):
                    hash_windows(text, base, count, level, hashes)
            few = candidates_of(hashes, min(_CHUNK, count), levels, filter_bits, short, long, wanted, places)
        # One step more than there are candidates finishes the texts behind the last of them.
        for c in range(few + 1):
            at_end = c == few
            if at_end and base + _CHUNK < end:
                break
            place = 0 if at_end else places[c]
            position = base + place
            while row < rows and (at_end or position >= offsets[row + 1]):
                for p in unfiled:
                    verified += 1
                    steps, last = program_offsets[p], program_offsets[p + 1]
                    if matches_program(program, steps, last, text, offsets[row], offsets[row + 1]):
                        for j in range(owner_starts[p], owner_starts[p + 1]):
                            if seen[owners[j]] == 0:
                                seen[owners[j]] = 1
                                found[filled] = owners[j]
                                filled += 1
                sort_part(found, first, filled)
                for k in range(first, filled):
                    seen[found[k]] = 0
                for k in range(settled_count):
                    done[settled[k]] = 0
                first = filled
                settled_count = 0
                row += 1
                found_offsets[row] = filled
                if filled + len(seen) > len(found):
                    longer = np.empty(2 * (filled + len(seen)), np.int32)
                    for copied in range(filled):
                        longer[copied] = found[copied]
                    found = longer
            if at_end:
                break
            start, stop = offsets[row], offsets[row + 1]
            bits = wanted[place]
            for level in range(LEVELS):
                if (bits >> level) & 1 == 0 or position + LENGTHS[level] > stop:
                    continue
                h = np.int64(final_hash(hash_at(level, hashes, place)))
                if (filter_bits[(h >> 3) & mask] >> (h & 7)) & 1 == 0:
                    continue
                slot = h & mask
                while table[slot] != 0 and table[slot] >> _HASH_SHIFT != h:
                    slot = (slot + 1) & mask
                bucket = (table[slot] & BUCKET_BITS) - 1
                if bucket < 0:
                    continue
                for b in range(bucket_starts[bucket], bucket_starts[bucket + 1]):
                    first_owner, last_owner = postings[b, FIRST_OWNER], postings[b, LAST_OWNER]
                    while first_owner < last_owner and seen[owners[first_owner]]:
                        first_owner += 1
                    if first_owner == last_owner:
                        continue
                    how, p = postings[b, KIND], postings[b, PATTERN]
                    if how == WHOLE and done[p]:
                        continue
                    verified += 1
                    length, literal = postings[b, LENGTH], postings[b, LITERAL]
                    at = position - postings[b, WINDOW]
                    if at < start or at + length > stop:
                        continue
                    if (how & AT_START and at != start) or (how & AT_END and at + length != stop):
                        continue
                    k = 0
                    while k < length and literal_data[literal + k] == text[at + k]:
                        k += 1
                    if k < length:
                        continue
                    if how == WHOLE:
                        done[p] = 1
                        settled[settled_count] = p
                        settled_count += 1
                        steps, last = program_offsets[p], program_offsets[p + 1]
                        if not matches_program(program, steps, last, text, start, stop):
                            continue
                    for j in range(first_owner, last_owner):
                        if seen[owners[j]] == 0:
                            seen[owners[j]] = 1
                            found[filled] = owners[j]
                            filled += 1
        base += _CHUNK
    return found_offsets, found[:filled].copy(), verified


@kernel(keeps_lock=True)
def find_patterns_in_one(table: Int64s, text: UInt8s, done: Int8s, seen: Int8s) -> Int32s:
    """Do what `find_patterns` does for one short text; return the predicates.

    `table` has the addresses of the arrays of FiledWindows, Programs, Scan and owners, in this order.
    """
    windows = FiledWindows(
        bytes_at(table[0, 0], table[0, 1]),
        integers_at(table[1, 0], table[1, 1]),
        int32s_at(table[2, 0], table[2, 1]),
        int32s_at(table[3, 0], table[3, 1]),
        int8s_at(table[4, 0], table[4, 1]),
        bools_at(table[5, 0], table[5, 1]),
        bytes_at(table[6, 0], table[6, 1]),
        integers_at(table[7, 0], table[7, 1]),
        integers_at(table[8, 0], table[8, 1]),
        int32s_at(table[9, 0], table[9, 1]),
    )
    programs = Programs(
        integers_at(table[10, 0], table[10, 1]),
        int16s_at(table[11, 0], table[11, 1]),
        int32s_at(table[12, 0], table[12, 1]),
    )
    scan = Scan(
        bytes_at(table[13, 0], table[13, 1]),
        bytes_at(table[14, 0], table[14, 1]),
        integers_at(table[15, 0], table[15, 1]).reshape(-1, FIELDS),
    )
    owned = integers_at(table[16, 0], table[16, 1]), int32s_at(table[17, 0], table[17, 1])
    _, predicates, _ = find_patterns(np.array([0, text.size]), text, windows, programs, scan, owned, done, seen)
    return predicates


@kernel
def merge_lists(one: Ragged32, two: Ragged32) -> Ragged32:
    """Return the union of two ascending lists, row by row."""
    starts = np.zeros(len(one[0]), np.int64)
    values = np.empty(len(one[1]) + len(two[1]), np.int32)
    (one_starts, one_values), (two_starts, two_values) = one, two
    filled = 0
    for row in range(len(starts) - 1):
        i, j = one_starts[row], two_starts[row]
        while i < one_starts[row + 1] or j < two_starts[row + 1]:
            left = i < one_starts[row + 1] and (j == two_starts[row + 1] or one_values[i] <= two_values[j])
            right = j < two_starts[row + 1] and (i == one_starts[row + 1] or two_values[j] <= one_values[i])
            values[filled] = one_values[i] if left else two_values[j]
            filled += 1
            i += left
            j += right
        starts[row + 1] = filled
    return starts, values[:filled].copy()
