"""What each tenant has in a set of subscriptions, counted against its limits.

A tenant is the value of the tag `tenant`; subscriptions without it are not counted. Sums follow each change. The names
of attributes are only added, and counted anew when they reach a limit: no reference counts are kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.errors import TenantLimitError
from tocsin.index.segment import Segment
from tocsin.index.snapshot import LiveSegment
from tocsin.language.normalise import Expression
from tocsin.model.limits import RAISE, TENANT_TAG, Limits
from tocsin.model.predicate import Ranges
from tocsin.model.subscription import Subscription

_WAYS_OUT = {
    "subscriptions": "Drop some",
    "tenant_predicates": "Drop some, or use IN (…) in place of OR",
    "tenant_text_bytes": "Drop some",
    "tenant_list_items": "Drop some, or shorten their lists",
    "tenant_attributes": "Use fewer attributes",
    "tenant_always_true": "Look for OR in place of AND",
}
_WHAT = {
    "subscriptions": "subscriptions",
    "tenant_predicates": "predicates",
    "tenant_text_bytes": "bytes of conditions",
    "tenant_list_items": "items in lists",
    "tenant_attributes": "distinct attributes",
    "tenant_always_true": "subscriptions that every event satisfies",
}


@dataclass
class TenantUsage:
    """How much a tenant has, over all its subscriptions."""

    subscriptions: int = 0
    predicates: int = 0
    """Over all alternatives; a list counts once."""
    text_bytes: int = 0
    list_items: int = 0
    """Commas in their conditions."""
    always_true: int = 0
    attributes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, subscription: Subscription, expression: Expression) -> "TenantUsage":
        """What one subscription adds."""
        where = subscription.where
        leaves = expression.leaves
        said = (one if isinstance(one, Ranges) else one.test for leaf in leaves for one in leaf)
        names = {name for one in said for name in _names(one)}
        always = not expression.nesting and not all(leaves) and bool(leaves)
        return cls(1, sum(map(len, leaves)), len(where.encode()), where.count(","), int(always), names)

    def add(self, other: "TenantUsage", sign: int = 1) -> "TenantUsage":
        """Return the sums with those of another, or without them; attributes are only added."""
        is_new = sign > 0 and not other.attributes <= self.attributes
        return TenantUsage(
            self.subscriptions + sign * other.subscriptions,
            self.predicates + sign * other.predicates,
            self.text_bytes + sign * other.text_bytes,
            self.list_items + sign * other.list_items,
            self.always_true + sign * other.always_true,
            self.attributes | other.attributes if is_new else self.attributes,
        )

    def beyond(self, limits: Limits) -> tuple[str, int] | None:
        """Return the first limit that this is beyond, and how much there is; None if there is none."""
        sizes = {
            "subscriptions": self.subscriptions,
            "tenant_predicates": self.predicates,
            "tenant_text_bytes": self.text_bytes,
            "tenant_list_items": self.list_items,
            "tenant_attributes": len(self.attributes),
            "tenant_always_true": self.always_true,
        }
        for name, size in sizes.items():
            most = getattr(limits, name)
            if most is not None and size > most:
                return name, size
        return None

    def error(self, tenant: str, limits: Limits, id: str | None = None) -> TenantLimitError | None:
        """Return what refuses a subscription with which a tenant has this much; None if it is within the limits."""
        found = self.beyond(limits)
        if found is None:
            return None
        name, size = found
        return TenantLimitError(
            f"tenant {tenant!r} would have {size:,} {_WHAT[name]}, and at most {getattr(limits, name):,} are allowed",
            f"{_WAYS_OUT[name]}, or {RAISE.format(name)}",
            subscription=id,
        )


def _names(said: object) -> Iterable[str]:
    """Return the attributes that a test, or a range, names."""
    found = (getattr(said, name, None) for name in ("attribute", "left", "right"))
    return (name for name in found if isinstance(name, str))


class SegmentUsage:
    """What the subscriptions of a segment, or some of them in a row, add. O(size of these), vectorised."""

    def __init__(self, segment: Segment, first: int = 0, last: int | None = None) -> None:
        self._segment, form = segment, segment.form
        last = len(segment) if last is None else last
        begin, end = np.searchsorted(form.owner, [first, last])
        owner, count = form.owner[begin:end] - first, last - first
        starts, test_starts = form.starts[begin : end + 1], form.test_starts[begin : end + 1]
        conjunction = np.repeat(np.arange(owner.size), np.diff(starts))
        self._column, self._test = form.column[starts[0] : starts[-1]], form.test[test_starts[0] : test_starts[-1]]
        self._row_owner, self._test_owner = owner[conjunction], np.repeat(owner, np.diff(test_starts))
        # Several rows of one conjunction in one column are one predicate; rows are sorted by both.
        new = np.ones(conjunction.size, bool)
        new[1:] = (np.diff(conjunction) != 0) | (np.diff(self._column) != 0)
        of_conjunction = np.bincount(conjunction[new], minlength=owner.size) + np.diff(test_starts)
        in_trees = np.isin(np.arange(begin, end), form.leaf)
        always = np.zeros(count, np.int64)
        always[owner[(of_conjunction == 0) & ~in_trees]] = 1
        offsets = segment.texts.offsets[first : last + 1]
        text = segment.texts.data[offsets[0] : offsets[-1]]
        commas = np.append(0, np.cumsum(text == ord(","), dtype=np.int64))[offsets - offsets[0]]
        self.sizes: Int64s = np.stack(
            [
                np.ones(count, np.int64),
                np.bincount(owner, weights=of_conjunction, minlength=count).astype(np.int64),
                np.diff(offsets).astype(np.int64),
                np.diff(commas),
                always,
            ],
            axis=1,
        )
        """A row for each subscription: the fields of TenantUsage but the attributes."""

    def by_tenant(self, tenants: Sequence[str], tenant: Int32s) -> dict[str, TenantUsage]:
        """Return what each tenant has, given the place of each subscription's among them, -1 if it does not count."""
        sums = np.zeros((len(tenants) + 1, self.sizes.shape[1]), np.int64)
        np.add.at(sums, tenant, self.sizes)
        found = [TenantUsage(*row) for row in sums[:-1].tolist()]
        columns = self._segment.columns
        for place, column in _pairs(tenant[self._row_owner], self._column):
            found[place].attributes.add(columns[column].attribute)
        named: dict[int, list[str]] = {}
        for place, test in _pairs(tenant[self._test_owner], self._test):
            if test not in named:
                named[test] = list(_names(self._segment.definition(test)))
            found[place].attributes.update(named[test])
        return {name: usage for name, usage in zip(tenants, found, strict=True) if usage.subscriptions}


def _pairs(tenant: Int32s, item: Int32s) -> list[tuple[int, int]]:
    """Return the distinct pairs of a tenant, unless it is -1, and an item."""
    counted = tenant >= 0
    width = int(item.max(initial=0)) + 1
    pairs = np.unique(tenant[counted].astype(np.int64) * width + item[counted])
    return list(zip((pairs // width).tolist(), (pairs % width).tolist(), strict=True))


def usage_by_tenant(live: LiveSegment) -> dict[str, TenantUsage]:
    """Return what each tenant has in a segment, without what was dropped."""
    tenants, tenant = live.segment.tags.values(TENANT_TAG, len(live.segment))
    if not tenants:
        return {}
    tenant[list(live.dropped)] = -1
    return SegmentUsage(live.segment).by_tenant(tenants, tenant)


def usage_of_one(segment: Segment, number: int) -> TenantUsage:
    """Return what one subscription adds."""
    return SegmentUsage(segment, number, number + 1).by_tenant([""], np.zeros(1, np.int32))[""]


def joined(several: Iterable[dict[str, TenantUsage]]) -> dict[str, TenantUsage]:
    """Return what each tenant has in all of them."""
    total: dict[str, TenantUsage] = {}
    for one in several:
        for tenant, usage in one.items():
            total[tenant] = total.get(tenant, TenantUsage()).add(usage)
    return total
