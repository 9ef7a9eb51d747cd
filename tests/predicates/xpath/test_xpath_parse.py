"""The language of path expressions: what is equal, and what is refused, with its name and place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import SubscriptionError
from tocsin.predicates.xpath import Filter, Step, XPath, parse_xpath


def test_a_path_is_steps_with_distances() -> None:
    assert parse_xpath("/a/*/b//c") == XPath((Step("a", True, 1), Step("b", True, 2), Step("c", False, 1)))


def test_a_relative_path_means_anywhere() -> None:
    assert parse_xpath("a/b") == parse_xpath("//a/b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/*//b", "a//*/b"),
        ("/a/*/*", "/a//*//*"),
        ("/a/b/@x", "/a/b[@x]"),
        ("/a/b/text()", "/a/b[text()]"),
        ("a[b/@x > 3]", "a[b[@x > 3]]"),
        ("a[b = 3]", "a[b[. = 3]]"),
        ("a[./b]", "a[b]"),
        ("a[@x][@y]", "a[ @y ] [ @x ]"),
        ("a[@x][@x]", "a[@x]"),
        ("a[@x < '3']", "a[@x < 3.0]"),
        ('a[@x = "3"]', "a[@x = '3']"),
        ("//@x", "//*[@x]"),
    ],
)
def test_equal_expressions_are_equal(one: str, other: str) -> None:
    assert parse_xpath(one) == parse_xpath(other)
    assert hash(parse_xpath(one)) == hash(parse_xpath(other))


@given(st.text("ab*/.- 1", max_size=12))
@settings(max_examples=300, deadline=None)
def test_plain_paths_are_read_like_others(text: str) -> None:
    """A space in front, which means nothing, has the text read token by token."""
    assert _outcome(text) == _outcome(" " + text)


def _outcome(text: str) -> XPath | str:
    try:
        return parse_xpath(text)
    except SubscriptionError as error:
        return error.message


@pytest.mark.parametrize(
    ("one", "other"),
    [("a[@x = '3']", "a[@x = 3]"), ("a/b", "a//b"), ("/a", "//a"), ("a[b]/c", "a/c[b]"), ("a[.//@x]", "a[.//*/@x]")],
)
def test_different_expressions_differ(one: str, other: str) -> None:
    assert parse_xpath(one) != parse_xpath(other)


def test_names_take_their_namespace() -> None:
    parsed = parse_xpath("/p:a[@p:x][@y][@xml:lang]", {"p": "urn:p"})
    filters = (
        Filter("attribute", "y"),
        Filter("attribute", "{http://www.w3.org/XML/1998/namespace}lang"),
        Filter("attribute", "{urn:p}x"),
    )
    assert parsed.steps[0].tag == "{urn:p}a"
    assert set(parsed.steps[0].filters) == set(filters)


@pytest.mark.parametrize(
    ("text", "construct", "position"),
    [
        ("/a[1]", "a position", 3),
        ("a[b and c]", "the operator 'and'", 4),
        ("a[b or c]", "the operator 'or'", 4),
        ("a/..", "the parent step ..", 2),
        ("a/.", "the step .", 2),
        ("a/child::b", "the axis child::", 2),
        ("a[not(b)]", "not()", 2),
        ("a/comment()", "comment()", 2),
        ("a[last()]", "last()", 2),
        ("a | b", "the union |", 2),
        ("a[$x]", "a variable", 2),
        ("a[@b + 1]", "arithmetic", 5),
        ("a[@b = c]", "a comparison with", 7),
        ("a[3 < @b]", "a position", 2),
        ("a['x' = @b]", "a constant on the left", 2),
        ("a[/b]", "an absolute path", 2),
        ("a[.]", "the filter [.]", 3),
        ("a[@*]", "@*", 3),
        ("p:*", "a wildcard in a namespace", 0),
        ("/", "ends here", 1),
        ("", "ends here", 0),
        ("a[@b", "ends here", 4),
        ("a[@b = 'x]", "is not part of a path", 7),
        ("a]", "']' here", 1),
        ("/@x", "the document itself", 0),
        ("x:a", "prefix 'x'", 0),
        ("a" + "[b" * 20 + "]" * 20, "nested deeper", 34),
        ("a/" * 6000, "12000 characters", 10_000),
    ],
)
def test_anything_else_is_refused_by_name_and_place(text: str, construct: str, position: int) -> None:
    with pytest.raises(SubscriptionError) as error:
        parse_xpath(text, {"p": "urn:p"})
    assert construct in error.value.message
    assert error.value.position == position
    assert error.value.hint
