"""DuckDB as the judge, and its typed events, for all properties."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import by_duckdb

Judge = Callable[[Sequence[str], Sequence[dict[str, Any]], Sequence[dict[str, Any]]], list[tuple[bool | None, ...]]]


@pytest.fixture(scope="session")
def judge() -> Judge:
    """The truth value of each condition (inner) on each event (outer)."""
    return by_duckdb.judge


@pytest.fixture(scope="session")
def typed() -> Callable[[Sequence[dict[str, Any]]], pa.Table]:
    """Events as an Arrow table with a type for each attribute."""
    return by_duckdb.typed
