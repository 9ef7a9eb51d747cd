"""Documents and expressions at random, and lxml as their judge."""

from collections.abc import Callable
from functools import lru_cache
from itertools import chain

import pytest
from hypothesis import strategies as st
from lxml import etree

NAMESPACES = {"p": "urn:p", "q": "urn:q?a&b"}
_TAGS = ["a", "b", "c", "p:a", "q:b"]
_ATTRIBUTES = ["x", "y", "p:x", "xml:lang"]
_VALUES = ["", "1", "2", "2.5", " 3 ", "-1", "1e1", "abc", "a&b", "it's", 'say "x"', "é\U0001f600", "\n\t2", "+1", "."]
_NUMBERS = ["0", "1", "2", "2.5", ".5", "-1", "10", "3."]


def _escape(text: str, *, attribute: bool) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    if attribute:
        return text.replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#x9;")
    return text.replace("\n", "&#xA;")


def _nodes() -> st.SearchStrategy[str]:
    texts = st.sampled_from(_VALUES).map(lambda value: _escape(value, attribute=False))
    extra = st.sampled_from(["<!-- <a> -->", "<?pi <b x='1'?>", "<![CDATA[<a>&]]>", "<![CDATA[2]]>", "&#50;", "\r\n"])
    leaves = st.one_of(texts, extra, _element(st.just("")))
    return st.recursive(leaves, lambda inner: _element(st.lists(inner, max_size=4).map("".join)), max_leaves=16)


def _element(content: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    attributes = st.dictionaries(st.sampled_from(_ATTRIBUTES), st.sampled_from(_VALUES), max_size=3)
    spaces = st.sampled_from(["", "", "", ' xmlns="urn:p"', ' xmlns=""', ' xmlns:p="urn:q?a&amp;b"'])

    def write(tag: str, space: str, values: dict[str, str], inner: str) -> str:
        written = "".join(f' {name}="{_escape(value, attribute=True)}"' for name, value in values.items())
        return f"<{tag}{space}{written}>{inner}</{tag}>" if inner else f"<{tag}{space}{written}/>"

    return st.builds(write, st.sampled_from(_TAGS), spaces, attributes, content)


def documents() -> st.SearchStrategy[str]:
    """Documents with recursion, repeated tags, mixed content, comments, instructions, CDATA and namespaces."""
    return st.lists(_nodes(), max_size=4).map(
        lambda inner: '<a xmlns:p="urn:p" xmlns:q="urn:q?a&amp;b">' + "".join(inner) + "</a>"
    )


def _comparison() -> st.SearchStrategy[str]:
    strings = st.sampled_from(_VALUES).map(lambda value: f"'{value}'" if "'" not in value else f'"{value}"')
    value = st.one_of(st.sampled_from(_NUMBERS), strings)
    compared = st.builds(lambda op, v: f" {op} {v}", st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), value)
    return st.one_of(st.just(""), compared)


def _filters(depth: int) -> st.SearchStrategy[str]:
    attribute = st.builds(lambda name, test: f"@{name}{test}", st.sampled_from(_ATTRIBUTES), _comparison())
    text = _comparison().map(lambda test: f"text(){test}")
    string = _comparison().filter(bool).map(lambda test: f".{test}")
    kinds = [attribute, text, string]
    if depth:
        end = st.one_of(st.just(""), attribute.map(lambda t: f"/{t}"), attribute.map(lambda t: f"//{t}"), _comparison())
        start = st.sampled_from(["", "./", ".//"])
        kinds.append(st.builds(lambda s, steps, e: s + steps + e, start, _steps(depth - 1, 2), end))
        kinds.append(st.builds(lambda s, t: s + t, st.sampled_from(["./", ".//"]), attribute | text))
    one = st.one_of(kinds).map(lambda inner: f"[{inner}]")
    return st.one_of(st.just(""), st.just(""), st.lists(one, min_size=1, max_size=2).map("".join))


def _steps(depth: int, most: int) -> st.SearchStrategy[str]:
    test = st.sampled_from([*_TAGS, "a", "b", "*", "*"])
    step = st.builds(lambda name, filters: name + filters, test, _filters(depth))
    rest = st.lists(st.tuples(st.sampled_from(["/", "/", "//"]), step), max_size=most - 1)
    return st.builds(lambda first, more: first + "".join(chain.from_iterable(more)), step, rest)


def expressions() -> st.SearchStrategy[str]:
    """Expressions with every construct of the language."""
    start = st.sampled_from(["/", "//", ""])
    end = st.sampled_from(["", "", "", "", "/@x", "//@y", "/text()", "//text()"])
    return st.builds(lambda s, steps, e: s + steps + e, start, _steps(2, 5), end)


def judge(expression: str, document: str) -> bool:
    """What lxml says of the expression as it is written."""
    return bool(_compiled(expression)(_tree(document)))


@lru_cache(maxsize=64)
def _tree(document: str) -> etree._ElementTree:
    return etree.fromstring(document.encode(), etree.XMLParser(resolve_entities=False)).getroottree()


@lru_cache(maxsize=256)
def _compiled(expression: str) -> etree.XPath:
    absolute = expression if expression.startswith("/") else "//" + expression
    return etree.XPath(absolute, namespaces=NAMESPACES)


@pytest.fixture(scope="session")
def random_documents() -> st.SearchStrategy[str]:
    return documents()


@pytest.fixture(scope="session")
def random_expressions() -> st.SearchStrategy[str]:
    return expressions()


@pytest.fixture(scope="session")
def lxml_says() -> Callable[[str, str], bool]:
    return judge
