"""EXISTS on the elements of one list attribute: the elements are events, and the conditions on them subscriptions.

All subqueries on one attribute are the subscriptions of a segment of their own. The elements of all lists of a batch
are matched with it at once, and a test holds for an event if its subscription matched one of the event's elements. So a
million subqueries cost what a million subscriptions cost, an element what an event costs.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Ragged
from tocsin.index.intake import SubscriptionRows
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.language.normal_form import form_of
from tocsin.language.normalise import normalise
from tocsin.model.condition import UnnestExists
from tocsin.model.elements import Elements
from tocsin.model.events import EventBatch
from tocsin.model.expression_tree import ELEMENT, is_of_element
from tocsin.model.predicate import Test
from tocsin.predicates.protocol import Arrays, Probed
from tocsin.storage.container import Container


class ElementFamily:
    """The subqueries on one list attribute."""

    texts = None

    def __init__(self, attribute: str, segment: Segment) -> None:
        self._attribute, self._segment = attribute, segment
        self.count = len(segment)
        outside = {name for name in segment.attributes if not is_of_element(name)}
        self.attributes = {attribute, *outside}
        self.kinds = [(column.attribute, column.kind) for column in segment.columns if column.attribute in outside]

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> "ElementFamily":  # noqa: ARG003  # for XPath
        """Build a segment of the conditions on elements."""
        form = form_of([normalise(test.condition) for test in tests if isinstance(test, UnnestExists)])
        ids = [f"{number:010}" for number in range(len(tests))]
        nothing = [""] * len(tests)
        rows = SubscriptionRows(ids, nothing, np.zeros(len(tests)), nothing)
        return cls(attribute, Segment.build(rows, form, Options()))

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "ElementFamily":
        """Return the family that `arrays` came from, without copying them."""
        meta = json.loads(arrays["meta"].tobytes())
        return cls(attribute, Segment.of(Container(dict(arrays), meta)))

    def arrays(self) -> Arrays:
        """Return the segment as named arrays."""
        container = self._segment.container()
        return {**container.arrays, "meta": np.frombuffer(json.dumps(container.meta).encode(), np.uint8)}

    def check_arrays(self) -> None:
        """Do nothing: the segment checked itself when it was read."""

    def probe(self, batch: EventBatch) -> Probed:
        """Match the elements of every list; a test holds for an event if it does for one of its elements."""
        elements = Elements(batch, self._attribute)
        pairs, evidence = self._segment.match_subscriptions(elements)
        held = np.unique(elements.owner[pairs[:, 0]] * self.count + pairs[:, 1])
        starts = np.searchsorted(held, np.arange(len(batch) + 1) * self.count).astype(np.int64)
        present = np.where(elements.has_list, 0, -1).astype(np.int32)
        lost = {**evidence.errors, **elements.unreadable}
        errors = {message.replace(ELEMENT, self._attribute): count for message, count in lost.items()}
        return Probed(Ragged(starts, (held % self.count).astype(np.int32)), present, errors=errors)
