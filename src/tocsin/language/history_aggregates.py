"""Convert comparisons with an aggregate of the history: `price > (SELECT avg(price) FROM history …)`."""

from collections.abc import Callable

from sqlglot import exp

from tocsin.language.expressions import known_kind
from tocsin.language.history_subquery import HistoryReader
from tocsin.language.operands import EventAttribute, Literal, Operand, Reader, strip
from tocsin.model.condition import (
    Aggregate,
    Aggregated,
    And,
    Condition,
    Exists,
    HistoryTerm,
    Not,
    OldComparedToConstant,
    OldIsNull,
    Op,
    Or,
    Quantified,
    Quantifier,
    Slot,
    Truth,
    Value,
)
from tocsin.model.values import Kind, kind_of

_AGGREGATES: dict[type[exp.Expr], Aggregate] = {
    exp.Count: Aggregate.COUNT,
    exp.Sum: Aggregate.SUM,
    exp.Avg: Aggregate.AVG,
}


def compare_to_aggregate(
    operand: Operand, op: Op, aggregate: exp.AggFunc, query: exp.Expr, reader: Reader, convert: Callable[..., Condition]
) -> Condition:
    """Convert `operand op (SELECT aggregate(old) FROM history …)`."""
    history = HistoryReader(reader, convert, query, allows_aggregate=True)
    if isinstance(aggregate, (exp.Max, exp.Min)):
        return _compare_to_extreme(operand, op, aggregate, history)
    counted = strip(aggregate.this)
    counts_events = isinstance(aggregate, exp.Count) and isinstance(counted, (exp.Star, exp.Literal))
    old = None if counts_events else history.selected()
    if isinstance(aggregate, exp.Count):
        some = _some(operand, op, old, history, reader)
        if some is not None:
            return some
    attribute, constant = _number(operand, aggregate, reader)
    if attribute is None and constant is None:
        return Truth(None)
    kind = _AGGREGATES[type(aggregate)]
    return history.of_alternatives(lambda terms: Aggregated(attribute, constant, op, kind, old, terms))


def _number(operand: Operand, node: exp.Expr, reader: Reader) -> tuple[str | None, Value | None]:
    """Return the attribute or the constant that is compared with a number; neither for NULL."""
    if isinstance(operand, EventAttribute):
        kind = known_kind(operand)
        if kind in (None, Kind.NUMBER):
            return operand.name, None
    elif isinstance(operand, Literal):
        value = operand.value
        kind = reader.sources[value.index].reading.kind if isinstance(value, Slot) else kind_of(value)
        if value is None or kind is Kind.NUMBER:
            return None, value
    else:
        kind = None
    raise reader.refuse(node, f"a {kind.value if kind else 'value'} is compared with a number", "Compare numbers")


def _compare_to_extreme(operand: Operand, op: Op, aggregate: exp.AggFunc, history: HistoryReader) -> Condition:
    """Compare with the greatest or least old value: what it says, ANY and ALL say.

    The greatest of no value is NULL, and so is the comparison.
    """
    old, extreme = history.selected(), Op.GT if isinstance(aggregate, exp.Max) else Op.LT
    there = OldIsNull(old, negated=True)

    def compared(op: Op, quantifier: Quantifier) -> Condition:
        if isinstance(operand, EventAttribute):
            return history.under(
                quantifier, lambda terms: Quantified(operand.name, op, quantifier, old, (*terms, there))
            )
        if not isinstance(operand, Literal) or operand.value is None:
            return Truth(None)
        constant, is_all = operand.value, quantifier is Quantifier.ALL
        sought = (op.negated if is_all else op).flipped
        found = history.under(
            Quantifier.ANY, lambda terms: Exists((*terms, there, OldComparedToConstant(old, sought, constant)))
        )
        return Not(found) if is_all else found

    or_equal = {Op.GT: Op.GE, Op.LT: Op.LE}[extreme]
    if op is Op.EQ:
        condition: Condition = And((compared(or_equal, Quantifier.ALL), compared(or_equal.flipped, Quantifier.ANY)))
    elif op is Op.NE:
        condition = Or((compared(extreme, Quantifier.ALL), compared(extreme.flipped, Quantifier.ANY)))
    else:
        condition = compared(op, Quantifier.ALL if op in (extreme, or_equal) else Quantifier.ANY)
    some = history.under(Quantifier.ANY, lambda terms: Exists((*terms, there)))
    return Or((And((some, condition)), And((Not(some), Truth(None)))))


def _some(value: Operand, op: Op, old: str | None, history: HistoryReader, reader: Reader) -> Condition | None:
    """Convert `(SELECT count(*) FROM history …) > 0` to EXISTS, which stops at the first; None if it is not that."""
    number = reader.value(value.value) if isinstance(value, Literal) and value.value is not None else None
    # As in `number op count`.
    exists = {(Op.LT, "0"): True, (Op.LE, "1"): True, (Op.NE, "0"): True, (Op.EQ, "0"): False, (Op.GT, "1"): False}
    answer = exists.get((op, str(number)))
    if answer is None and (op, str(number)) != (Op.GE, "0"):
        return None
    terms: tuple[HistoryTerm, ...] = () if old is None else (OldIsNull(old, negated=True),)
    some = history.under(Quantifier.ANY, lambda found: Exists((*found, *terms)))
    return some if answer else Not(some)
