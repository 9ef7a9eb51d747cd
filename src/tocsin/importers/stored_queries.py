"""Read the queries that a percolator has stored: documents of an index, as they are exported."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.files.formats import DataFile, data_files
from tocsin.importers.imported import Imported, UntranslatableError
from tocsin.importers.percolator import Fields, condition_of
from tocsin.model.subscription import Subscription


def import_queries(
    paths: Sequence[Path],
    fields: Fields,
    query_field: str = "query",
    progress: Callable[[int], object] = lambda _: None,
) -> Imported:
    """Translate the stored queries of files and folders; what has no exact equivalent is rejected with the reason.

    A file holds documents, one a line or as an array: hits of a search (`_id`, `_source`), lines of a bulk request, or
    objects with an `id`. The query is in `query_field`; other fields that hold a text become tags.
    `progress` is called with the number of queries so far.
    """
    imported = Imported()
    for file in [file for path in paths for file in data_files(path, "queries", "jsonl")]:
        for place, document in enumerate(_documents(file), start=1):
            progress(len(imported.subscriptions) + len(imported.rejected))
            name = f"{file.name} {place}"
            if not isinstance(document, Mapping) or not isinstance(document.get("_source", document), Mapping):
                way_out = 'Write {"id": "…", "query": {…}}'
                imported.rejected.append(SubscriptionError("not an object", way_out, subscription=name))
                continue
            name = str(document.get("_id", document.get("id", name)))
            source = document.get("_source", document)
            try:
                where = condition_of(source.get(query_field), fields)
            except UntranslatableError as error:
                imported.rejected.append(SubscriptionError(error.message, error.hint, subscription=name))
                continue
            tags = {
                key: value
                for key, value in source.items()
                if isinstance(value, str) and key not in ("id", "_id", query_field)
            }
            imported.subscriptions.append(Subscription(name, where, 1.0, {}, tags))
    return imported


def _documents(file: DataFile) -> Iterator[Any]:
    """The documents of a file. In a bulk request a line with the action comes before each of them."""
    with file.open_text() as lines:
        text = lines.read()
    try:
        whole = json.loads(text)
    except ValueError:
        whole = [_parsed(line, file, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if isinstance(whole, dict):
        hits = whole.get("hits")
        whole = hits.get("hits") if isinstance(hits, dict) else [whole]
    if not isinstance(whole, list):
        whole = [whole]
    action: Mapping[str, Any] | None = None
    for one in whole:
        if isinstance(one, dict) and set(one) <= {"index", "create"} and len(one) == 1:
            action = dict(next(iter(one.values())) or {})
        else:
            yield one if action is None else {"_id": action.get("_id"), "_source": one}
            action = None


def _parsed(line: str, file: DataFile, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise SubscriptionError(
            f"line {number} of {file.name} is not JSON: {error}", "Export the queries again"
        ) from error
