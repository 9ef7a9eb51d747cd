"""Tree: share the prefixes of conjunctions in a profile tree (SIFT, section 2.4)."""

from collections.abc import Sequence, Set
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.conjunctions.key.kernels import order_terms
from tocsin.invariants import check_fields, check_starts, check_tagged, check_within, demand
from tocsin.papers.sift.kernels import ProfileTree, group_slices, match_tree
from tocsin.papers.sift.protocol import ConjunctionMatcher, Found
from tocsin.papers.tatbul.drawing import Drawing


class Tree(ConjunctionMatcher):
    """Search a trie of the conjunctions' terms, breadth first; equal conjunctions are one node.

    The terms of a conjunction are in ascending order of frequency, forbidden ones last. Only its *identifying prefix*
    (the shortest that no different conjunction shares) has nodes; the rest is the postfix of its node. Nodes are
    numbered level by level, so that the children of a node are neighbours.
    A probe costs one step per child of the nodes whose prefix holds.

    >>> matcher = Tree.build([0, 2, 4, 6], [0, 1, 0, 2, 0, 2], predicate_count=3)
    >>> matcher.match([0, 2])
    array([1, 2], dtype=int32)
    """

    derived: ClassVar[tuple[str, ...]] = ProfileTree._fields

    def _derive(self, offsets: Int64s, terms: Int32s) -> dict[str, npt.NDArray[Any]]:
        groups = distinct(offsets, terms)
        # A node that identifies no conjunction has group -1: the last entry of these, which is empty.
        starts = np.append(offsets[groups.representatives], 0)
        stops = np.append(offsets[groups.representatives + 1], 0)
        sizes = np.append(np.diff(groups.member_offsets), 0)
        levels = _grow(starts[:-1], stops[:-1], terms, self.predicate_count)
        group = np.concatenate([level.identified for level in levels])
        depth = np.repeat(np.arange(len(levels)), [len(level.identified) for level in levels])
        children = np.concatenate([level.children for level in levels])
        node_terms = np.concatenate([level.terms for level in levels])
        member_offsets = np.concatenate([[0], np.cumsum(sizes[group])]).astype(np.int64)
        shift = np.repeat(groups.member_offsets[group] - member_offsets[:-1], sizes[group])
        rest = np.minimum(starts[group] + depth, stops[group])
        lengths = stops[group] - rest
        nodes = np.ones((len(group) + 1, 3), np.int64)
        nodes[1:, 0] += np.cumsum(children)
        nodes[:, 1] = member_offsets
        nodes[:, 2] = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(nodes[-1, 2]) + np.repeat(rest - nodes[:-1, 2], lengths)
        root_child = np.full(self.predicate_count, -1, np.int32)
        top = np.arange(1, 1 + children[0], dtype=np.int32)
        top = top[node_terms[top] >= 0]
        root_child[node_terms[top]] = top
        return {
            "root_child": root_child,
            "node_terms": node_terms,
            "nodes": nodes,
            "postfixes": terms[places],
            "members": self.ids[groups.members[np.arange(len(shift)) + shift]],
        }

    def _probe(self, held_offsets: Int64s, held: Int32s) -> Found:
        tree = ProfileTree(*(self._index[name] for name in self.derived))
        masks = self._zeros.take(len(tree.root_child) + 1, np.int64)
        found = match_tree(held_offsets, held, tree, masks)
        self._zeros.give(masks)
        return Found(*found)

    def drawing(self, words: Sequence[str], held: Set[int] = frozenset()) -> Drawing:
        """Return the profile tree as the paper's Figure 1 has it: a word for each node, its profiles and its postfix.

        A search of a document that has the predicates `held` visits the nodes on the path of code 0.
        """
        terms, nodes = self._index["node_terms"], self._index["nodes"]

        def name(term: int) -> str:
            return words[term] if term >= 0 else f"NOT {words[~term]}"

        def show(node: int, visited: bool) -> Drawing:
            below = range(int(nodes[node, 0]), int(nodes[node + 1, 0]))
            children = [show(child, visited and (int(terms[child]) in held) != (terms[child] < 0)) for child in below]
            own = self._index["members"][nodes[node, 1] : nodes[node + 1, 1]].tolist()
            rest = self._index["postfixes"][nodes[node, 2] : nodes[node + 1, 2]].tolist()
            profiles = ", ".join(f"p{number}" for number in own) + "".join(f" + {name(term)}" for term in rest)
            label = name(int(terms[node])) if node else "root"
            return Drawing(0 if visited else 1, 0, label, profiles, tuple(children))

        return show(0, visited=True)

    def _check_arrays(self, conjunctions: int) -> None:
        tree = ProfileTree(*(self._index[name] for name in self.derived))
        check_fields(ProfileTree, tree, {"nodes": 3})
        count = tree.node_terms.size
        demand(len(tree.nodes) == count + 1 and count > 0, "nodes", "not each node has a row")
        # Children are numbered from 1 on: a search reaches each node once, and has room for that.
        check_starts("nodes", tree.nodes[:, 0] - 1, count, count - 1)
        demand(tree.nodes[:-1, 0] > np.arange(count), "nodes", "a node is its own child")
        check_starts("nodes", tree.nodes[:, 1], count, tree.members.size)
        check_starts("nodes", tree.nodes[:, 2], count, tree.postfixes.size)
        check_tagged("node_terms", tree.node_terms, self.predicate_count)
        check_tagged("postfixes", tree.postfixes, self.predicate_count)
        check_within("members", tree.members, 0, conjunctions)
        demand(tree.root_child.size == self.predicate_count, "root_child", "not each predicate has one")
        check_within("root_child", tree.root_child, -1, int(tree.nodes[1, 0]))
        led = np.flatnonzero(tree.root_child >= 0)
        demand(tree.node_terms[tree.root_child[led]] == led, "root_child", "a child has another term")
        demand((tree.root_child != 0), "root_child", "the root is its own child")

    def _check(self) -> None:
        index = self._index
        terms, nodes, postfixes, members = (index[name] for name in ("node_terms", "nodes", "postfixes", "members"))
        rows = {number: c for c, number in enumerate(self.ids.tolist())}
        assert nodes[-1, 0] == len(terms), "every node but the root is the child of one node"
        prefix: dict[int, list[int]] = {0: []}
        for node in range(len(terms)):
            below = range(int(nodes[node, 0]), int(nodes[node + 1, 0]))
            assert np.all(np.diff(terms[below.start : below.stop]) > 0), "the children of a node differ"
            prefix |= {child: [*prefix[node], int(terms[child])] for child in below}
            rest = postfixes[nodes[node, 2] : nodes[node + 1, 2]].tolist()
            own = members[nodes[node, 1] : nodes[node + 1, 1]].tolist()
            assert own or below or node == 0, "a leaf identifies a conjunction"
            assert not (rest and below), "a prefix with a postfix identifies, so nothing lies below it"
            for number in own:
                c = rows[number]
                given = self.terms[self.offsets[c] : self.offsets[c + 1]].tolist()
                assert sorted(prefix[node] + rest) == sorted(set(given)), "prefix and postfix make the conjunction"
        assert sorted(members.tolist()) == self.ids.tolist(), "each conjunction lies at one node"


class Groups(NamedTuple):
    """Ragged of terms grouped by equality.

    Group g has the members ``members[member_offsets[g]:member_offsets[g + 1]]``, ascending; `representatives` has the
    first of each group, and `group` the group of each slice.
    """

    group: Int32s
    representatives: Int32s
    member_offsets: Int64s
    members: Int32s


def distinct(offsets: Int64s, terms: Int32s) -> Groups:
    """Group the slices of a CSR that have the same terms, in whatever order; linear in the number of terms.

    >>> groups = distinct(np.array([0, 2, 4, 5]), np.array([0, 1, 1, 0, 7], np.int32))
    >>> groups.representatives.tolist(), groups.members.tolist(), groups.member_offsets.tolist()
    ([0, 2], [0, 1, 2], [0, 2, 3])
    """
    highest = int(np.where(terms < 0, ~terms, terms).max(initial=-1))
    identity = np.arange(highest + 1, dtype=np.int32)
    group, groups = group_slices(*order_terms(offsets, terms, identity, identity))
    members = np.argsort(group, kind="stable").astype(np.int32)
    member_offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))]).astype(np.int64)
    return Groups(group, members[member_offsets[:-1]], member_offsets, members)


class _Level(NamedTuple):
    """The nodes of one depth: their term, the conjunction that each identifies or -1, and how many children it has."""

    terms: Int32s
    identified: Int64s
    children: Int64s


def _grow(starts: Int64s, stops: Int64s, terms: Int32s, predicates: int) -> list[_Level]:
    """Grow the tree of distinct slices level by level; each level is one sort of those not identified yet."""
    active = np.arange(len(starts))
    node = np.zeros(len(starts), np.int64)
    level_terms = np.zeros(1, np.int32)
    levels: list[_Level] = []
    while True:
        depth, nodes = len(levels), len(level_terms)
        identified = np.full(nodes, -1, np.int64)
        settled = stops[active] - starts[active] == depth
        if depth:
            settled |= np.bincount(node, minlength=nodes)[node] == 1
        identified[node[settled]] = active[settled]
        active, node = active[~settled], node[~settled]
        # Sorted by parent and then by term, forbidden terms (negative) first.
        branches = node * (2 * predicates) + terms[starts[active] + depth] + predicates
        distinct_branches, node = np.unique(branches, return_inverse=True)
        parents, shifted = np.divmod(distinct_branches, max(2 * predicates, 1))
        levels.append(_Level(level_terms, identified, np.bincount(parents, minlength=nodes)))
        if not len(active):
            return levels
        level_terms = (shifted - predicates).astype(np.int32)
