"""YFilter (Y. Diao and others, TODS 2003): one automaton for all expressions; filters wait until the end."""

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.gpx.yfilter_kernels import (
    BELOW,
    FIRST_ACCEPT,
    FIRST_EDGE,
    LOOPS,
    STAR,
    Automaton,
    build_automaton,
    run_automaton,
)
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.structure_index import StructureIndex, offsets_of


class YFilterIndex(StructureIndex):
    """Run one nondeterministic automaton over the elements, with a stack of sets of active states.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = YFilterIndex()
    >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
    >>> index.match("<a><b/><x><c><d/></c></x></a>").tolist()
    [0, 1]
    """

    def _build_structures(self, chosen: Int32s) -> None:
        tables = self.catalog.tables
        slots, star, below, final, count = build_automaton(tables.structures, tables.structure_offsets, chosen)
        edges = slots[slots[:, 0] >= 0]
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        states = np.zeros((count + 1, 5), dtype=np.int32)
        states[:count, STAR], states[:count, BELOW] = star, below
        states[below[below >= 0], LOOPS] = 1
        states[:, FIRST_EDGE] = offsets_of(edges[:, 0], count)
        states[:, FIRST_ACCEPT] = offsets_of(final, count)
        signature = np.zeros(count, dtype=np.uint64)
        np.bitwise_or.at(signature, edges[:, 0], np.uint64(1) << (edges[:, 1] & 63).astype(np.uint64))
        accepts = chosen[np.argsort(final, kind="stable")]
        self._automaton = Automaton(states, signature, edges[:, 1].copy(), edges[:, 2].copy(), accepts)

    def _structures(self, documents: Documents) -> tuple[Int64s, Int32s]:
        return run_automaton(documents, self._automaton, len(self._automaton.accepts), self._evidence)

    def _nbytes(self) -> int:
        return sum(array.nbytes for array in self._automaton)

    def _check(self) -> None:
        automaton = self._automaton
        states = automaton.states[:-1]
        targets = np.concatenate([automaton.targets, states[:, STAR], states[:, BELOW]])
        targets = targets[targets >= 0]
        assert len(targets) == len(np.unique(targets)), "a state has one way in, so prefixes are shared as a tree"
        assert len(targets) == len(states) - 1, "every state but the first can be reached"
        owner = np.repeat(np.arange(len(states)), np.diff(automaton.states[:, FIRST_EDGE]))
        assert (np.diff(owner * 2**32 + automaton.tags) > 0).all(), "transitions lie in the order of state and tag"
