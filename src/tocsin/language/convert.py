"""Turn a sqlglot tree, subqueries on history included, into a condition with slots.

Nothing recurses on the length or depth of the tree.
"""

from typing import Any

from sqlglot import exp

from tocsin.language.constants import Reading
from tocsin.language.expressions import before_now, elapsed, known_kind, read_operand
from tocsin.language.history_aggregates import compare_to_aggregate
from tocsin.language.history_subquery import OPS, HistoryReader, aggregate_of
from tocsin.language.operands import FUNCTIONS, EventAttribute, Literal, Operand, Reader, chain, strip
from tocsin.model.condition import (
    And,
    ArrayContains,
    AttributeComparison,
    Between,
    Comparison,
    Condition,
    Exists,
    HasPhrase,
    HasWords,
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
    Op,
    Or,
    Quantified,
    Quantifier,
    RegexpMatches,
    Slot,
    Truth,
    UnnestExists,
    Value,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.expression_tree import (
    NOW,
    AttributeValue,
    Call,
    derived_name,
    expression_of,
    is_derived,
    leaves,
)
from tocsin.model.functions import result_kind
from tocsin.model.regexp import FLAGS
from tocsin.model.untyped import read_as, untyped_name
from tocsin.model.values import Kind, compare_to_constant, kind_of

_QUANTIFIERS: dict[type[exp.Expr], Quantifier] = {exp.Any: Quantifier.ANY, exp.All: Quantifier.ALL}
_TEXT_FUNCTIONS: dict[str, type[HasWords | HasPhrase | XPathExists]] = {
    "has_words": HasWords,
    "has_phrase": HasPhrase,
    "xpath_exists": XPathExists,
}


_TEXT_OPTIONS: dict[str, dict[str, type]] = {
    "has_words": {"near": int, "min_words": int, "exact_case": bool},
    "has_phrase": {"slop": int, "exact_case": bool},
}
_LIST_FUNCTIONS = {"list_has_any", "array_has_any", "list_has_all", "array_has_all"}
_PLACES = {
    "within_distance": (5, "within_distance(latitude, longitude, 48.85, 2.35, '10 km')"),
    "within_box": (6, "within_box(latitude, longitude, 48, 2, 49, 3): south, west, north, east"),
    "within_polygon": (3, "within_polygon(latitude, longitude, 'POLYGON ((2 48, 3 48, 3 49, 2 48))')"),
}
_UNNEST = "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE i.price > 10)"
_FLAG_HINT = "There are i (any case), c (as written), s (. matches a line end) and n (it does not)"
_REGEXPS = (exp.RegexpLike, exp.RegexpILike, exp.RegexpFullMatch, exp.SimilarTo, exp.Glob)
_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not, exp.ArrayContains, *_REGEXPS)
MAX_NULL_TESTS = 4
"""How deep `(…) IS NULL` of conditions may nest: each level doubles the condition."""


def convert(root: exp.Expr, reader: Reader, in_subquery: bool = False) -> Condition:
    """Convert a tree. In a subquery, names without `event.` mean the history's attributes and are refused."""
    converter = _Converter(reader, in_subquery)
    waiting: list[tuple[exp.Expr, Condition | None]] = [(root, None)]
    done: list[Condition] = []
    # A node that waits with a condition has its operands on `done`; the condition says how to join them.
    while waiting:
        node, join = waiting.pop()
        if join is not None:
            if isinstance(join, (And, Or)):
                count = len(join.operands)
                done[-count:] = [type(join)(tuple(done[-count:]))]
            elif isinstance(join, IsTruth):
                done[-1] = IsTruth(done[-1], join.value, join.negated)
            elif isinstance(join, IsNull):
                done[-1] = And((IsTruth(done[-1], True, True), IsTruth(done[-1], False, True)))
            else:
                done[-1] = Not(done[-1])
            continue
        node = strip(node)
        if isinstance(node, (exp.And, exp.Or)):
            parts = chain(node, type(node))
            connect = And if isinstance(node, exp.And) else Or
            waiting.append((node, connect((Truth(None),) * len(parts))))
            waiting += [(part, None) for part in reversed(parts)]
        elif isinstance(node, exp.Not):
            waiting += [(node, Not(Truth(None))), (node.this, None)]
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
            waiting += [(node, IsTruth(Truth(None), bool(node.expression.this), False)), (node.this, None)]
        elif _tests_condition(node):
            converter.check_null_tests(node)
            waiting += [(node, IsNull("")), (node.this, None)]
        else:
            done.append(converter.atom(node))
    return done.pop()


def _tests_condition(node: exp.Expr) -> bool:
    """Tell whether a node is `(condition) IS NULL`."""
    if not isinstance(node, exp.Is) or not isinstance(node.expression, exp.Null):
        return False
    tested = strip(node.this)
    is_text_test = isinstance(tested, exp.Anonymous) and tested.name.lower() in FUNCTIONS
    return is_text_test or isinstance(tested, _CONDITIONS)


def _compare_attributes(left: str, op: Op, right: str) -> Condition:
    """Compare two attributes of an event; `left > now() - INTERVAL …` is a range of the time that has elapsed."""
    for one, how, other in ((left, op, right), (right, op.flipped, left)):
        earlier = before_now(expression_of(other))
        if earlier is not None:
            elapsed_since = Call("elapsed", (expression_of(one), AttributeValue(NOW)))
            return Comparison(derived_name(elapsed_since), how.flipped, earlier)
    return AttributeComparison(left, op, right)


def _quoted_hint(difference: EventAttribute) -> str:
    name = "-".join(leaf.name for leaf in leaves(expression_of(difference.name)))
    return f'Quote a name such as "{name}"'


def _is_difference(attribute: EventAttribute) -> bool:
    """Whether an operand is a sum or difference of attributes alone, as a name with a hyphen is read."""
    expression = expression_of(attribute.name)
    if not isinstance(expression, Call) or expression.function not in ("+", "-"):
        return False
    return len(list(leaves(expression))) > 1


class _Converter:
    """Convert what stands between AND, OR, NOT and IS TRUE."""

    def __init__(self, reader: Reader, in_subquery: bool) -> None:
        self._reader = reader
        self._refuse = reader.refuse
        self._in_subquery = in_subquery

    def atom(self, node: exp.Expr) -> Condition:
        """Convert a node that is not AND, OR, NOT or IS TRUE."""
        if isinstance(node, (exp.Column, exp.Dot, exp.Boolean, exp.Null)):
            return self._bare(node)
        if type(node) in OPS:
            return self._comparison(node, OPS[type(node)])
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Is):
            return self._is_null(node)
        if isinstance(node, (exp.Like, exp.ILike, exp.Escape)):
            return self._like(node)
        if isinstance(node, _REGEXPS):
            return self._regexp(node)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            same = self._same(self._operand(node.this), self._operand(node.expression))
            return same if isinstance(node, exp.NullSafeEQ) else Not(same)
        if isinstance(node, exp.ArrayContains):
            return self._array_contains(node)
        if isinstance(node, (exp.ArrayOverlaps, exp.ArrayContainsAll)):
            return self._list_has(node, node.this, node.expression, isinstance(node, exp.ArrayContainsAll))
        if isinstance(node, exp.Anonymous) and node.name.lower() in _LIST_FUNCTIONS and len(node.expressions) == 2:
            tested, constants = node.expressions
            return self._list_has(node, tested, constants, node.name.lower().endswith("all"))
        if isinstance(node, exp.Anonymous) and node.name.lower() in _TEXT_FUNCTIONS:
            return self._text_function(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "ip_in":
            return self._ip_in(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in _PLACES:
            return self._place(node, node.name.lower())
        if isinstance(node, exp.Exists):
            return self._exists(node)
        if isinstance(node, exp.Literal):
            raise self._refuse(node, "a constant stands where a condition must be", "Compare it with an attribute")
        if isinstance(node, (exp.Alias, exp.Aliases)):
            # sqlglot reads `NOT :a` as an alias without a name.
            alias = node.expressions[0] if isinstance(node, exp.Aliases) else node.args.get("alias") or node.this
            raise self._refuse(
                alias, f"{alias.name!r} is not expected here", "Join conditions by AND or OR; quote odd names"
            )
        return self._bare(node)

    def _exists(self, node: exp.Exists) -> Condition:
        source = node.this.args.get("from_")
        if self._reader.element:
            raise self._refuse(node, "a subquery stands inside one on the elements of a list", "Write two conditions")
        if source is None or not isinstance(source.this, exp.Unnest):
            return HistoryReader(self._reader, convert, node.this).under(Quantifier.ANY, Exists)
        return self._unnest(node.this, source.this)

    def _unnest(self, query: exp.Expr, unnest: exp.Unnest) -> Condition:
        """Convert `EXISTS (SELECT … FROM UNNEST(list) i WHERE …)`."""
        extra = [key for key, value in query.args.items() if value and key not in ("expressions", "from_", "where")]
        if extra or len(unnest.expressions) != 1 or unnest.args.get("offset"):
            raise self._refuse(query, "a subquery on elements has more than a WHERE", f"Write {_UNNEST}")
        aggregate = next((found for one in query.expressions if (found := one.find(exp.AggFunc))), None)
        if aggregate is not None:
            raise self._reader.unknown(aggregate)
        operand = self._operand(unnest.expressions[0])
        if self._in_subquery or not isinstance(operand, EventAttribute) or is_derived(operand.name):
            raise self._refuse(query, "UNNEST takes a list of the event", f"Write {_UNNEST}")
        alias = unnest.args.get("alias")
        names = [] if alias is None else [alias.this, *(alias.args.get("columns") or ())]
        where = query.args.get("where")
        if where is None:
            return UnnestExists(operand.name, Truth(True))
        self._reader.element = tuple(name.name.lower() for name in names if name is not None) or ("unnest",)
        self._reader.quoted_element = any(name.args.get("quoted") for name in names if name is not None)
        try:
            return UnnestExists(operand.name, convert(where.this, self._reader))
        finally:
            self._reader.element = ()

    def check_null_tests(self, node: exp.Expr) -> None:
        """Refuse `(…) IS NULL` of conditions in each other, too deeply."""
        depth, inner = 0, node.parent
        while inner is not None:
            depth, inner = depth + _tests_condition(inner), inner.parent
        if depth >= MAX_NULL_TESTS:
            raise self._refuse(node, "IS NULL is nested too deeply", f"Nest at most {MAX_NULL_TESTS}")

    def _operand(self, node: exp.Expr) -> Operand:
        # No alias equals "", so in a subquery a name without `event.` is read as an attribute of an old event.
        return read_operand(node, self._reader, "" if self._in_subquery else None)

    def _attribute(self, node: exp.Expr, what: str) -> str:
        operand = self._operand(node)
        if not isinstance(operand, EventAttribute):
            raise self._refuse(node, f"{what} needs an attribute first", f"Available: {', '.join(FUNCTIONS)}, LIKE")
        if _is_difference(operand):
            raise self._refuse(node, f"{what} of a sum or difference", _quoted_hint(operand))
        return operand.name

    def _bare(self, node: exp.Expr) -> Condition:
        operand = self._operand(node)
        if isinstance(operand, EventAttribute):
            kind = known_kind(operand)
            if kind not in (None, Kind.BOOLEAN) or isinstance(node, (exp.Add, exp.Sub)):
                raise self._refuse(
                    node, f"a {(kind or Kind.NUMBER).value} stands where a condition must be", "Compare it with a value"
                )
            return Comparison(operand.name, Op.EQ, True)
        if isinstance(operand, Literal) and (operand.value is None or isinstance(operand.value, bool)):
            return Truth(operand.value)
        if isinstance(operand, Literal):
            raise self._refuse(node, "a constant stands where a condition must be", "Compare it with an attribute")
        raise self._reader.unknown(node)

    def _comparison(self, node: exp.Expr, op: Op) -> Condition:
        left, right = strip(node.this), strip(node.expression)
        if type(left) in _QUANTIFIERS:
            raise self._refuse(node, "ANY and ALL stand on the right of a comparison", "Exchange the two sides")
        if isinstance(right, exp.Anonymous) and right.name.lower() == "all" and len(right.expressions) == 1:
            # sqlglot takes ALL of a list for a function.
            return self._each_element(node, left, op, Quantifier.ALL, right.expressions[0])
        quantifier = _QUANTIFIERS.get(type(right))
        if quantifier is not None:
            if not isinstance(strip(right.this), (exp.Subquery, exp.Query)):
                return self._each_element(node, left, op, quantifier, right.this)
            return self._quantified(left, op, quantifier, right.this)
        if isinstance(left, exp.Interval) or isinstance(right, exp.Interval):
            return self._elapsed(left, op, right)
        for value, how, query in ((left, op, right), (right, op.flipped, left)):
            aggregate = aggregate_of(query)
            if aggregate is not None:
                return compare_to_aggregate(self._operand(value), how, aggregate, query, self._reader, convert)
        return self._compare(node, self._operand(left), op, self._operand(right))

    def _elapsed(self, left: exp.Expr, op: Op, right: exp.Expr) -> Condition:
        """Convert `later - earlier < INTERVAL …`."""
        if isinstance(left, exp.Interval):
            left, op, right = right, op.flipped, left
        difference, least = elapsed(left, right, self._reader, "" if self._in_subquery else None)
        return Comparison(derived_name(difference), op, least)

    def _fitting(self, node: exp.Expr, value: EventAttribute, literal: Literal) -> Literal:
        """Return a constant as an expression of a known kind compares with it: a string is cast, as SQL does it."""
        kind, given = known_kind(value), self._kind_of_literal(literal)
        if kind is None and given is Kind.STRING and _is_difference(value):
            # A sum is a number or a time, and only a time can be written as a string.
            return self._time_beside(node, value, literal)
        if kind in (None, given) or given is None:
            return literal
        if given is Kind.STRING and literal.value is not None:
            constant = read_as(str(self._reader.value(literal.value)), kind)
            if constant is not None:
                return Literal(constant)
        raise self._refuse(node, f"a {kind.value} is compared with a {given.value}", "Compare values of one kind")

    def _time_beside(self, node: exp.Expr, value: EventAttribute, literal: Literal) -> Literal:
        text = str(self._reader.value(literal.value)) if literal.value is not None else ""
        time = read_as(text, Kind.TIME)
        if time is not None:
            return Literal(time)
        raise self._refuse(node, "a sum or difference is compared with a text", _quoted_hint(value))

    def _kind_of_literal(self, literal: Literal) -> Kind | None:
        value = literal.value
        return self._reader.sources[value.index].reading.kind if isinstance(value, Slot) else kind_of(value)

    def _compare(self, node: exp.Expr, left: Operand, op: Op, right: Operand) -> Condition:
        if isinstance(left, Literal):
            if isinstance(right, Literal):
                return self._fold(left, op, right)
            left, op, right = right, op.flipped, left
        if not isinstance(left, EventAttribute):
            raise self._reader.unknown(node)
        if isinstance(right, EventAttribute):
            return _compare_attributes(left.name, op, right.name)
        if not isinstance(right, Literal):
            raise self._reader.unknown(node)
        right = self._fitting(node, left, right)
        return Truth(None) if right.value is None else Comparison(self._beside(left.name, [right]), op, right.value)

    def _beside(self, attribute: str, literals: list[Literal]) -> str:
        """Return what is compared with constants: with strings that read as other kinds, values as ordered texts."""
        formats = {self._reader.string_format(literal.value) for literal in literals if literal.value is not None}
        expression = expression_of(attribute)
        if formats <= {""} or result_kind(expression) is not None:
            return attribute
        if isinstance(expression, AttributeValue) and formats in ({"date"}, {"timestamp"}):
            return derived_name(Call("comparable", (expression,), formats.pop()))
        return untyped_name(expression)

    def _fold(self, left: Literal, op: Op, right: Literal) -> Truth:
        if left.value is None or right.value is None:
            return Truth(None)
        sign = compare_to_constant(self._reader.value(left.value), self._reader.value(right.value))
        return Truth(None if sign is None else op.holds(sign))

    def _between(self, node: exp.Between) -> Condition:
        if node.args.get("symmetric"):
            raise self._refuse(node, "BETWEEN SYMMETRIC is not part of the language", "Write the lower bound first")
        value, low, high = (self._operand(node.args[key]) for key in ("this", "low", "high"))
        literals = [bound for bound in (low, high) if isinstance(bound, Literal) and bound.value is not None]
        if isinstance(value, EventAttribute) and len(literals) == 2:
            bounds = [self._fitting(node, value, literal).value for literal in literals]
            return Between(self._beside(value.name, literals), bounds[0], bounds[1])  # type: ignore[arg-type]  # none is NULL
        return And((self._compare(node, value, Op.GE, low), self._compare(node, value, Op.LE, high)))

    def _in(self, node: exp.In) -> Condition:
        if node.args.get("query") is not None:
            return self._quantified(node.this, Op.EQ, Quantifier.ANY, node.args["query"])
        if not node.expressions:
            raise self._refuse(node, "IN needs a list of constants", "Write IN (1, 2), or array_contains(list, value)")
        value = self._operand(node.this)
        items = [self._operand(item) for item in node.expressions]
        if isinstance(value, EventAttribute) and all(isinstance(item, Literal) for item in items):
            literals = [self._fitting(node, value, item) for item in items if isinstance(item, Literal)]
            return InList(self._beside(value.name, literals), tuple(literal.value for literal in literals))
        return Or(tuple(self._compare(node, value, Op.EQ, item) for item in items))

    def _is_null(self, node: exp.Is) -> Condition:
        if not isinstance(node.expression, exp.Null):
            raise self._refuse(node, "IS is followed by NULL, TRUE or FALSE", "Write = to compare with a constant")
        operand = self._operand(node.this)
        if isinstance(operand, EventAttribute):
            return IsNull(operand.name)
        if isinstance(operand, Literal):
            return Truth(operand.value is None)
        raise self._reader.unknown(node)

    def _same(self, left: Operand, right: Operand) -> Condition:
        """Convert `left IS NOT DISTINCT FROM right`."""
        if isinstance(left, Literal):
            left, right = right, left
        if isinstance(left, EventAttribute) and isinstance(right, EventAttribute):
            equal: Condition = AttributeComparison(left.name, Op.EQ, right.name)
            return Or((IsTruth(equal, True, False), And((IsNull(left.name), IsNull(right.name)))))
        if isinstance(left, EventAttribute) and isinstance(right, Literal):
            if right.value is None:
                return IsNull(left.name)
            return IsTruth(Comparison(self._beside(left.name, [right]), Op.EQ, right.value), True, False)
        if isinstance(left, Literal) and isinstance(right, Literal):
            if left.value is None or right.value is None:
                return Truth(left.value is right.value)
            return Truth(self._fold(left, Op.EQ, right).value is True)
        raise AssertionError("an old event's attribute was let through")

    def _like(self, node: exp.Expr) -> Condition:
        tested = strip(strip(node.this).this) if isinstance(node, exp.Escape) else strip(node.this)
        if isinstance(tested, (exp.Literal, exp.Null)):
            return self._bare(node)
        escape = None
        if isinstance(node, exp.Escape):
            escape = self._reader.text(node.expression, "the escape character")
            if escape is None:
                return Truth(None)
            node = strip(node.this)
            if not isinstance(node, (exp.Like, exp.ILike)):
                raise self._refuse(node, "only LIKE has ESCAPE", "Write \\ before a sign that means itself")
        attribute = self._attribute(node.this, "LIKE")
        quantified = strip(node.expression)
        found: list[Condition] = []
        for each in self._patterns(quantified):
            pattern = self._reader.text(each, "the pattern")
            like = Truth(None) if pattern is None else Like(attribute, pattern, escape, isinstance(node, exp.ILike))
            found.append(Not(like) if node.args.get("negate") else like)
        if len(found) == 1:
            return found[0]
        return And(tuple(found)) if isinstance(quantified, exp.All) else Or(tuple(found))

    def _patterns(self, node: exp.Expr) -> list[exp.Expr]:
        """Return the patterns of LIKE, LIKE ANY or LIKE ALL."""
        if not isinstance(node, (exp.Any, exp.All)):
            return [node]
        inner = strip(node.this)
        patterns = inner.expressions if isinstance(inner, (exp.Tuple, exp.Array)) else [inner]
        if not patterns:
            raise self._refuse(node, "LIKE ANY and LIKE ALL need a pattern", "Write LIKE ANY ('a%', 'b%')")
        return patterns

    def _regexp(self, node: exp.Expr) -> Condition:
        reading = Reading.GLOB if isinstance(node, exp.Glob) else Reading.EXPRESSION
        attribute = self._attribute(node.this, "regexp_matches")
        expression = self._reader.text(node.expression, f"the {reading.value}", reading)
        flags = "i" if isinstance(node, exp.RegexpILike) else ""
        given = node.args.get("flag") or node.args.get("options")
        if given is not None:
            slot = self._reader.text(given, "the flags")
            if slot is None:
                raise self._refuse(given, "the flags are NULL", "Write 'i', or leave them out")
            flags = str(self._reader.value(slot)).replace(" ", "")
            unknown = next((flag for flag in flags if flag not in FLAGS), None)
            if unknown is not None:
                raise self._refuse(given, f"{unknown!r} is not a flag of regular expressions", _FLAG_HINT)
        if expression is None:
            return Truth(None)
        return RegexpMatches(attribute, expression, flags, isinstance(node, (exp.RegexpFullMatch, exp.SimilarTo)))

    def _array_contains(self, node: exp.ArrayContains) -> Condition:
        attribute = self._attribute(node.this, "array_contains")
        constant = self._operand(node.expression)
        if not isinstance(constant, Literal):
            raise self._refuse(node, "array_contains looks for a constant", "Write array_contains(attribute, constant)")
        return Truth(None) if constant.value is None else ArrayContains(attribute, constant.value)

    def _list_has(self, node: exp.Expr, tested: exp.Expr, constants: exp.Expr, every: bool) -> Condition:
        """Convert list_has_any and list_has_all: some of the constants, or all of them, are elements."""
        attribute, listed = self._attribute(tested, "list_has_any"), strip(constants)
        if isinstance(listed, exp.Null):
            return Truth(None)
        if not isinstance(listed, exp.Array):
            raise self._refuse(node, "a list of constants is expected", "Write list_has_any(tags, ['a', 'b'])")
        found: list[Condition] = []
        for item in listed.expressions:
            constant = self._operand(item)
            if not isinstance(constant, Literal):
                raise self._refuse(item, "the list holds something else than constants", "Write ['a', 'b']")
            if constant.value is not None:
                found.append(ArrayContains(attribute, constant.value))
        if not found:
            # No constant is looked for: all of them are found in every list, and none in any.
            count = derived_name(Call("list_count", (expression_of(attribute),)))
            return Comparison(count, Op.GE if every else Op.LT, 0)
        return found[0] if len(found) == 1 else And(tuple(found)) if every else Or(tuple(found))

    def _each_element(
        self, node: exp.Expr, left: exp.Expr, op: Op, quantifier: Quantifier, listed: exp.Expr
    ) -> Condition:
        """Convert `value op ANY(list)` to comparisons with the least and the greatest element.

        ALL is NOT ANY of the opposite. Without a list there are no elements; one that is NULL makes what no other
        element decides NULL.
        """
        if quantifier is Quantifier.ALL:
            return Not(self._each_element(node, left, op.negated, Quantifier.ANY, listed))
        attribute, value = self._attribute(listed, "ANY"), self._operand(left)
        elements = expression_of(attribute)
        least, greatest = (EventAttribute(derived_name(Call(name, (elements,)))) for name in ("list_min", "list_max"))
        if op is Op.EQ and isinstance(value, Literal) and value.value is not None:
            holds: Condition = ArrayContains(attribute, value.value)
        elif op is Op.EQ:
            raise self._refuse(node, "= ANY compares a constant", "Write 'x' = ANY(tags), or array_contains(tags, 'x')")
        elif op is Op.NE:
            holds = Or(tuple(self._compare(node, value, op, end) for end in (least, greatest)))
        else:
            holds = self._compare(node, value, op, greatest if op in (Op.LT, Op.LE) else least)
        whole = Call("=", (Call("length", (elements,)), Call("list_count", (elements,))))
        has_null = IsTruth(Comparison(derived_name(whole), Op.EQ, False), True, False)
        return Or((IsTruth(holds, True, False), And((Truth(None), has_null))))

    def _text_function(self, node: exp.Anonymous) -> Condition:
        name = node.name.lower()
        if name == "xpath_exists" and self._reader.element:
            raise self._refuse(node, "xpath_exists stands inside a subquery on elements", "Write it outside")
        given = [self._option(each, name) for each in node.expressions if isinstance(each, (exp.Kwarg, exp.PropertyEQ))]
        if len(node.expressions) != 2 + len(given) or len(dict(given)) != len(given):
            raise self._refuse(
                node, f"{name} takes 2 arguments, not {len(node.expressions)}", f"Write {name}(attribute, 'text')"
            )
        attribute = self._attribute(node.expressions[0], name)
        text = self._reader.text(node.expressions[1], f"the second argument of {name}")
        return Truth(None) if text is None else _TEXT_FUNCTIONS[name](attribute, text, **dict(given))

    def _option(self, node: exp.Expr, function: str) -> tuple[str, Any]:
        """Convert `near => 5`; `:=` may stand for `=>`."""
        name, given = node.this.name.lower(), strip(node.expression)
        kind = _TEXT_OPTIONS.get(function, {}).get(name)
        if kind is None:
            there = ", ".join(_TEXT_OPTIONS.get(function, ())) or "none"
            raise self._refuse(node, f"{function} has no option {name!r}", f"There are {there}")
        value: object = bool(given.this) if isinstance(given, exp.Boolean) else None
        if isinstance(given, exp.Literal) and not given.is_string:
            value = self._reader.constant(given)
        if type(value) is not kind:
            raise self._refuse(node, f"{name} takes {'TRUE or FALSE' if kind is bool else 'an integer'}", "Write one")
        return name, value

    def _ip_in(self, node: exp.Anonymous) -> Condition:
        if len(node.expressions) < 2:
            raise self._refuse(node, "ip_in takes an address and networks", "Write ip_in(attribute, '10.0.0.0/8')")
        attribute = self._attribute(node.expressions[0], "ip_in")
        order = derived_name(Call("ip_order", (expression_of(attribute),)))
        found: list[Condition] = []
        for given in node.expressions[1:]:
            for network in given.expressions if isinstance(strip(given), exp.Array) else [given]:
                first = self._reader.text(network, "a network", Reading.FIRST_ADDRESS)
                last = self._reader.text(network, "a network", Reading.LAST_ADDRESS)
                found.append(Truth(None) if first is None or last is None else Between(order, first, last))
        return Or(tuple(found)) if len(found) > 1 else found[0]

    def _place(self, node: exp.Anonymous, function: str) -> Condition:
        arguments, usage = _PLACES[function]
        if len(node.expressions) != arguments:
            raise self._refuse(node, f"{function} takes {arguments} arguments", f"Write {usage}")
        latitude, longitude = (self._attribute(given, function) for given in node.expressions[:2])
        point = derived_name(Call("point", (expression_of(latitude), expression_of(longitude))))
        rest = node.expressions[2:]
        if function == "within_polygon":
            polygon = self._reader.text(rest[0], "the polygon", Reading.POLYGON)
            return Truth(None) if polygon is None else WithinPolygon(point, polygon)
        if function == "within_distance":
            north, east = (self._number(given, usage) for given in rest[:2])
            distance = self._reader.text(rest[2], "the distance", Reading.DISTANCE)
            return Truth(None) if distance is None else WithinDistance(point, north, east, distance)
        return self._box(node, latitude, longitude, [self._number(given, usage) for given in rest])

    def _box(self, node: exp.Expr, latitude: str, longitude: str, edges: list[Value]) -> Condition:
        south, west, north, east = edges
        values: list[Any] = [self._reader.value(edge) for edge in edges]
        if not (-90 <= values[0] <= values[2] <= 90 and all(-180 <= edge <= 180 for edge in values[1::2])):
            raise self._refuse(node, "the edges are of no box on the Earth", f"Write {_PLACES['within_box'][1]}")
        inside = Between(latitude, south, north)
        if values[1] <= values[3]:
            return And((inside, Between(longitude, west, east)))
        # The box goes across the date line.
        return And((inside, Or((Comparison(longitude, Op.GE, west), Comparison(longitude, Op.LE, east)))))

    def _number(self, node: exp.Expr, usage: str) -> Value:
        operand = self._operand(node)
        if (
            not isinstance(operand, Literal)
            or operand.value is None
            or self._kind_of_literal(operand) is not Kind.NUMBER
        ):
            raise self._refuse(node, "a number must stand here", f"Write {usage}")
        return operand.value

    def _quantified(self, left: exp.Expr, op: Op, quantifier: Quantifier, query: exp.Expr) -> Condition:
        operand = self._operand(left)
        if not isinstance(operand, EventAttribute):
            raise self._refuse(
                left,
                "ANY, ALL and IN on history compare an attribute",
                "For a constant write EXISTS (SELECT … WHERE …)",
            )
        history = HistoryReader(self._reader, convert, query)
        old = history.selected()
        return history.under(quantifier, lambda terms: Quantified(operand.name, op, quantifier, old, terms))
