"""Each kernel of the vocabulary against plain Python; `tests/test_kernels.py` runs this uncompiled."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.predicate import Word
from tocsin.model.text import fold, has_phrase, missing_words, tokens
from tocsin.predicates.folding import code_point
from tocsin.predicates.texts import as_bytes, has_wide_bytes
from tocsin.predicates.words.index import Vocabulary
from tocsin.predicates.words.kernels import FOLDED, fill_table, find, hash_step
from tocsin.tuning import TUNING

SEED = 0x9E3779B97F
TEXT = st.text("abAB_ é中👍\u0301ß", max_size=12)
WORD = st.sampled_from(["a", "b", "ab", "ba", "é", "中", "a_b", "ss"])


def hash_of(data: bytes) -> int:
    h = SEED
    for byte in data:
        h = int(hash_step(h, byte))
    return h


@given(st.binary(max_size=20))
def test_a_hash_is_a_product_of_forty_bits(data: bytes) -> None:
    h = SEED
    for byte in data:
        h = ((h ^ byte) * 8388593) % 2**40
    assert hash_of(data) == h


@given(st.sets(st.text("abé", max_size=4).map(str.encode), max_size=40), st.text("abcAé", max_size=4))
def test_a_string_is_found_by_its_number(strings: set[bytes], other: str) -> None:
    known = sorted(strings)
    data = np.frombuffer(b"".join(known), np.uint8)
    offsets = np.cumsum([0, *map(len, known)]).astype(np.int64)
    table = fill_table(data, offsets)
    for text in (*known, other.encode()):
        folded = bytes(FOLDED[byte] if byte < 128 else byte for byte in text)
        found = find(data, offsets, table, hash_of(folded), np.frombuffer(text, np.uint8), 0, len(text))
        assert found == (known.index(folded) if folded in known else -1)


@given(st.characters(min_codepoint=128, exclude_categories=["Cs"]))
def test_code_points_are_those_of_python(character: str) -> None:
    encoded = character.encode()
    assert code_point(np.frombuffer(b"x" + encoded, np.uint8), 1) == (ord(character), len(encoded))


def test_ascii_is_folded_as_python_does() -> None:
    for code in range(128):
        character = chr(code)
        is_word = character.isalnum() or character == "_"
        assert FOLDED[code] == (ord(fold(character)) if is_word else 0)


@given(st.lists(TEXT | st.none(), max_size=5))
def test_texts_beyond_ascii_are_told(texts: list[str | None]) -> None:
    column = as_bytes(pa.array(texts, pa.string()))
    assert has_wide_bytes(*column).tolist() == [not (text or "").isascii() for text in texts]
    parts = [column.data[a:b].tobytes().decode() for a, b in zip(column.offsets, column.offsets[1:], strict=False)]
    assert parts == [text or "" for text in texts]


@given(
    st.lists(st.lists(st.builds(Word, WORD, st.booleans()), max_size=3), max_size=4),
    st.lists(st.lists(WORD, min_size=1, max_size=3), max_size=4),
    st.lists(TEXT, min_size=1, max_size=3),
)
def test_words_are_found_as_by_the_tokeniser(
    any_words: list[list[Word]], phrases: list[list[str]], texts: list[str]
) -> None:
    vocabulary = Vocabulary.build(any_words, phrases)
    for _ in range(2):
        offsets, predicates = vocabulary.probe_batch(pa.array(texts))
        for row, text in enumerate(texts):
            holds = [any(not missing_words(text, [word]) for word in words) for words in any_words]
            holds += [has_phrase(text, phrase) for phrase in phrases]
            assert predicates[offsets[row] : offsets[row + 1]].tolist() == np.flatnonzero(holds).tolist()
            for long_text in (TUNING.long_text, 0):
                with patch("tocsin.predicates.words.index.TUNING", replace(TUNING, long_text=long_text)):
                    assert vocabulary.probe_text(text).tolist() == np.flatnonzero(holds).tolist()
    every = Vocabulary.build([[Word(word)] for word in tokens(texts[0])])
    assert len(every.probe_batch(pa.array(texts[:1]))[1]) == every.predicate_count
