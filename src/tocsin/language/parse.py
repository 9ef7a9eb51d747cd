"""Parse the text of a subscription into its condition: by the grammar, and by sqlglot what the grammar declines."""

from tocsin.language.constants import LiteralSource, Reading, read, read_all
from tocsin.language.declared_words import with_analyzers
from tocsin.language.grammar import read_condition
from tocsin.language.shape import Shape, literal_types, split
from tocsin.language.template import Template
from tocsin.model.analyzer import NO_ANALYZERS, Analyzers
from tocsin.model.condition import Condition, Slot
from tocsin.model.values import Constant

CACHED_SHAPES = 4096
"""How many shapes that sqlglot has parsed are cached; the least recently used is dropped first."""

LONG_SHAPE = 10_000
"""Shapes with more characters than this are not cached: few texts share one."""

Key = tuple[str, tuple[bool | str, ...], tuple[str, ...]]
"""The code of a shape, the types of its literals (() if none is a string), and those that its template contains."""
_templates: dict[Key, Template] = {}
_fixed: dict[str, tuple[int, ...]] = {}
"""By the code of a shape, the numbers of the literals that its templates contain; none for most shapes."""


def parse(text: str, analyzers: Analyzers = NO_ANALYZERS) -> Condition:
    """Parse a condition. Costs some 4 microseconds a comparison, and 300 for a new shape that is left to sqlglot.

    `analyzers` are those of its tests on words.

    >>> parse("price < 10").op
    <Op.LT: '<'>

    Raises SubscriptionError with the position of the culprit.
    """
    return parse_pieces(split(text), analyzers)


def parse_pieces(pieces: list[str], analyzers: Analyzers = NO_ANALYZERS) -> Condition:
    """Parse a condition from the pieces of its text."""

    def constant(number: int, reading: Reading) -> Constant:
        return read(pieces[2 * number + 1], reading)

    condition = read_condition(pieces, constant, read_all)
    if condition is None:
        shape = Shape(pieces)
        condition = _known_template(shape).bind(shape)
    return with_analyzers(condition, analyzers)


def _known_template(shape: Shape) -> Template:
    """Return the template of a shape that the grammar declines, from the cache if it is there."""
    code, types = "\0".join(shape.pieces[::2]), literal_types(shape.literals)
    key = code, types, fixed_literals(code, shape.literals)
    template = _templates.pop(key, None)
    if template is None:
        template = template_by_sqlglot(shape)
        _note_fixed(code, template)
        if template.fixed != fixed_places(code) or len(code) > LONG_SHAPE:
            return template
        key = code, types, fixed_literals(code, shape.literals)
        if len(_templates) >= CACHED_SHAPES:
            del _templates[next(iter(_templates))]
    _templates[key] = template
    return template


def _note_fixed(code: str, template: Template) -> None:
    if template.fixed and code not in _fixed:
        if len(_fixed) >= CACHED_SHAPES:
            _fixed.clear()
        _fixed[code] = template.fixed


def fixed_places(code: str) -> tuple[int, ...]:
    """Return the numbers of the literals that the templates of a shape contain, as far as that is known."""
    return _fixed.get(code, ())


def fixed_literals(code: str, literals: list[str]) -> tuple[str, ...]:
    """Return those of the literals of a text that the template of its shape contains, as far as that is known."""
    return tuple([literals[number] for number in fixed_places(code)])


def has_known_literals(shape: Shape, template: Template) -> bool:
    """Tell whether a template contains the literals that `fixed_literals` gives for its shape."""
    return template.fixed == fixed_places("\0".join(shape.pieces[::2]))


def parse_shape(shape: Shape) -> Template:
    """Return the template of a shape, which is that of all its texts with the same fixed literals."""
    sources: list[LiteralSource] = []

    def slot(literal: int, reading: Reading) -> Slot:
        sources.append(LiteralSource(literal, reading))
        return Slot(len(sources) - 1)

    condition = read_condition(shape.pieces, slot)
    if condition is not None:
        return Template(condition, tuple(sources))
    template = template_by_sqlglot(shape)
    _note_fixed("\0".join(shape.pieces[::2]), template)
    return template


def template_by_sqlglot(shape: Shape) -> Template:
    """Parse a shape with sqlglot, which takes half a second to load and is loaded only here."""
    from tocsin.language import by_sqlglot

    return by_sqlglot.template_by_sqlglot(shape)
