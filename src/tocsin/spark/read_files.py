"""Read files of events as DataFrames: each attribute as the type it is compared with, malformed lines apart."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import StringType, StructField, StructType

from tocsin.errors import EventError, OptionError
from tocsin.model.values import Kind
from tocsin.spark.match import column, event_columns

MALFORMED = "_malformed"
"""The column that holds a malformed line as it stands in the file."""

SUFFIXES = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}

Kinds = Mapping[str, Set[Kind]]


@dataclass(frozen=True)
class EventFile:
    """A DataFrame of the columns that are needed, and `MALFORMED` if the format can have malformed lines."""

    events: DataFrame
    path: Path
    format: str
    can_be_malformed: bool

    def bad_lines(self, limit: int = 10) -> list[tuple[int | None, str]]:
        """Return some of the malformed lines, with their numbers if the file is plain text."""
        rows = self.events.filter(F.col(MALFORMED).isNotNull()).limit(limit).collect()
        lines = [row[MALFORMED] for row in rows]
        numbers = _line_numbers(self.path, set(lines)) if self.path.is_file() else {}
        return sorted((numbers.get(line), line) for line in lines) if numbers else [(None, line) for line in lines]


def read_events(session: SparkSession, path: Path, kinds: Kinds, id: str) -> EventFile:
    """Read the column `id` and the attributes in `kinds` from JSON Lines, CSV or Parquet, by the suffix.

    JSON has no dates and CSV no types. So a text attribute that is only compared with points in time is cast to
    timestamps, one that is only compared with numbers to numbers, and a CSV column that is only compared with strings
    stays text; a value that cannot be cast is NULL. Parquet files keep their types.
    """
    given, path = path, path.absolute()  # the JVM may have been started in another folder
    if not path.exists():
        raise OptionError(f"there is no file {given}", "Give the events as JSON Lines, CSV or Parquet")
    format_ = file_format(path)
    frame = _READERS[format_](session, path, kinds)
    if id not in frame.columns:
        if not frame.columns:
            frame = session.createDataFrame([], StructType([StructField(id, StringType())]))
        elif frame.columns == [MALFORMED]:
            raise EventError(f"no line of {path} is a JSON object", 'Write one event a line: {"id": 1, …}')
        else:
            names = ", ".join(name for name in frame.columns if name != MALFORMED)
            raise OptionError(f"the events have no column {id!r} to name them by", f"Choose with --id from {names}")
    can_be_malformed = MALFORMED in frame.columns
    columns = event_columns(frame.schema, set(kinds) | {id} | ({MALFORMED} if can_be_malformed else set()))
    frame = frame.select(*(source.alias(name) for name, source in columns.items()))
    if format_ != "parquet":
        frame = frame.withColumns(casts(frame, kinds))
    return EventFile(frame, path, format_, can_be_malformed)


def file_format(path: Path) -> str:
    """Return the format of a file, or of the files in a folder, by suffix."""
    file = next(event_files(path), path) if path.is_dir() else path
    suffixes = [suffix for suffix in file.suffixes if suffix not in COMPRESSED]
    format_ = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if format_ is None:
        raise OptionError(f"the format of {path} is unknown", f"Name it with one of {', '.join(SUFFIXES)}")
    return format_


def event_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that Spark would read, in the order of their names."""
    return (item for item in sorted(folder.rglob("*")) if item.is_file() and not item.name.startswith(("_", ".")))


def _read_json(session: SparkSession, path: Path, kinds: Kinds) -> DataFrame:  # noqa: ARG001 (one signature)
    reader = session.read.option("columnNameOfCorruptRecord", MALFORMED)
    # The first pass finds the types; the schema has the column for malformed lines only if there are any.
    return reader.schema(reader.json(str(path)).schema).json(str(path))


def _read_csv(session: SparkSession, path: Path, kinds: Kinds) -> DataFrame:
    reader = session.read.option("header", True).option("columnNameOfCorruptRecord", MALFORMED)
    found = reader.option("inferSchema", True).csv(str(path)).schema
    if not found.names:
        return session.createDataFrame([], found)
    fields = [
        StructField(field.name, StringType()) if _only(kinds, field.name) is Kind.STRING else field
        for field in found.fields
    ]
    # A line with too few or too many fields is detected only if all columns are parsed.
    reader = reader.option("columnPruning", False)
    return reader.schema(StructType([*fields, StructField(MALFORMED, StringType())])).csv(str(path))


def _read_parquet(session: SparkSession, path: Path, kinds: Kinds) -> DataFrame:  # noqa: ARG001 (one signature)
    return session.read.parquet(str(path))


_READERS = {"json": _read_json, "csv": _read_csv, "parquet": _read_parquet}


def casts(frame: DataFrame, kinds: Kinds) -> dict[str, Column]:
    """Cast text columns to the kind that they are compared with, if there is only one."""
    types = {Kind.TIME: "timestamp", Kind.NUMBER: "double"}
    return {
        field.name: column([field.name]).try_cast(types[kind])
        for field in frame.schema.fields
        if isinstance(field.dataType, StringType) and (kind := _only(kinds, field.name)) in types
    }


def _only(kinds: Kinds, attribute: str) -> Kind | None:
    """Return the one kind that an attribute is compared with; None if there are several or none."""
    compared = kinds.get(attribute, set()) - {Kind.ANY}
    return next(iter(compared)) if len(compared) == 1 else None


def _line_numbers(path: Path, lines: set[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            text = line.rstrip("\r\n")
            if text in lines and text not in numbers:
                numbers[text] = number
                if len(numbers) == len(lines):
                    break
    return numbers
