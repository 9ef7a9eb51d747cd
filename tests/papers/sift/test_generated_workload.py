"""The four matchers agree on the documents and profiles of the SIFT paper, and with the definition."""

import numpy as np
import pyarrow as pa
import pytest

from tocsin.model.predicate import Word
from tocsin.papers.sift.experiments import AUTO, PAPER, Model, text_of
from tocsin.papers.sift.key import Key
from tocsin.predicates.words.index import Vocabulary

MODEL = Model(vocabulary=20_000, document_words=2_000, profile_vocabulary=800)
PROFILES = 5_000


@pytest.fixture(scope="module")
def documents() -> list[list[int]]:
    """The ranks of the profile vocabulary that occur in each document."""
    random = np.random.default_rng(7)
    drawn = [MODEL.document(random) for _ in range(70)]
    vocabulary = Vocabulary.build([[Word(f"{rank + 1}wd")] for rank in range(MODEL.profile_vocabulary)])
    offsets, held = vocabulary.probe_batch(pa.array([text_of(document) for document in drawn]))
    occurring = [part.tolist() for part in np.split(held, offsets[1:-1])]
    assert occurring == [sorted({r for r in d.tolist() if r < MODEL.profile_vocabulary}) for d in drawn]
    return occurring


@pytest.mark.parametrize("name", [*PAPER, AUTO])
def test_each_matcher_finds_the_matching_profiles(name: str, documents: list[list[int]]) -> None:
    offsets, words = MODEL.profiles(np.random.default_rng(8), PROFILES, MODEL.profile_vocabulary)
    build = Key.build if name == AUTO else PAPER[name]
    matcher = build(offsets, words, MODEL.profile_vocabulary, MODEL.occurrence(MODEL.profile_vocabulary))
    held_offsets = np.cumsum([0, *map(len, documents)])
    found = matcher.match_batch(held_offsets, np.concatenate(documents).astype(np.int32))
    profiles = words.reshape(PROFILES, -1)
    for event, held in enumerate(documents):
        expected = np.flatnonzero(np.isin(profiles, held).all(axis=1))
        assert np.array_equal(np.sort(found.of(event)), expected)


def test_the_share_that_matches_is_the_one_asked_for() -> None:
    random = np.random.default_rng(9)
    document = MODEL.document(random)
    held = np.unique(document[document < MODEL.profile_vocabulary]).astype(np.int32)
    for share in (0.0, 0.3, 1.0):
        matcher = Key.build(*MODEL.controlled(random, PROFILES, document, share), MODEL.profile_vocabulary)
        assert len(matcher.match(held)) / PROFILES == pytest.approx(share, abs=0.03)


def test_base_values_match_as_often_as_the_paper_says() -> None:
    assert round(100 * Model().matching(9_000), 2) == 0.15


@pytest.mark.parametrize("degree", [0.0, 0.5, 0.99])
def test_similar_profiles_begin_alike(degree: float) -> None:
    """A word is shared if all before it are; where nothing is shared, profiles of 9,000 words meet by chance alone."""
    model = Model(similarity=degree)
    offsets, words = model.similar(np.random.default_rng(1), 20_000)
    rows = words.reshape(-1, model.profile_words)
    assert offsets[-1] == words.size
    for length in (1, 3):
        prefixes = len(np.unique(rows[:, :length], axis=0))
        new = 20_000 * (1 - degree**length)
        fresh = 9_000 * (1 - np.exp(-new / 9_000)) if length == 1 else new
        assert abs(prefixes - fresh) < 0.05 * fresh + 50
