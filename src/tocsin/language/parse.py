"""Parse the text of a subscription into its condition. sqlglot parses each shape once."""

from functools import cache

from sqlglot import Dialect, ErrorLevel, exp
from sqlglot.errors import ParseError, SqlglotError

from tocsin.errors import SubscriptionError
from tocsin.language.convert import convert
from tocsin.language.names import with_names
from tocsin.language.operands import Reader
from tocsin.language.shape import MAX_DEPTH, Shape, literal_types, split
from tocsin.language.template import Template
from tocsin.model.condition import Condition

CACHED_SHAPES = 4096
"""How many shapes are cached; the least recently used is dropped first."""

LONG_SHAPE = 10_000
"""Shapes with more characters than this are not cached: few texts share one."""

Key = tuple[str, tuple[bool | str, ...], tuple[str, ...]]
"""The code of a shape, which of its literals are strings, and those that its template contains."""
_templates: dict[Key, Template] = {}
_fixed: dict[Key, tuple[int, ...]] = {}
"""By a key without literals, the numbers of those that templates of the shape contain; none for most shapes."""


def parse(text: str) -> Condition:
    """Parse a condition. Costs about 300 microseconds for a new shape, a few for a known one.

    >>> parse("price < 10").op
    <Op.LT: '<'>

    Raises SubscriptionError with the position of the culprit.
    """
    shape = Shape(split(text))
    return template_of(shape).bind(shape)


def template_of(shape: Shape) -> Template:
    """Return the template of a shape, from the cache if it is there."""
    shape_key: Key = "\0".join(shape.pieces[::2]), literal_types(shape.literals), ()
    key = _key(shape, shape_key)
    template = _templates.pop(key, None)
    if template is None:
        template, _ = parse_shape(shape)
        if template.fixed and shape_key not in _fixed:
            _fixed[shape_key] = template.fixed
            key = _key(shape, shape_key)
        if template.fixed != _fixed.get(shape_key, ()) or len(key[0]) > LONG_SHAPE:
            return template
        if len(_templates) >= CACHED_SHAPES:
            del _templates[next(iter(_templates))]
        if len(_fixed) > CACHED_SHAPES:
            _fixed.clear()
    _templates[key] = template
    return template


def _key(shape: Shape, key: Key) -> Key:
    literals = shape.literals
    return key[0], key[1], tuple([literals[number] for number in _fixed.get(key, ())])


def parse_shape(shape: Shape) -> tuple[Template, bool]:
    """Parse a shape with sqlglot; return its template, and whether that is valid for every text of the shape."""
    shape.check()
    reader = Reader(shape)
    try:
        condition = convert(_tree(shape), reader)
    except RecursionError:
        raise SubscriptionError(
            "the condition is nested too deeply", f"Nest at most {MAX_DEPTH} levels; remove needless parentheses"
        ) from None
    return Template(condition, tuple(reader.sources), tuple(sorted(reader.fixed))), reader.generic


@cache
def dialect() -> Dialect:
    """Return the SQL that texts are read as."""
    return Dialect.get_or_raise("duckdb")


def _tree(shape: Shape) -> exp.Expr:
    text = shape.text
    try:
        trees = dialect().parser(error_level=ErrorLevel.IMMEDIATE).parse(with_names(dialect().tokenize(text)), text)
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


def _syntax_error(shape: Shape, text: str, error: ParseError) -> SubscriptionError:
    details = error.errors[0]
    lines = text.split("\n")
    # sqlglot gives the line and the column where the token ends that it could not use.
    offset = sum(len(line) + 1 for line in lines[: details["line"] - 1]) + details["col"]
    offset = max(0, min(offset, len(text)) - len(details["highlight"]))
    position = shape.position(offset)
    culprit = shape.culprit(position)
    if "missing" in details["description"]:
        return SubscriptionError(f"something is missing near {culprit!r}", "Complete the condition", position=position)
    return SubscriptionError(f"{culprit!r} is not expected here", "Join conditions by AND or OR", position=position)
