"""Fuzz for some minutes: `python -m fuzz --minutes 10`, or `make fuzz MINUTES=10`.

Targets take turns, each with some cases of a seed; the seed of the run is printed, and the same seed gives the same
cases. A difference is minimised and written to the corpus; then the target goes on with the next seed.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.database import InMemoryExampleDatabase

from fuzz import cases
from fuzz.targets import TARGETS, Case

A_TURN = 50
"""Cases of one target before it is the turn of the next."""
ENOUGH = 3
"""Differences after which a target is left alone: more of them are mostly the same one."""


class _Enough(BaseException):
    """The time is over."""


def turn(name: str, number: int, count: int, until: float) -> tuple[int, tuple[Case, str] | None]:
    """Check cases of a target; return how many were checked, and the smallest that differs with what was wrong."""
    target, checked = TARGETS[name], 0
    found: tuple[Case, str] | None = None

    # The last case that fails is the one that Hypothesis has minimised.
    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=InMemoryExampleDatabase(),
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(target.cases)
    def check(case: Case) -> None:
        nonlocal checked, found
        if found is None and time.monotonic() > until:
            raise _Enough
        checked += found is None
        try:
            target.check(**case)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found = case, f"{type(error).__name__} in {Path(place.filename).name}: {place.line}\n{error}"
            raise

    try:
        check()
    except _Enough:
        pass
    except Exception:
        if found is None:
            raise
    return checked, found


def main() -> int:
    """Run until the time is over, or until each target has had its cases; return 1 if there were differences."""
    ask = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    ask.add_argument("--minutes", type=float, default=10)
    ask.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    ask.add_argument("--cases", type=int, default=sys.maxsize, help="of each target")
    ask.add_argument("--corpus", type=Path, default=cases.CORPUS)
    ask.add_argument("targets", nargs="*", default=list(TARGETS))
    given_ = ask.parse_args()
    print(f"seed {given_.seed}", flush=True)
    until = time.monotonic() + 60 * given_.minutes
    checked: Counter[str] = Counter()
    differences: Counter[str] = Counter()
    number = given_.seed
    waiting = list(given_.targets)
    while waiting and time.monotonic() < until:
        for name in list(waiting):
            count, found = turn(name, number, min(A_TURN, given_.cases - checked[name]), until)
            checked[name] += count
            if found is not None:
                differences[name] += 1
                print(f"{name}: {found[1]}\n  {cases.write(name, *found, folder=given_.corpus)}", flush=True)
            if differences[name] >= ENOUGH or checked[name] >= given_.cases:
                waiting.remove(name)
        number += 1
    for name in given_.targets:
        print(f"{name:12} {checked[name]:8,} cases {differences[name]:3} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
