"""The language of path expressions: what is equal, and what is refused, with its name and place."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from tocsin.errors import SubscriptionError
from tocsin.predicates.xpath import Filter, Step, XPath, parse_xpath
from tocsin.predicates.xpath.syntax import to_number

_NUMBER = etree.XPath("number($text)")


def test_a_path_is_steps_with_distances() -> None:
    assert parse_xpath("/a/*/b//c") == XPath(((Step("a", True, 1), Step("b", True, 2), Step("c", False, 1)),))


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
        ("/a[b]", "/a/b"),
        ("/a[b][c = 1]", "/a[c = 1]/b"),
        ("/a[@x and b]", "/a[@x]/b"),
        ("/a[@x or b]", "/a/@x | /a/b"),
        ("/a[@x or b]/c", "/a[@x]/c | /a[b]/c"),
        ("/a or //b", "/a | b"),
        ("/a/b/../c", "/a[b]/c"),
        ("/a/b/..", "/a[b]"),
        ("//*[self::a or self::b]", "//a | //b"),
        ("//*[self::a][@x]", "//a[@x]"),
        ("/a/child::b/self::b", "/a/b"),
        ("/descendant::b", "//b"),
        ("./a/./b", "a/b"),
        (".//a", "//a"),
        ("/a[3 < @x]", "/a[@x > 3]"),
        ("/a[(b | c) = 3]", "/a[b = 3] | /a[c = 3]"),
        ("/a[boolean(b)]", "/a[b]"),
        ("//a = 3", "//a[. = 3]"),
        ("/a[-1 = @x]", "/a[@x = - 1]"),
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
    assert parsed.paths[0][0].tag == "{urn:p}a"
    assert set(parsed.paths[0][0].filters) == set(filters)


@pytest.mark.parametrize(
    ("text", "guards"),
    [
        ("/a/b[1]/c", ["/a/b/c"]),
        ("/a[b or c][last()]", ["/a/b", "/a/c"]),
        ("/a[not(b)]/c", ["/a/c"]),
        ("a[contains(b, 'x')]", ["//a/b"]),
        ("a[starts-with(@x, '')]", ["//a"]),
        ("a[string-length(b) > 2]", ["//a/b"]),
        ("a[string-length(b) < 2]", ["//a"]),
        ("a[normalize-space(b) = 'x']", ["//a/b"]),
        ("a[count(b) >= 2]", ["//a/b"]),
        ("a[count(b) = 0]", ["//a"]),
        ("a[b = c]", ["//a[c]/b"]),
        ("/a/b/following-sibling::c", ["/a[b]/c"]),
        ("/a/b[@x = 1]/preceding-sibling::*/d", ["/a[*/d]/b[@x = 1]"]),
        ("/a/b/ancestor::c", ["/a/b"]),
        ("//p:*/@x", ["//*[@x]"]),
        ("/a/@*", ["/a"]),
        ("(//a)[2]/b", ["//a"]),
        ("//a and //b[@x = 1]", ["//b[@x = 1]"]),
        ("not(//a)", ["//*"]),
        ("count(//a) > 2", ["//a"]),
        ("/a/*//. < 2", ["/a//*"]),
        ("/a/*//../@x", ["/a//*"]),
    ],
)
def test_what_no_path_tells_has_necessary_paths(text: str, guards: list[str]) -> None:
    parsed = parse_xpath(text, {"p": "urn:p"})
    assert [str(XPath((guard,))) for guard in parsed.guards] == guards
    assert not parsed.paths
    assert parsed.rest is not None


def test_a_path_that_is_enough_is_no_guard() -> None:
    parsed = parse_xpath("/a | /b[1] | /a[last()]")
    assert [str(XPath((path,))) for path in (*parsed.paths, *parsed.guards)] == ["/a", "/b"]


def test_many_alternatives_are_left_to_lxml() -> None:
    """Three filters of three alternatives each would be 27 paths."""
    parsed = parse_xpath("/a" + "[b or c or d]" * 3)
    assert 0 < len(parsed.guards) <= 16
    assert parsed.rest is not None


@pytest.mark.parametrize(
    ("text", "construct", "position"),
    [
        ("a[$x]", "a variable", 2),
        ("a[upper(b)]", "no function upper()", 2),
        ("a[re:test(b, 'x')]", "no function re:test()", 2),
        ("a[count('b')]", "a string stands where nodes are needed", 2),
        ("a[contains(b)]", "contains() does not take 1 arguments", 2),
        ("a | 3", "a number stands", 2),
        ("'a'[1]", "a string stands", 0),
        ("a/upper::b", "no axis upper::", 2),
        ("a/count(b)", "count() is not a step", 2),
        ("a and", "ends here", 5),
        ("a[b and ]", "']' cannot", 8),
        ("a/b[", "ends here", 4),
        ("(a", "ends here", 2),
        ("//", "ends here", 2),
        ("", "ends here", 0),
        ("a[@b", "ends here", 4),
        ("a[@b = 'x]", "is not part of a path", 7),
        ("a]", "']' cannot", 1),
        ("a[.[b]]", "'[' cannot", 3),
        ("x:a", "prefix 'x'", 0),
        ("a\u00d7", "lxml refuses", 0),
        ("a[\u0662]", "lxml refuses", 0),
        ("a[@x = \u0662]", "lxml refuses", 0),
        ("a" + "[b" * 50 + "]" * 50, "nested deeper", 80),
        ("a/" * 6000, "12000 characters", 10_000),
    ],
)
def test_what_lxml_refuses_is_refused_by_name_and_place(text: str, construct: str, position: int) -> None:
    with pytest.raises(SubscriptionError) as error:
        parse_xpath(text, {"p": "urn:p"})
    assert construct in error.value.message
    assert error.value.position == position
    assert error.value.hint


@pytest.mark.parametrize("name", ["e\u0301", "\u0e01\u0e31\u0e01", "\u0915\u093f", "a\u00b7b", "\u00e9t\u00e9"])
def test_names_with_combining_marks_are_names(name: str) -> None:
    assert parse_xpath(f"/{name}[@{name} = 1]") == XPath(
        ((Step(name, True, 1, (Filter("attribute", name, "=", 1.0),)),),)
    )
    assert parse_xpath(f"/{name}") == parse_xpath(f" /{name}")


PLAIN_FILTERS = st.tuples(
    st.sampled_from(["[", "[ "]),
    st.sampled_from(["@x", "@y-z"]),
    st.sampled_from(["=", " = ", "!=", "<", " <= ", ">", " >="]),
    st.sampled_from(["0", "7", "007", "999999999999999", "12345678901234567", "1.5", "'a b'", '"7"', "''", '"it\'s"']),
    st.sampled_from(["]", " ]"]),
).map("".join)
PLAIN_STEPS = st.tuples(
    st.sampled_from(["/", "//"]), st.sampled_from(["a", "b", "*"]), st.lists(PLAIN_FILTERS, max_size=3).map("".join)
).map("".join)


@given(st.lists(PLAIN_STEPS, min_size=1, max_size=4).map("".join), st.booleans())
@settings(max_examples=500, deadline=None)
def test_filters_on_attributes_are_read_without_tokens_as_with_them(text: str, relative: bool) -> None:
    """A space before it makes it one that is read by tokens."""
    text = text.lstrip("/") if relative else text
    assert parse_xpath(text) == parse_xpath(f" {text}")


@given(st.from_regex(r"\A[ ]?[-+]?[0-9]{0,25}\.?[0-9]{0,25}([eE][-+]?[0-9]{0,4})?[ x]?\Z"))
@settings(max_examples=500, deadline=None)
@example("+5").via("a plus is not a sign")
@example("1E5").via("libxml2 takes exponents")
@example("12345678901234567890").via("more digits than a float")
@example("0.12345678901234567890123456789").via("more than libxml2 reads")
@example("0e999").via("nothing times infinity")
@example("1e-400").via("too small")
@example("\u0662").via("a digit of another script")
def test_numbers_are_read_as_lxml_reads_them(text: str) -> None:
    number, judge = to_number(text), float(str(_NUMBER(etree.Element("a"), text=text)))
    assert number == judge or (number != number and judge != judge)
