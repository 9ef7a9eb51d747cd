"""A part of an array is sorted, and the rest of it left alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.predicates.sort_kernel import sort_part

NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=60)


@given(before=NUMBERS, part=NUMBERS, after=NUMBERS)
def test_sort_part(before: list[int], part: list[int], after: list[int]) -> None:
    values = np.array([*before, *part, *after], np.int32)
    sort_part(values, len(before), len(before) + len(part))
    assert values.tolist() == [*before, *sorted(part), *after]


@pytest.mark.parametrize("order", ["random", "sorted", "reversed", "equal"])
def test_long_lists(order: str) -> None:
    values = np.random.default_rng(3).integers(0, 1000, 2_000).astype(np.int32)
    values = {"random": values, "sorted": np.sort(values), "reversed": np.sort(values)[::-1].copy()}.get(
        order, np.full(2_000, 7, np.int32)
    )
    expected = np.sort(values)
    sort_part(values, 0, values.size)
    assert np.array_equal(values, expected)
