"""Read the row groups of Parquet files in which some subscription may hold, and count what is read and skipped."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.arrays import Int64s
from tocsin.errors import OptionError
from tocsin.files.formats import DataFile
from tocsin.files.row_group_filter import RowGroupFilter
from tocsin.matcher import Matcher

AT_ONCE = 131_072
"""Events that are read at a time: enough that the names of 20,000 changed subscriptions cost little an event."""


@dataclass
class ReadCounts:
    """What was read of the events: Parquet files say how many bytes of columns they have."""

    events: int = 0
    """Those in row groups that were skipped count."""
    row_groups_read: int = 0
    row_groups_skipped: int = 0
    bytes_read: int = 0
    bytes_skipped: int = 0

    def merge(self, other: "ReadCounts") -> None:
        """Add the counts of other files."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    def add(self, group: pq.RowGroupMetaData, names: Sequence[str], is_read: bool) -> None:
        """Count a row group of which these columns are read, or none."""
        sizes = {
            group.column(n).path_in_schema: group.column(n).total_compressed_size for n in range(group.num_columns)
        }
        read = sum(size for path, size in sizes.items() if is_read and any(_is_below(path, name) for name in names))
        self.events += group.num_rows
        self.row_groups_read += is_read
        self.row_groups_skipped += not is_read
        self.bytes_read += read
        self.bytes_skipped += sum(sizes.values()) - read


def scan_parquet(
    files: Sequence[DataFile], matcher: Matcher, counts: ReadCounts, wanted: AbstractSet[str] | None = None
) -> Iterator[tuple[Int64s, pa.Table]]:
    """Yield the numbers of events and the events themselves, of row groups in which a subscription may hold.

    If a subscription looks back, all events are history, and no row group is skipped. Of the columns only those of the
    `wanted` attributes are read, or all.
    """
    row_groups = None if matcher.looking_back() else RowGroupFilter(matcher.forms)
    for data in files:
        try:
            with pq.ParquetFile(data.whole()) as file:
                yield from _scan(file, row_groups, counts, wanted)
        except (OSError, pa.ArrowException) as error:
            raise OptionError(f"cannot read {data.path}: {error}", "Give files of Parquet") from error


def _scan(
    file: pq.ParquetFile, row_groups: RowGroupFilter | None, counts: ReadCounts, wanted: AbstractSet[str] | None
) -> Iterator[tuple[Int64s, pa.Table]]:
    names = file.schema_arrow.names if wanted is None else columns_to_read(file.schema_arrow, wanted)
    names = names or file.schema_arrow.names[:1]  # a batch without columns would have no rows
    chosen, numbers = [], [np.empty(0, np.int64)]
    may_match = [True] * file.num_row_groups if row_groups is None else row_groups.may_match(file.metadata)
    for group, is_read in enumerate(may_match):
        first = counts.events
        counts.add(file.metadata.row_group(group), names, is_read)
        if is_read:
            chosen.append(group)
            numbers.append(np.arange(first, counts.events))
    rows, start = np.concatenate(numbers), 0
    for batch in file.iter_batches(AT_ONCE, row_groups=chosen, columns=names) if chosen else ():
        yield rows[start : start + len(batch)], pa.Table.from_batches([batch])
        start += len(batch)


def columns_to_read(schema: pa.Schema, attributes: AbstractSet[str]) -> list[str]:
    """Return the columns of a file that attributes name: a column, the fields of structs, or what has the field in it.

    >>> inside = pa.struct([("city", pa.string()), ("tags", pa.list_(pa.string()))])
    >>> schema = pa.schema([("shop", inside), ("price", pa.int64())])
    >>> columns_to_read(schema, {"shop.city", "price", "shop.tags.x", "y"})
    ['price', 'shop.city', 'shop.tags']
    """
    leaves = set[str]()

    def add(prefix: str, type_: pa.DataType) -> None:
        leaves.add(prefix)
        if pa.types.is_struct(type_):
            for part in type_:
                add(f"{prefix}.{part.name}", part.type)

    for part in schema:
        add(part.name, part.type)
    found = set()
    for attribute in attributes:
        parts = attribute.split(".")
        heads = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        found.update([head for head in heads if head in leaves][:1])
    return sorted(found)


def _is_below(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")
