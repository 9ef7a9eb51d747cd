"""One comparison with all old events, answered from aggregates: O(1), or O(log n) for equality.

`v < ANY` is `v < greatest`, `v > ANY` is `v > least`, `v = ANY` asks the tree, and `v <> ANY` is `v <> least or
v <> greatest`. `ALL` is `NOT … ANY` of the opposite comparison.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.model.condition import Op, Quantifier
from tocsin.model.lookup import lookup
from tocsin.model.values import compare_values, kind_of
from tocsin.predicates.history.search import Search

EXISTS = "EXISTS"
Form = Quantifier | str
"""How the comparison is written: `new op ANY`, `new op ALL`, or EXISTS with `new op old`, which is never NULL."""
Ids = npt.NDArray[np.int32]


class AggregateOutcome(NamedTuple):
    """All that the truth of a comparison with the history depends on."""

    is_empty: bool
    """No old event."""
    unclear: bool
    """Some old value does not compare with the new one."""
    to_least: int | None = None
    """The sign of the new value less the least old value of its kind; None if there is none."""
    to_greatest: int | None = None
    is_member: bool = False
    """Some old value equals the new one."""

    def any(self, op: Op) -> bool:
        """Whether `new op old` is TRUE for some old event."""
        if self.to_least is None or self.to_greatest is None:
            return False
        return self.is_member if op is Op.EQ else op.holds(self.to_least) or op.holds(self.to_greatest)

    def truth(self, op: Op, form: Form) -> bool | None:
        """The truth of one comparison."""
        if form is Quantifier.ALL:
            return self.is_empty or (False if self.any(op.negated) else None if self.unclear else True)
        if self.any(op):
            return True
        return None if form is Quantifier.ANY and self.unclear else False


class SimpleTests:
    """All tests that compare `new` with `old`, by operator (as in `new op old`) and form: one look at the history.

    There are few outcomes; the ids that are TRUE and NULL are kept for each that has come up.
    """

    def __init__(self, new: str, old: str) -> None:
        self.new = new
        self.old = old
        self.members = BitMap()
        self._ids: dict[tuple[Op, Form], list[int]] = {}
        self._answers: dict[AggregateOutcome, tuple[Ids, Ids]] = {}

    def add(self, op: Op, form: Form, number: int) -> None:
        """Add a test before the first probe."""
        self.members.add(number)
        self._ids.setdefault((op, form), []).append(number)

    def probe(self, search: Search) -> tuple[Ids, Ids]:
        """The ids of the tests that are TRUE, and of those that are NULL."""
        outcome = self._outcome(search)
        answer = self._answers.get(outcome)
        if answer is None:
            truths = {key: outcome.truth(*key) for key in self._ids}
            true, null = (
                np.array([n for key, ids in self._ids.items() if truths[key] is truth for n in ids], dtype=np.int32)
                for truth in (True, None)
            )
            answer = self._answers[outcome] = true, null
        return answer

    def _outcome(self, search: Search) -> AggregateOutcome:
        store = search.store
        size = len(store)
        if size == 0:
            return AggregateOutcome(is_empty=True, unclear=False)
        value = lookup(search.event, self.new)
        kind = kind_of(value)
        if kind is None:
            return AggregateOutcome(is_empty=False, unclear=True)
        count, least, greatest = store.aggregates(self.old).ends(kind)
        if count == 0:
            return AggregateOutcome(is_empty=False, unclear=True)
        to_least, to_greatest = compare_values(value, least), compare_values(value, greatest)
        is_member = 0 in (to_least, to_greatest) or (
            to_least == 1 and to_greatest == -1 and store.tree(self.old).contains(search.equal_to(self.new))
        )
        return AggregateOutcome(False, count < size, to_least, to_greatest, is_member)
