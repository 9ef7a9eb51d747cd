"""One comparison with all old events, answered from aggregates: O(1), or O(log n) for equality.

`v < ANY` is `v < greatest`, `v > ANY` is `v > least`, `v = ANY` asks the tree, and `v <> ANY` is `v <> least or
v <> greatest`. `ALL` is `NOT … ANY` of the opposite comparison.
"""

from dataclasses import dataclass, field

from tocsin.model.condition import Op, Quantifier
from tocsin.model.lookup import lookup
from tocsin.model.values import Kind, compare_values, kind_of
from tocsin.predicates.history.search import Search

EXISTS = "EXISTS"
Form = Quantifier | str
"""How the comparison is written: `new op ANY`, `new op ALL`, or EXISTS with `new op old`, which is never NULL."""


@dataclass
class SimpleTests:
    """All tests that compare `new` with `old`, by operator (as in `new op old`) and form: one look at the history."""

    new: str
    old: str
    ids: dict[tuple[Op, Form], list[int]] = field(default_factory=dict)

    def probe(self, search: Search, true: list[int], null: list[int]) -> None:
        """Add the tests that are TRUE and those that are NULL."""
        store = search.store
        if len(store) == 0:
            for (_, form), ids in self.ids.items():
                if form is Quantifier.ALL:
                    true += ids
            return
        value = lookup(search.event, self.new)
        kind = kind_of(value)
        aggregates = store.aggregates(self.old)
        compared = 0 if kind is None else aggregates.count(kind)
        holds = _Any(search, self, value, kind, compared)
        for (op, form), ids in self.ids.items():
            if form is Quantifier.ALL:
                if not holds.holds(op.negated):
                    (true if compared == len(store) else null).extend(ids)
            elif holds.holds(op):
                true += ids
            elif form is Quantifier.ANY and compared < len(store):
                null += ids


class _Any:
    """Whether `value op old` is TRUE for some old event, for each operator."""

    def __init__(self, search: Search, tests: SimpleTests, value: object, kind: Kind | None, compared: int) -> None:
        self._search = search
        self._old = tests.old
        self._value = value
        self._compared = compared
        if kind is not None and compared:
            aggregates = search.store.aggregates(tests.old)
            self._to_least = compare_values(value, aggregates.least(kind)) or 0
            self._to_greatest = compare_values(value, aggregates.greatest(kind)) or 0

    def holds(self, op: Op) -> bool:
        """Whether some old event makes the comparison TRUE."""
        if not self._compared:
            return False
        if op is not Op.EQ or 0 in (self._to_least, self._to_greatest):
            return op.holds(self._to_least) or op.holds(self._to_greatest)
        if self._to_least < 0 or self._to_greatest > 0:
            return False
        bounds = self._search.store.encoder.condition(Op.EQ, self._value)
        return self._search.store.tree(self._old).contains(bounds)
