"""Columns of one value."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.index.constant_column import Repeated, repeated


@given(st.lists(st.integers(0, 1000)))
def test_every_column_has_the_value_and_its_length(lengths: list[int]) -> None:
    halves = Repeated(0.5)
    for length in lengths:
        column = halves.column(length)
        assert column.to_pylist() == [0.5] * length
        # What is kept of longer columns does not travel with a short one.
        assert len(pickle.dumps(column)) < 16 * length + 500


def test_a_column_is_kept_and_a_very_long_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.index.constant_column.MOST", 100)
    values = Repeated(2.0)
    addresses = {values.column(length).buffers()[1].address for length in (100, 99, 64)}
    assert len(addresses) == 1
    long = values.column(101)
    assert long.to_pylist() == [2.0] * 101
    assert long.buffers()[1].address not in addresses


def test_all_indexes_share_what_is_kept() -> None:
    assert repeated(0.25) is repeated(0.25)
    assert repeated(0.25).column(3).to_pylist() == [0.25] * 3
    assert repeated(-1.0).column(2).to_pylist() == [-1.0] * 2
