"""Normal forms by their definition: as nested lists, judged and multiplied out one by one."""

from collections.abc import Callable, Sequence
from itertools import product

from tocsin.language.normalise import Expression
from tocsin.model.predicate import Conjunction

Nested = int | list["Nested"]
"""The number of a leaf, or the children of an OR at depth 0, of an AND at depth 1, and so on in turn."""


def nested(nesting: Sequence[tuple[int, int]]) -> Nested:
    """The tree that pairs (opens, closes) describe, with the numbers of leaves."""
    open_nodes: list[list[Nested]] = [[]]
    for leaf, (opens, closes) in enumerate(nesting):
        for _ in range(opens):
            node: list[Nested] = []
            open_nodes[-1].append(node)
            open_nodes.append(node)
        open_nodes[-1].append(leaf)
        del open_nodes[len(open_nodes) - closes :]
    ((root,),) = open_nodes
    return root


def is_true(node: Nested, holds: Sequence[bool], depth: int = 0) -> bool:
    """Whether a tree is TRUE, given which leaves hold."""
    if isinstance(node, int):
        return holds[node]
    return (all if depth % 2 else any)(is_true(child, holds, depth + 1) for child in node)


def multiplied(node: Nested, depth: int = 0) -> list[tuple[int, ...]]:
    """The conjunctions of leaves that a tree multiplies into."""
    if isinstance(node, int):
        return [(node,)]
    children = [multiplied(child, depth + 1) for child in node]
    if depth % 2 == 0:
        return [leaves for child in children for leaves in child]
    return [tuple(leaf for leaves in chosen for leaf in leaves) for chosen in product(*children)]


def alternatives(expression: Expression) -> list[Conjunction]:
    """The conjunctions of which one must hold."""
    if not expression.nesting:
        return list(expression.leaves)
    chosen = multiplied(nested(expression.nesting))
    return [tuple(predicate for leaf in leaves for predicate in expression.leaves[leaf]) for leaves in chosen]


def judged(expression: Expression, holds: Callable[[Conjunction], bool]) -> bool:
    """Whether a normal form is TRUE, given the truth of conjunctions."""
    truths = [holds(leaf) for leaf in expression.leaves]
    return is_true(nested(expression.nesting), truths) if expression.nesting else any(truths)
