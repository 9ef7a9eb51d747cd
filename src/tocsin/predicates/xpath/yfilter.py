"""YFilter (Y. Diao and others, TODS 2003): one automaton for all expressions; filters wait until the end."""

import numpy as np

from tocsin._kernels.xpath_nfa import Automaton, build_automaton, run_automaton
from tocsin._kernels.xpath_tokens import Documents
from tocsin.predicates.xpath.index import Ints, Longs, StructureIndex, offsets_of


class YFilterIndex(StructureIndex):
    """Run one nondeterministic automaton over the elements, with a stack of sets of active states.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = YFilterIndex()
    >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
    >>> index.match("<a><b/><x><c><d/></c></x></a>").tolist()
    [0, 1]
    """

    def _build_structures(self, chosen: Ints) -> None:
        table = self.catalog.structures
        edges, star, below, final, states = build_automaton(table.data, table.offsets, chosen)
        loops = np.zeros(states, dtype=np.bool_)
        loops[below[below >= 0]] = True
        accepts = chosen[np.argsort(final, kind="stable")]
        self._automaton = Automaton(edges, star, below, loops, offsets_of(final, states), accepts)

    def _structures(self, documents: Documents) -> tuple[Longs, Ints]:
        return run_automaton(documents, self._automaton, len(self._automaton.accepts), self._evidence)

    def _nbytes(self) -> int:
        return sum(array.nbytes for array in self._automaton)

    def _check(self) -> None:
        edges = self._automaton.edges[self._automaton.edges[:, 0] >= 0]
        targets = np.concatenate([edges[:, 2], self._automaton.star, self._automaton.below])
        targets = targets[targets >= 0]
        assert len(targets) == len(np.unique(targets)), "a state has one way in, so prefixes are shared as a tree"
        assert len(targets) == len(self._automaton.star) - 1, "every state but the first can be reached"
