"""Scores by any function of the weights that hold: a Python function, or an SQL expression.

In an expression a name is the weight of an attribute, or `score`, and `event.name` a value of the event.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial

import numpy as np

from tocsin.arrays import Float64s
from tocsin.errors import OptionError, TocsinError
from tocsin.language.parse import parse
from tocsin.model.casts import UndefinedError
from tocsin.model.condition import IsNull
from tocsin.model.events import Event
from tocsin.model.expression_tree import Expression, expression_of, is_derived, leaves
from tocsin.model.functions import evaluate
from tocsin.model.lookup import lookup

_EVENT = "of_the_event."
"""In place of `event.`, which the language drops: without it a name is a weight."""
_OF_EVENT = re.compile(r"\bevent\s*\.\s*", re.IGNORECASE)
_QUOTED = re.compile(r"('[^']*'|\"[^\"]*\")")

ScoreRule = Callable[[Mapping[str, float]], float]
"""From the weights of what holds, by attribute, to a score. It must not fall when a weight rises."""


class HeldWeights(dict[str, float]):
    """The weights of what holds, by attribute; 0 for an attribute of which nothing holds."""

    def __missing__(self, attribute: str) -> float:
        return 0.0


class ScoreFunction:
    """A rule of the user, called once for each distinct combination of weights.

    >>> rule = ScoreFunction.of("2 * price + greatest(age, hours)")
    >>> rule.scores(np.array([[1.0, 0.5], [0.0, 3.0]]), ["age", "price"]).tolist()
    [2.0, 6.0]
    >>> ScoreFunction.of(lambda price, age: price + age)
    Traceback (most recent call last):
    tocsin.errors.OptionError: score_by takes 2 arguments. Give a function of one, the weights that hold by attribute
    """

    def __init__(self, rule: ScoreRule, name: str, expression: Expression | None = None) -> None:
        self._rule, self._name, self._expression = rule, name, expression
        names = set() if expression is None else {leaf.name for leaf in leaves(expression)}
        self.weights = None if expression is None else {name for name in names if not name.startswith(_EVENT)}
        """The attributes whose weights an expression names; None for a Python function, which does not tell."""
        self.names_event = any(name.startswith(_EVENT) for name in names)

    @classmethod
    def of(cls, score_by: ScoreRule | str) -> "ScoreFunction":
        """Return the function for a rule or for the text of an expression. Raises OptionError if it is neither."""
        if isinstance(score_by, str):
            expression = _read(score_by)
            return cls(partial(_score, expression, score_by, None), repr(score_by), expression)
        try:
            signature = inspect.signature(score_by)
        except (TypeError, ValueError):  # a builtin that does not tell
            return cls(score_by, repr(score_by))
        try:
            signature.bind(HeldWeights())
        except TypeError:
            raise OptionError(
                f"score_by takes {len(signature.parameters)} arguments",
                "Give a function of one, the weights that hold by attribute",
            ) from None
        return cls(score_by, getattr(score_by, "__name__", "score_by"))

    def of_event(self, event: Event) -> "ScoreFunction":
        """Return the function for one event. Where it is NULL, because the event lacks an attribute, the score is 0.

        >>> ScoreFunction.of("score * event.ctr").of_event({"ctr": 0.5}).scores(np.array([[3.0]]), ["score"]).tolist()
        [1.5]
        """
        if not self.names_event or self._expression is None:
            return self
        return ScoreFunction(partial(_score, self._expression, self._name, event), self._name, self._expression)

    def scores(self, held: Float64s, attributes: Sequence[str]) -> Float64s:
        """Return the score of each row of weights, whose columns are `attributes`."""
        distinct, place = np.unique(held, axis=0, return_inverse=True)
        scores = np.array([self._one(row, attributes) for row in distinct.tolist()], np.float64)
        return scores[place.ravel()]

    def _one(self, row: list[float], attributes: Sequence[str]) -> float:
        held = HeldWeights({name: weight for name, weight in zip(attributes, row, strict=True) if weight})
        score = self._rule(held)
        if isinstance(score, bool) or not isinstance(score, (int, float, np.number)) or math.isnan(score):
            raise OptionError(f"{self._name} gives {score!r} for {dict(held)}", "Let it return a number")
        return float(score)


def _read(text: str) -> Expression:
    """Read an expression over weights; `event.x` becomes a name of its own."""
    try:
        parts = _QUOTED.split(text)
        parts[::2] = [_OF_EVENT.sub(_EVENT, part) for part in parts[::2]]
        condition = parse(f"({''.join(parts)}) IS NULL")
    except TocsinError as error:
        raise OptionError(
            f"score_by is {text!r}: {error}",
            "Use 'sum', 'max', an expression over attributes, a function, or a mapping from attributes to coefficients",
        ) from None
    is_name = isinstance(condition, IsNull) and condition.attribute.startswith(_EVENT)
    if not isinstance(condition, IsNull) or not (is_name or is_derived(condition.attribute)):
        raise OptionError(
            f"score_by is {text!r}",
            "Use 'sum', 'max', an expression such as '2 * price + age', a function, or a mapping from attributes to"
            " coefficients",
        )
    return expression_of(condition.attribute)


def _score(expression: Expression, text: str, event: Event | None, held: Mapping[str, float]) -> float:
    def value_of(name: str) -> object:
        if name.startswith(_EVENT):
            return None if event is None else lookup(event, name.removeprefix(_EVENT))
        return held[name]

    try:
        value = evaluate(expression, value_of)
    except UndefinedError as error:
        if event is not None:
            return 0.0
        raise OptionError(f"score_by {text!r} has no value: {error}", "Let it be a number for all weights") from None
    if value is None or (event is not None and not isinstance(value, (int, float, Decimal))):
        if event is not None:
            return 0.0
        raise OptionError(f"score_by {text!r} is NULL for {dict(held)}", "Let it be a number for all weights")
    return float(value)
