"""The vocabulary finds exactly the words, prefixes and phrases that the tokeniser and plain search find."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.model.predicate import Word
from tocsin.model.text import fold, has_phrase, missing_words, tokens
from tocsin.predicates.words.index import Vocabulary

# Few letters, so that words repeat; case, marks, scripts of one to four bytes, and characters of no word.
ALPHABET = "abAB_ .-9éÉe\u0301ßİıΣςक\u093f中𐐀👍"
TEXT = st.text(alphabet=ALPHABET, max_size=14)
WORD = st.text(alphabet=ALPHABET, min_size=1, max_size=4).map(tokens).filter(bool).map(lambda words: words[0])
ANY_WORDS = st.lists(st.lists(st.builds(Word, WORD, st.booleans()), max_size=3), max_size=6)
PHRASES = st.lists(st.lists(WORD, min_size=1, max_size=3), max_size=5)


def expected(any_words: list[list[Word]], phrases: list[list[str]], text: str | None) -> list[int]:
    if text is None:
        return []
    holds = [any(not missing_words(text, [word]) for word in words) for words in any_words]
    holds += [has_phrase(text, phrase) for phrase in phrases]
    return [predicate for predicate, held in enumerate(holds) if held]


def answers(vocabulary: Vocabulary, column: pa.Array) -> list[list[int]]:
    offsets, predicates = vocabulary.probe_batch(column)
    return [part.tolist() for part in np.split(predicates, offsets[1:-1])] if len(column) else []


@settings(max_examples=250, deadline=None)
@given(ANY_WORDS, PHRASES, st.lists(st.none() | TEXT, max_size=4))
@example([[Word("e")], [Word("é", True)]], [["a", "a"]], ["A a a é", "e\u0301", None, ""])
def test_equals_the_definition(any_words: list[list[Word]], phrases: list[list[str]], texts: list[str | None]) -> None:
    vocabulary = Vocabulary.build(any_words, phrases)
    vocabulary.check()
    assert vocabulary.predicate_count == len(any_words) + len(phrases)
    wanted = [expected(any_words, phrases, text) for text in texts]
    assert answers(vocabulary, pa.array(texts, pa.string())) == wanted
    copy = Vocabulary(vocabulary.arrays())
    assert answers(copy, pa.array(texts, pa.large_string())) == wanted


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30))
def test_every_token_of_any_text_is_found(text: str) -> None:
    words = sorted(set(tokens(text)))
    vocabulary = Vocabulary.build([[Word(word)] for word in words], [tokens(text)] if words else [])
    assert answers(vocabulary, pa.array([text])) == [list(range(vocabulary.predicate_count))]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", "a b", None, "b"]).slice(1),
        pa.chunked_array([["a b"], [None], ["b"]]),
        pa.array(["a b", None, "b"]).dictionary_encode(),
        pa.array(["a b", None, "b"], pa.string_view()),
    ],
    ids=["slice", "chunks", "dictionary", "view"],
)
def test_every_kind_of_string_column(column: pa.Array) -> None:
    assert answers(Vocabulary.build([[Word("a")], [Word("b")]]), column) == [[0, 1], [], [1]]


def test_a_column_of_nothing() -> None:
    vocabulary = Vocabulary.build([[Word("a")]])
    assert answers(vocabulary, pa.array([], pa.string())) == []
    assert answers(vocabulary, pa.nulls(2)) == [[], []]
    assert answers(Vocabulary.build([]), pa.array(["a b"])) == [[]]


def test_phrases_need_their_words_in_a_row() -> None:
    vocabulary = Vocabulary.build([], [["new", "york"], ["york", "new"], ["new", "york", "new"], ["new", "new"]])
    texts = ["New York", "york, NEW york", "new old york", "new york new", "new new new york new"]
    assert answers(vocabulary, pa.array(texts)) == [[0], [0, 1], [], [0, 1, 2], [0, 1, 2, 3]]


def test_a_single_line_of_fifty_megabytes() -> None:
    line = "lorem ipsum dolor sit amet " * 1_900_000 + "the very Last Word"
    assert len(line) > 50_000_000
    vocabulary = Vocabulary.build(
        [[Word("last")], [Word("dol", True)], [Word("ipsu")]], [["last", "word"], ["amet", "the"]]
    )
    assert answers(vocabulary, pa.array([line])) == [[0, 1, 3, 4]]


def test_one_word_of_fifty_megabytes() -> None:
    vocabulary = Vocabulary.build([[Word("aaa", True)], [Word("aaa")]])
    assert answers(vocabulary, pa.array(["A" * 50_000_000])) == [[0]]


def test_a_text_of_a_million_distinct_words() -> None:
    words = [f"w{n}" for n in range(1_000_000)]
    vocabulary = Vocabulary.build([[Word(word)] for word in [*words[::1000], "w1000000"]])
    offsets, predicates = vocabulary.probe_batch(pa.array([" ".join(words), "w999000 w999999 w1000000"]))
    assert offsets.tolist() == [0, 1000, 1002]
    assert predicates.tolist() == [*range(1000), 999, 1000]


@pytest.mark.slow
def test_a_vocabulary_of_a_million_words() -> None:
    words = [f"w{n}" for n in range(1_000_000)]
    vocabulary = Vocabulary.build([[Word(word)] for word in words])
    offsets, predicates = vocabulary.probe_batch(pa.array([" ".join(words), "w999999 w1000000"]))
    assert offsets.tolist() == [0, 1_000_000, 1_000_001]
    assert np.array_equal(predicates, [*range(1_000_000), 999_999])


def test_folded_words_are_what_the_vocabulary_holds() -> None:
    text = "Straße ΟΔΟΣ Ǆ ﬃ ŉ"
    words = tokens(text)
    assert all(fold(word) == word for word in words)
    assert answers(Vocabulary.build([[Word(word)] for word in words]), pa.array([text])) == [list(range(len(words)))]
