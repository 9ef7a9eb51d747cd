"""Turn the value side of a sqlglot tree (arithmetic, functions, CASE) into an expression over attributes.

Literals inside an expression are part of it: texts that differ in them have different derived attributes.
"""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from tocsin.language.operands import EventAttribute, Literal, OldAttribute, Operand, Reader, strip
from tocsin.model.casts import TYPES, Time, UndefinedError
from tocsin.model.civil import MONTHS, PART_NAMES, PARTS, TICKS
from tocsin.model.expression_tree import (
    NOW,
    AttributeValue,
    Call,
    ConstantValue,
    Expression,
    derived_name,
    expression_of,
    is_derived,
    leaves,
)
from tocsin.model.functions import evaluate, interval_of, result_kind
from tocsin.model.text import like_runs
from tocsin.model.values import Constant, Kind

MAX_EXPRESSION_DEPTH = 100
"""How deep operators and functions may nest: evaluation recurses on it."""

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.Nullif: "nullif",
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GTE: ">=",
    exp.GT: ">",
}
_UNARY: dict[type[exp.Expr], str] = {
    exp.Neg: "negative",
    exp.Abs: "abs",
    exp.Sign: "sign",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.ArraySize: "length",
    exp.ArrayMax: "list_max",
    exp.ArrayMin: "list_min",
    exp.Not: "not",
}
_SEVERAL: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.And: "and",
    exp.Or: "or",
    exp.Concat: "concat",
}
_ARGUMENTS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Round: ("round", ("this", "decimals")),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
}
_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "dayofweek",
    exp.DayOfWeekIso: "isodow",
    exp.DayOfYear: "dayofyear",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_ANONYMOUS = {"suffix": "ends_with", "prefix": "starts_with", "starts_with": "starts_with", "ends_with": "ends_with"}
_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_TYPES: dict[object, str] = {
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INTEGER",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.INT128: "HUGEINT",
    exp.DType.UTINYINT: "UTINYINT",
    exp.DType.USMALLINT: "USMALLINT",
    exp.DType.UINT: "UINTEGER",
    exp.DType.UBIGINT: "UBIGINT",
    exp.DType.FLOAT: "DOUBLE",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.TEXT: "VARCHAR",
    exp.DType.VARCHAR: "VARCHAR",
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
}
_STEP = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_UNITS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mon": "month", "y": "year"}
_LITERALS = (exp.Column, exp.Dot, exp.Null, exp.Boolean, exp.Literal)


def is_expression(node: exp.Expr) -> bool:
    """Tell whether an operand is neither an attribute nor a constant as written."""
    node = strip(node)
    if isinstance(node, exp.Cast):
        return not (isinstance(strip(node.this), exp.Literal) and strip(node.this).is_string and _is_time(node))
    inner = node
    while isinstance(inner, (exp.Neg, exp.Paren)):
        inner = inner.this
    if inner is not node:
        return not isinstance(inner, exp.Literal) or inner.is_string
    return not isinstance(node, _LITERALS)


def _is_time(node: exp.Cast) -> bool:
    return _TYPES.get(node.args["to"].this) in ("DATE", "TIMESTAMP")


def read_expression(node: exp.Expr, reader: Reader, history: str | None) -> Expression:
    """Read an expression and fold its constants; `history` is the alias of the history inside a subquery on it."""
    return _ExpressionReader(reader, history).read(node, 0)


def elapsed(node: exp.Expr, interval: exp.Expr, reader: Reader, history: str | None) -> tuple[Expression, int]:
    """Read `later - earlier`, to be compared with an interval: both as microseconds, a month as 30 days."""
    node, ours = strip(node), _ExpressionReader(reader, history)
    if not isinstance(node, exp.Sub):
        raise reader.refuse(node, "an interval is compared with no difference", "Write later - earlier < INTERVAL …")
    times = ours.read(node.expression, 0), ours.read(node.this, 0)
    months, microseconds = ours.interval(interval)
    return Call("elapsed", times), months * 30 * TICKS["day"] + microseconds


def before_now(expression: Expression) -> int | None:
    """Return how many microseconds before now an expression is, if that does not depend on the event or the month."""
    earlier = 0
    while isinstance(expression, Call) and expression.function == "shift":
        months, microseconds = interval_of(expression.detail)
        if months:
            return None
        earlier -= microseconds
        [expression] = expression.operands
    return earlier if expression == AttributeValue(NOW) else None


def constant_of(expression: ConstantValue, node: exp.Expr, reader: Reader) -> Constant | None:
    """Return the constant that an expression was folded to, as a condition may contain it."""
    value = expression.value
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise reader.refuse(node, "the constant is infinite", "Compare with a finite number")
    constant: Constant | None = value
    return constant


def read_operand(node: exp.Expr, reader: Reader, history: str | None) -> Operand:
    """Read one side of a comparison: an attribute, a constant, or an expression, which is a derived attribute."""
    if not is_expression(node):
        return reader.operand(node, history)
    expression = read_expression(node, reader, history)
    if isinstance(expression, ConstantValue):
        return Literal(constant_of(expression, node, reader))
    return EventAttribute(derived_name(expression))


def known_kind(attribute: EventAttribute) -> Kind | None:
    """Return the kind of a derived attribute, if it is known."""
    return result_kind(expression_of(attribute.name)) if is_derived(attribute.name) else None


class _ExpressionReader:
    """Read the expressions of one text."""

    def __init__(self, reader: Reader, history: str | None) -> None:
        self._reader = reader
        self._refuse = reader.refuse
        self._history = history

    def read(self, node: exp.Expr, depth: int) -> Expression:
        """Read one node; a call of constants becomes a constant."""
        if depth > MAX_EXPRESSION_DEPTH:
            raise self._refuse(
                node, "the expression is nested too deeply", f"Nest at most {MAX_EXPRESSION_DEPTH} operators"
            )
        node = strip(node)
        expression = self._convert(node, lambda inner: self.read(inner, depth + 1))
        if isinstance(expression, Call) and not any(leaves(expression)):
            return self._folded(node, expression)
        return expression

    def _folded(self, node: exp.Expr, call: Call) -> ConstantValue:
        try:
            value = evaluate(call, lambda _: None)
        except UndefinedError as error:
            raise self._refuse(node, f"the constant has no value: {error}", "Write it otherwise") from None
        if isinstance(value, Time):
            try:
                moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value.microseconds)
            except OverflowError:
                raise self._refuse(node, "the time is beyond the year 9999", "Write an earlier one") from None
            return ConstantValue(moment.date() if value.is_date else moment)
        return ConstantValue(value)

    def _convert(self, node: exp.Expr, read: Callable[[exp.Expr], Expression]) -> Expression:
        kind = type(node)
        if isinstance(node, (exp.Column, exp.Dot)):
            operand = self._reader.operand(node, self._history)
            if isinstance(operand, OldAttribute):
                raise self._refuse(
                    node,
                    f"{operand.name!r} of an old event stands in an expression",
                    "Inside a subquery on history compute with event.… alone",
                )
            return AttributeValue(operand.name)  # type: ignore[union-attr]  # a name is not a literal
        if isinstance(node, exp.Literal):
            return ConstantValue(self._reader.constant(node))
        if isinstance(node, exp.Null):
            return ConstantValue(None)
        if isinstance(node, exp.Boolean):
            return ConstantValue(bool(node.this))
        if kind in (exp.Add, exp.Sub, exp.DateAdd, exp.DateSub) and isinstance(strip(node.expression), exp.Interval):
            sign = 1 if kind in (exp.Add, exp.DateAdd) else -1
            return self._shifted(read(node.this), strip(node.expression), sign)
        if kind is exp.Add and isinstance(strip(node.this), exp.Interval):
            return self._shifted(read(node.expression), strip(node.this), 1)
        if kind in _BINARY:
            return Call(_BINARY[kind], (read(node.this), read(node.expression)))
        if kind is exp.Abs and self._reader.shape.has_sign("@"):
            raise self._refuse(node, "'@' does not begin a name", 'Quote the name, as in "@timestamp"')
        if kind in _UNARY:
            return Call(_UNARY[kind], (read(node.this),))
        if kind in _SEVERAL:
            return Call(_SEVERAL[kind], tuple(map(read, self._operands(node))))
        if kind in _ARGUMENTS:
            function, names = _ARGUMENTS[kind]
            return Call(function, tuple(read(node.args[name]) for name in names if node.args.get(name) is not None))
        if kind in _PARTS:
            return Call("extract", (read(node.this),), _PARTS[kind])
        return self._special(node, read)

    def _operands(self, node: exp.Expr) -> list[exp.Expr]:
        if isinstance(node, (exp.And, exp.Or)):
            return [node.this, node.expression]
        return [*([node.this] if node.this is not None else []), *node.expressions]

    def _special(self, node: exp.Expr, read: Callable[[exp.Expr], Expression]) -> Expression:
        if isinstance(node, exp.Cast):
            return Call("try_cast" if isinstance(node, exp.TryCast) else "cast", (read(node.this),), self._type(node))
        if isinstance(node, (exp.Case, exp.If)):
            return self._case(node, read)
        if isinstance(node, exp.Trim):
            characters = [] if node.expression is None else [read(node.expression)]
            return Call(_TRIMS[str(node.args.get("position") or "").upper()], (read(node.this), *characters))
        if isinstance(node, exp.Between):
            value = read(node.this)
            return Call(
                "and", (Call(">=", (value, read(node.args["low"]))), Call("<=", (value, read(node.args["high"]))))
            )
        if isinstance(node, exp.In) and node.expressions:
            value = read(node.this)
            equal = tuple(Call("=", (value, read(item))) for item in node.expressions)
            return Call("or", equal) if len(equal) > 1 else equal[0]
        if isinstance(node, exp.Is) and isinstance(node.expression, (exp.Null, exp.Boolean)):
            null = isinstance(node.expression, exp.Null)
            test = "is_null" if null else "is_true" if node.expression.this else "is_false"
            return Call(test, (read(node.this),))
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            sides = read(node.this), read(node.expression)
            both = Call("and", tuple(Call("is_null", (side,)) for side in sides))
            same = Call("or", (Call("is_true", (Call("=", sides),)), both))
            return same if isinstance(node, exp.NullSafeEQ) else Call("not", (same,))
        if isinstance(node, (exp.Like, exp.ILike, exp.Escape)):
            return self._like(node, read)
        if isinstance(node, exp.Extract):
            return Call("extract", (read(node.expression),), self._part(node, node.this, {*PARTS, "epoch"}))
        if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            return Call("date_trunc", (read(node.this),), self._part(node, node.args["unit"], {*TICKS, *MONTHS}))
        if isinstance(node, exp.DateDiff):
            unit = self._part(node, node.args.get("unit"), {*TICKS, *MONTHS})
            return Call("date_diff", (read(node.expression), read(node.this)), unit)
        if isinstance(node, exp.CurrentTimestamp):
            return AttributeValue(NOW)
        if isinstance(node, exp.CurrentDate):
            return Call("cast", (AttributeValue(NOW),), "DATE")
        if isinstance(node, exp.Interval):
            raise self._refuse(node, "an interval stands alone", "Add it to a time, or compare it with a difference")
        if isinstance(node, exp.Anonymous):
            return self._anonymous(node, read)
        raise self._reader.unknown(node)

    def _anonymous(self, node: exp.Anonymous, read: Callable[[exp.Expr], Expression]) -> Expression:
        name, arguments = node.name.lower(), node.expressions
        if name == "now" and not arguments:
            return AttributeValue(NOW)
        if name in ("date_part", "datepart") and len(arguments) == 2:
            return Call("extract", (read(arguments[1]),), self._part(node, arguments[0], {*PARTS, "epoch"}))
        if name in _ANONYMOUS and len(arguments) == 2:
            return Call(_ANONYMOUS[name], tuple(map(read, arguments)))
        if name in ("list_count", "list_max", "list_min", "list_length") and len(arguments) == 1:
            return Call("length" if name == "list_length" else name, (read(arguments[0]),))
        if name == "ip_order" and len(arguments) == 1:
            return Call(name, (read(arguments[0]),))
        if name in ("date_sub", "datesub") and len(arguments) == 3:
            unit = self._part(node, arguments[0], set(TICKS))
            return Call("date_sub", (read(arguments[1]), read(arguments[2])), unit)
        if name == "age":
            hint = "Write date_sub('day', earlier, later) for whole days, date_diff('day', …) for midnights between"
            raise self._refuse(node, "age is an interval, which is not a value here", hint)
        raise self._reader.unknown(node)

    def _type(self, node: exp.Cast) -> str:
        to = node.args["to"]
        if to.this is exp.DType.DECIMAL:
            numbers = [self._reader.constant(parameter.this) for parameter in to.expressions]
            width, scale = [*numbers, *(18, 3)[len(numbers) :]] if len(numbers) != 1 else [numbers[0], 0]
            if not (isinstance(width, int) and isinstance(scale, int) and 0 <= scale <= width <= 38 and width):
                raise self._refuse(node, f"there is no DECIMAL({width},{scale})", "It has at most 38 digits")
            return f"DECIMAL({width},{scale})"
        type_ = _TYPES.get(to.this)
        if type_ is None or (to.expressions and type_ != "VARCHAR"):
            raise self._refuse(node, f"a value cannot be cast to {to.this.value}", f"Cast to {', '.join(TYPES)}")
        return type_

    def _case(self, node: exp.Case | exp.If, read: Callable[[exp.Expr], Expression]) -> Expression:
        if isinstance(node, exp.If):
            branches, otherwise = [node], node.args.get("false")
            compared = None
        else:
            branches, otherwise, compared = node.args["ifs"], node.args.get("default"), node.this
        operands: list[Expression] = []
        for branch in branches:
            condition = read(branch.this)
            if compared is not None:
                condition = Call("=", (read(compared), condition))
            operands += [condition, read(branch.args["true"])]
        operands.append(ConstantValue(None) if otherwise is None else read(otherwise))
        return Call("case", tuple(operands))

    def _like(self, node: exp.Expr, read: Callable[[exp.Expr], Expression]) -> Expression:
        escape: tuple[Expression, ...] = ()
        if isinstance(node, exp.Escape):
            escape, node = (read(node.expression),), strip(node.this)
        pattern = read(node.expression)
        if not isinstance(pattern, ConstantValue) or not all(isinstance(each, ConstantValue) for each in escape):
            raise self._refuse(node, "the pattern must be a string", "Write it in single quotes")
        ignore_case = isinstance(node, exp.ILike)
        if isinstance(pattern.value, str):
            # Refuses a pattern that cannot be one.
            like_runs(pattern.value, escape[0].value if escape else None, ignore_case)  # type: ignore[union-attr]
        like = Call("ilike" if ignore_case else "like", (read(node.this), pattern, *escape))
        return Call("not", (like,)) if node.args.get("negate") else like

    def _part(self, node: exp.Expr, unit: exp.Expr | None, allowed: set[str]) -> str:
        name = "day" if unit is None else self._unit(unit)
        if name not in allowed:
            raise self._refuse(node, f"there is no part {name!r} of a time", f"There are {', '.join(sorted(allowed))}")
        return name

    def _unit(self, unit: exp.Expr) -> str:
        # sqlglot makes a variable of a string in this place, and with it of the number of our literal.
        name = unit.name
        if name.isdigit():
            name = str(self._reader.constant(exp.Literal.string(name)))
        return PART_NAMES.get(name.lower(), name.lower())

    def _shifted(self, value: Expression, interval: exp.Expr, sign: int) -> Expression:
        months, microseconds = self.interval(interval)
        return Call("shift", (value,), f"{sign * months} {sign * microseconds}")

    def interval(self, node: exp.Expr) -> tuple[int, int]:
        """Return the months and the microseconds of an interval."""
        inner, sign = strip(node.this), 1
        if isinstance(inner, exp.Neg):
            inner, sign = strip(inner.this), -1
        if not isinstance(inner, exp.Literal):
            raise self._refuse(node, "an interval must be a constant", "Write INTERVAL 7 DAYS")
        given, unit = self._reader.literal_text(inner), node.args.get("unit")
        text = given if unit is None else f"{given} {unit.name}"
        months, microseconds, end = 0, Decimal(0), 0
        for step in _STEP.finditer(text):
            if step.start() != end:
                break
            end = step.end()
            name = step[2].lower()
            name = PART_NAMES.get(name, _UNITS.get(name, name))
            count = Decimal(step[1])
            if name in MONTHS and count == int(count):
                months += int(count) * MONTHS[name]
            elif name in TICKS:
                microseconds += count * TICKS[name]
            else:
                break
        else:
            if end == len(text) and end and microseconds == int(microseconds):
                return sign * months, sign * int(microseconds)
        raise self._refuse(node, f"{text!r} is not an interval", "Write INTERVAL '7 days', or INTERVAL 7 DAYS")
