"""Many LIKE patterns in one pass over a text column: literal fragments by hashed windows, then verification.

Each pattern is filed under one *window* of its literals: 1 to 16 bytes (the longest of LENGTHS that fits), the one that
fewest patterns contain. The hashes of the windows of a text are made of those of shorter ones. A window whose hash is
in the filter leads to a bucket of patterns, and only these are compared with the text.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int8s, Int16s, Int32s, Int64s, UInt8s, UInt32s

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
_CHUNK = 1024
"""Windows of a text that are hashed at once, so that their hashes stay in the cache."""
_UPPER_A, _UPPER_Z, _TO_LOWER = ord("A"), ord("Z"), 32
_HASH_BITS = (1 << 31) - 1
_HASH_SHIFT = 32
_BUCKET_BITS = (1 << _HASH_SHIFT) - 1


class Fragments(NamedTuple):
    """The patterns of one column and one case. Arrays by pattern, by bucket, by literal byte.

    The literal of pattern p is ``literal_data[literal_start[p]:]`` for `literal_length` bytes, its window begins
    `window_offset` into it, its `kind` says where it must lie. Its program is
    ``program[program_offsets[p]:program_offsets[p + 1]]``: bytes, ONE and MANY. `unfiled` patterns have no literal.
    `levels` are those of the windows that occur, `filter` has a bit for each hash. A slot of `table` is 0 if it is
    free, or hash << 32 | bucket + 1; bucket b has ``bucket_patterns[bucket_starts[b]:bucket_starts[b + 1]]``.
    """

    literal_data: UInt8s
    literal_start: Int64s
    literal_length: Int32s
    window_offset: Int32s
    kind: Int8s
    program_offsets: Int64s
    program: Int16s
    unfiled: Int32s
    levels: Bools
    filter: UInt8s
    table: Int64s
    bucket_starts: Int64s
    bucket_patterns: Int32s


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
    multiplier = _MULTIPLIERS[level]
    if level == 0:
        for i in range(count):
            hashes[0, i] = (np.uint32(text[start + i]) + np.uint32(1)) * multiplier
        return
    head, tail, shift = _HEAD[level], _TAIL[level], LENGTHS[_HEAD[level]]
    for i in range(count - LENGTHS[level] + 1):
        hashes[level, i] = hashes[head, i] * multiplier + hashes[tail, i + shift]


@kernel
def final_hash(h: np.int64) -> np.int64:
    """Return the 31 bits that tell windows apart."""
    return (h ^ (h >> 15)) & _HASH_BITS


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
                counts[final_hash(np.int64(hashes[level, i])) & (size - 1)] += 1
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
                h = final_hash(np.int64(hashes[best_level, i]))
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
            if step < end and program[step] < ONE:
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
def find_patterns(offsets: Int64s, text: UInt8s, index: Fragments, done: Int8s) -> tuple[Int64s, Int32s, int]:
    """Return where the patterns that match each text start, the patterns, in any order, and how many were compared.

    `done` is work space for patterns, all 0, and is left so.
    """
    # Arrays are taken out of the tuple once: inside a loop, each access would count a reference.
    literal_data, literal_start, literal_length, window_offset, kind, program_offsets, program = index[:7]
    unfiled, levels, filter_bits, table, bucket_starts, bucket_patterns = index[7:]
    rows = len(offsets) - 1
    found_offsets = np.zeros(rows + 1, np.int64)
    found = np.empty(1024, np.int32)
    settled = np.empty(len(done), np.int32)
    hashes = np.empty((LEVELS, _CHUNK + LONGEST), np.uint32)
    filled = 0
    verified = 0
    mask = len(table) - 1
    for row in range(rows):
        start, stop = offsets[row], offsets[row + 1]
        if filled + len(done) > len(found):
            longer = np.empty(2 * (filled + len(done)), np.int32)
            for k in range(filled):
                longer[k] = found[k]
            found = longer
        for p in unfiled:
            steps, end = program_offsets[p], program_offsets[p + 1]
            verified += 1
            if matches_program(program, steps, end, text, start, stop):
                found[filled] = p
                filled += 1
        settled_count = 0
        for base in range(start, stop, _CHUNK):
            count = min(_CHUNK + LONGEST - 1, stop - base)
            for level in range(LEVELS):
                hash_windows(text, base, count, level, hashes)
                if not levels[level]:
                    continue
                for i in range(min(_CHUNK, count - LENGTHS[level] + 1)):
                    h = final_hash(np.int64(hashes[level, i]))
                    if (filter_bits[(h >> 3) & mask] >> (h & 7)) & 1 == 0:
                        continue
                    place = h & mask
                    while table[place] != 0 and table[place] >> _HASH_SHIFT != h:
                        place = (place + 1) & mask
                    bucket = (table[place] & _BUCKET_BITS) - 1
                    if bucket < 0:
                        continue
                    for j in range(bucket_starts[bucket], bucket_starts[bucket + 1]):
                        p = bucket_patterns[j]
                        if done[p]:
                            continue
                        verified += 1
                        at = base + i - window_offset[p]
                        length, literal = literal_length[p], literal_start[p]
                        if at < start or at + length > stop:
                            continue
                        k = 0
                        while k < length and literal_data[literal + k] == text[at + k]:
                            k += 1
                        how = kind[p]
                        if k < length or (how & AT_START and at != start) or (how & AT_END and at + length != stop):
                            continue
                        done[p] = 1
                        settled[settled_count] = p
                        settled_count += 1
                        steps, end = program_offsets[p], program_offsets[p + 1]
                        if how != WHOLE or matches_program(program, steps, end, text, start, stop):
                            found[filled] = p
                            filled += 1
        for k in range(settled_count):
            done[settled[k]] = 0
        found_offsets[row + 1] = filled
    return found_offsets, found[:filled].copy(), verified
