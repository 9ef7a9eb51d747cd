"""The capacity model: no plan is beaten, every host holds what it is given, and the page says what the model says."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.capacity import ROW_BYTES, Demand, Host, Units, capacity, plan_capacity, table
from tocsin.errors import OptionError

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
UNITS = Units({"ranges": 400.0}, {"ranges": 1.0}, 0.002, 0.01, 30.0, 800.0, 2e8, 10.0, 10.0, 0.1, 1.0, 50.0, 47.0)


@given(
    demand=st.builds(
        Demand,
        st.floats(1, 1e9),
        st.floats(0, 1e6),
        st.floats(0, 1e3),
        st.none() | st.floats(0, 1e4),
        event_bytes=st.floats(0, 1e3),
    ),
    host=st.builds(Host, st.integers(1, 32), st.floats(4e10, 4e11), st.floats(1e9, 1e11), st.floats(0.2, 1)),
)
def test_a_plan_holds_and_no_other_number_of_shards_needs_fewer_hosts(demand: Demand, host: Host) -> None:
    plan = plan_capacity(demand, host, UNITS)
    assert plan.host_bytes <= host.busy * host.memory
    assert plan.cores <= plan.hosts * host.cores * host.busy * 1.000001
    assert plan.network <= host.busy * host.network * 1.000001
    # Each event goes to all shards, each match leaves one of them.
    bits = 8 * demand.events * (plan.shards * demand.event_bytes + demand.matches * ROW_BYTES)
    assert plan.network * plan.hosts == pytest.approx(bits)
    for shards in range(1, plan.hosts + 2):
        try:
            other = capacity(demand, host, UNITS, shards)
        except OptionError:
            continue
        assert (plan.hosts, plan.shards) <= (other.hosts, other.shards)


def test_what_cannot_be_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Take at least 10 shards"):
        capacity(Demand(1e9, 1e4), Host(), UNITS, shards=2)
    with pytest.raises(OptionError, match=r"'smells'.*Choose from ranges"):
        plan_capacity(Demand(1e6, 1, family="smells"), Host(), UNITS)
    with pytest.raises(OptionError, match="processes alone"):
        plan_capacity(Demand(1e6, 1), Host(memory=1e9), UNITS)
    file = tmp_path / "units.json"
    for text in ("nothing", "[]", '{"match_us": 1}'):
        file.write_text(text)
        with pytest.raises(OptionError, match="bench units"):
            Units.read(file)
    file.write_text(UNITS.to_json())
    assert Units.read(file) == UNITS


def test_the_page_has_the_table_of_the_units_that_are_shipped() -> None:
    assert table(Units.read()) in PAGE.read_text(encoding="utf-8")
