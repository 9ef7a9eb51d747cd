"""Which segments are merged next."""

from typing import Any

import pytest

from tocsin.index.merge import FACTOR, FEW_SMALL, SMALL_TIER, due


class Sized:
    """A segment of which only the size matters."""

    def __init__(self, size: int) -> None:
        self.segment, self.dropped = range(size), set[int]()

    def __len__(self) -> int:
        return len(self.segment) - len(self.dropped)


def segments(*sizes: int) -> list[Any]:
    return [Sized(size) for size in sizes]


@pytest.mark.parametrize("size", [1, 60, 300, FACTOR ** (SMALL_TIER + 1) - 1])
def test_few_small_segments_become_one(size: int) -> None:
    large = segments(*[100_000] * (FACTOR - 1))
    small = segments(*[size] * FEW_SMALL)
    assert due([*large, *small[1:]]) == []
    assert due([*large, *small]) == small


def test_large_segments_wait_for_a_full_tier() -> None:
    large = segments(*[FACTOR ** (SMALL_TIER + 1)] * FACTOR)
    assert due(large[1:]) == []
    assert due(large) == large


def test_a_segment_that_is_half_empty_is_first() -> None:
    small, emptied = segments(*[60] * FEW_SMALL), segments(1000)
    emptied[0].dropped |= set(range(501))
    assert due([*small, *emptied]) == emptied
