"""What the benchmark of the audit promises: chances, judged by counting all draws; and mutants that are wrong."""

from itertools import combinations

import numpy as np
import pytest

from tocsin.bench import audit
from tocsin.index import audit as auditing
from tocsin.index.second_way import Held
from tocsin.model.events import EventBatch


@pytest.mark.parametrize(
    ("said", "wrong"), [({0, 1, 2}, {0}), ({0, 1, 2}, {5}), ({0, 1, 2, 3, 4}, {0, 1, 6, 7}), (set(), {3}), ({9}, {9})]
)
def test_the_chance_of_a_cell_in_doubt_is_the_share_of_draws(
    said: set[int], wrong: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "MOST_JUDGED", 2)
    doubt = set(range(10))
    draws = [
        {*answered, *unanswered}
        for answered in combinations(sorted(said), min(2, len(said)))
        for unanswered in combinations(sorted(doubt - said), 2)
    ]
    held = Held(np.arange(0), np.arange(10))
    share = np.mean([bool(drawn & wrong) for drawn in draws])
    assert audit._chance_of_cell(held, said, wrong) == pytest.approx(float(share))


def test_a_row_that_is_sure_is_found() -> None:
    assert audit._chance_of_cell(Held(np.array([4]), np.arange(3)), {0, 1}, {4}) == 1.0


def test_the_batches_until_something_is_found_are_a_mean() -> None:
    chances = [0.5, 0.1, 0.0]
    mean, nothing = 0.0, 1.0
    for number in range(2000):
        mean += nothing
        nothing *= 1 - chances[number % 3]
    assert audit._batches_until_found(chances) == pytest.approx(mean)


@pytest.mark.parametrize("name", ["IS NULL is taken for IS NOT NULL", "short codes are off by a bit"])
def test_a_mutant_changes_an_answer(name: str) -> None:
    batches = [EventBatch(audit.events(256, 1))]
    [sound] = audit._answers(batches)[2]
    with audit.seeded(name):
        [mutant] = audit._answers(batches)[2]
    assert audit._wrong(audit._said(mutant), audit._said(sound))
