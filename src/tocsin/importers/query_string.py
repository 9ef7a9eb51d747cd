"""The query languages that are written in a string: Lucene's, and the simple one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Role = Literal["must", "should", "must_not"]


class QueryStringError(ValueError):
    """A query string that is not understood, or that has no exact equivalent."""


@dataclass(frozen=True)
class Term:
    """A word or a value; `pattern` is as it was written, with its escapes."""

    text: str
    pattern: str
    is_pattern: bool = False


@dataclass(frozen=True)
class Phrase:
    """Words in quotes."""

    text: str


@dataclass(frozen=True)
class Range:
    """Bounds by `gt`, `gte`, `lt`, `lte`."""

    bounds: dict[str, str]


@dataclass(frozen=True)
class Clause:
    """Something that must, should or must not hold; a list of clauses is a group."""

    role: Role
    what: "Term | Phrase | Range | list[Clause]"
    field: str | None = None


def parse_query_string(text: str, *, is_and: bool, simple: bool) -> list[Clause]:
    """Parse a query string; `is_and`: words that stand beside each other must all hold.

    >>> [(clause.role, clause.what.text) for clause in parse_query_string("a AND b OR c", is_and=False, simple=False)]
    [('must', 'a'), ('must', 'b'), ('should', 'c')]
    """
    parser = _Simple(text, is_and) if simple else _Lucene(text, is_and)
    clauses = parser.clauses()
    if parser.place < len(text):
        raise QueryStringError(f"{text[parser.place]!r} at {parser.place} closes nothing")
    return clauses


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


class _Lucene:
    """Clauses with AND, OR, NOT, + and -, as Lucene's classic parser reads them: operators mark their neighbours."""

    _TERM = re.compile(r'(?:\\.|[^\s\\()\[\]{}"^~:/])(?:\\.|[^\s\\()\[\]{}"^~:])*')
    _FIELD = re.compile(r"((?:\\.|[^\s\\()\[\]{}\"^~:+\-!])(?:\\.|[^\s\\()\[\]{}\"^~:])*):")
    _RANGE = re.compile(r'([\[{])\s*("[^"]*"|\S+)\s+TO\s+("[^"]*"|[^\s\]}]+)\s*([\]}])')

    def __init__(self, text: str, is_and: bool) -> None:
        self.place = 0
        self._text = text
        self._is_and = is_and

    def clauses(self) -> list[Clause]:
        """The clauses up to the end, or up to a closing parenthesis."""
        found: list[Clause] = []
        while True:
            conjunction = self._conjunction()
            modifier = self._modifier()
            if self.place >= len(self._text) or self._text[self.place] == ")":
                if conjunction or modifier:
                    raise QueryStringError(f"something is missing at {self.place}")
                return found
            what, field = self._clause()
            if found and found[-1].role != "must_not":
                if conjunction == "AND":
                    found[-1] = Clause("must", found[-1].what, found[-1].field)
                elif conjunction == "OR" and self._is_and:
                    found[-1] = Clause("should", found[-1].what, found[-1].field)
            role: Role = "should"
            if modifier in ("-", "NOT"):
                role = "must_not"
            elif modifier == "+" or (conjunction != "OR" if self._is_and else conjunction == "AND"):
                role = "must"
            found.append(Clause(role, what, field))

    def _skip(self, pattern: str) -> str:
        found = re.compile(rf"\s*(?:{pattern})").match(self._text, self.place)
        if found is None:
            return ""
        self.place = found.end()
        return found.group().strip()

    def _conjunction(self) -> str:
        return {"&&": "AND", "||": "OR"}.get(word := self._skip(r"AND(?=[\s(])|OR(?=[\s(])|&&|\|\|"), word)

    def _modifier(self) -> str:
        word = self._skip(r"NOT(?=[\s(])|[+\-!]")
        self._skip("")
        return "NOT" if word == "!" else word

    def _clause(self) -> tuple[Term | Phrase | Range | list[Clause], str | None]:
        field = None
        named = self._FIELD.match(self._text, self.place)
        if named is not None:
            field, self.place = _unescaped(named[1]), named.end()
            self._skip("")
        what: Term | Phrase | Range | list[Clause]
        if self._text.startswith("(", self.place):
            self.place += 1
            what = self.clauses()
            if not self._text.startswith(")", self.place):
                raise QueryStringError("'(' is not closed")
            self.place += 1
        else:
            what = self._one()
        self._suffix()
        return what, field

    def _one(self) -> Term | Phrase | Range:
        rest = self._text[self.place :]
        if rest.startswith('"'):
            phrase = re.match(r'"((?:\\.|[^"\\])*)"', rest)
            if phrase is None:
                raise QueryStringError("a phrase is not closed")
            self.place += phrase.end()
            return Phrase(_unescaped(phrase[1]))
        bounds = self._RANGE.match(rest)
        if bounds is not None:
            self.place += bounds.end()
            low, high = bounds[2].strip('"'), bounds[3].strip('"')
            found = {} if low == "*" else {"gte" if bounds[1] == "[" else "gt": low}
            return Range(found | ({} if high == "*" else {"lte" if bounds[4] == "]" else "lt": high}))
        compared = re.match(r"(>=|<=|>|<)\s*(\S+?)(?=[\s)]|$)", rest)
        if compared is not None:
            self.place += compared.end()
            return Range({{">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}[compared[1]]: compared[2]})
        if rest.startswith("/"):
            raise QueryStringError("regular expressions are not conditions here")
        term = self._TERM.match(rest)
        if term is None:
            raise QueryStringError(f"{rest[:1]!r} at {self.place} is not understood")
        self.place += term.end()
        written = term.group()
        is_pattern = re.search(r"(?<!\\)[*?]", written) is not None
        return Term(written if is_pattern else _unescaped(written), written, is_pattern)

    def _suffix(self) -> None:
        if re.compile(r"~").match(self._text, self.place):
            raise QueryStringError("words that are only similar or near (~)")
        boost = re.compile(r"\^[0-9.]+").match(self._text, self.place)
        if boost is not None:
            self.place = boost.end()


class _Simple:
    """Words with +, |, - and parentheses; each operator joins all before it with what follows."""

    def __init__(self, text: str, is_and: bool) -> None:
        self.place = 0
        self._text = text
        self._usual: Role = "must" if is_and else "should"

    def clauses(self) -> list[Clause]:
        """The clauses up to the end, or up to a closing parenthesis; all of one list have the same role."""
        found: list[Clause] = []
        for operator, what in self._operands():
            role: Role = {"+": "must", "|": "should"}.get(operator, self._usual)  # type: ignore[assignment]
            if len(found) == 1:
                found = [Clause(role, found[0].what)]
            elif found and found[0].role != role:
                found = [Clause(role, found)]
            found.append(Clause(role, what))
        return found

    def _operands(self) -> Iterator[tuple[str, "Term | Phrase | list[Clause]"]]:
        operator = ""
        while self.place < len(self._text) and self._text[self.place] != ")":
            sign = self._text[self.place]
            if sign.isspace():
                self.place += 1
            elif sign in "+|":
                operator, self.place = sign, self.place + 1
            else:
                yield operator, self._operand()
                operator = ""

    def _operand(self) -> "Term | Phrase | list[Clause]":
        if self._text[self.place] == "-":
            self.place += 1
            if self.place >= len(self._text):
                raise QueryStringError("nothing follows '-'")
            return [Clause("must_not", self._operand())]
        if self._text[self.place] == "(":
            self.place += 1
            inside = self.clauses()
            if not self._text.startswith(")", self.place):
                raise QueryStringError("'(' is not closed")
            self.place += 1
            return inside
        found = re.compile(r'"((?:\\.|[^"\\])*)"|((?:\\.|[^\s\\()"+|])+)').match(self._text, self.place)
        if found is None:
            raise QueryStringError("a phrase is not closed")
        self.place = found.end()
        if self._text.startswith("~", self.place) or (found[2] and re.search(r"(?<!\\)~", found[2])):
            raise QueryStringError("words that are only similar or near (~)")
        if found[1] is not None:
            return Phrase(_unescaped(found[1]))
        written = found[2]
        is_pattern = written.endswith("*") and not written.endswith("\\*") and len(written) > 1
        pattern = written if is_pattern else written.replace("*", "\\*")
        return Term(written if is_pattern else _unescaped(written), pattern, is_pattern)
