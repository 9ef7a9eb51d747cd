"""array_contains on one attribute: the elements of all lists of a batch become codes, a code is a test."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tocsin.arrays import Int32s, Ragged
from tocsin.model.condition import ArrayContains
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.untyped import readings
from tocsin.model.values import Constant, Kind, Scalar, scalar
from tocsin.predicates.definitions import DefinedFamily
from tocsin.predicates.protocol import Probed
from tocsin.predicates.ranges.domain import Domain

_PRESENT, _MISSING = np.zeros(1, np.int32), np.full(1, -1, np.int32)
"""What `Probed.present` has for the only event."""


class ArrayFamily(DefinedFamily):
    """array_contains on one attribute: domains for each kind of constant."""

    def __init__(self, attribute: str, tests: Sequence[Test]) -> None:
        super().__init__(attribute, tests)
        self._attribute = attribute
        self._domains: list[tuple[Domain, Int32s]] = []
        constants: dict[tuple[Kind, int], list[tuple[Constant, int]]] = {}
        times: Counter[tuple[Kind, Scalar]] = Counter()
        for number, test in enumerate(test for test in tests if isinstance(test, ArrayContains)):
            # A string may read as the constant of another test: a code is one test, so each goes to another domain.
            for kind, constant in readings(test.constant).items():  # type: ignore[arg-type]  # bound: no slot is left
                value = kind, scalar(constant)
                constants.setdefault((kind, times[value]), []).append((constant, number))
                times[value] += 1
        for (kind, _), named in constants.items():
            domain = Domain.of(kind, [scalar(constant) for constant, _ in named])
            # Code -1, which is NULL, reads the last code, the gap behind all constants, which is not a test either.
            test_of = np.full(domain.last + 1, -1, np.int32)
            for constant, number in named:
                test_of[domain.code(constant)] = number
            self._domains.append((domain, test_of))

    def probe(self, batch: EventBatch) -> Probed:
        """Look up every element of every list."""
        if batch.single is not None:
            return self._probe_one(batch.value(self._attribute))
        column = batch.column(self._attribute)
        rows, present, found = np.empty(0, np.int64), np.full(len(batch), -1, np.int32), []
        if isinstance(column, list):
            lists = [value if isinstance(value, (list, tuple)) else None for value in column]
            present[:] = [-1 if value is None else 0 for value in lists]
            rows = np.array([row for row, value in enumerate(lists) for _ in value or ()], np.int64)
            elements = [element for value in lists for element in value or ()]
            for domain, test_of in self._domains:
                found.append(test_of[[domain.code(element) for element in elements]])
        elif column is not None and pa.types.is_large_list(column.type):
            present[np.asarray(column.is_valid())] = 0
            rows = np.asarray(column.value_parent_indices()).astype(np.int64)
            found = [test_of[domain.codes(column.flatten())] for domain, test_of in self._domains]
        tests = np.concatenate([*found, np.empty(0, np.int32)]).astype(np.int64)
        owners = np.tile(rows, len(found)) if found else rows[:0]
        held = np.unique((owners * self.count + tests)[tests >= 0])
        starts = np.searchsorted(held, np.arange(len(batch) + 1) * self.count).astype(np.int64)
        return Probed(Ragged(starts, (held % max(self.count, 1)).astype(np.int32)), present)

    def _probe_one(self, elements: object) -> Probed:
        """Look up every element of the list of the only event."""
        is_list = isinstance(elements, (list, tuple))
        listed: Sequence[object] = elements if is_list else ()  # type: ignore[assignment]  # as was tested
        found = {int(test_of[domain.code(element)]) for element in listed for domain, test_of in self._domains}
        held = sorted(found - {-1})
        return Probed(Ragged(np.array([0, len(held)]), np.array(held, np.int32)), _PRESENT if is_list else _MISSING)
