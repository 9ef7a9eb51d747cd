"""Random expressions of all of XPath 1.0 and random documents, for the comparison with lxml.

An expression is written with a mark before each path that means anywhere: without the marks it is what a user writes,
with ``//`` in their place it is what lxml is asked.
"""

import random
from typing import Final

MARK: Final = "\x01"
NAMESPACES: Final = {"p": "urn:p", "q": "urn:q?a&b"}
_NAMES: Final = ["a", "b", "c", "d", "p:a", "q:b"]
_ATTRIBUTES: Final = ["x", "y", "p:x", "xml:lang"]
_VALUES: Final = [
    "",
    "1",
    "2",
    "2.5",
    " 3 ",
    "-1",
    "1e1",
    "abc",
    "ab",
    "a&b",
    "it's",
    "\u00e9\U0001f600",
    "+5",
    "1E1",
    ".",
]
_NUMBERS: Final = ["0", "1", "2", "3", "2.5", ".5", "-1", "10", "3.", "1E1"]
_AXES: Final = [
    "self", "parent", "ancestor", "ancestor-or-self", "descendant", "descendant-or-self", "following-sibling",
    "preceding-sibling", "child", "following", "preceding",
]  # fmt: skip
_COMPARISONS: Final = ["=", "=", "!=", "<", "<=", ">", ">="]


class RandomXPath:
    """A source of expressions and documents."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def expression(self) -> tuple[str, str]:
        """Return an expression as a user writes it, and as lxml is asked."""
        marked = self._outer(2)
        return marked.replace(MARK, ""), marked.replace(MARK, "//")

    def _outer(self, depth: int) -> str:
        kind = self.chance.random()
        if kind < 0.7 or depth == 0:
            return self._location(2, outer=True)
        if kind < 0.8:
            return f"{self._location(1, outer=True)} | {self._location(1, outer=True)}"
        if kind < 0.9:
            return f"{self._outer(depth - 1)} {self.pick('and', 'or')} {self._outer(depth - 1)}"
        return self._boolean(1, outer=True)

    def pick(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def _location(self, depth: int, *, outer: bool) -> str:
        if outer:
            start = self.pick("/", "/", "//", MARK, MARK, f"{MARK}./", f"{MARK}.//", f"{MARK}child::", f"{MARK}../")
            if self.chance.random() < 0.05:
                filtered = self.pick("", "[1]", "[last()]", "[@x]")
                return f"({self._location(depth, outer=True)}){filtered}{self.pick('', '/b', '//@x', '/..')}"
        else:
            start = self.pick("", "", "", "./", ".//", "../", "/", "//") if self.chance.random() < 0.5 else ""
        steps = [self._step(depth, child=start.endswith("::"))]
        while self.chance.random() < 0.55 and len(steps) < 4:
            steps += (self.pick("/", "/", "//"), self._step(depth))
        end = self.chance.random()
        if end < 0.15:
            steps += (self.pick("/", "//"), "@", self.pick(*_ATTRIBUTES, "*"))
        elif end < 0.25:
            steps += (self.pick("/", "//"), self.pick("text()", "text()", "node()", ".", "..", "comment()"))
        return start + "".join(steps)

    def _step(self, depth: int, *, child: bool = False) -> str:
        kind = self.chance.random()
        if kind < 0.06 and not child:
            return self.pick(".", "..")
        test = self.pick(*_NAMES, "a", "b", "*", "*", "p:*")
        axis = f"{self.pick(*_AXES)}::" if kind < 0.25 and not child else ""
        if axis and self.chance.random() < 0.15:
            test = self.pick("node()", "text()")
        predicates = ""
        while depth and self.chance.random() < 0.35:
            predicates += f"[{self._predicate(depth - 1)}]"
        return axis + test + predicates

    def _predicate(self, depth: int) -> str:
        kind = self.chance.random()
        if kind < 0.08:
            return self.pick(
                "1", "2", "last()", "position() = 1", "position() < last()", "last() - 1", "position() mod 2"
            )
        return self._boolean(depth)

    def _boolean(self, depth: int, *, outer: bool = False) -> str:
        kind = self.chance.random()
        if depth and kind < 0.25:
            one, other = self._boolean(depth - 1, outer=outer), self._boolean(depth - 1, outer=outer)
            joined = f"{one} {self.pick('and', 'or')} {other}"
            return f"({joined})" if self.chance.random() < 0.5 else joined
        if depth and kind < 0.35:
            return f"not({self._boolean(depth - 1, outer=outer)})"
        if kind < 0.55:
            return self._subject(depth, outer)
        if kind < 0.62:
            return f"{self.pick('contains', 'starts-with')}({self._subject(depth, outer)}, {self._string()})"
        left = self._value(depth, outer)
        right = self._constant() if self.chance.random() < 0.75 else self._value(depth, outer)
        if self.chance.random() < 0.15:
            left, right = right, left
        return f"{left} {self.pick(*_COMPARISONS)} {right}"

    def _subject(self, depth: int, outer: bool) -> str:
        kind = self.chance.random()
        if not outer and kind < 0.6:
            return self.pick(*(f"@{name}" for name in _ATTRIBUTES), "@x", ".", "text()", "@*", "self::a", "self::b")
        return self._location(max(depth - 1, 0), outer=outer)

    def _value(self, depth: int, outer: bool) -> str:
        subject = self._subject(depth, outer)
        function = self.pick(
            "", "", "", "", "count", "string-length", "normalize-space", "string", "number", "sum", "local-name"
        )  # fmt: skip
        return f"{function}({subject})" if function else subject

    def _constant(self) -> str:
        return self.pick(*_NUMBERS) if self.chance.random() < 0.5 else self._string()

    def _string(self) -> str:
        value = self.pick(*_VALUES)
        return f"'{value}'" if "'" not in value else f'"{value}"'

    def document(self) -> str:
        """Return a document with recursion, mixed content, namespaces, comments, CDATA sections, at times a type."""
        root = f'<a xmlns:p="urn:p" xmlns:q="urn:q?a&amp;b">{self._content(0)}{self._content(1)}</a>'
        if self.chance.random() < 0.1:
            return f'<!DOCTYPE a SYSTEM "a.dtd">{root.replace("</b>", "&trade;</b>")}'
        return root

    def _content(self, level: int) -> str:
        inner = []
        for _ in range(self.chance.randrange(4 if level < 4 else 1)):
            kind = self.chance.random()
            if kind < 0.25:
                inner.append(self._text())
            elif kind < 0.35:
                inner.append(self.pick("<!-- <a> -->", "<?pi <b?>", "<![CDATA[]]>", "<![CDATA[2]]>", "&#50;", "\r\n"))
            else:
                inner.append(self._element(level + 1))
        return "".join(inner)

    def _element(self, level: int) -> str:
        tag = self.pick(*_NAMES, "a", "b")
        space = self.pick(*[""] * 8, ' xmlns="urn:p"', ' xmlns=""', ' xmlns:p="urn:q?a&amp;b"')
        names = self.chance.sample(_ATTRIBUTES, self.chance.choice((0, 0, 1, 2)))
        attributes = "".join(f' {name}="{self._text()}"' for name in names)
        inner = self._content(level)
        return f"<{tag}{space}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{space}{attributes}/>"

    def _text(self) -> str:
        return self.pick(*_VALUES).replace("&", "&amp;").replace("<", "&lt;")
