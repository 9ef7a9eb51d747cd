"""Shapes of data in arrays."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import arrays
from tocsin.arrays import Strings


@pytest.mark.parametrize("alphabet", ["abc", "aé语🎺"])
@given(data=st.data())
def test_strings_at_places_are_those_that_were_given_however_often_they_are_asked_for(
    alphabet: str, data: st.DataObject
) -> None:
    given_ = data.draw(st.lists(st.text(alphabet, max_size=4), min_size=1, max_size=30))
    asked = st.lists(st.integers(0, len(given_) - 1), unique=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrays, "MANY_PLACES", 2)
        patched.setattr(arrays, "MOST_KEPT", 10)
        strings = Strings.of(given_)
        for places in data.draw(st.lists(asked, max_size=8)):
            assert strings.at(np.array(places, np.int32)) == [given_[place] for place in places]


def test_strings_that_were_asked_for_are_kept_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MANY_PLACES", 2)
    monkeypatch.setattr(arrays, "MOST_KEPT", 5)
    strings = Strings.of([f"s{number}" for number in range(20)])
    first = strings.at(np.arange(4, dtype=np.int32))
    assert strings.at(np.arange(1, 5, dtype=np.int32))[0] is first[1]
    strings.at(np.arange(10, 12, dtype=np.int32))
    assert strings.at(np.arange(1, 3, dtype=np.int32))[0] is not first[1]


def test_threads_keep_strings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MANY_PLACES", 2)
    monkeypatch.setattr(arrays, "MOST_KEPT", 64)
    names = [f"s{number}" for number in range(200)]
    strings = Strings.of(names)

    def ask(seed: int) -> None:
        numbers = np.random.default_rng(seed)
        for _ in range(200):
            places = numbers.choice(200, 40, replace=False).astype(np.int32)
            assert strings.at(places) == [names[place] for place in places.tolist()]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(8)))


@given(st.lists(st.text(max_size=3), unique=True), st.text(max_size=3))
def test_a_string_is_found_where_it_stands(given_: list[str], other: str) -> None:
    ascending = sorted(given_)
    strings = Strings.of(ascending)
    for place, string in enumerate(ascending):
        assert strings.find(string) == place
    assert strings.find(other) == (ascending.index(other) if other in ascending else None)
    assert strings.find("\ud800") is None
