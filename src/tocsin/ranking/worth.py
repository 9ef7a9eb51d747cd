"""What the alternatives of subscriptions are worth: the score of a match is that of the best alternative that holds.

The alternatives of all subscriptions of a segment that call UTILITY are a small segment of their own, which is matched
with the events that found one of these subscriptions. Built when the first such event comes.
"""

import numpy as np

from tocsin.arrays import Float64s, Int32s, Int64s, Ragged
from tocsin.conjunctions.owners import events_of
from tocsin.index.intake import SubscriptionRows
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.language.utility import alternatives_of
from tocsin.model.events import EventBatch


class Worth:
    """The alternatives of the subscriptions of a segment that say what each is worth."""

    def __init__(self, segment: Segment, options: Options) -> None:
        self._worded = segment.with_utility
        """The numbers of these subscriptions, ascending."""
        texts = [alternatives_of(text) for text in segment.texts.at(self._worded)]
        self._owner = np.repeat(self._worded, [len(several) for several in texts])
        self._utility = np.array([one.utility for several in texts for one in several])
        self._greatest = np.array([max(one.utility for one in several) for several in texts])
        where = [one.where for several in texts for one in several]
        ids = [f"{number:09}" for number in range(len(where))]
        rows = SubscriptionRows(ids, where, np.ones(len(where)), [""] * len(where))
        self._alternatives = Segment.build(rows, options.normalise(where, ids), options)

    def scores(self, batch: EventBatch, matches: Ragged, scores: Float64s) -> Float64s:
        """Return the scores of matches, given those of their subscriptions."""
        rows = np.flatnonzero(np.isin(matches.values, self._worded))
        if not rows.size:
            return scores
        events = events_of(matches.starts, 0)
        some = np.unique(events[rows])
        found, _ = self._alternatives.match(batch if some.size == len(batch) else batch.take(some))
        held, count = self._held(found, some), int(self._worded[-1]) + 1
        keys, first = np.unique(held[0] * count + held[1], return_index=True)
        places = np.searchsorted(keys, events[rows] * count + matches.values[rows])
        worth = scores.copy()
        worth[rows] *= self._utility[held[2][first]][places]
        return worth

    def _held(self, found: Ragged, events: Int64s) -> tuple[Int64s, Int32s, Int32s]:
        """Return event, subscription and alternative of what holds; of one event and subscription, the best first."""
        event, owner = events[events_of(found.starts, 0)], self._owner[found.values]
        best_first = np.lexsort((-self._utility[found.values], owner, event))
        return event[best_first], owner[best_first], found.values[best_first]

    def at_most(self, scores: Float64s) -> Float64s:
        """Return the scores of all subscriptions as if the alternative of the greatest utility held."""
        most = scores.copy()
        most[self._worded] *= self._greatest
        return most
