"""`tocsin bench units` and `scale`: a quick run gives units that the model can be asked with."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from tocsin import Matcher
from tocsin.bench import units
from tocsin.capacity import Demand, Units, plan_capacity


@pytest.mark.slow
def test_a_quick_run_writes_units(tmp_path: Path) -> None:
    report = units.run(quick=True, units=tmp_path / "units.json")
    found = Units.read(tmp_path / "units.json")
    assert set(found.index_bytes) == set(found.event_us) == {"ranges", *units.FAMILIES}
    assert min(found.index_bytes.values()) > 50
    assert plan_capacity(Demand(1e9, 1e5), units=found).shards > 1
    assert {"index_bytes ranges", "candidate_us", "shard_ms"} <= {result.engine for result in report.results}


@pytest.mark.parametrize("family", units.FAMILIES)
def test_events_of_a_family_match_its_conditions(family: str) -> None:
    """Of few words, so that something matches: else an event's time would be that of nothing."""
    words, draw = ["ab", "cd"], random.Random(1)
    texts = [units.FAMILIES[family](draw, words) for _ in range(400)]
    matcher = Matcher.from_table(pa.table({"id": [f"s{n}" for n in range(400)], "where": texts}))
    assert not matcher.rejected
    found = matcher.match_batch(units.events_of(family, 50, words, seed=1))
    assert len(found)
