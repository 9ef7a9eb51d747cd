"""From the bytes of a text column to the words, prefixes and phrases that predicates name, in one pass.

A text here is UTF-8 that is folded already, or plain ASCII, which is folded on the fly. The hash of a word grows byte
by byte, so that on the way to the end of a word it has been the hash of each of its prefixes.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import bools_at, bytes_at, int32s_at, integers_at, kernel
from tocsin.arrays import Bools, Int8s, Int32s, Int64s, UInt8s
from tocsin.predicates.folding import ASCII, code_point
from tocsin.predicates.sort_kernel import sort_part

Int = int | np.int64

# The folded byte of each ASCII word character, 0 for the others.
FOLDED = np.zeros(ASCII, np.int64)
for _character in range(ASCII):
    if chr(_character).isalnum() or chr(_character) == "_":
        FOLDED[_character] = ord(chr(_character).lower())

# A hash has 40 bits. Its multiplier is a prime below 2 ** 23, so that products stay within 63 bits.
_HASH_BITS = (1 << 40) - 1
_HASH_SEED = 0x9E3779B97F
_HASH_MULTIPLIER = 8388593
_MARK_BITS = (1 << 31) - 1
_MARK_SHIFT = 32
STRING_BITS = (1 << _MARK_SHIFT) - 1


class WordTable(NamedTuple):
    """Distinct strings with a hash table: string s is ``data[offsets[s]:offsets[s + 1]]``.

    A slot of the table is 0 if it is free, or mark << 32 | s + 1, where the mark has 31 bits of the hash: a string that
    is not there costs one read.
    """

    data: UInt8s
    offsets: Int64s
    table: Int64s


class NamedWords(NamedTuple):
    """What predicates name: whole words and prefixes, each with its predicates, and phrases.

    Word w is named by the predicates ``word_predicates[word_starts[w]:word_starts[w + 1]]``, prefixes likewise.
    ``prefix_lengths[n]`` tells whether some prefix has n bytes. Phrase f has the words
    ``phrase_words[phrase_offsets[f]:phrase_offsets[f + 1]]`` and is predicate ``first_phrase + f``. It is filed under
    its word number ``phrase_place[f]``: word w has the phrases ``filed[filed_starts[w]:filed_starts[w + 1]]``.
    """

    words: WordTable
    word_starts: Int64s
    word_predicates: Int32s
    prefixes: WordTable
    prefix_starts: Int64s
    prefix_predicates: Int32s
    prefix_lengths: Bools
    phrase_offsets: Int64s
    phrase_words: Int32s
    phrase_place: Int32s
    filed_starts: Int64s
    filed: Int32s
    first_phrase: int


@kernel
def hash_step(h: Int, byte: Int) -> Int:
    """Return the hash of a string with one more byte."""
    return ((h ^ byte) * _HASH_MULTIPLIER) & _HASH_BITS


@kernel
def _first_place(h: Int, size: int) -> Int:
    """Return where in a table of `size` slots, a power of two, the search for a hash begins."""
    return (h ^ (h >> 15)) & (size - 1)


@kernel
def _mark(h: Int) -> Int:
    """Return the bits of a hash that a slot holds."""
    return (h >> 9) & _MARK_BITS


@kernel
def fill_table(data: UInt8s, offsets: Int64s) -> Int64s:
    """Return the hash table of distinct strings, at most half full."""
    size = 16
    while size < 2 * len(offsets):
        size *= 2
    table = np.zeros(size, np.int64)
    for s in range(len(offsets) - 1):
        h: Int = _HASH_SEED
        for i in range(offsets[s], offsets[s + 1]):
            h = hash_step(h, np.int64(data[i]))
        place = _first_place(h, size)
        while table[place] != 0:
            place = (place + 1) & (size - 1)
        table[place] = (_mark(h) << _MARK_SHIFT) | (s + 1)
    return table


@kernel
def find(data: UInt8s, offsets: Int64s, table: Int64s, h: Int, text: UInt8s, start: int, stop: int) -> Int:
    """Return the number of the string that ``text[start:stop]``, folded, with the hash h, equals; -1 if none does."""
    mark = _mark(h)
    place = _first_place(h, len(table))
    while table[place] != 0:
        if table[place] >> _MARK_SHIFT == mark:
            s: Int = (table[place] & STRING_BITS) - 1
            at = offsets[s]
            if offsets[s + 1] - at == stop - start:
                same = True
                for i in range(stop - start):
                    c = text[start + i]
                    if (FOLDED[c] if c < ASCII else c) != data[at + i]:
                        same = False
                        break
                if same:
                    return s
        place = (place + 1) & (len(table) - 1)
    return -1


@kernel
def _note(predicates: Int32s, start: int, stop: int, seen: Int8s, out: Int32s, filled: int) -> int:
    """Append those of predicates[start:stop] that were not seen in this text; return how many are noted now."""
    for i in range(start, stop):
        if seen[predicates[i]] == 0:
            seen[predicates[i]] = 1
            out[filled] = predicates[i]
            filled += 1
    return filled


@kernel
def _phrase_stands(
    phrase: Int32s, place: int, sequence: Int32s, tokens: int, last_at: Int32s, previous: Int32s
) -> bool:
    """Tell whether a phrase occurs: all its words do, and at one of the places of its filed word they stand in a row.

    ``sequence[:tokens]`` are the words of the text; `last_at` and `previous` lead through the places of each word.
    """
    for word in phrase:
        if last_at[word] < 0:
            return False
    position = last_at[phrase[place]]
    while position >= 0:
        begin = position - place
        if begin >= 0 and begin + len(phrase) <= tokens:
            stands = True
            for i in range(len(phrase)):
                if sequence[begin + i] != phrase[i]:
                    stands = False
                    break
            if stands:
                return True
        position = previous[position]
    return False


@kernel(looked_up=("is_word",))
def find_words(
    offsets: Int64s,
    text: UInt8s,
    is_word: Bools,
    index: NamedWords,
    seen: Int8s,
    last_at: Int32s,
) -> tuple[Int64s, Int32s]:
    """Return where the predicates that hold for each text start, and the predicates, ascending.

    `is_word` says which code points belong to words; it is not looked at for ASCII. `seen` is work space for
    predicates, all 0, and `last_at` for words, all -1; both are left as they were. For phrases, `sequence` has the
    words of a text in order, -1 for one that is not named, and `previous` links the places of the same word.
    """
    # Arrays are taken out of the tuples once: inside a loop, each access would count a reference. For the same reason
    # room is made before a text, for every predicate and word that it could have; what is not written costs nothing.
    word_data, word_offsets, word_table = index.words
    prefix_data, prefix_offsets, prefix_table = index.prefixes
    word_starts, word_predicates = index.word_starts, index.word_predicates
    prefix_starts, prefix_predicates = index.prefix_starts, index.prefix_predicates
    prefix_lengths, first_phrase = index.prefix_lengths, index.first_phrase
    phrase_offsets, phrase_words, phrase_place = index.phrase_offsets, index.phrase_words, index.phrase_place
    filed_starts, filed = index.filed_starts, index.filed
    rows = len(offsets) - 1
    predicates = first_phrase + len(phrase_place)
    found_offsets = np.zeros(rows + 1, np.int64)
    found = np.empty(2 * predicates, np.int32)
    filled = 0
    longest = len(prefix_lengths)
    most_tokens = 0
    if len(phrase_place) > 0:
        for row in range(rows):
            most_tokens = max(most_tokens, (offsets[row + 1] - offsets[row] + 1) // 2)
    sequence = np.empty(most_tokens, np.int32)
    previous = np.empty(most_tokens, np.int32)
    for row in range(rows):
        if filled + predicates > len(found):
            longer = np.empty(2 * (filled + predicates), np.int32)
            for k in range(filled):
                longer[k] = found[k]
            found = longer
        i, stop = offsets[row], offsets[row + 1]
        first = filled
        tokens = 0
        while i < stop:
            begin = i
            h: Int = _HASH_SEED
            while i < stop:
                c = text[i]
                if c < ASCII:
                    folded = FOLDED[c]
                    if folded == 0:
                        break
                    h = hash_step(h, folded)
                    i += 1
                else:
                    point, width = code_point(text, i)
                    if not is_word[point]:
                        break
                    for j in range(i, i + width):
                        h = hash_step(h, np.int64(text[j]))
                    i += width
                if i - begin < longest and prefix_lengths[i - begin]:
                    s = find(prefix_data, prefix_offsets, prefix_table, h, text, begin, i)
                    if s >= 0:
                        filled = _note(prefix_predicates, prefix_starts[s], prefix_starts[s + 1], seen, found, filled)
            if i == begin:
                # Not a word character: step over it, whole.
                i += 1 if text[i] < ASCII else code_point(text, i)[1]
                continue
            s = find(word_data, word_offsets, word_table, h, text, begin, i)
            if s >= 0:
                filled = _note(word_predicates, word_starts[s], word_starts[s + 1], seen, found, filled)
            if most_tokens > 0:
                sequence[tokens] = s
                if s >= 0:
                    previous[tokens] = last_at[s]
                    last_at[s] = tokens
                tokens += 1
        for k in range(tokens):
            s = sequence[k]
            # Once per distinct word: at its last place.
            if s < 0 or last_at[s] != k:
                continue
            for j in range(filed_starts[s], filed_starts[s + 1]):
                f = filed[j]
                phrase = phrase_words[phrase_offsets[f] : phrase_offsets[f + 1]]
                if _phrase_stands(phrase, phrase_place[f], sequence, tokens, last_at, previous):
                    found[filled] = first_phrase + f
                    filled += 1
        for k in range(tokens):
            if sequence[k] >= 0:
                last_at[sequence[k]] = -1
        sort_part(found, first, filled)
        for k in range(first, filled):
            if found[k] < first_phrase:
                seen[found[k]] = 0
        found_offsets[row + 1] = filled
    return found_offsets, found[:filled].copy()


@kernel(looked_up=("is_word",), keeps_lock=True)
def find_words_in_one(
    table: Int64s, first_phrase: int, text: UInt8s, is_word: Bools, seen: Int8s, last_at: Int32s
) -> Int32s:
    """Do what `find_words` does for one short text; return the predicates.

    `table` has the addresses of the arrays of NamedWords, in their order.
    """
    words = WordTable(
        bytes_at(table[0, 0], table[0, 1]),
        integers_at(table[1, 0], table[1, 1]),
        integers_at(table[2, 0], table[2, 1]),
    )
    prefixes = WordTable(
        bytes_at(table[5, 0], table[5, 1]),
        integers_at(table[6, 0], table[6, 1]),
        integers_at(table[7, 0], table[7, 1]),
    )
    index = NamedWords(
        words,
        integers_at(table[3, 0], table[3, 1]),
        int32s_at(table[4, 0], table[4, 1]),
        prefixes,
        integers_at(table[8, 0], table[8, 1]),
        int32s_at(table[9, 0], table[9, 1]),
        bools_at(table[10, 0], table[10, 1]),
        integers_at(table[11, 0], table[11, 1]),
        int32s_at(table[12, 0], table[12, 1]),
        int32s_at(table[13, 0], table[13, 1]),
        integers_at(table[14, 0], table[14, 1]),
        int32s_at(table[15, 0], table[15, 1]),
        first_phrase,
    )
    return find_words(np.array([0, text.size]), text, is_word, index, seen, last_at)[1]
