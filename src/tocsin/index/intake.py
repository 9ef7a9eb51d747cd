"""Subscriptions as users give them, one by one or as a table: what is bad is named here, and never sinks the others."""

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Float64s, Int64s
from tocsin.errors import OptionError, SubscriptionError
from tocsin.index.options import Options
from tocsin.invariants import demand
from tocsin.language.normal_form import NormalForm
from tocsin.language.parameters import bind_parameters
from tocsin.language.utility import has_utility
from tocsin.model.condition import HistoryTest
from tocsin.model.limits import Limits
from tocsin.model.readable import malformed
from tocsin.model.subscription import Subscription
from tocsin.predicates.history.join_table import attributes_of

Kept: TypeAlias = Callable[[], AbstractSet[str] | None]
"""Asked for the attributes that the history has; None: all."""

Subscriptions: TypeAlias = Any
"""A table of subscriptions: Arrow, whatever has `__arrow_c_stream__`, or dicts."""
COLUMNS = ("id", "where", "score", "weights", "tags", "params")


def table_of(subscriptions: Subscriptions) -> pa.Table:
    """Subscriptions as an Arrow table."""
    if isinstance(subscriptions, pa.Table):
        return subscriptions
    if isinstance(subscriptions, pa.RecordBatchReader):
        return subscriptions.read_all()
    if hasattr(subscriptions, "__arrow_c_stream__") or hasattr(subscriptions, "__arrow_c_array__"):
        try:
            return pa.table(subscriptions)
        except (pa.ArrowException, OverflowError) as error:
            raise OptionError(f"the table cannot be read: {error}", "Let each column be of one type") from error
    if not isinstance(subscriptions, Iterable):
        raise OptionError(f"a {type(subscriptions).__name__} is not a table", "Pass dicts, or what Arrow reads")
    rows: list[Mapping[str, Any]] = list(subscriptions)
    for row in rows:
        if not isinstance(row, Mapping):
            raise OptionError(f"a subscription is a mapping, not {type(row).__name__}", "Pass dicts, or an Arrow table")
    given = [name for name in COLUMNS if not rows or any(name in row for row in rows)]
    return pa.table({name: _column_of([row.get(name) for row in rows]) for name in given})


def _column_of(values: list[Any]) -> pa.Array:
    values = [json.dumps(dict(value), default=_typed) if isinstance(value, Mapping) else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        # As texts they get into one column, where each row is judged by itself.
        texts = [None if value is None else str(value).encode(errors="surrogatepass") for value in values]
        return pa.array(texts, pa.large_binary()).view(pa.large_string())


def _typed(value: Any) -> Any:
    """A value that JSON does not have, such that `_parameter` reads it back."""
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    return {"decimal": str(value)} if isinstance(value, Decimal) else str(value)


_TYPED: dict[str, Callable[[str], Any]] = {
    "timestamp": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "decimal": Decimal,
}


def _parameter(value: Any) -> Any:
    if isinstance(value, list):
        return [_parameter(item) for item in value]
    if isinstance(value, dict) and len(value) == 1 and value.keys() <= _TYPED.keys():
        [(form, text)] = value.items()
        return _TYPED[form](text)
    return value


class SubscriptionRows(NamedTuple):
    """Subscriptions by columns."""

    ids: Sequence[str]
    texts: Sequence[str]
    scores: Float64s
    extras: Sequence[str]
    """JSON of weights and tags; empty text for most."""

    @classmethod
    def of(cls, subscriptions: Sequence[Subscription]) -> "SubscriptionRows":
        """The rows of subscriptions."""
        return cls(
            [subscription.id for subscription in subscriptions],
            [subscription.where for subscription in subscriptions],
            np.array([subscription.score for subscription in subscriptions], np.float64),
            [packed(subscription.weights, subscription.tags) for subscription in subscriptions],
        )

    def subscriptions(self) -> list[Subscription]:
        """The subscriptions of the rows."""
        columns = zip(self.ids, self.texts, self.scores.tolist(), self.extras, strict=True)
        return [Subscription(id, where, score, **unpacked(extras)) for id, where, score, extras in columns]

    def take(self, rows: Int64s) -> "SubscriptionRows":
        """Some of the rows, in this order."""
        places = rows.tolist()
        ids, texts, extras = ([column[row] for row in places] for column in (self.ids, self.texts, self.extras))
        return SubscriptionRows(ids, texts, self.scores[rows], extras)


def parse_rows(
    rows: SubscriptionRows, options: Options, kept: Kept | None = None
) -> tuple[SubscriptionRows, NormalForm, list[SubscriptionError]]:
    """The rows that can be understood, sorted by id, their normal form, and an error for each of the others.

    This is the only place where texts are parsed. `kept` says what the history has, if it is not what the options say.
    """
    form = options.normalise(rows.texts, rows.ids)
    refuse_unkept(form, rows.ids, rows.texts, options, kept)
    errors = list(form.errors.values())
    by_id = np.asarray(pc.sort_indices(pa.array(rows.ids, pa.large_string()))).astype(np.int64)
    if errors:
        by_id = by_id[~np.isin(by_id, list(form.errors))]
    if not errors and np.array_equal(by_id, np.arange(by_id.size)):
        return rows, form, errors
    return rows.take(by_id), form.select(by_id), errors


def refuse_unkept(
    form: NormalForm, ids: Sequence[str], texts: Sequence[str], options: Options, kept: Kept | None = None
) -> None:
    """Add an error for each text that looks back at an attribute that the history does not keep, or with UTILITY."""
    looking_back = {n: t.test for n, t in enumerate(form.tests) if isinstance(t.test, HistoryTest)}
    if not looking_back:
        return
    known = options.kept if kept is None else kept()
    missing = (
        {n: sorted(attributes_of([test]) - known) for n, test in looking_back.items()} if known is not None else {}
    )
    for row in np.flatnonzero(np.isin(form.test_id, list(looking_back))).tolist():
        text = int(form.owner[form.test_conjunction[row]])
        unkept = missing.get(int(form.test_id[row]))
        if options.history is None:
            message, hint = "it looks back, and no event is remembered", 'Make the matcher with history="all"'
        elif unkept and options.kept is not None and not options.kept.issuperset(unkept):
            message = f"the history does not keep {', '.join(unkept)}"
            hint = f'It keeps {", ".join(sorted(options.kept))}: make the matcher with history="all", or name it there'
        elif unkept:
            message = f"an older Tocsin remembered events without {', '.join(unkept)}"
            hint = "Call history.clear() to begin a new history, or wait until these events have expired"
        elif has_utility(texts[text]):
            message, hint = "it looks back, and UTILITY says what its alternatives are worth", "Make two of it"
        else:
            continue
        form.errors.setdefault(text, SubscriptionError(message, hint, subscription=ids[text]))


def checked(id: str, where: str, score: Any, weights: Any, tags: Any, params: Any = None) -> Subscription:
    """A subscription whose id is well-formed text, score and weights are numbers, and tags are texts.

    >>> checked("a", "x > 1", 2, {"x": "0.5"}, {"tenant": 7})
    Subscription(id='a', where='x > 1', score=2.0, weights={'x': 0.5}, tags={'tenant': '7'})
    """
    if not isinstance(id, str) or not id:
        raise OptionError(f"a subscription's id is a text that is not empty, not {id!r}", "Pass a str")
    if not _is_unicode(id):
        raise OptionError(f"half a surrogate pair in the id {id!r}", "Give well-formed Unicode text")
    bound = where if params is None else _bound(id, where, params)
    return Subscription(id, bound, number(id, "score", score), *_mappings(id, weights, tags))


def _bound(id: str, where: str, params: Mapping[str, Any]) -> str:
    try:
        return bind_parameters(where, params)
    except SubscriptionError as error:
        raise error.of(id) from None


def number(id: str, name: str, value: Any) -> float:
    """The score or a weight of a subscription. Raises SubscriptionError if it is not a number."""
    try:
        converted = float(value)
    except (TypeError, ValueError):
        converted = math.nan
    if math.isnan(converted):
        raise SubscriptionError(f"its {name} is {value!r}", "Give a number", subscription=id)
    return converted


_PACKED: dict[str, tuple[type, ...]] = {"weights": (int, float), "tags": (str,)}
"""What is packed, and the types of its values."""


def packed(weights: Mapping[str, float], tags: Mapping[str, str]) -> str:
    """Weights and tags as JSON; the empty text if there are none, as for most."""
    extras = {name: dict(value) for name, value in (("weights", weights), ("tags", tags)) if value}
    return json.dumps(extras, ensure_ascii=False) if extras else ""


def unpacked(text: str) -> dict[str, dict[str, Any]]:
    """Weights and tags from what `packed` made of them; raise BrokenInvariantError if it did not make this.

    >>> unpacked(packed({}, {"tenant": "acme"})), unpacked("")
    ({'tags': {'tenant': 'acme'}}, {})
    """
    if not text:
        return {}
    try:
        extras = json.loads(text)
    except (ValueError, RecursionError):
        extras = None
    is_packed = isinstance(extras, dict) and all(
        isinstance(given, dict) and name in _PACKED and all(isinstance(one, _PACKED[name]) for one in given.values())
        for name, given in extras.items()
    )
    demand(is_packed, "extras.bytes", "it is not what a subscription has")
    return dict(extras)


def read(table: pa.Table, limits: Limits) -> tuple[SubscriptionRows, list[SubscriptionError]]:
    """The good rows of a table `id, where[, score, weights, tags, params]`, and an error for each of the others.

    Of rows with the same id the last counts. What is beyond the limits of one subscription is an error.
    """
    missing = [name for name in ("id", "where") if name not in table.column_names]
    if missing:
        raise OptionError(
            f"the table has no column {' and no column '.join(map(repr, missing))}",
            f"It has {', '.join(table.column_names)}; rename its columns",
        )
    table, bad = _readable(table)
    ids = [str(value) if value is not None else "" for value in table.column("id").to_pylist()]
    for row, id in enumerate(ids):
        if not id and row not in bad:
            bad[row] = SubscriptionError("no id", "Give it one in the column id", subscription=f"row {row}")
    last = {id: row for row, id in enumerate(ids)}
    scores = _scores(table, ids, bad)
    extras = _extras(table, ids, bad, limits)
    texts = _texts(table, ids, bad)
    longest = (max((len(one) for one in some if isinstance(one, str)), default=0) for some in (ids, texts))
    if not limits.allow_texts(*longest):
        # Hardly ever; to check a million one by one takes a second.
        for row, (id, text) in enumerate(zip(ids, texts, strict=True)):
            if isinstance(text, str) and row not in bad:
                try:
                    limits.check_text(id, text)
                except SubscriptionError as error:
                    bad[row] = error
    rows = sorted(set(last.values()) - bad.keys())
    if len(rows) < len(ids):
        ids, texts, extras = ([column[row] for row in rows] for column in (ids, texts, extras))
        scores = scores[rows]
    return SubscriptionRows(ids, texts, scores, extras), [bad[row] for row in sorted(bad)]


def _texts(table: pa.Table, ids: Sequence[str], bad: dict[int, SubscriptionError]) -> list[str]:
    """The conditions, with the values of their parameters in them."""
    texts: list[str] = table.column("where").to_pylist()
    if "params" not in table.column_names:
        return texts
    for row, given in enumerate(table.column("params").to_pylist()):
        if given is None or row in bad or not isinstance(texts[row], str):
            continue
        try:
            params = {name: _parameter(value) for name, value in _mapping(ids[row], "params", given).items()}
            texts[row] = _bound(ids[row], texts[row], params)
        except SubscriptionError as error:
            bad[row] = error
    return texts


def _readable(table: pa.Table) -> tuple[pa.Table, dict[int, SubscriptionError]]:
    """The columns that count, with NULL in the rows that cannot be read, and an error for each of these."""
    table = table.select([name for name in COLUMNS if name in table.column_names])
    bad = {}
    for row, reason in malformed(table):
        try:
            name = str(table.column("id")[row].as_py() or f"row {row}")
        except UnicodeDecodeError:
            name = f"row {row}"
        bad[row] = SubscriptionError(f"it cannot be read: {reason}", "Write its texts as UTF-8", subscription=name)
    if bad:
        table = table.take(pa.array([None if row in bad else row for row in range(len(table))], pa.int64()))
    return table, bad


def _scores(table: pa.Table, ids: Sequence[str], bad: dict[int, SubscriptionError]) -> Float64s:
    scores = np.ones(len(ids))
    if "score" not in table.column_names:
        return scores
    column = table.column("score")
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        converted = np.asarray(column.cast(pa.float64()).fill_null(1.0))
        if not np.isnan(converted).any():
            return converted
    for row, value in enumerate(column.to_pylist()):
        if value is not None:
            try:
                scores[row] = number(ids[row], "score", value)
            except SubscriptionError as error:
                bad.setdefault(row, error)
    return scores


def _extras(table: pa.Table, ids: Sequence[str], bad: dict[int, SubscriptionError], limits: Limits) -> list[str]:
    extras = [""] * len(ids)
    if "weights" not in table.column_names and "tags" not in table.column_names:
        return extras
    nothing = [None] * len(ids)
    columns = (
        table.column(name).to_pylist() if name in table.column_names else nothing for name in ("weights", "tags")
    )
    for row, (weights, tags) in enumerate(zip(*columns, strict=True)):
        try:
            mappings = _mappings(ids[row], weights, tags)
            limits.check_tags(ids[row], *mappings)
            extras[row] = packed(*mappings)
        except SubscriptionError as error:
            bad.setdefault(row, error)
    return extras


def _mappings(id: str, weights: Any, tags: Any) -> tuple[dict[str, float], dict[str, str]]:
    numbers = {name: number(id, f"weight of {name}", value) for name, value in _mapping(id, "weights", weights).items()}
    texts = {name: str(value) for name, value in _mapping(id, "tags", tags).items()}
    for text in (*numbers, *texts, *texts.values()):
        if not _is_unicode(text):
            raise SubscriptionError(
                f"{text!r} contains half a surrogate pair", "Give well-formed text", subscription=id
            )
    return numbers, texts


def _mapping(id: str, name: str, value: Any) -> dict[str, Any]:
    """A mapping from one, from the pairs of an Arrow map, or from JSON text; fields that are NULL do not count."""
    try:
        given = json.loads(value or "{}") if isinstance(value, str) else value
        return {str(key): item for key, item in dict(given or {}).items() if item is not None}
    except (TypeError, ValueError) as error:
        raise SubscriptionError(
            f"its {name} are {value!r}", "Give a mapping, or leave them out", subscription=id
        ) from error


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
