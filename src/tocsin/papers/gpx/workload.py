"""Documents and path expressions from a document type, with the parameters of GPX-Matcher's experiments.

The papers' document types (NITF, PSD, NASA) are replaced by three of our own of the same character; their generators
(IBM's for documents, YFilter's for expressions) by the two below.
"""

import random
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from lxml import etree

from tocsin.predicates.xpath import parse_xpath

DTDS: Final = ("newswire", "protein", "astronomy")
_WORDS: Final = [
    "tocsin",
    "bell",
    "rings",
    "when",
    "one",
    "more",
    "story",
    "comes",
    "in",
    "from",
    "the",
    "wire",
    "today",
]
VALUES: Final = 20
"""Attributes hold numbers below this one, half the time, or else words."""


@dataclass(frozen=True)
class Element:
    """An element of a document type: how to write its content, what may stand in it, which attributes it has."""

    content: Any
    children: tuple[str, ...]
    attributes: tuple[str, ...]


def load_dtd(name: str) -> tuple[str, dict[str, Element]]:
    """The root and the elements of one of our document types."""
    with files("tocsin.papers.gpx").joinpath("dtd", f"{name}.dtd").open("rb") as file:
        dtd: Any = etree.DTD(file)
    declared = dtd.elements()
    elements = {
        element.name: Element(
            element.content,
            tuple(dict.fromkeys(_names(element.content))),
            tuple(attribute.name for attribute in element.attributes()),
        )
        for element in declared
    }
    return declared[0].name, elements


def generate_documents(name: str, count: int, levels: int = 6, seed: int = 1) -> list[bytes]:
    """Write random documents; below `levels` only what the type requires, so a document may be a little deeper."""
    chance = random.Random(f"{name}/{levels}/{seed}")
    root, elements = load_dtd(name)
    return ["".join(_write(root, elements, 1, levels, chance)).encode() for _ in range(count)]


def generate_expressions(
    name: str,
    count: int,
    *,
    distinct: bool = True,
    length: int = 6,
    wildcard: float = 0.2,
    descendant: float = 0.2,
    filters: int = 0,
    seed: int = 1,
) -> list[str]:
    """Write random expressions: the paper's Q, D, L, W, DO and P; fewer if the type has no more distinct ones."""
    chance = random.Random(f"{name}/{length}/{wildcard}/{descendant}/{filters}/{seed}")
    root, elements = load_dtd(name)
    seen: set[str] = set()
    expressions: list[str] = []
    tries = 0
    # A type with few distinct expressions is known after fewer tries than 40 for each that is wanted.
    while len(expressions) < count and tries < 40 * min(count, 9_000 + 2 * len(expressions)):
        tries += 1
        text = _expression(root, elements, chance, length, wildcard, descendant, filters)
        if distinct:
            canonical = str(parse_xpath(text))
            if canonical in seen:
                continue
            seen.add(canonical)
        expressions.append(text)
    return expressions


def _names(content: Any) -> list[str]:
    if content is None:
        return []
    if content.type == "element":
        return [content.name]
    return [*_names(content.left), *_names(content.right)]


def _write(name: str, elements: dict[str, Element], level: int, levels: int, chance: random.Random) -> list[str]:
    element = elements[name]
    attributes = "".join(f' {a}="{_value(chance)}"' for a in element.attributes if chance.random() < 0.5)
    inner: list[str] = []
    _fill(element.content, elements, level, levels, chance, inner)
    return [f"<{name}{attributes}>", *inner, f"</{name}>\n"]


def _fill(
    content: Any, elements: dict[str, Element], level: int, levels: int, chance: random.Random, out: list[str]
) -> None:
    """Write one content model: `?` half the time, `*` and `+` up to three times, none of what is optional too deep."""
    if content is None:
        return
    deep = level >= levels
    least = 0 if content.occur in ("opt", "mult") else 1
    most = {"once": 1, "opt": 1, "mult": 3, "plus": 3}[content.occur]
    for _ in range(least if deep else chance.randint(least, most)):
        if content.type == "pcdata":
            out.append(" ".join(chance.choices(_WORDS, k=chance.randint(2, 16))))
        elif content.type == "element":
            out.extend(_write(content.name, elements, level + 1, levels, chance))
        elif content.type == "seq":
            _fill(content.left, elements, level, levels, chance, out)
            _fill(content.right, elements, level, levels, chance, out)
        else:
            _fill(chance.choice(_alternatives(content)), elements, level, levels, chance, out)


def _alternatives(content: Any) -> list[Any]:
    """The members of a choice, which libxml2 keeps as a chain of pairs."""
    members = []
    while content is not None and content.type == "or":
        members.append(content.left)
        content = content.right
    return [*members, content] if content is not None else members


def _value(chance: random.Random) -> str:
    return str(chance.randrange(VALUES)) if chance.random() < 0.5 else chance.choice(_WORDS)


def _expression(
    root: str,
    elements: dict[str, Element],
    chance: random.Random,
    length: int,
    wildcard: float,
    descendant: float,
    filters: int,
) -> str:
    """One walk down the document type from its root, at most `length` steps."""
    walk = [root]
    for _ in range(chance.randint(2 * length // 3, length) - 1):
        children = elements[walk[-1]].children
        if not children:
            break
        walk.append(chance.choice(children))
    conditions: list[list[str]] = [[] for _ in walk]
    owners = [place for place, name in enumerate(walk) if elements[name].attributes]
    for _ in range(filters if owners else 0):
        place = chance.choice(owners)
        attribute = chance.choice(elements[walk[place]].attributes)
        operator = chance.choice(("=", ">=", "<="))
        conditions[place].append(f"[@{attribute} {operator} {chance.randrange(VALUES)}]")
    steps = (
        ("//" if chance.random() < descendant else "/") + ("*" if chance.random() < wildcard else name) + "".join(tests)
        for name, tests in zip(walk, conditions, strict=True)
    )
    return "".join(steps)
