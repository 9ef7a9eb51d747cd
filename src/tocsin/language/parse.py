"""Parse the text of a subscription into its condition: by the grammar, and by sqlglot what the grammar declines."""

from tocsin.language.constants import LiteralSource, Reading, read
from tocsin.language.grammar import read_condition
from tocsin.language.shape import Shape, literal_types, split
from tocsin.language.template import Template
from tocsin.model.condition import Condition, Slot

CACHED_SHAPES = 4096
"""How many shapes that sqlglot has parsed are cached; the least recently used is dropped first."""

LONG_SHAPE = 10_000
"""Shapes with more characters than this are not cached: few texts share one."""

Key = tuple[str, tuple[bool, ...]]
"""The code of a shape, and which of its literals are strings; () if none is."""
_templates: dict[Key, Template] = {}


def parse(text: str) -> Condition:
    """Parse a condition. Costs some 4 microseconds a comparison, and 300 for a new shape that is left to sqlglot.

    >>> parse("price < 10").op
    <Op.LT: '<'>

    Raises SubscriptionError with the position of the culprit.
    """
    return parse_pieces(split(text))


def parse_pieces(pieces: list[str]) -> Condition:
    """Parse a condition from the pieces of its text."""
    condition = read_condition(pieces, lambda number, reading: read(pieces[2 * number + 1], reading))
    if condition is not None:
        return condition
    shape = Shape(pieces)
    return _known_template(shape).bind(shape)


def _known_template(shape: Shape) -> Template:
    """Return the template of a shape that the grammar declines, from the cache if it is there."""
    key = "\0".join(shape.pieces[::2]), literal_types(shape.literals)
    template = _templates.pop(key, None)
    if template is None:
        template, generic = template_by_sqlglot(shape)
        if not generic or len(key[0]) > LONG_SHAPE:
            return template
        if len(_templates) >= CACHED_SHAPES:
            del _templates[next(iter(_templates))]
    _templates[key] = template
    return template


def parse_shape(shape: Shape) -> Template | None:
    """Return the template of a shape; None unless it is valid for every text of the shape."""
    sources: list[LiteralSource] = []

    def slot(literal: int, reading: Reading) -> Slot:
        sources.append(LiteralSource(literal, reading))
        return Slot(len(sources) - 1)

    condition = read_condition(shape.pieces, slot)
    if condition is not None:
        return Template(condition, tuple(sources))
    template, generic = template_by_sqlglot(shape)
    return template if generic else None


def template_by_sqlglot(shape: Shape) -> tuple[Template, bool]:
    """Parse a shape with sqlglot, which takes half a second to load and is loaded only here."""
    from tocsin.language import by_sqlglot

    return by_sqlglot.template_by_sqlglot(shape)
