"""Columns of one value."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.index.constant_column import ConstantColumn, constant_column
from tocsin.tuning import TUNING


@given(st.lists(st.integers(0, 1000)))
def test_every_column_has_the_value_and_its_length(lengths: list[int]) -> None:
    halves = ConstantColumn(0.5)
    for length in lengths:
        column = halves.of_length(length)
        assert column.to_pylist() == [0.5] * length
        # What is kept of longer columns does not travel with a short one.
        assert len(pickle.dumps(column)) < 16 * length + 500


def test_a_column_is_kept_and_a_very_long_one_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.index.constant_column.TUNING", replace(TUNING, max_constant_column=100))
    values = ConstantColumn(2.0)
    addresses = {values.of_length(length).buffers()[1].address for length in (100, 99, 64)}
    assert len(addresses) == 1
    for length, chunks in ((101, 2), (200, 2), (301, 4)):
        long = values.of_length(length)
        assert long.to_pylist() == [2.0] * length
        assert long.num_chunks == chunks
        assert {chunk.buffers()[1].address for chunk in long.chunks if len(chunk) > 1} == addresses


def test_all_indexes_share_what_is_kept() -> None:
    assert constant_column(0.25) is constant_column(0.25)
    assert constant_column(0.25).of_length(3).to_pylist() == [0.25] * 3
    assert constant_column(-1.0).of_length(2).to_pylist() == [-1.0] * 2
