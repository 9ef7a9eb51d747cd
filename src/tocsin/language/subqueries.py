"""Read subqueries on history: `SELECT … FROM history [h] [WHERE terms]`."""

from collections.abc import Callable
from typing import Protocol

from sqlglot import exp

from tocsin.errors import SubscriptionError
from tocsin.language.operands import EventAttribute, Literal, OldAttribute, Operand, Reader, strip
from tocsin.model.condition import (
    And,
    Condition,
    Exists,
    HistoryTerm,
    IsTruth,
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
    Or,
    Quantifier,
    Truth,
)

_OPS: dict[type[exp.Expr], Op] = {
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.GTE: Op.GE,
    exp.GT: Op.GT,
}
_HINT = "Write comparisons of h.old with event.new or a constant, BETWEEN and IS [NOT] NULL, joined by AND"


class Convert(Protocol):
    """Converts a condition on the new event alone."""

    def __call__(self, root: exp.Expr, reader: Reader, in_subquery: bool = False) -> Condition: ...


class HistoryReader:
    """Reads one subquery. Terms on the new event alone are lifted out of it.

    A subquery whose terms can never all be TRUE selects nothing; so does one whose lifted terms are not TRUE.
    """

    def __init__(self, reader: Reader, query: exp.Expr, convert: Convert) -> None:
        self._reader = reader
        self._refuse = reader.refuse
        self._convert = convert
        while isinstance(query, (exp.Subquery, exp.Paren)):
            query = query.this
        if not isinstance(query, exp.Select):
            raise self._refuse(query, "a subquery on history is expected here", "Write (SELECT … FROM history)")
        self._query = query
        self._alias = self._check_source()
        self._terms: list[HistoryTerm] = []
        self._lifted: list[Condition] = []
        where = query.args.get("where")
        if where is not None:
            self._read(where.this)

    def _check_source(self) -> str:
        query = self._query
        source = query.args.get("from_")
        table = source.this if source is not None else None
        if (
            not isinstance(table, exp.Table)
            or not isinstance(table.this, exp.Identifier)
            or len(table.parts) != 1
            or table.name.lower() != "history"
        ):
            raise self._refuse(query, "the subquery is not on history", "Write SELECT … FROM history")
        extra = [
            key for key, value in query.args.items() if value and key not in ("expressions", "from_", "where", "kind")
        ]
        extra += [key for key, value in table.args.items() if value and key not in ("this", "alias")]
        if extra:
            raise self._refuse(
                query,
                f"a subquery on history has no {extra[0].rstrip('_').upper()}",
                "Keep SELECT, FROM history and WHERE",
            )
        for selected in query.expressions:
            aggregate = selected.find(exp.AggFunc)
            if aggregate is not None:
                raise self._reader.unknown(aggregate)
        return (table.alias or "history").lower()

    def selected(self) -> str:
        """The attribute of old events that ANY, ALL or IN compares with."""
        expressions = [e.this if isinstance(e, exp.Alias) else e for e in self._query.expressions]
        if len(expressions) == 1:
            operand = self._operand(expressions[0])
            if isinstance(operand, OldAttribute):
                return operand.name
        raise self._refuse(
            self._query, "the subquery must select one attribute of history", "Write SELECT price FROM history"
        )

    def exists(self) -> Condition:
        """`EXISTS (subquery)`."""
        return self.under(Quantifier.ANY, lambda terms: Exists(terms))

    def under(self, quantifier: Quantifier, make: Callable[[tuple[HistoryTerm, ...]], Condition]) -> Condition:
        """The condition on the terms, joined with what was lifted: ANY of nothing is FALSE, ALL of nothing is TRUE."""
        condition = make(tuple(self._terms))
        if not self._lifted:
            return condition
        if quantifier is Quantifier.ANY:
            return And((*(IsTruth(lifted, True, False) for lifted in self._lifted), condition))
        return Or((*(IsTruth(lifted, True, True) for lifted in self._lifted), condition))

    def _operand(self, node: exp.Expr) -> Operand:
        return self._reader.operand(node, self._alias)

    def _read(self, where: exp.Expr) -> None:
        waiting = [where]
        while waiting:
            node = strip(waiting.pop())
            if isinstance(node, exp.And):
                waiting += [node.expression, node.this]
            elif self._names_old(node):
                self._terms += self._term(node)
            else:
                self._lifted.append(self._convert(node, self._reader, in_subquery=True))

    def _names_old(self, node: exp.Expr) -> bool:
        waiting = [node]
        while waiting:
            inner = waiting.pop()
            if isinstance(inner, (exp.Subquery, exp.Query)):
                raise self._refuse(inner, "a subquery on history contains another one", "Write two conditions")
            if isinstance(inner, (exp.Column, exp.Dot)):
                if isinstance(self._operand(inner), OldAttribute):
                    return True
            else:
                waiting += inner.iter_expressions()
        return False

    def _term(self, node: exp.Expr) -> list[HistoryTerm]:
        negated = False
        while isinstance(node, (exp.Not, exp.Paren)):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, (exp.Column, exp.Dot)):
            return [self._compare(node, self._operand(node), Op.NE if negated else Op.EQ, Literal(True))]
        if type(node) in _OPS:
            op = _OPS[type(node)]
            sides = self._operand(node.this), self._operand(node.expression)
            return [self._compare(node, sides[0], op.negated if negated else op, sides[1])]
        if isinstance(node, exp.Between) and not negated and not node.args.get("symmetric"):
            value = self._operand(node.this)
            bounds = ((Op.GE, node.args["low"]), (Op.LE, node.args["high"]))
            return self._bounds(node, value, [(op, self._operand(bound)) for op, bound in bounds])
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            operand = self._operand(node.this)
            if isinstance(operand, OldAttribute):
                return [OldIsNull(operand.name, negated)]
        raise self._unsupported(node)

    def _bounds(self, node: exp.Expr, value: Operand, bounds: list[tuple[Op, Operand]]) -> list[HistoryTerm]:
        terms = []
        for op, bound in bounds:
            if isinstance(value, OldAttribute) or isinstance(bound, OldAttribute):
                terms.append(self._compare(node, value, op, bound))
            else:
                raise self._unsupported(node)
        return terms

    def _compare(self, node: exp.Expr, left: Operand, op: Op, right: Operand) -> HistoryTerm:
        if not isinstance(left, OldAttribute):
            left, op, right = right, op.flipped, left
        if not isinstance(left, OldAttribute) or isinstance(right, OldAttribute):
            raise self._refuse(node, "two attributes of one old event are compared", _HINT)
        if isinstance(right, EventAttribute):
            return OldComparedToNew(left.name, op, right.name)
        if right.value is None:
            # A comparison with NULL selects no old event: neither does this one.
            self._lifted.append(Truth(None))
            return OldIsNull(left.name, negated=False)
        return OldComparedToConstant(left.name, op, right.value)

    def _unsupported(self, node: exp.Expr) -> SubscriptionError:
        if isinstance(node, exp.Or):
            return self._refuse(node, "OR inside a subquery on history", "Write EXISTS (…) OR EXISTS (…)")
        return self._refuse(node, "this term is not possible in a subquery on history", _HINT)
