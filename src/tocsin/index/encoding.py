"""Phase 1 for a batch: the codes of every column and the tests that hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.conjunctions.pairs.kernels import Events
from tocsin.conjunctions.pairs.layout import short_codes
from tocsin.conjunctions.pairs.shorten import shifts_by_rank
from tocsin.model.events import EventBatch
from tocsin.model.readable import Values, present
from tocsin.model.result import Evidence
from tocsin.model.values import Kind
from tocsin.predicates.families import Family, Probed, Slices
from tocsin.predicates.ranges.domain import Domain
from tocsin.predicates.ranges.kernels import NULL
from tocsin.predicates.ranges.quantize import Ruler

Int32 = npt.NDArray[np.int32]
Short = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Column:
    """An attribute as predicates of one kind see it."""

    attribute: str
    kind: Kind
    domain: Domain
    ruler: Ruler | None = None
    """What its short codes are read from; None: they are its codes, shifted."""

    def short_codes(self, batch: EventBatch) -> Short:
        """The short codes of a batch; those by a ruler serve all segments."""
        if self.ruler is None:
            shift = shifts_by_rank(np.array([self.domain.last], np.int32))
            codes = np.full((1, len(batch)), NULL, np.int32)
            codes[0] = _codes(batch.column(self.attribute), self)
            by_rank: Short = short_codes(codes, shift)[0]
            return by_rank
        key = self.attribute, self.ruler
        if key not in batch.remembered:
            batch.remembered[key] = self.ruler.codes_of_values(batch.column(self.attribute), len(batch))
        by_ruler: Short = batch.remembered[key]
        return by_ruler


def encode(
    columns: Sequence[Column],
    families: Sequence[tuple[str, str, Family]],
    batch: EventBatch,
    judged: Mapping[int, Probed],
    evidence: Evidence,
) -> Events:
    """Phase 1: the codes of every column and the tests that hold; `evidence` takes what could not be read."""
    codes = np.zeros((len(columns) + len(families) + 1, len(batch)), np.int32)
    for place, column in enumerate(columns):
        codes[place] = _codes(batch.column(column.attribute), column)
    evidence.mismatches |= _mismatches(columns, batch, codes == NULL)
    true, null, first_numbers = [], [], [0]
    for place, (_, _, family) in enumerate(families):
        probed = judged[place] if place in judged else family.probe(batch)
        true.append(probed.true)
        null.append(probed.null or Slices.side_by_side([], [], len(batch)))
        first_numbers.append(first_numbers[-1] + family.count)
        evidence.errors |= probed.errors
        if probed.present is not None:
            codes[len(columns) + place] = probed.present
    held = Slices.side_by_side(true, first_numbers[:-1], len(batch))
    unknown = Slices.side_by_side(null, first_numbers[:-1], len(batch))
    events = Events(codes, held.starts, held.values, unknown.starts, unknown.values)
    if not any(column.ruler for column in columns):
        return events
    last_code = [column.domain.last for column in columns] + [0] * (len(families) + 1)
    short = short_codes(codes, shifts_by_rank(np.array(last_code, np.int32)))
    for place, column in enumerate(columns):
        if column.ruler is not None:
            short[place] = column.short_codes(batch)
    return events._replace(short=short, row_of=np.arange(len(codes), dtype=np.int32))


def encode_short(columns: Sequence[Column], batch: EventBatch, evidence: Evidence) -> Events:
    """Short codes only, for ranges that need no others but to decide about their ends; the last row is ANYTHING's."""
    short = np.ones((len(columns) + 1, len(batch)), np.uint16)
    for place, column in enumerate(columns):
        short[place] = column.short_codes(batch)
    evidence.mismatches |= _mismatches(columns, batch, short == 0)
    none, starts = np.empty(0, np.int32), np.zeros(len(batch) + 1, np.int64)
    codes = np.empty((len(short), 0), np.int32)
    return Events(codes, starts, none, starts, none, short, np.arange(len(short), dtype=np.int32))


def codes_of(columns: Sequence[Column], batch: EventBatch, rows: Int32) -> Int32:
    """The codes of some events of a batch, those of ANYTHING last."""
    codes = np.zeros((len(columns) + 1, rows.size), np.int32)
    for place, column in enumerate(columns):
        values = batch.column(column.attribute)
        if isinstance(values, list):
            values = [values[row] for row in rows.tolist()]
        elif values is not None:
            values = values.take(pa.array(rows))
        codes[place] = _codes(values, column)
    return codes


def _mismatches(columns: Sequence[Column], batch: EventBatch, null: npt.NDArray[np.bool_]) -> dict[str, int]:
    """How many values are there but NULL for every kind their attribute is compared with."""
    if not null[: len(columns)].any():
        return {}
    unread: dict[str, npt.NDArray[np.bool_]] = {}
    for place, column in enumerate(columns):
        if column.kind is not Kind.ANY:
            missing = null[place]
            unread[column.attribute] = unread.get(column.attribute, missing) & missing
    there = {name: missing & _present(batch, name) for name, missing in unread.items() if missing.any()}
    return {name: int(rows.sum()) for name, rows in there.items() if rows.any()}


def _codes(values: Values | None, column: Column) -> Int32 | int:
    if values is None:
        return NULL
    if isinstance(values, list):
        return np.array([column.domain.code(value) for value in values], np.int32)
    return column.domain.codes(values)


def _present(batch: EventBatch, attribute: str) -> npt.NDArray[np.bool_]:
    values = batch.column(attribute)
    return np.zeros(len(batch), bool) if values is None else present(values)
