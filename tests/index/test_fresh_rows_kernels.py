"""The kernel that compares an event with new subscriptions row by row, against NumPy."""

import numpy as np
import pytest

from tocsin._compile import AddressTable
from tocsin.index.fresh_rows import GUARDS, match_rows


@pytest.mark.parametrize("conjunctions", [0, 1, 60])
def test_match_rows(conjunctions: int) -> None:
    random = np.random.default_rng(conjunctions)
    rows: list[tuple[int, float, float, bool, bool]] = []
    starts, expected = [0], []
    values = np.array([0.5, np.nan, -2.0, np.inf])
    for number in range(conjunctions):
        holds = True
        for _ in range(random.integers(0, 4)):
            slot, or_null, ranges = int(random.integers(0, 4)), bool(random.random() < 0.4), int(random.integers(1, 4))
            low = np.sort(random.integers(-3, 3, ranges)).astype(float)
            high = low + random.integers(0, 3, ranges)
            high[-1] = np.inf if random.random() < 0.3 else high[-1]
            inside = ((low <= values[slot]) & (values[slot] <= high)).any()
            holds &= bool(inside or (or_null and np.isnan(values[slot])))
            ends = zip(low.tolist(), high.tolist(), strict=True)
            rows += [(slot, a, b, or_null, place < ranges) for place, (a, b) in enumerate(ends, 1)]
        starts.append(len(rows))
        expected += [number] * holds
    guards = [(0, -np.inf, np.inf)] * (GUARDS * conjunctions)
    for number in range(conjunctions):
        mine = rows[starts[number] : starts[number + 1]]
        if mine and not mine[0][3] and not mine[0][4]:
            guards[GUARDS * number + int(random.integers(0, GUARDS))] = mine[0][:3]
    gone_at = np.where(random.random(conjunctions) < 0.3, random.integers(1, 9, conjunctions), 99)
    owner = random.permutation(conjunctions)
    table = AddressTable(
        np.array(starts),
        owner,
        gone_at,
        np.array([row[0] for row in rows], np.int32),
        np.array([guard[0] for guard in guards], np.int32),
        *(np.array([row[place] for row in rows], np.float64) for place in (1, 2)),
        *(np.array([guard[place] for guard in guards], np.float64) for place in (1, 2)),
        *(np.array([row[place] for row in rows], np.bool_) for place in (3, 4)),
    )
    for count in {conjunctions, conjunctions // 2}:
        for changes in (0, 4, 9):
            standing = [number for number in expected if number < count and gone_at[owner[number]] > changes]
            assert match_rows(table.rows, count, changes, values).tolist() == owner[standing].tolist()
