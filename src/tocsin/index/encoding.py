"""Phase 1 for a batch: the codes of every column and the tests that hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tocsin.arrays import Bools, Int32s, Ragged, UInt16s
from tocsin.conjunctions.coded import Events
from tocsin.index.combined_tests import CombinedTests
from tocsin.model.events import EventBatch
from tocsin.model.readable import Values, present
from tocsin.model.result import Evidence
from tocsin.model.sql_text import shown_name
from tocsin.model.values import Kind
from tocsin.predicates.families import Family, Probed
from tocsin.predicates.ranges.domain import Domain
from tocsin.predicates.ranges.kernels import NULL_CODE, short_codes_by_rank
from tocsin.predicates.ranges.quantize import Quantizer, shifts_by_rank


@dataclass(frozen=True)
class Column:
    """An attribute as predicates of one kind see it."""

    attribute: str
    kind: Kind
    domain: Domain
    quantizer: Quantizer | None = None
    """What makes its short codes; None: they are its codes, shifted."""

    def short_codes(self, batch: EventBatch) -> UInt16s:
        """Return the short codes of a batch; those of a quantizer serve all segments."""
        if self.quantizer is None:
            shift = shifts_by_rank(np.array([self.domain.last], np.int32))
            codes = np.full((1, len(batch)), NULL_CODE, np.int32)
            codes[0] = codes_of_column(batch.column(self.attribute), self)
            by_rank: UInt16s = short_codes_by_rank(codes, shift)[0]
            return by_rank
        key = self.attribute, self.quantizer
        if key not in batch.remembered:
            batch.remembered[key] = self.quantizer.codes_of_values(batch.column(self.attribute), len(batch))
        quantized: UInt16s = batch.remembered[key]
        return quantized


def encode(
    columns: Sequence[Column],
    families: Sequence[tuple[str, str, Family]],
    batch: EventBatch,
    judged: Mapping[int, Probed],
    evidence: Evidence,
    rare: Ragged | None = None,
    combined: CombinedTests | None = None,
) -> Events:
    """Encode a batch: the codes of every column and the tests that hold; `evidence` takes what could not be read.

    `rare` has the tests of rare attributes that hold; `combined` says which tests are combined.
    """
    codes = np.zeros((len(columns) + len(families) + 1, len(batch)), np.int32)
    for place, column in enumerate(columns):
        if batch.lacks(column.attribute):
            codes[place] = NULL_CODE
        else:
            codes[place] = codes_of_column(batch.column(column.attribute), column)
    evidence.mismatches |= mismatches(columns, batch, codes == NULL_CODE)
    true, null, first_numbers = [], [], [0]
    for place, (_, _, family) in enumerate(families):
        probed = judged[place] if place in judged else family.probe(batch)
        true.append(probed.true)
        null.append(probed.null or Ragged.side_by_side([], [], len(batch)))
        first_numbers.append(first_numbers[-1] + family.count)
        evidence.errors |= probed.errors
        if probed.present is not None:
            codes[len(columns) + place] = probed.present
    if rare is not None:
        true.append(rare)
        first_numbers.append(first_numbers[-1])
    all_true = Ragged.side_by_side(true, first_numbers[:-1], len(batch))
    if combined is not None:
        all_true = combined.added_to(all_true)
    all_null = Ragged.side_by_side(null, first_numbers[: len(null)], len(batch))
    events = Events(codes, all_true.starts, all_true.values, all_null.starts, all_null.values)
    if not any(column.quantizer for column in columns):
        return events
    last_code = [column.domain.last for column in columns] + [0] * (len(families) + 1)
    short = short_codes_by_rank(codes, shifts_by_rank(np.array(last_code, np.int32)))
    for place, column in enumerate(columns):
        if column.quantizer is not None and not batch.lacks(column.attribute):
            short[place] = column.short_codes(batch)
    return events._replace(short=short, row_of=np.arange(len(codes), dtype=np.int32))


def encode_short(columns: Sequence[Column], batch: EventBatch, evidence: Evidence, rare: Ragged) -> Events:
    """Encode a batch in short codes only; full codes are then read for the few events on an end of a range.

    The last row is ANYTHING's. No family has tests; `rare` has those of rare attributes that hold.
    """
    short = np.ones((len(columns) + 1, len(batch)), np.uint16)
    for place, column in enumerate(columns):
        short[place] = 0 if batch.lacks(column.attribute) else column.short_codes(batch)
    evidence.mismatches |= mismatches(columns, batch, short == 0)
    none, starts = np.empty(0, np.int32), np.zeros(len(batch) + 1, np.int64)
    codes = np.empty((len(short), 0), np.int32)
    return Events(codes, rare.starts, rare.values, starts, none, short, np.arange(len(short), dtype=np.int32))


def codes_of(columns: Sequence[Column], batch: EventBatch, rows: Int32s) -> Int32s:
    """Return the codes of some events of a batch, those of ANYTHING last."""
    codes = np.zeros((len(columns) + 1, rows.size), np.int32)
    for place, column in enumerate(columns):
        values = batch.column(column.attribute)
        if isinstance(values, list):
            values = [values[row] for row in rows.tolist()]
        elif values is not None:
            values = values.take(pa.array(rows))
        codes[place] = codes_of_column(values, column)
    return codes


def mismatches(columns: Sequence[Column], batch: EventBatch, null: Bools) -> dict[str, int]:
    """Count the values that are there but NULL for every kind that their attribute is compared with."""
    if not null[: len(columns)].any():
        return {}
    unread: dict[str, Bools] = {}
    for place, column in enumerate(columns):
        if column.kind is not Kind.ANY and not batch.lacks(column.attribute):
            missing = null[place]
            unread[column.attribute] = unread.get(column.attribute, missing) & missing
    there = {name: gone & _present(batch, name) for name, gone in unread.items() if _may_be_there(batch, name, gone)}
    return {shown_name(name): int(rows.sum()) for name, rows in there.items() if rows.any()}


def codes_of_column(values: Values | None, column: Column) -> Int32s | int:
    """Return the codes of some values of a column."""
    if values is None:
        return NULL_CODE
    if isinstance(values, list):
        return np.array([column.domain.code(value) for value in values], np.int32)
    return column.domain.codes(values)


def _may_be_there(batch: EventBatch, attribute: str, missing: Bools) -> bool:
    """Tell whether some of the values that no kind can read may be there: NULLs are missing, all of them."""
    count, values = int(np.count_nonzero(missing)), batch.column(attribute)
    return count > 0 and not (isinstance(values, pa.Array) and values.null_count == count)


def _present(batch: EventBatch, attribute: str) -> Bools:
    values = batch.column(attribute)
    return np.zeros(len(batch), bool) if values is None else present(values)
