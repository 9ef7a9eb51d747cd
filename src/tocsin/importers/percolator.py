"""Elasticsearch and OpenSearch queries, as stored for their percolator, to conditions.

A query of theirs is TRUE or FALSE of a document; a missing field makes it FALSE. So what stands under `must_not`
becomes `(…) IS NOT TRUE`. Fields have one value; those that hold lists are named in `lists`. What has no exact
equivalent raises `UntranslatableError` with the reason.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import combinations
from math import comb
from typing import Any

from tocsin.importers.dates import DateBound, DateMathError, date_bound
from tocsin.importers.imported import UntranslatableError
from tocsin.importers.query_string import Clause, Phrase, QueryStringError, Range, Term, parse_query_string
from tocsin.importers.sql import (
    ELEMENT,
    Wildcard,
    all_of,
    any_of,
    has_expression,
    in_networks,
    is_in,
    is_like,
    literal,
    name,
    not_true,
    on_element,
)
from tocsin.model.places import metres

MOST_COMBINATIONS = 500
"""The most alternatives that a `minimum_should_match` may become."""

TEXTS = {"text", "match_only_text", "search_as_you_type"}
EXACT = {"keyword", "constant_keyword", "wildcard", "ip", "version"}
NUMBERS = {"long", "integer", "short", "byte", "double", "float", "half_float", "scaled_float", "unsigned_long"}
DATES = {"date", "date_nanos"}

Query = Mapping[str, Any]


@dataclass(frozen=True)
class Fields:
    """What is known about the fields of the documents: the mapping of the index, and which fields hold lists."""

    types: Mapping[str, str] = field(default_factory=dict)
    lists: frozenset[str] = frozenset()

    @classmethod
    def of_mapping(cls, mapping: Mapping[str, Any], lists: Iterable[str] = ()) -> "Fields":
        """Read a mapping as `GET index/_mapping` returns it, or only its `properties`.

        >>> Fields.of_mapping({"properties": {"user": {"properties": {"name": {"type": "keyword"}}}}}).types
        {'user.name': 'keyword'}
        """
        while (
            "properties" not in mapping and len(mapping) == 1 and "type" not in (inner := next(iter(mapping.values())))
        ):
            mapping = inner
        return cls(dict(_flat(mapping.get("properties", mapping), "")), frozenset(lists))

    def type_of(self, field: str) -> str | None:
        """The type of a field; None if it is not known."""
        return self.types.get(field)

    def matching(self, pattern: str) -> list[str]:
        """The fields that a name with `*` stands for."""
        wanted = re.compile(".*".join(re.escape(part) for part in pattern.split("*")))
        return sorted(field for field in self.types if wanted.fullmatch(field))


def _flat(properties: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, definition in properties.items():
        if "properties" in definition:
            yield from _flat(definition["properties"], f"{prefix}{key}.")
        if "type" in definition:
            yield prefix + key, definition["type"]
        for sub, one in definition.get("fields", {}).items():
            yield f"{prefix}{key}.{sub}", one["type"]


def condition_of(query: Query, fields: Fields | None = None) -> str:
    """Translate a query of the DSL to a condition.

    >>> condition_of({"bool": {"must": {"term": {"shop": "north"}}, "must_not": {"range": {"price": {"gte": 10}}}}})
    '"shop" = \\'north\\' AND ("price" >= 10) IS NOT TRUE'
    """
    return _Translator(fields or Fields()).query(query)


class _Translator:
    def __init__(self, fields: Fields, inside: str | None = None) -> None:
        self._fields = fields
        self._inside = inside
        """The list of objects that the query is on the elements of."""

    def query(self, query: Any) -> str:
        """The condition of a query: an object with one key, the type of the query."""
        if not isinstance(query, Mapping) or len(query) != 1:
            raise UntranslatableError("query", "a query is an object with one key, its type")
        [(kind, body)] = query.items()
        translate = self._translations().get(kind)
        if translate is None:
            raise UntranslatableError(kind, _REASONS.get(kind, "there is no such query here"))
        try:
            return translate(body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UntranslatableError(kind, f"its form is not understood ({error})") from error

    def _translations(self) -> dict[str, Callable[[Any], str]]:
        return {
            "match_all": self._match_all,
            "match_none": self._match_none,
            "bool": self._bool,
            "nested": self._nested,
            "constant_score": self._constant_score,
            "dis_max": self._dis_max,
            "boosting": self._boosting,
            "function_score": self._function_score,
            "term": self._term,
            "terms": self._terms,
            "ids": self._ids,
            "exists": self._exists,
            "prefix": self._prefix,
            "wildcard": self._wildcard,
            "regexp": self._regexp,
            "range": self._range,
            "match": self._match,
            "match_phrase": self._match_phrase,
            "match_phrase_prefix": self._match_phrase_prefix,
            "match_bool_prefix": self._match_bool_prefix,
            "multi_match": self._multi_match,
            "query_string": self._query_string,
            "simple_query_string": self._simple_query_string,
            "geo_distance": self._geo_distance,
            "geo_bounding_box": self._geo_bounding_box,
        }

    # Compound queries.

    def _match_all(self, _: Any) -> str:
        return "TRUE"

    def _match_none(self, _: Any) -> str:
        return "FALSE"

    def _bool(self, body: Query) -> str:
        _only("bool", body, "must", "filter", "should", "must_not", "minimum_should_match", "adjust_pure_negative")
        required = [self.query(one) for key in ("must", "filter") for one in _list(body.get(key))]
        should = [self.query(one) for one in _list(body.get("should"))]
        excluded = [not_true(self.query(one)) for one in _list(body.get("must_not"))]
        least = _least(body.get("minimum_should_match"), len(should), 0 if required else 1)
        if should:
            required.append(_at_least(least, should))
        return all_of([*required, *excluded])

    def _nested(self, body: Query) -> str:
        """A condition on one element of a list of objects; other fields do not exist for it."""
        _only("nested", body, "path", "query", "score_mode", "ignore_unmapped", "inner_hits")
        path = str(body["path"])
        if self._inside is not None:
            raise UntranslatableError("nested", f"a list inside the elements of {self._inside!r}")
        where = on_element(_Translator(self._fields, path).query(body["query"]), path)
        if where is None:
            raise UntranslatableError("nested", f"a field outside of {path!r}")
        return f"EXISTS (SELECT 1 FROM UNNEST({name(path)}) {ELEMENT} WHERE {where})"

    def _constant_score(self, body: Query) -> str:
        return self.query(body["filter"])

    def _dis_max(self, body: Query) -> str:
        return any_of([self.query(one) for one in body["queries"]])

    def _boosting(self, body: Query) -> str:
        return self.query(body["positive"])

    def _function_score(self, body: Query) -> str:
        if "min_score" in body:
            raise UntranslatableError("function_score", "min_score depends on relevance scores")
        return self.query(body.get("query", {"match_all": {}}))

    # Exact values.

    def _term(self, body: Query) -> str:
        column, given = _one_field("term", body)
        given = given if isinstance(given, Mapping) else {"value": given}
        _only("term", given, "value", "case_insensitive")
        return self._equals("term", column, given["value"], bool(given.get("case_insensitive")))

    def _equals(self, part: str, column: str, value: Any, any_case: bool = False) -> str:
        kind = self._fields.type_of(column)
        if kind in TEXTS:
            return self._token(part, column, str(value))
        if any_case and isinstance(value, str):
            return is_like(column, [value], any_case=True)
        if column in self._fields.lists:
            return f"array_contains({name(column)}, {literal(self._typed(part, column, value))})"
        if kind in DATES:
            return self._moment_range(part, column, {"gte": value, "lte": value})
        if kind == "ip":
            return in_networks(column, [_network(part, value)])
        return f"{name(column)} = {literal(self._typed(part, column, value))}"

    def _terms(self, body: Query) -> str:
        column, values = _one_field("terms", {key: value for key, value in body.items() if key != "boost"})
        if isinstance(values, Mapping):
            raise UntranslatableError("terms", "terms are looked up in another document")
        kind = self._fields.type_of(column)
        if kind in TEXTS or kind in DATES or column in self._fields.lists:
            return any_of([self._equals("terms", column, value) for value in values])
        if kind == "ip":
            return in_networks(column, [_network("terms", value) for value in values])
        return is_in(column, [self._typed("terms", column, value) for value in values])

    def _typed(self, part: str, column: str, value: Any) -> Any:
        """A value as the type of its field has it: Elasticsearch reads numbers and booleans from texts."""
        kind = self._fields.type_of(column)
        if kind in NUMBERS and isinstance(value, str):
            return float(value) if re.search("[.eE]", value) else int(value)
        if kind == "boolean" and not isinstance(value, bool):
            return {"true": True, "false": False, "": False}[str(value)]
        if kind in EXACT and not isinstance(value, str):
            return json.dumps(value)
        if value is None or isinstance(value, (list, dict)):
            raise UntranslatableError(part, f"{json.dumps(value)} is not a value to compare with")
        return value

    def _ids(self, body: Query) -> str:
        values = body["values"]
        return is_in("_id", [str(value) for value in (values if isinstance(values, list) else [values])])

    def _exists(self, body: Query) -> str:
        column = str(body["field"])
        inside = [field for field in self._fields.types if field.startswith(f"{column}.")]
        if inside and self._fields.type_of(column) is None:
            return any_of([f"{name(field)} IS NOT NULL" for field in inside])
        return f"{name(column)} IS NOT NULL"

    def _prefix(self, body: Query) -> str:
        column, given = _one_field("prefix", body)
        given = given if isinstance(given, Mapping) else {"value": given}
        _only("prefix", given, "value", "case_insensitive", "rewrite")
        if self._fields.type_of(column) in TEXTS:
            return self._token("prefix", column, str(given["value"]), "*")
        return is_like(column, [str(given["value"]), Wildcard.ANY], any_case=bool(given.get("case_insensitive")))

    def _wildcard(self, body: Query) -> str:
        column, given = _one_field("wildcard", body)
        given = given if isinstance(given, Mapping) else {"value": given}
        _only("wildcard", given, "value", "wildcard", "case_insensitive", "rewrite")
        text = str(given.get("value", given.get("wildcard")))
        return self._pattern("wildcard", column, text, bool(given.get("case_insensitive")))

    def _pattern(self, part: str, column: str, text: str, any_case: bool) -> str:
        pieces = [one for one in re.split(r"(\\.|[*?])", text) if one]
        if self._fields.type_of(column) in TEXTS:
            if pieces[1:] == ["*"]:
                return self._token(part, column, pieces[0], "*")
            raise UntranslatableError(part, f"wildcards inside the words of {column!r}, which is text")
        signs = {"*": Wildcard.ANY, "?": Wildcard.ONE}
        found = [signs.get(piece) or (piece[1:] if piece[0] == "\\" else piece) for piece in pieces]
        return is_like(column, found, any_case=any_case)

    def _regexp(self, body: Query) -> str:
        column, given = _one_field("regexp", body)
        given = given if isinstance(given, Mapping) else {"value": given}
        _only("regexp", given, "value", "flags", "case_insensitive", "max_determinized_states", "rewrite")
        if self._fields.type_of(column) in TEXTS or column in self._fields.lists:
            raise UntranslatableError("regexp", f"{column!r} holds several values or words, and each is matched alone")
        flags = str(given.get("flags", "ALL")).upper()
        expression = _of_lucene(str(given["value"]), has_operators=flags not in ("", "NONE"))
        any_case = bool(given.get("case_insensitive"))
        if any_case and not expression.isascii():
            raise UntranslatableError("regexp", "letters beyond ASCII in any case")
        return has_expression(column, expression, "is" if any_case else "s", whole=True)

    def _range(self, body: Query) -> str:
        column, given = _one_field("range", {key: value for key, value in body.items() if key != "boost"})
        _only(
            "range",
            given,
            "gt",
            "gte",
            "lt",
            "lte",
            "from",
            "to",
            "include_lower",
            "include_upper",
            "boost",
            "format",
            "time_zone",
            "relation",
        )
        bounds = {key: given[key] for key in ("gt", "gte", "lt", "lte") if given.get(key) is not None}
        if given.get("from") is not None:
            bounds["gte" if given.get("include_lower", True) else "gt"] = given["from"]
        if given.get("to") is not None:
            bounds["lte" if given.get("include_upper", True) else "lt"] = given["to"]
        if not bounds:
            return f"{name(column)} IS NOT NULL"
        kind = self._fields.type_of(column)
        if kind in TEXTS:
            raise UntranslatableError("range", f"{column!r} is text: its words have a range, not its value")
        if kind in DATES:
            return self._moment_range("range", column, bounds, given.get("format"), given.get("time_zone"))
        values = {key: self._typed("range", column, value) for key, value in bounds.items()}
        if kind is None and any(isinstance(value, str) for value in values.values()):
            raise UntranslatableError(
                "range", f"whether {column!r} holds dates or words is not known: give the mapping"
            )
        signs = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
        if kind == "ip":
            order = f"ip_order({name(column)})"
            return all_of([f"{order} {signs[key]} ip_order({literal(value)})" for key, value in values.items()])
        return all_of([f"{name(column)} {signs[key]} {literal(value)}" for key, value in values.items()])

    def _moment_range(
        self, part: str, column: str, bounds: Mapping[str, Any], format: str | None = None, zone: str | None = None
    ) -> str:
        """A range of points in time; a bound that names a day or a month is its first or last instant."""
        conditions = []
        for key, value in bounds.items():
            try:
                bound = date_bound(value, round_up=key in ("gt", "lte"), format=format, zone=zone)
            except DateMathError as error:
                raise UntranslatableError(part, f"{column!r}: {error}") from error
            # Texts of attributes are read as times when events are read; those inside of lists are not.
            value = name(column) if self._inside is None else f"TRY_CAST({name(column)} AS TIMESTAMP)"
            conditions.append(_moment_condition(value, key, bound))
        return all_of(conditions)

    # Words.

    def _match(self, body: Query) -> str:
        column, given = _one_field("match", body)
        given = given if isinstance(given, Mapping) else {"query": given}
        _only(
            "match",
            given,
            "query",
            "operator",
            "minimum_should_match",
            "zero_terms_query",
            "boost",
            "lenient",
            "auto_generate_synonyms_phrase_query",
            "fuzziness",
            "max_expansions",
            "prefix_length",
        )
        if str(given.get("fuzziness", "0")) not in ("0", "0.0"):
            raise UntranslatableError("match", "words that are only similar (fuzziness)")
        return self._match_words("match", column, given)

    def _match_words(self, part: str, column: str, given: Query) -> str:
        if not self._is_text(column, given["query"]):
            return self._equals(part, column, given["query"])
        words = self._words(part, str(given["query"]))
        if not words:
            return "TRUE" if given.get("zero_terms_query") == "all" else "FALSE"
        if str(given.get("operator", "or")).lower() == "and":
            return _has_words(column, words)
        least = _least(given.get("minimum_should_match"), len(words), 1)
        return _at_least(least, [_has_words(column, [word]) for word in words])

    def _is_text(self, column: str, value: Any) -> bool:
        """Whether a match looks for words: in a text, and in a field that is not known if a text is looked for."""
        kind = self._fields.type_of(column)
        return kind in TEXTS or (kind is None and isinstance(value, str))

    def _match_phrase(self, body: Query) -> str:
        column, given = _one_field("match_phrase", body)
        given = given if isinstance(given, Mapping) else {"query": given}
        _only("match_phrase", given, "query", "slop", "zero_terms_query", "boost")
        if given.get("slop"):
            raise UntranslatableError("match_phrase", "words that are only near each other (slop)")
        return self._phrase("match_phrase", column, given["query"])

    def _phrase(self, part: str, column: str, text: Any) -> str:
        if not self._is_text(column, text):
            return self._equals(part, column, text)
        words = self._words(part, str(text))
        return f"has_phrase({name(column)}, {literal(' '.join(words))})" if words else "FALSE"

    def _match_bool_prefix(self, body: Query) -> str:
        column, given = _one_field("match_bool_prefix", body)
        given = given if isinstance(given, Mapping) else {"query": given}
        _only("match_bool_prefix", given, "query", "operator", "minimum_should_match", "boost")
        words = self._words("match_bool_prefix", str(given["query"]))
        if not words:
            return "FALSE"
        terms = [_has_words(column, [word]) for word in [*words[:-1], f"{words[-1]}*"]]
        if str(given.get("operator", "or")).lower() == "and":
            return all_of(terms)
        return _at_least(_least(given.get("minimum_should_match"), len(terms), 1), terms)

    def _match_phrase_prefix(self, body: Query) -> str:
        column, given = _one_field("match_phrase_prefix", body)
        given = given if isinstance(given, Mapping) else {"query": given}
        words = self._words("match_phrase_prefix", str(given["query"]))
        if len(words) != 1:
            raise UntranslatableError("match_phrase_prefix", "a phrase whose last word is only begun")
        return _has_words(column, [f"{words[0]}*"])

    def _multi_match(self, body: Query) -> str:
        _only(
            "multi_match",
            body,
            "query",
            "fields",
            "type",
            "operator",
            "minimum_should_match",
            "tie_breaker",
            "boost",
            "zero_terms_query",
            "lenient",
        )
        kind = body.get("type", "best_fields")
        columns = self._columns("multi_match", body["fields"])
        if kind in ("best_fields", "most_fields"):
            return any_of([self._match_words("multi_match", column, body) for column in columns])
        if kind == "phrase":
            return any_of([self._phrase("multi_match", column, body["query"]) for column in columns])
        if kind == "cross_fields":
            terms = [
                any_of([_has_words(column, [word]) for column in columns])
                for word in self._words("multi_match", str(body["query"]))
            ]
            if not terms:
                return "FALSE"
            wanted = len(terms) if str(body.get("operator", "or")).lower() == "and" else 1
            return _at_least(_least(body.get("minimum_should_match"), len(terms), wanted), terms)
        raise UntranslatableError("multi_match", f"type {kind!r}")

    def _columns(self, part: str, fields: Sequence[str]) -> list[str]:
        """The fields by name, without their boosts."""
        found: list[str] = []
        for given in _list(fields):
            column = str(given).split("^")[0]
            if "*" in column:
                matching = self._fields.matching(column)
                if not matching:
                    raise UntranslatableError(
                        part, f"which fields {column!r} stands for is not known: give the mapping"
                    )
                found += matching
            else:
                found.append(column)
        return found

    def _token(self, part: str, column: str, text: str, star: str = "") -> str:
        """One word of a text as its analyzer leaves it: a term is not analyzed itself."""
        if _SIMPLE_WORD.fullmatch(text) is None or text != text.lower():
            raise UntranslatableError(part, f"{column!r} is text, and {text!r} is not one of its words in lower case")
        return _has_words(column, [text + star])

    def _words(self, part: str, text: str) -> list[str]:
        """The words of a text. Raises where the standard analyzer would keep signs inside a word."""
        joined = _JOINED.search(text)
        if joined is not None:
            raise UntranslatableError(part, f"{joined.group()!r} is one word for the standard analyzer, and two here")
        return re.findall(r"\w+", text)

    # The query languages in a string.

    def _query_string(self, body: Query) -> str:
        _only(
            "query_string",
            body,
            "query",
            "default_field",
            "fields",
            "default_operator",
            "boost",
            "lenient",
            "analyze_wildcard",
            "allow_leading_wildcard",
            "tie_breaker",
            "type",
        )
        return self._in_a_string("query_string", body, simple=False)

    def _simple_query_string(self, body: Query) -> str:
        _only(
            "simple_query_string", body, "query", "fields", "default_operator", "boost", "lenient", "analyze_wildcard"
        )
        return self._in_a_string("simple_query_string", body, simple=True)

    def _in_a_string(self, part: str, body: Query, simple: bool) -> str:
        fields = body.get("fields") or ([body["default_field"]] if "default_field" in body else [])
        columns = self._columns(part, fields)
        is_and = str(body.get("default_operator", "or")).lower() == "and"
        try:
            clauses = parse_query_string(str(body["query"]), is_and=is_and, simple=simple)
        except QueryStringError as error:
            raise UntranslatableError(part, str(error)) from error
        return self._clauses(part, clauses, columns)

    def _clauses(self, part: str, clauses: Sequence[Clause], columns: list[str]) -> str:
        """Clauses that must hold, may hold and must not hold, as Lucene combines them."""
        conditions = {
            role: [self._clause(part, clause, columns) for clause in clauses if clause.role == role]
            for role in ("must", "should", "must_not")
        }
        required = conditions["must"] or ([any_of(conditions["should"])] if conditions["should"] else [])
        excluded = [not_true(condition) for condition in conditions["must_not"]]
        if not required and not excluded:
            return "FALSE"
        return all_of([*required, *excluded])

    def _clause(self, part: str, clause: Clause, columns: list[str]) -> str:
        columns = self._columns(part, [clause.field]) if clause.field is not None else columns
        if isinstance(clause.what, list):
            return self._clauses(part, clause.what, columns)
        if clause.field == "_exists_" and isinstance(clause.what, Term):
            return self._exists({"field": clause.what.text})
        if isinstance(clause.what, Term) and clause.what.text == "*" and clause.field in (None, "*"):
            return "TRUE"
        if not columns:
            raise UntranslatableError(part, "which fields are searched is not said: give fields or default_field")
        return any_of([self._searched(part, column, clause.what) for column in columns])

    def _searched(self, part: str, column: str, what: "Term | Phrase | Range") -> str:
        if isinstance(what, Phrase):
            return self._phrase(part, column, what.text)
        if isinstance(what, Range):
            return self._range({column: what.bounds})
        if what.text == "*":
            return self._exists({"field": column})
        if what.is_pattern:
            return self._pattern(part, column, what.pattern, any_case=False)
        kind = self._fields.type_of(column)
        if kind in NUMBERS and re.fullmatch(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?", what.text) is None:
            return "FALSE"
        return self._match_words(part, column, {"query": what.text})

    # Places.

    def _geo_distance(self, body: Query) -> str:
        known = ("distance", "distance_type", "validation_method", "ignore_unmapped")
        column, given = _one_field("geo_distance", {key: value for key, value in body.items() if key not in known})
        if body.get("distance_type", "arc") != "arc":
            raise UntranslatableError("geo_distance", f"the distance_type {body['distance_type']!r}")
        reach = str(body["distance"])
        reach = f"{reach} m" if re.fullmatch(r"[0-9.]+", reach) else re.sub("(?i)nauticalmiles|NM$", "nmi", reach)
        metres(reach)
        latitude, longitude = _point(given)
        place = f"{name(f'{column}.lat')}, {name(f'{column}.lon')}"
        return f"within_distance({place}, {literal(latitude)}, {literal(longitude)}, {literal(reach)})"

    def _geo_bounding_box(self, body: Query) -> str:
        column, box = _one_field(
            "geo_bounding_box", {key: value for key, value in body.items() if key not in ("boost", "validation_method")}
        )
        if not {"top_left", "bottom_right"} <= set(box):
            raise UntranslatableError("geo_bounding_box", "its corners are not top_left and bottom_right")
        (top, left), (bottom, right) = _point(box["top_left"]), _point(box["bottom_right"])
        latitude, longitude = name(f"{column}.lat"), name(f"{column}.lon")
        inside = f"{latitude} BETWEEN {literal(bottom)} AND {literal(top)}"
        if left <= right:
            return all_of([inside, f"{longitude} BETWEEN {literal(left)} AND {literal(right)}"])
        return all_of([inside, any_of([f"{longitude} >= {literal(left)}", f"{longitude} <= {literal(right)}"])])


_SIMPLE_WORD = re.compile(r"[^\W_]+")
# Signs that Unicode's rules for words keep inside one: 3.14, 1,000, don't, a.b, a:b, a_b.
_JOINED = re.compile(r"\w+(?:[.:'’·][^\W\d_]+|(?<=\d)[.,;'](?=\d)\d+|_\w+)|\w*_\w*")

_REASONS = {
    "fuzzy": "words that are only similar",
    "geo_shape": "shapes are not conditions here",
    "script": "programs are not conditions",
    "script_score": "programs are not conditions",
    "more_like_this": "it depends on the statistics of an index",
    "terms_set": "how many terms must hold stands in the document",
    "percolate": "a stored query does not percolate",
    "has_child": "documents have no children here",
    "has_parent": "documents have no parents here",
    "knn": "vectors are not compared",
}


_LUCENE_OPERATORS = '"~<>&@#'
_LUCENE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.S)


def _of_lucene(expression: str, has_operators: bool) -> str:
    """An expression of Lucene as RE2 writes it: it has no anchors, and some operators of its own."""
    pieces = []
    for piece in _LUCENE.findall(expression):
        if has_operators and piece in _LUCENE_OPERATORS:
            raise UntranslatableError("regexp", f"the operator {piece!r} of Lucene")
        pieces.append(f"\\{piece}" if piece in "^$" or (piece in _LUCENE_OPERATORS) else piece)
    return "".join(pieces)


def _network(part: str, value: Any) -> str:
    try:
        return str(ip_network(str(value), strict=False))
    except ValueError:
        raise UntranslatableError(part, f"{json.dumps(value)} is not an address") from None


def _has_words(column: str, words: Sequence[str]) -> str:
    return f"has_words({name(column)}, {literal(' '.join(words))})"


def _moment_condition(value: str, key: str, bound: DateBound) -> str:
    """A bound in time. The last instant of a day is written as before the next day."""
    signs = {"gt": ">=", "lte": "<"} if bound.is_end else {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
    return f"{value} {signs[key]} {bound.sql}"


def _one_field(part: str, body: Any) -> tuple[str, Any]:
    named = {key: value for key, value in body.items() if key not in ("boost", "_name")}
    if len(named) != 1:
        raise UntranslatableError(part, f"it names {len(named)} fields instead of one")
    [(column, given)] = named.items()
    return str(column), given


def _only(part: str, given: Query, *known: str) -> None:
    """Refuse options that would be lost."""
    unknown = sorted(set(given) - {*known, "_name", "boost"})
    if unknown:
        raise UntranslatableError(part, f"the option {unknown[0]!r}")


def _list(given: Any) -> list[Any]:
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


def _at_least(least: int, conditions: Sequence[str]) -> str:
    """At least so many of the conditions."""
    if least <= 0:
        return "TRUE"
    if least > len(conditions):
        return "FALSE"
    if comb(len(conditions), least) > MOST_COMBINATIONS:
        raise UntranslatableError("minimum_should_match", f"{least} of {len(conditions)} are too many alternatives")
    return any_of([all_of(chosen) for chosen in combinations(conditions, least)])


def _least(given: Any, count: int, default: int) -> int:
    """How many of `count` must hold by a `minimum_should_match`: 2, -1, 75%, -25%, 2<75%, 2<-25% 9<-3.

    >>> [_least(given, 4, 1) for given in (None, 2, -1, "75%", "-25%", "3<50%", "5<50%", "2<-1 9<-3")]
    [1, 2, 3, 3, 3, 2, 4, 3]
    """
    if given is None:
        return default
    text = str(given).strip()
    if "<" in text:
        wanted = count
        for condition in re.sub(r"\\s*<\\s*", "<", text).split():
            limit, _, rule = condition.partition("<")
            if count <= int(limit):
                break
            wanted = _least(rule, count, default)
        return wanted
    if text.endswith("%"):
        percent = float(text[:-1])
        part = int(count * abs(percent) / 100)
        return max(0, count - part if percent < 0 else part)
    number = int(text)
    return max(0, count + number if number < 0 else number)


def _point(given: Any) -> tuple[float, float]:
    """Latitude and longitude, from an object, a text `lat,lon` or a list `[lon, lat]`."""
    if isinstance(given, Mapping):
        return float(given["lat"]), float(given["lon"])
    if isinstance(given, str) and "," in given:
        latitude, longitude = given.split(",")
        return float(latitude), float(longitude)
    if isinstance(given, Sequence) and not isinstance(given, str):
        return float(given[1]), float(given[0])
    raise UntranslatableError("geo", f"the point {json.dumps(given)}")
