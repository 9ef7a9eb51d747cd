"""Parse a shape with sqlglot: the whole language, and every error with the place of its culprit."""

import re
from functools import cache
from typing import Any, ClassVar

from sqlglot import Dialect, ErrorLevel, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError

from tocsin.errors import SubscriptionError
from tocsin.language.convert import convert
from tocsin.language.names import with_names
from tocsin.language.operands import Reader
from tocsin.language.shape import MAX_DEPTH, Shape
from tocsin.language.template import Template

CACHED_TREES, LONG_TEXT = 1_024, 1_000
"""How many trees are kept, and of how long texts: a template that contains literals is that of few texts, but its tree
is that of all texts of its shape."""
_trees: dict[str, exp.Expr] = {}


def template_by_sqlglot(shape: Shape) -> Template:
    """Return the template of a shape."""
    shape.check()
    reader = Reader(shape)
    text = shape.text
    # Nothing changes a tree, so that threads may read one together.
    tree = _trees.get(text)
    try:
        if tree is None:
            tree = _tree(shape)
            if len(text) <= LONG_TEXT:
                if len(_trees) >= CACHED_TREES:
                    _trees.clear()
                _trees[text] = tree
        condition = convert(tree, reader)
    except RecursionError:
        raise SubscriptionError(
            "the condition is nested too deeply", f"Nest at most {MAX_DEPTH} levels; remove needless parentheses"
        ) from None
    return Template(condition, tuple(reader.sources), tuple(sorted(reader.fixed)))


class _Conditions(DuckDB):
    """DuckDB's SQL without commands: `call = 1` is a condition."""

    class Tokenizer(DuckDB.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


@cache
def dialect() -> Dialect:
    """Return the SQL that texts are read as."""
    return Dialect.get_or_raise(_Conditions)


def _tree(shape: Shape) -> exp.Expr:
    text = shape.text
    try:
        tokens = with_names(dialect().tokenize(text))
        _refuse_lenience(tokens, shape)
        trees = dialect().parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except ParseError as error:
        raise _syntax_error(shape, text, error) from None
    except SqlglotError:
        raise SubscriptionError("the condition cannot be read", "Look for stray quotes and signs", position=0) from None
    if len(trees) != 1 or trees[0] is None:
        raise SubscriptionError(
            "the text holds several conditions or none",
            "Write one condition, without ';'",
            position=shape.position(text.index(";")) if ";" in text else 0,
        )
    return trees[0]


_INSIDE = {TokenType.L_PAREN: 1, TokenType.CASE: 1, TokenType.R_PAREN: -1, TokenType.END: -1}
_AFTER_LOW = {TokenType.AND, TokenType.OR, TokenType.BETWEEN, TokenType.COMMA}


def _refuse_lenience(tokens: list[Any], shape: Shape) -> None:
    """Refuse what sqlglot reads and SQL does not: BETWEEN without AND, and strings side by side."""
    lows: list[int] = []  # how deep the tokens lie that are between BETWEEN and its AND
    depth = 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type
        if kind is TokenType.STRING and following is not None and following.token_type is TokenType.STRING:
            raise SubscriptionError(
                "two strings stand side by side", "Join them by ||", position=shape.position(following.start)
            )
        depth += _INSIDE.get(kind, 0)
        if lows and (depth < lows[-1] or (depth == lows[-1] and kind in _AFTER_LOW)):
            if kind is not TokenType.AND:
                break
            lows.pop()
        if kind is TokenType.BETWEEN:
            lows.append(depth)
    if lows:
        raise SubscriptionError(
            "BETWEEN lacks its AND", "Write BETWEEN low AND high", position=shape.position(token.start)
        )


_COMPARED = re.compile(
    r"\b(ALL|ANY|AS|ASC|CASE|DISTINCT|ELSE|FOR|FROM|GLOB|HAVING|ILIKE|INTERVAL|LIKE|NOTNULL|REGEXP|RLIKE|SELECT|SOME"
    r"|THEN|WHEN|WHERE|WITH)\s*[=<>!]",
    re.I,
)
_SWAPPED = re.compile(r"(?<![=<>!])=[<>](?![=<>])")


def _reserved_name(text: str, offset: int) -> str | None:
    """Return the reserved word that is compared as if it were a name, at or before an offset."""
    found = [word[1] for word in _COMPARED.finditer(text) if word.start() <= offset]
    return found[-1] if found else None


def _syntax_error(shape: Shape, text: str, error: ParseError) -> SubscriptionError:
    details = error.errors[0]
    lines = text.split("\n")
    # sqlglot gives the line and the column where the token ends that it could not use.
    offset = sum(len(line) + 1 for line in lines[: details["line"] - 1]) + details["col"]
    offset = max(0, min(offset, len(text)) - len(details["highlight"]))
    position = shape.position(offset)
    culprit = shape.culprit(position)
    reserved = _reserved_name(text, offset)
    if reserved is not None:
        return SubscriptionError(
            f"{culprit!r} is not expected here", f'If {reserved} is a name, quote it: "{reserved}"', position=position
        )
    swapped = _SWAPPED.search(text)
    if swapped is not None and swapped.start() <= offset:
        sign = swapped.group()
        position = shape.position(swapped.start())
        return SubscriptionError(f"there is no operator {sign}", f"Write {sign[::-1]}", position=position)
    if "missing" in details["description"]:
        return SubscriptionError(f"something is missing near {culprit!r}", "Complete the condition", position=position)
    return SubscriptionError(f"{culprit!r} is not expected here", "Join conditions by AND or OR", position=position)
