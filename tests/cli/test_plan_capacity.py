"""`tocsin plan-capacity`: a table, JSON, units of one's own, and what does not fit."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.capacity import Demand, Host, Units, plan_capacity

if TYPE_CHECKING:
    from cli.conftest import Run


def test_the_plan_as_a_table_and_as_json(run: "Run") -> None:
    answer = run("plan-capacity", "--subscriptions", "1e7", "--events", "1e6")
    assert answer.code == 0
    for word in ("10,000,000 subscriptions", "best", "replicas alone", "core hours"):
        assert word in answer.out
    options = ["--memory", "128", "--cores", "8", "--matches", "5", "--candidates", "50", "--network", "25"]
    answer = run("plan-capacity", "--subscriptions", "1e9", "--events", "1e5", "--json", *options)
    plan = plan_capacity(Demand(1e9, 1e5, 5, 50), Host(8, 128e9, 25e9))
    assert json.loads(answer.out) | {"hosts": plan.hosts, "shards": plan.shards} == json.loads(answer.out)


def test_units_of_ones_own_and_shards_that_do_not_fit(run: "Run", tmp_path: Path) -> None:
    units = tmp_path / "units.json"
    units.write_text(Units.read().to_json())
    asked = ["plan-capacity", "--subscriptions", "1e9", "--events", "1e4", "--units", units]
    assert run(*asked).code == 0
    refused = run(*asked, "--shards", "2")
    assert refused.code == 2
    assert "does not fit a host" in refused.err
    units.write_text("{}")
    assert run(*asked).code == 2
