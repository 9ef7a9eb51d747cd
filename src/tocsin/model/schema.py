"""What events have: the names of their attributes, and the kinds of their values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tocsin.errors import OptionError
from tocsin.model.values import is_null, kind_of

Kinds = frozenset[str]
KINDS = ("number", "string", "boolean", "time", "list", "other")
"""Those of values that compare, lists, and all others."""
ANYTHING: Kinds = frozenset(KINDS)
_ARROW_KINDS = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "number"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_date, "time"),
    (pa.types.is_list, "list"),
    (pa.types.is_large_list, "list"),
    (pa.types.is_fixed_size_list, "list"),
)


@dataclass(frozen=True)
class EventSchema:
    """The attributes of events, nested ones by their dots, each with the kinds of its values; none if it has no value.

    >>> schema = EventSchema.of([{"price": 12, "user": {"name": "Ada"}}, {"price": None}])
    >>> sorted(schema.kinds), schema.kinds["price"]
    (['price', 'user', 'user.name'], frozenset({'number'}))
    """

    kinds: Mapping[str, Kinds]
    open: frozenset[str] = field(default_factory=frozenset)
    """Attributes such as maps, below which there may be any name."""
    elements: Mapping[str, "EventSchema"] = field(default_factory=dict)
    """What the elements of lists have, by attribute, where they are structs."""

    @classmethod
    def of(cls, source: Any) -> "EventSchema":
        """Return the schema of events: of Arrow's schema or table, of dicts, or of a mapping of names to kinds."""
        if isinstance(source, EventSchema):
            return source
        kinds: dict[str, Kinds] = {}
        below: set[str] = set()
        elements: dict[str, EventSchema] = {}
        if isinstance(source, pa.Schema):
            for part in source:
                _add_field(kinds, below, elements, part.name, part.type)
        elif isinstance(source, (pa.Table, pa.RecordBatch)):
            for part, column in zip(source.schema, source.columns, strict=True):
                _add_field(kinds, below, elements, part.name, part.type)
                if len(column) and column.null_count == len(column):
                    kinds[part.name] = frozenset()
        elif isinstance(source, Mapping):
            kinds = {str(name): _named(name, kind) for name, kind in source.items()}
        elif isinstance(source, Iterable) and not isinstance(source, (str, bytes)):
            items: dict[str, list[Mapping[str, Any]]] = {}
            for event in source:
                _add_values(kinds, items, "", event)
            elements = {name: cls.of(several) for name, several in items.items()}
        else:
            raise OptionError(
                f"a {type(source).__name__} is not a schema", "Give an Arrow schema, events, or names with their kinds"
            )
        return cls(kinds, frozenset(below), elements)

    def has(self, attribute: str) -> bool:
        """Tell whether events may have an attribute."""
        parts = attribute.split(".")
        return attribute in self.kinds or any(".".join(parts[:end]) in self.open for end in range(1, len(parts)))


def _named(name: str, kind: Any) -> Kinds:
    if kind is None:
        return ANYTHING
    if kind not in KINDS:
        raise OptionError(f"{name!r} is of the kind {kind!r}", f"Choose among {', '.join(KINDS)}")
    return frozenset([kind])


def _add_field(
    kinds: dict[str, Kinds], below: set[str], elements: dict[str, EventSchema], name: str, type_: pa.DataType
) -> None:
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        type_ = type_.value_type
    found = next((kind for is_kind, kind in _ARROW_KINDS if is_kind(type_)), "other")
    kinds[name] = frozenset() if pa.types.is_null(type_) else frozenset([found])
    if pa.types.is_map(type_):
        below.add(name)
    if pa.types.is_struct(type_):
        for part in type_:
            _add_field(kinds, below, elements, f"{name}.{part.name}", part.type)
    if found == "list" and pa.types.is_struct(type_.value_type):
        elements[name] = EventSchema.of(pa.schema(list(type_.value_type)))


def _add_values(
    kinds: dict[str, Kinds], items: dict[str, list[Mapping[str, Any]]], prefix: str, event: Mapping[str, Any]
) -> None:
    for key, value in event.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _add_values(kinds, items, f"{name}.", value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
            items.setdefault(name, []).extend(item for item in value if isinstance(item, Mapping))
        kind = kind_of(value)
        found = kind.value if kind is not None else "list" if isinstance(value, (list, tuple)) else "other"
        kinds[name] = kinds.get(name, frozenset()) | (frozenset() if is_null(value) else {found})
