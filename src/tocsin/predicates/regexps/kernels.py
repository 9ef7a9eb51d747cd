"""Many regular expressions in one pass over a text column: a literal of each strand by hashed windows, then the rest.

A strand is filed under a window of one of its literals, as a LIKE pattern is. Where the literal stands in a text, the
*items* behind it are run forward from there, and those ahead of it backward. Mostly the first byte says no.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s
from tocsin.model.regexp_strands import Assertion
from tocsin.predicates.patterns.kernels import (
    BUCKET_BITS,
    EIGHT,
    FIRST_OWNER,
    KIND,
    LAST_OWNER,
    LENGTH,
    LENGTHS,
    LEVELS,
    LITERAL,
    LONGEST,
    PATTERN,
    WINDOW,
    FiledWindows,
    Scan,
    candidates_of,
    final_hash,
    find_pair,
    hash_at,
    hash_windows,
    is_continuation,
)
from tocsin.predicates.sort_kernel import sort_part

CHARACTER, ONE_OF, STAR, OPTIONAL, ASSERTION = 0, 1, 2, 3, 4
"""What an item is: a character; one of a class; any number of such; one or none; an assertion."""
ITEM_BITS = 3
"""The bits of an item that say what it is; the others are its code point, its class or its assertion."""
ITEM_MASK = (1 << ITEM_BITS) - 1
WIDE, EDGE, COLUMNS = 128, 129, 130
"""The columns of a class for characters beyond ASCII, and for the end of the text; and how many columns there are."""
NEIGHBOURS = LAST_OWNER
"""The field of a posting with the classes of what may stand behind its literal and, shifted, ahead of it."""
NEIGHBOUR_BITS = 31
MOST_ITEMS = 62
"""How many items of a side are run: the places between them are the bits of an integer."""
FOLDED, EXACT, BACKWARD_FIRST = 1, 2, 4
"""Kinds of strands (flags): the case of the literal does not matter; what matches the items matches the expression; the
items ahead of the literal read few characters, those behind it may read many."""
POSSIBLE, CERTAIN = 1, 2
"""What was found of an expression: RE2 must judge it; it matches."""
_LITTLE_READ, _READ_SHIFT, _JUMP_SHIFT = 4096, 1, 4
"""A strand may read so many characters and half a text, then RE2 takes over, which reads one in a quarter of the time.
To jump over characters costs a sixteenth."""
_CHUNK = 1024
_SIX, _THREE = 4, 2
_UPPER_A, _UPPER_Z, _TO_LOWER = ord("A"), ord("Z"), 32
_ZERO, _NINE, _LOWER_A, _LOWER_Z, _UNDERSCORE = ord("0"), ord("9"), ord("a"), ord("z"), ord("_")
_NEW_LINE, _SPACE = ord("\n"), ord(" ")
_BEGIN, _END = int(Assertion.BEGIN), int(Assertion.END)
_WORD_EDGE, _NO_WORD_EDGE = int(Assertion.WORD_EDGE), int(Assertion.NO_WORD_EDGE)
_LINE_BEGIN = int(Assertion.LINE_BEGIN)


class StrandItems(NamedTuple):
    """What strands consist of but for the literals that they are filed under.

    Strand s runs ``items[starts[2 * s]:starts[2 * s + 1]]`` forward, and the items from there to ``starts[2 * s + 2]``
    backward. Class c has ``classes[c, character]``, 1 for those of ASCII that belong to it, and ``classes[c, WIDE]``.
    ``neighbours[s]`` has the classes of what may stand behind and ahead of the literal: most strands end there.
    """

    starts: Int64s
    items: Int32s
    classes: UInt8s
    neighbours: Int64s


@kernel
def lower_byte(byte: int) -> int:
    """Return a byte, in lower case if it is a letter of ASCII."""
    return byte + _TO_LOWER if _UPPER_A <= byte <= _UPPER_Z else byte


@kernel
def is_word_byte(byte: int) -> bool:
    """Tell whether a byte is a letter, a digit or an underscore of ASCII."""
    lowered = lower_byte(byte)
    return _LOWER_A <= lowered <= _LOWER_Z or _ZERO <= byte <= _NINE or byte == _UNDERSCORE


@kernel
def holds_at(assertion: int, text: UInt8s, at: int, start: int, stop: int) -> bool:
    """Tell whether an assertion holds ahead of the byte at `at` of text[start:stop]."""
    if assertion == _BEGIN:
        return at == start
    if assertion == _END:
        return at == stop
    if assertion in (_WORD_EDGE, _NO_WORD_EDGE):
        before = at > start and is_word_byte(text[at - 1])
        behind = at < stop and is_word_byte(text[at])
        return before != behind if assertion == _WORD_EDGE else before == behind
    if assertion == _LINE_BEGIN:
        return at == start or text[at - 1] == _NEW_LINE
    return at == stop or text[at] == _NEW_LINE


@kernel
def code_point(text: UInt8s, at: int, end: int) -> int:
    """Return the character text[at:end], given in UTF-8."""
    code = int(text[at])
    if end - at == 1:
        return code
    code &= (1 << (7 - (end - at))) - 1
    for i in range(at + 1, end):
        code = code << 6 | int(text[i]) & 63
    return code


@kernel
def next_pair(items: Int32s, first: int, last: int) -> tuple[int, int]:
    """Return the two characters of ASCII that items[first:last] begin with; -1 if they do not begin so."""
    if last - first < 2:
        return -1, -1
    one, two = int(items[first]), int(items[first + 1])
    both = (one | two) & ITEM_MASK
    one, two = one >> ITEM_BITS, two >> ITEM_BITS
    return (one, two) if both == CHARACTER and one < WIDE and two < WIDE else (-1, -1)


@kernel
def run_items(
    items: Int32s, first: int, last: int, classes: UInt8s, text: UInt8s, at: int, start: int, stop: int, step: int
) -> int:
    """Run items[first:last] from `at` on over text[start:stop], forward if `step` is 1, backward if it is -1.

    Returns how many characters were read if they match, -1 less that if they do not.
    """
    count = last - first
    # Bit n: the items before n have been matched up to here. Places only move up.
    states, low, read, waits = 1, 0, 0, -1
    while True:
        item = int(items[first + low]) if low < count else 0
        may_jump = states == 1 << low and low != waits and item & ITEM_MASK == STAR
        if may_jump and classes[item >> ITEM_BITS, _SPACE] & classes[item >> ITEM_BITS, WIDE]:
            # Whatever comes in between, two characters must come, and mostly do not: to search for them is 20 times as
            # fast. A set without the space or without characters beyond ASCII ends sooner.
            one, two = next_pair(items, first + low + 1, last)
            if one >= 0:
                if step > 0:
                    found = find_pair(text, at, stop, one, two)
                    read += (found - at) >> _JUMP_SHIFT
                    if found == stop:
                        return -1 - read
                    while at < found and classes[item >> ITEM_BITS, min(text[at], WIDE)] != 0:
                        at += 1
                    if at < found:
                        return -1 - read
                elif find_pair(text, start, at, two, one) == at:
                    return -1 - read - ((at - start) >> _JUMP_SHIFT)
            waits = low if one < 0 or step < 0 else waits
        end = at
        character = -1
        if step > 0 and at < stop:
            end = at + 1
            while end < stop and is_continuation(text[end]):
                end += 1
            character = code_point(text, at, end)
        elif step < 0 and at > start:
            end = at - 1
            while end > start and is_continuation(text[end]):
                end -= 1
            character = code_point(text, end, at)
        column = min(character, WIDE)
        following = 0
        place = low
        while states >> place != 0:
            if (states >> place) & 1 != 0:
                if place == count:
                    return read
                item = int(items[first + place])
                kind, operand = item & ITEM_MASK, item >> ITEM_BITS
                if kind == CHARACTER:
                    if character == operand:
                        following |= 1 << (place + 1)
                elif kind == ASSERTION:
                    if holds_at(operand, text, at, start, stop):
                        states |= 1 << (place + 1)
                else:
                    if kind != ONE_OF:
                        states |= 1 << (place + 1)
                    if column >= 0 and classes[operand, column] != 0:
                        following |= 1 << (place if kind == STAR else place + 1)
            place += 1
        if following == 0:
            return -1 - read
        states = following
        while (states >> low) & 1 == 0:
            low += 1
        at = end
        read += 1


@kernel
def find_expressions(
    offsets: Int64s,
    text: UInt8s,
    has_variants: Bools,
    index: FiledWindows,
    parts: StrandItems,
    scan: Scan,
    read: Int64s,
    seen: UInt8s,
) -> tuple[Int64s, Int32s, UInt8s, int]:
    """Return where the expressions of each text start, these, ascending, what was found, and the strands compared.

    The first owner of a posting is its expression, and it has its neighbours. Texts that have variants of letters are
    searched for literals only. `read` is work space for strands and `seen` for expressions, all 0, and both are left
    so.
    """
    # Arrays are taken out of the tuples once: inside a loop, each access would count a reference.
    literal_data, starts, items, classes = index.literal_data, parts.starts, parts.items, parts.classes
    levels, filter_bits, table, bucket_starts = index.levels, index.filter, index.table, index.bucket_starts
    short, long, postings = scan.short, scan.long, scan.postings
    rows = len(offsets) - 1
    found_offsets = np.zeros(rows + 1, np.int64)
    found = np.empty(1024 + 2 * len(seen), np.int32)
    states = np.empty(len(found), np.uint8)
    settled = np.empty(len(read), np.int32)
    hashes = np.zeros((LEVELS, _CHUNK + LONGEST), np.uint32)
    lowered = np.empty(_CHUNK + LONGEST, np.uint8)
    wanted = np.empty(_CHUNK, np.uint8)
    places = np.empty(_CHUNK, np.int32)
    mask = len(table) - 1
    row, first, filled, settled_count, compared = 0, 0, 0, 0, 0
    base, end = offsets[0], offsets[rows]
    while row < rows:
        count = min(_CHUNK + LONGEST, end - base)
        few = 0
        if len(postings) > 0 and count > 0:
            for i in range(count):
                lowered[i] = lower_byte(text[base + i])
            for level in range(EIGHT + 1):
                if level != _SIX and (level != _THREE or levels[_THREE]):
                    hash_windows(lowered, 0, count, level, hashes)
            few = candidates_of(hashes, min(_CHUNK, count), levels, filter_bits, short, long, wanted, places)
        # One step more than there are candidates finishes the texts behind the last of them.
        for c in range(few + 1):
            at_end = c == few
            if at_end and base + _CHUNK < end:
                break
            place = 0 if at_end else places[c]
            position = base + place
            while row < rows and (at_end or position >= offsets[row + 1]):
                sort_part(found, first, filled)
                for k in range(first, filled):
                    states[k] = seen[found[k]]
                    seen[found[k]] = 0
                for k in range(settled_count):
                    read[settled[k]] = 0
                first = filled
                settled_count = 0
                row += 1
                found_offsets[row] = filled
                if filled + len(seen) > len(found):
                    size = 2 * (filled + len(seen))
                    longer, more = np.empty(size, np.int32), np.empty(size, np.uint8)
                    for copied in range(filled):
                        longer[copied], more[copied] = found[copied], states[copied]
                    found, states = longer, more
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
                while table[slot] != 0 and table[slot] >> 32 != h:
                    slot = (slot + 1) & mask
                bucket = (table[slot] & BUCKET_BITS) - 1
                if bucket < 0:
                    continue
                for b in range(bucket_starts[bucket], bucket_starts[bucket + 1]):
                    strand, how = postings[b, PATTERN], postings[b, KIND]
                    owner = postings[b, FIRST_OWNER]
                    if seen[owner] == CERTAIN or (seen[owner] == POSSIBLE and how & EXACT == 0):
                        continue
                    compared += 1
                    length, literal = postings[b, LENGTH], postings[b, LITERAL]
                    at = position - postings[b, WINDOW]
                    if at < start or at + length > stop:
                        continue
                    if not has_variants[row]:
                        behind, before = at + length, at - 1
                        neighbours = postings[b, NEIGHBOURS]
                        column = min(text[behind], WIDE) if behind < stop else EDGE
                        if classes[neighbours & ((1 << NEIGHBOUR_BITS) - 1), column] == 0:
                            continue
                        column = min(text[before], WIDE) if before >= start else EDGE
                        if classes[neighbours >> NEIGHBOUR_BITS, column] == 0:
                            continue
                    k = 0
                    if how & FOLDED:
                        while k < length and literal_data[literal + k] == lower_byte(text[at + k]):
                            k += 1
                    else:
                        while k < length and literal_data[literal + k] == text[at + k]:
                            k += 1
                    if k < length:
                        continue
                    state = POSSIBLE
                    if not has_variants[row] and read[strand] <= _LITTLE_READ + ((stop - start) >> _READ_SHIFT):
                        if read[strand] == 0:
                            settled[settled_count] = strand
                            settled_count += 1
                        here, middle, there = starts[2 * strand], starts[2 * strand + 1], starts[2 * strand + 2]
                        step = -1 if how & BACKWARD_FIRST else 1
                        matches = True
                        for _ in range(2):
                            if step > 0:
                                done = run_items(items, here, middle, classes, text, at + length, start, stop, 1)
                            else:
                                done = run_items(items, middle, there, classes, text, at, start, stop, -1)
                            read[strand] += 1 + abs(done)
                            if done < 0:
                                matches = False
                                break
                            step = -step
                        if not matches:
                            continue
                        state = CERTAIN if how & EXACT else POSSIBLE
                    if seen[owner] == 0:
                        found[filled] = owner
                        filled += 1
                    seen[owner] = max(seen[owner], state)
        base += _CHUNK
    return found_offsets, found[:filled].copy(), states[:filled].copy(), compared
