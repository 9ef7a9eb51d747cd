"""Queries of Elasticsearch's DSL, judged by hand from the semantics that its documentation gives."""

import datetime as dt
import re
from typing import Any

import pytest

from tocsin.importers.imported import UntranslatableError
from tocsin.importers.percolator import Fields, condition_of
from tocsin.matcher import Matcher

MAPPING = {
    "books": {
        "mappings": {
            "properties": {
                "title": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
                "body": {"type": "text"},
                "author": {"type": "keyword"},
                "price": {"type": "double"},
                "stock": {"type": "integer"},
                "sold_out": {"type": "boolean"},
                "published": {"type": "date"},
                "tags": {"type": "keyword"},
                "ip": {"type": "ip"},
                "offers": {
                    "type": "nested",
                    "properties": {
                        "seller": {"type": "keyword"},
                        "note": {"type": "text"},
                        "price": {"type": "double"},
                        "until": {"type": "date"},
                    },
                },
                "shop": {"properties": {"city": {"type": "keyword"}, "place": {"type": "geo_point"}}},
            }
        }
    }
}
FIELDS = Fields.of_mapping(MAPPING, ["tags"])

DOCUMENTS: dict[str, dict[str, Any]] = {
    "fox": {
        "_id": "17",
        "title": "The quick brown fox",
        "body": "It jumps over the lazy dog",
        "author": "Ada Smith",
        "price": 10.0,
        "stock": 3,
        "sold_out": False,
        "published": "2026-01-31T23:30:00Z",
        "tags": ["animal", "fast"],
        "ip": "10.1.2.3",
        "shop": {"city": "Paris", "place": {"lat": 48.85, "lon": 2.35}},
        "offers": [
            {"seller": "Ada", "note": "as new", "price": 4.0, "until": "2026-02-07"},
            {"seller": "Bob", "note": "worn", "price": 2.0},
        ],
    },
    "dog": {
        "_id": "7",
        "title": "Quick dogs",
        "body": "A brown dog, and a fox",
        "author": "50%_off",
        "price": 25.5,
        "stock": 0,
        "sold_out": True,
        "published": "2026-02-01T00:00:00Z",
        "tags": ["animal"],
        "ip": "::1",
        "shop": {"city": "Suva", "place": {"lat": -18.1, "lon": 178.4}},
        "offers": [{"seller": "Ada", "note": "worn", "price": 9.0, "until": "2026-02-08T12:00:00"}],
    },
    "bare": {"title": "nothing else"},
}


def matching(query: dict[str, Any], now: dt.datetime | None = None) -> set[str]:
    """The documents that the translated query matches."""
    matcher = Matcher()
    matcher.subscribe("query", condition_of(query, FIELDS))
    found = set()
    for name, document in DOCUMENTS.items():
        event = dict(document)
        if "published" in event:
            event["published"] = dt.datetime.fromisoformat(event["published"])
        if matcher.match(event, now=now).ids:
            found.add(name)
    return found


ALL, NONE = {"fox", "dog", "bare"}, set[str]()

CASES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("match_all", {"match_all": {}}, ALL),
    ("match_none", {"match_none": {}}, NONE),
    # term, terms, ids, exists
    ("term of a keyword", {"term": {"author": "Ada Smith"}}, {"fox"}),
    ("a keyword is not analyzed", {"term": {"author": {"value": "ada smith"}}}, NONE),
    ("unless it says so", {"term": {"author": {"value": "ada smith", "case_insensitive": True}}}, {"fox"}),
    ("term of a text is one of its words", {"term": {"title": "quick"}}, {"fox", "dog"}),
    ("term of a number", {"term": {"price": 25.5}}, {"dog"}),
    ("a number as text", {"term": {"stock": "3"}}, {"fox"}),
    ("term of a boolean", {"term": {"sold_out": "true"}}, {"dog"}),
    ("term of a date is the whole of what it names", {"term": {"published": "2026-01-31"}}, {"fox"}),
    ("term of a list", {"term": {"tags": "fast"}}, {"fox"}),
    ("term of an object's field", {"term": {"shop.city": "Suva"}}, {"dog"}),
    ("terms", {"terms": {"author": ["Ada Smith", "Nobody"], "boost": 1.0}}, {"fox"}),
    ("terms of a list", {"terms": {"tags": ["fast", "animal"]}}, {"fox", "dog"}),
    ("no terms", {"terms": {"author": []}}, NONE),
    ("ids", {"ids": {"values": ["7", 9]}}, {"dog"}),
    ("one id", {"ids": {"values": "17"}}, {"fox"}),
    ("no ids", {"ids": {"values": []}}, NONE),
    ("exists", {"exists": {"field": "price"}}, {"fox", "dog"}),
    ("an object exists if one of its fields does", {"exists": {"field": "shop"}}, {"fox", "dog"}),
    # range
    ("gte and lt", {"range": {"price": {"gte": 10, "lt": 25.5}}}, {"fox"}),
    ("gt and lte", {"range": {"price": {"gt": 10, "lte": 25.5}}}, {"dog"}),
    ("from and to", {"range": {"price": {"from": 10, "to": 25.5, "include_upper": False}}}, {"fox"}),
    ("an open range is existence", {"range": {"price": {}}}, {"fox", "dog"}),
    ("a bound that is null is none", {"range": {"price": {"gte": None, "lt": 20}}}, {"fox"}),
    ("lte a day is its end", {"range": {"published": {"lte": "2026-01-31"}}}, {"fox"}),
    ("lt a day is its start", {"range": {"published": {"lt": "2026-01-31"}}}, NONE),
    ("gt a day is its end", {"range": {"published": {"gt": "2026-01-31"}}}, {"dog"}),
    ("gte a day is its start", {"range": {"published": {"gte": "2026-01-31"}}}, {"fox", "dog"}),
    ("date math and rounding up", {"range": {"published": {"lte": "2026-01-15||/M"}}}, {"fox"}),
    ("date math and rounding down", {"range": {"published": {"gte": "2026-01-31||+1d/d"}}}, {"dog"}),
    ("a time zone", {"range": {"published": {"lt": "2026-02-01", "time_zone": "+01:00"}}}, NONE),
    ("a format", {"range": {"published": {"gte": "01/02/2026", "format": "dd/MM/yyyy"}}}, {"dog"}),
    ("milliseconds", {"range": {"published": {"gte": 1769904000000}}}, {"dog"}),
    # prefix, wildcard
    ("prefix", {"prefix": {"author": "Ada"}}, {"fox"}),
    ("prefix of a word", {"prefix": {"title": {"value": "qui"}}}, {"fox", "dog"}),
    ("wildcard", {"wildcard": {"author": {"value": "A?a*"}}}, {"fox"}),
    ("signs of SQL are letters", {"wildcard": {"author": "50%_*"}}, {"dog"}),
    ("a sign of SQL between wildcards", {"wildcard": {"author": "*%*"}}, {"dog"}),
    ("an escaped wildcard", {"wildcard": {"author": "50\\*"}}, NONE),
    ("wildcard in any case", {"wildcard": {"author": {"value": "a?A*", "case_insensitive": True}}}, {"fox"}),
    # words
    ("match is any word", {"match": {"title": "Quick nonsense"}}, {"fox", "dog"}),
    ("match all words", {"match": {"title": {"query": "quick fox", "operator": "and"}}}, {"fox"}),
    ("match two of three", {"match": {"body": {"query": "brown dog cat", "minimum_should_match": 2}}}, {"dog"}),
    ("match 75% of three is two",
     {"match": {"body": {"query": "brown dog cat", "minimum_should_match": "75%"}}}, {"dog"}),
    ("match no words", {"match": {"title": "..."}}, NONE),
    ("match no words, all", {"match": {"title": {"query": "", "zero_terms_query": "all"}}}, ALL),
    ("match a keyword", {"match": {"author": "Ada Smith"}}, {"fox"}),
    ("match a number", {"match": {"stock": "3"}}, {"fox"}),
    ("match_phrase", {"match_phrase": {"title": "quick brown"}}, {"fox"}),
    ("match_phrase in another order", {"match_phrase": {"title": "brown quick"}}, NONE),
    ("match_bool_prefix", {"match_bool_prefix": {"title": "cat qui"}}, {"fox", "dog"}),
    ("match_phrase_prefix of one word", {"match_phrase_prefix": {"title": "qui"}}, {"fox", "dog"}),
    ("multi_match", {"multi_match": {"query": "fox", "fields": ["title^3", "body"]}}, {"fox", "dog"}),
    ("multi_match, all words in one field",
     {"multi_match": {"query": "quick jumps", "fields": ["title", "body"], "operator": "and"}}, NONE),
    ("cross_fields, each word in some field",
     {"multi_match": {"query": "quick jumps", "fields": ["title", "body"], "operator": "and", "type": "cross_fields"}},
     {"fox"}),
    ("multi_match of phrases", {"multi_match": {"query": "brown dog", "fields": ["*od*"], "type": "phrase"}}, {"dog"}),
    # bool
    ("must and must_not", {"bool": {"must": {"exists": {"field": "price"}},
                                    "must_not": [{"term": {"sold_out": True}}]}}, {"fox"}),
    ("must_not holds for a missing field", {"bool": {"must_not": {"term": {"sold_out": True}}}}, {"fox", "bare"}),
    ("should alone: one must hold", {"bool": {"should": [{"term": {"stock": 3}}, {"term": {"stock": 7}}]}}, {"fox"}),
    ("should beside filter: none must hold",
     {"bool": {"filter": {"exists": {"field": "price"}}, "should": [{"term": {"stock": 7}}]}}, {"fox", "dog"}),
    ("minimum_should_match", {"bool": {"should": [{"term": {"stock": 0}}, {"term": {"sold_out": True}},
                                                  {"term": {"price": 1}}], "minimum_should_match": 2}}, {"dog"}),
    ("minimum_should_match -1", {"bool": {"should": [{"match": {"body": "dog"}}, {"term": {"stock": 3}},
                                                     {"term": {"price": 1}}], "minimum_should_match": -1}}, {"fox"}),
    ("an empty bool", {"bool": {}}, ALL),
    ("constant_score", {"constant_score": {"filter": {"term": {"stock": 0}}, "boost": 2}}, {"dog"}),
    ("dis_max", {"dis_max": {"queries": [{"term": {"stock": 0}}, {"term": {"stock": 3}}]}}, {"fox", "dog"}),
    ("boosting", {"boosting": {"positive": {"match": {"body": "dog"}}, "negative": {"term": {"stock": 0}},
                               "negative_boost": 0.5}}, {"fox", "dog"}),
    # query_string
    ("query_string: any word", {"query_string": {"query": "fox cat", "default_field": "title"}}, {"fox"}),
    ("default_operator",
     {"query_string": {"query": "fox cat", "default_field": "title", "default_operator": "AND"}}, NONE),
    ("fields in the string", {"query_string": {"query": "title:fox OR author:\"50%_off\""}}, {"fox", "dog"}),
    ("a group under a field", {"query_string": {"query": "title:(fox OR dogs)"}}, {"fox", "dog"}),
    ("AND marks its neighbours: a AND b OR c is +a +b c",
     {"query_string": {"query": "quick AND fox OR dogs", "default_field": "title"}}, {"fox"}),
    ("NOT", {"query_string": {"query": "quick NOT fox", "default_field": "title"}}, {"dog"}),
    ("+ and -", {"query_string": {"query": "+quick -dogs brown", "default_field": "title"}}, {"fox"}),
    ("only NOT", {"query_string": {"query": "NOT quick", "default_field": "title"}}, {"bare"}),
    ("a range in brackets", {"query_string": {"query": "price:[10 TO 25.5}"}}, {"fox"}),
    ("an open range in a string", {"query_string": {"query": "price:{10 TO *]"}}, {"dog"}),
    ("a comparison in a string", {"query_string": {"query": "price:>=25"}}, {"dog"}),
    ("_exists_", {"query_string": {"query": "_exists_:stock"}}, {"fox", "dog"}),
    ("a wildcard in a string", {"query_string": {"query": "author:Ad*"}}, {"fox"}),
    ("everything", {"query_string": {"query": "*"}}, ALL),
    ("a phrase in a string", {"query_string": {"query": "\"quick brown\"^2", "fields": ["title"]}}, {"fox"}),
    # simple_query_string
    ("simple: any word", {"simple_query_string": {"query": "fox dogs", "fields": ["title"]}}, {"fox", "dog"}),
    ("simple: +", {"simple_query_string": {"query": "quick + fox", "fields": ["title"]}}, {"fox"}),
    ("simple: | then +, from left to right",
     {"simple_query_string": {"query": "fox | dogs + quick", "fields": ["title"]}}, {"fox", "dog"}),
    ("simple: - beside OR is an alternative",
     {"simple_query_string": {"query": "fox -quick", "fields": ["title"]}}, {"fox", "bare"}),
    ("simple: - beside AND",
     {"simple_query_string": {"query": "quick -fox", "fields": ["title"], "default_operator": "and"}}, {"dog"}),
    ("simple: a prefix", {"simple_query_string": {"query": "dog*", "fields": ["title"]}}, {"dog"}),
    ("simple: parentheses", {"simple_query_string": {"query": "(fox | dogs) + nothing", "fields": ["title"]}}, NONE),
    # expressions and addresses
    ("an expression", {"regexp": {"author": "[A-C]da .*"}}, {"fox"}),
    ("an expression is of the whole", {"regexp": {"author": "da Sm"}}, NONE),
    ("an expression in any case", {"regexp": {"author": {"value": "ada s.+", "case_insensitive": True}}}, {"fox"}),
    ("anchors are signs", {"regexp": {"author": {"value": "^Ada.*|50%_of+", "flags": "NONE"}}}, {"dog"}),
    ("a network", {"term": {"ip": "10.0.0.0/8"}}, {"fox"}),
    ("an address", {"terms": {"ip": ["10.1.2.3", "::2"]}}, {"fox"}),
    ("addresses in order", {"range": {"ip": {"gte": "::1", "lt": "10.0.0.0"}}}, {"dog"}),
    # places
    ("a distance", {"geo_distance": {"distance": "12km", "shop.place": {"lat": 48.9, "lon": 2.3}}}, {"fox"}),
    ("a distance too short", {"geo_distance": {"distance": "1 mi", "shop.place": "48.9,2.3"}}, NONE),
    ("a distance in metres", {"geo_distance": {"distance": 5e4, "shop.place": [178.2, -18.0]}}, {"dog"}),
    ("a box", {"geo_bounding_box": {"shop.place": {"top_left": {"lat": 50, "lon": 0},
                                                   "bottom_right": {"lat": 40, "lon": 5}}}}, {"fox"}),
    ("a box across the date line", {"geo_bounding_box": {"shop.place": {"top_left": [170, 0],
                                                                        "bottom_right": [-170, -30]}}}, {"dog"}),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_query_matches_the_same_documents(query: dict[str, Any], expected: set[str]) -> None:
    assert matching(query) == expected


NOW = dt.datetime(2026, 2, 8, 10, 15, 30, tzinfo=dt.UTC)
"""A Sunday; the fox was published on a Saturday half an hour before February, the dog as February began."""
FOX, DOG, BOTH = {"fox"}, {"dog"}, {"fox", "dog"}

MATH: list[tuple[dict[str, str], set[str]]] = [
    ({"gte": "now-7d"}, NONE),
    ({"gte": "now-8d"}, BOTH),
    ({"lt": "now-7d-10h-15m-30s"}, FOX),
    ({"gte": "now-7d/d"}, DOG),
    ({"lt": "now-7d/d"}, FOX),
    ({"gt": "now-8d/d"}, DOG),
    ({"lte": "now-8d/d"}, FOX),
    ({"gte": "now-7d/d", "lt": "now/d"}, DOG),
    ({"gte": "now/M"}, DOG),
    ({"gt": "now/M"}, NONE),
    ({"gt": "now-1M/M"}, DOG),
    ({"lte": "now-M/1M"}, FOX),
    ({"gte": "now/y"}, BOTH),
    ({"gt": "now/y"}, NONE),
    ({"lt": "now+1y/y"}, BOTH),
    # A week begins on Monday: now - 1w is Sunday, February 1.
    ({"gte": "now-1w/w"}, BOTH),
    ({"gt": "now-1w/w"}, NONE),
    ({"lt": "now/w"}, BOTH),
    ({"gte": "now-178h/h"}, DOG),
    ({"gte": "now-179h/h"}, BOTH),
    # The last instant of February, a month earlier, is that of January 28.
    ({"lte": "now/M-1M"}, NONE),
    ({"lt": "now/M-1M"}, NONE),
    ({"lt": "now/M-1M+32d"}, BOTH),
    # Days and months are those of the time zone; now is now everywhere.
    ({"gte": "now-7d/d", "time_zone": "+01:00"}, BOTH),
    ({"lt": "now-7d/d", "time_zone": "+01:00"}, NONE),
    ({"gte": "now/M", "time_zone": "+01:00"}, BOTH),
    ({"gte": "now/M", "time_zone": "-01:00"}, NONE),
    ({"gte": "now-8d", "time_zone": "+05:30"}, BOTH),
    # The same on a fixed date. What stands before || is not rounded.
    ({"gte": "2026-02-15||/M", "time_zone": "+01:00"}, BOTH),
    ({"lte": "2026-01-15||/M", "time_zone": "+01:00"}, NONE),
    ({"lte": "2026-01-31"}, FOX),
    ({"lte": "2026-01-31||+12h"}, NONE),
    ({"lte": "2026-01-31||+12h/d"}, FOX),
    ({"gt": "2026-01-01||+1M/d"}, NONE),
    ({"gte": "2026-01-01||+1M/d"}, DOG),
    ({"lte": "2026-02-10||/M-1M"}, NONE),
]


@pytest.mark.parametrize(("bounds", "expected"), MATH, ids=[str(bounds) for bounds, _ in MATH])
def test_date_math(bounds: dict[str, str], expected: set[str]) -> None:
    assert matching({"range": {"published": bounds}}, NOW) == expected


def offers(query: dict[str, Any]) -> dict[str, Any]:
    return {"nested": {"path": "offers", "query": query, "score_mode": "max"}}


def all_of(*queries: dict[str, Any]) -> dict[str, Any]:
    return {"bool": {"must": list(queries)}}


ADA, CHEAP = {"term": {"offers.seller": "Ada"}}, {"range": {"offers.price": {"lt": 3}}}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (offers(ADA), BOTH),
        (offers(CHEAP), FOX),
        # The clauses operate on the same nested document.
        (offers(all_of(ADA, CHEAP)), NONE),
        (all_of(offers(ADA), offers(CHEAP)), FOX),
        (offers(all_of(ADA, {"match": {"offers.note": "worn"}})), DOG),
        (offers({"bool": {"must_not": ADA}}), FOX),
        ({"bool": {"must_not": offers(ADA)}}, {"bare"}),
        (offers({"match_all": {}}), BOTH),
        (offers({"match_none": {}}), NONE),
        (offers({"exists": {"field": "offers.until"}}), BOTH),
        (offers({"bool": {"must_not": {"exists": {"field": "offers.until"}}}}), FOX),
        (offers({"range": {"offers.until": {"gte": "now/d"}}}), DOG),
        (offers({"range": {"offers.until": {"lte": "2026-02-07"}}}), FOX),
        (offers({"wildcard": {"offers.seller": "B*b"}}), FOX),
        (all_of(offers(ADA), {"term": {"stock": 0}}), DOG),
        (offers({"term": {"offers.seller": '"stock" its'}}), NONE),
    ],
    ids=lambda given: str(sorted(given) if isinstance(given, set) else given),
)
def test_nested(query: dict[str, Any], expected: set[str]) -> None:
    assert matching(query, NOW) == expected


def test_date_math_of_a_term_and_of_what_must_not_be() -> None:
    assert matching({"term": {"published": "now-8d/d"}}, NOW) == FOX
    assert matching({"bool": {"must_not": {"range": {"published": {"gte": "now-7d/d"}}}}}, NOW) == {"fox", "bare"}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"regexp": {"title": "A.*"}}, "several values or words"),
        ({"regexp": {"author": "A~b"}}, "operator '~' of Lucene"),
        ({"regexp": {"author": "(A"}}, "missing )"),
        ({"term": {"ip": "x"}}, "is not an address"),
        ({"fuzzy": {"author": "Ida"}}, "fuzzy: words that are only similar"),
        ({"match": {"title": {"query": "x", "fuzziness": "AUTO"}}}, "fuzziness"),
        ({"match": {"title": {"query": "x", "analyzer": "german"}}}, "the option 'analyzer'"),
        ({"match": {"title": "don't"}}, "one word for the standard analyzer"),
        ({"match": {"title": "version 3.14"}}, "'3.14' is one word"),
        ({"match_phrase": {"title": {"query": "a b", "slop": 2}}}, "slop"),
        ({"term": {"title": "Quick"}}, "is not one of its words in lower case"),
        ({"terms": {"author": {"index": "x", "id": "1", "path": "y"}}}, "another document"),
        ({"range": {"published": {"gte": "now-7q"}}}, "'now-7q' is not date math"),
        ({"range": {"published": {"gte": "now/2d"}}}, "'now/2d' is not date math"),
        ({"range": {"published": {"gte": "2026", "time_zone": "Europe/Paris"}}}, "changes with the season"),
        ({"range": {"unknown": {"gte": "2026-01-01"}}}, "give the mapping"),
        ({"range": {"title": {"gte": "a"}}}, "is text"),
        ({"nested": {"path": "offers", "query": {"term": {"stock": 3}}}}, "nested: a field outside of 'offers'"),
        ({"nested": {"path": "x", "query": {"nested": {"path": "x.y", "query": {}}}}}, "a list inside the elements"),
        ({"geo_distance": {"distance": "1 parsec", "shop.place": [0, 0]}}, "geo_distance: its form"),
        ({"geo_distance": {"distance": "1km", "distance_type": "plane", "shop.place": [0, 0]}}, "the distance_type"),
        ({"query_string": {"query": "fox~", "default_field": "title"}}, "only similar or near"),
        ({"query_string": {"query": "fox"}}, "which fields are searched"),
        ({"query_string": {"query": "(fox", "default_field": "title"}}, "is not closed"),
        ({"query_string": {"query": "/fox/", "default_field": "title"}}, "regular expressions"),
        ({"frobnicate": {}}, "there is no such query"),
        ({"term": {"a": 1}, "match": {"b": 2}}, "one key"),
        ({"term": {"a": 1, "b": 2}}, "2 fields instead of one"),
        ({"bool": {"must": {"term": {"a": None}}}}, "null is not a value"),
        (
            {"bool": {"should": [{"term": {"a": n}} for n in range(30)], "minimum_should_match": 15}},
            "too many alternatives",
        ),
    ],
)
def test_what_has_no_exact_equivalent_is_refused_with_the_reason(query: dict[str, Any], reason: str) -> None:
    with pytest.raises(UntranslatableError, match=re.escape(reason)):
        condition_of(query, FIELDS)
