"""Read subqueries on the history: `SELECT … FROM history [h] [WHERE terms]`, from sqlglot's tree to terms."""

from collections.abc import Callable

from sqlglot import exp

from tocsin.errors import SubscriptionError
from tocsin.language.expressions import read_operand
from tocsin.language.operands import EventAttribute, Literal, OldAttribute, Operand, Reader, chain
from tocsin.model.condition import (
    And,
    Condition,
    HistoryTerm,
    IsTruth,
    Not,
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
    Or,
    Quantifier,
    Truth,
)

OPS: dict[type[exp.Expr], Op] = {
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.GTE: Op.GE,
    exp.GT: Op.GT,
}
_HISTORY_HINT = "Write comparisons of h.old with event.new or a constant, BETWEEN, IN and IS [NOT] NULL"
MAX_ALTERNATIVES = 64
"""How many alternatives the WHERE of a subquery may have, and how deep AND, OR and NOT may nest in it."""


def aggregate_of(query: exp.Expr) -> exp.AggFunc | None:
    """Return the aggregate that a subquery selects, if it is one that can be asked of the history."""
    while isinstance(query, (exp.Subquery, exp.Paren)):
        query = query.this
    if isinstance(query, exp.Select) and len(query.expressions) == 1:
        selected = query.expressions[0].unalias()
        if isinstance(selected, (exp.Max, exp.Min, exp.Count)):
            return selected
    return None


_Leaf = tuple[exp.Expr, bool]
"""A condition without AND and OR, and whether it is negated."""


class HistoryReader:
    """Read one subquery: `SELECT … FROM history [h] [WHERE terms]`.

    The WHERE becomes an OR of alternatives, each an AND of terms: a subquery selects what some alternative selects, so
    that ANY and EXISTS hold if they do for one of them, and ALL if it does for each. Terms on the new event alone are
    lifted out of it: where they are not TRUE, the alternative selects nothing.
    """

    def __init__(
        self, reader: Reader, convert: Callable[..., Condition], query: exp.Expr, allows_aggregate: bool = False
    ) -> None:
        self._reader, self._convert = reader, convert
        self._refuse = reader.refuse
        self._allows_aggregate = allows_aggregate
        while isinstance(query, (exp.Subquery, exp.Paren)):
            query = query.this
        if reader.element:
            raise self._refuse(query, "a subquery stands inside one on the elements of a list", "Write two conditions")
        if not isinstance(query, exp.Select):
            raise self._refuse(query, "a subquery on history is expected here", "Write (SELECT … FROM history)")
        self._query = query
        self._alias = self._check_source()
        self._lifted: list[Condition] = []
        where = query.args.get("where")
        self._alternatives = [self._read(leaves) for leaves in (self._split(where.this) if where is not None else [[]])]

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
            if aggregate is not None and (aggregate is not aggregate_of(query) or not self._allows_aggregate):
                raise self._reader.unknown(aggregate)
        return (table.alias or "history").lower()

    def selected(self) -> str:
        """Return the attribute of old events that ANY, ALL or IN compares with."""
        expressions = [e.this if isinstance(e, exp.Alias) else e for e in self._query.expressions]
        aggregate = aggregate_of(self._query)
        expressions = expressions if aggregate is None else [aggregate.this]
        if len(expressions) == 1:
            operand = self._operand(expressions[0])
            if isinstance(operand, OldAttribute):
                return operand.name
        raise self._refuse(
            self._query, "the subquery must select one attribute of history", "Write SELECT price FROM history"
        )

    def under(self, quantifier: Quantifier, make: Callable[[tuple[HistoryTerm, ...]], Condition]) -> Condition:
        """Join the condition on the terms with the lifted ones: ANY of nothing is FALSE, ALL of nothing is TRUE."""
        found: list[Condition] = []
        for terms, lifted in self._alternatives:
            condition = make(tuple(terms))
            if lifted and quantifier is Quantifier.ANY:
                condition = And((*(IsTruth(one, True, False) for one in lifted), condition))
            elif lifted:
                condition = Or((*(IsTruth(one, True, True) for one in lifted), condition))
            found.append(condition)
        if len(found) == 1:
            return found[0]
        return Or(tuple(found)) if quantifier is Quantifier.ANY else And(tuple(found))

    def _operand(self, node: exp.Expr) -> Operand:
        return read_operand(node, self._reader, self._alias)

    def _split(self, node: exp.Expr, negated: bool = False, depth: int = 0) -> list[list[_Leaf]]:
        """Return the alternatives of a condition, each with the leaves that must hold, negated or not.

        In a WHERE only TRUE counts, and NOT of a leaf is TRUE where it is FALSE: De Morgan's laws hold.
        """
        while isinstance(node, (exp.Not, exp.Paren)):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if depth > MAX_ALTERNATIVES:
            raise self._refuse(node, "AND, OR and NOT nest too deeply", f"Nest at most {MAX_ALTERNATIVES}")
        if not self._names_old(node):
            return [[(node, negated)]]
        if isinstance(node, exp.Between) and negated and not node.args.get("symmetric"):
            below = exp.LT(this=node.this.copy(), expression=node.args["low"])
            above = exp.GT(this=node.this.copy(), expression=node.args["high"])
            return [[(below, False)], [(above, False)]]
        if isinstance(node, exp.In) and node.expressions:
            tested = [exp.EQ(this=node.this.copy(), expression=item) for item in node.expressions]
            return [[(one, True) for one in tested]] if negated else [[(one, False)] for one in tested]
        if not isinstance(node, (exp.And, exp.Or)):
            return [[(node, negated)]]
        parts = [self._split(part, negated, depth + 1) for part in chain(node, type(node))]
        if isinstance(node, exp.Or) != negated:
            found = [alternative for part in parts for alternative in part]
        else:
            found = [[]]
            for part in parts:
                found = [[*left, *right] for left in found for right in part]
                if len(found) > MAX_ALTERNATIVES:
                    break
        if len(found) > MAX_ALTERNATIVES:
            raise self._refuse(
                node, f"a subquery with more than {MAX_ALTERNATIVES} alternatives", "Write several subscriptions"
            )
        return found

    def _read(self, leaves: list[_Leaf]) -> tuple[list[HistoryTerm], list[Condition]]:
        """Return the terms of an alternative, and what is lifted out of it."""
        self._lifted = []
        terms: list[HistoryTerm] = []
        for node, negated in leaves:
            if self._names_old(node):
                terms += self._term(node, negated)
            else:
                condition = self._convert(node, self._reader, in_subquery=True)
                self._lifted.append(Not(condition) if negated else condition)
        return terms, self._lifted

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

    def _term(self, node: exp.Expr, negated: bool) -> list[HistoryTerm]:
        if isinstance(node, (exp.Column, exp.Dot)):
            return [self._compare(node, self._operand(node), Op.NE if negated else Op.EQ, Literal(True))]
        if type(node) in OPS:
            op = OPS[type(node)]
            sides = self._operand(node.this), self._operand(node.expression)
            return [self._compare(node, sides[0], op.negated if negated else op, sides[1])]
        if isinstance(node, exp.Between) and not negated and not node.args.get("symmetric"):
            value = self._operand(node.this)
            bounds = [(op, self._operand(node.args[key])) for op, key in ((Op.GE, "low"), (Op.LE, "high"))]
            if all(isinstance(value, OldAttribute) or isinstance(bound, OldAttribute) for _, bound in bounds):
                return [self._compare(node, value, op, bound) for op, bound in bounds]
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            operand = self._operand(node.this)
            if isinstance(operand, OldAttribute):
                return [OldIsNull(operand.name, negated)]
        raise self._unsupported(node)

    def _compare(self, node: exp.Expr, left: Operand, op: Op, right: Operand) -> HistoryTerm:
        if not isinstance(left, OldAttribute):
            left, op, right = right, op.flipped, left
        if not isinstance(left, OldAttribute) or isinstance(right, OldAttribute):
            raise self._refuse(node, "two attributes of one old event are compared", _HISTORY_HINT)
        if isinstance(right, EventAttribute):
            return OldComparedToNew(left.name, op, right.name)
        if right.value is None:
            # A comparison with NULL is never TRUE, so the subquery selects nothing.
            self._lifted.append(Truth(None))
            return OldIsNull(left.name, negated=False)
        return OldComparedToConstant(left.name, op, right.value)

    def _unsupported(self, node: exp.Expr) -> SubscriptionError:
        return self._refuse(node, "this term is not possible in a subquery on history", _HISTORY_HINT)
