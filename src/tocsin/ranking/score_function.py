"""Scores by any function of the weights that hold: a Python function, or an SQL expression over attributes."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tocsin.arrays import Float64s
from tocsin.errors import OptionError, TocsinError
from tocsin.language.parse import parse
from tocsin.model.casts import UndefinedError
from tocsin.model.condition import IsNull
from tocsin.model.expression_tree import expression_of, is_derived
from tocsin.model.functions import evaluate

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

    def __init__(self, rule: ScoreRule, name: str) -> None:
        self._rule, self._name = rule, name

    @classmethod
    def of(cls, score_by: ScoreRule | str) -> "ScoreFunction":
        """Return the function for a rule or for the text of an expression. Raises OptionError if it is neither."""
        if isinstance(score_by, str):
            return cls(_expression_rule(score_by), repr(score_by))
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


def _expression_rule(text: str) -> ScoreRule:
    try:
        condition = parse(f"({text}) IS NULL")
    except TocsinError as error:
        raise OptionError(
            f"score_by is {text!r}: {error}",
            "Use 'sum', 'max', an expression over attributes, a function, or a mapping from attributes to coefficients",
        ) from None
    if not isinstance(condition, IsNull) or not is_derived(condition.attribute):
        raise OptionError(
            f"score_by is {text!r}",
            "Use 'sum', 'max', an expression such as '2 * price + age', a function, or a mapping from attributes to"
            " coefficients",
        )
    expression = expression_of(condition.attribute)

    def rule(held: Mapping[str, float]) -> float:
        try:
            value = evaluate(expression, held.__getitem__)
        except UndefinedError as error:
            raise OptionError(
                f"score_by {text!r} has no value: {error}", "Let it be a number for all weights"
            ) from None
        if value is None:
            raise OptionError(f"score_by {text!r} is NULL for {dict(held)}", "Let it be a number for all weights")
        return float(value)

    return rule
