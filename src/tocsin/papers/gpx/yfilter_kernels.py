"""YFilter: one automaton for all structures, with shared prefixes and a run-time stack of sets of states."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s, UInt64s
from tocsin.predicates.xpath.kernels import CANDIDATES, STEPS
from tocsin.predicates.xpath.kernels.hashing import with_room
from tocsin.predicates.xpath.kernels.tokens import Documents


class Automaton(NamedTuple):
    """States and transitions.

    A state is a row of `states`: the transition on any tag, the one that reads nothing, to a state that stays active
    for all descendants (-1 is none), whether it is such a state itself, and where its transitions on tags and the
    structures that it accepts begin; those of the next state begin where they end. Transitions on tags lie in the order
    of state and tag: `tags` and `targets`. Bit `tag % 64` of `signature` is set if the state may have one on the tag.
    """

    states: Int32s
    signature: UInt64s
    tags: Int32s
    targets: Int32s
    accepts: Int32s


STAR, BELOW, LOOPS, FIRST_EDGE, FIRST_ACCEPT = range(5)


@kernel
def _edge_slot(edges: Int32s, state: int, tag: int) -> int:
    mask = len(edges) - 1
    slot = (int(state) * 40503 + int(tag) * 2654435) & mask
    while edges[slot, 0] >= 0 and (edges[slot, 0] != state or edges[slot, 1] != tag):
        slot = (slot + 1) & mask
    return slot


@kernel
def build_automaton(structures: Int32s, offsets: Int32s, chosen: Int32s) -> tuple[Int32s, Int32s, Int32s, Int32s, int]:
    """Enter the chosen structures; returns edges, star, below, the final state of each structure, number of states."""
    limit = 1
    tagged = 1
    for structure in chosen:
        for at in range(offsets[structure], offsets[structure + 1], 2):
            limit += min(structures[at + 1] >> 1, 65) + 1
            tagged += 1
    size = 4
    while size < 2 * tagged:
        size *= 2
    edges = np.full((size, 3), -1, dtype=np.int32)
    star = np.full(limit, -1, dtype=np.int32)
    below = np.full(limit, -1, dtype=np.int32)
    final = np.empty(len(chosen), dtype=np.int32)
    states = 1
    for i in range(len(chosen)):
        state = 0
        last = offsets[chosen[i] + 1]
        for at in range(offsets[chosen[i]], last, 2):
            tag, gap = structures[at], structures[at + 1]
            # No document is deeper than 64 levels, so a distance of 65 stands for all that never match.
            distance = min(gap >> 1, 65)
            if not gap & 1 and not (tag < 0 and at == last - 2):
                if below[state] < 0:
                    below[state] = states
                    states += 1
                state = below[state]
            for _ in range(distance if tag < 0 else distance - 1):
                if star[state] < 0:
                    star[state] = states
                    states += 1
                state = star[state]
            if tag >= 0:
                slot = _edge_slot(edges, state, tag)
                if edges[slot, 0] < 0:
                    edges[slot, 0], edges[slot, 1], edges[slot, 2] = state, tag, states
                    states += 1
                state = edges[slot, 2]
        final[i] = state
    return edges, star[:states].copy(), below[:states].copy(), final, states


@kernel
def _target(automaton: Automaton, state: int, tag: int) -> int:
    """Where the transition of a state on a tag leads; -1 if there is none."""
    begin, end = automaton.states[state, FIRST_EDGE], automaton.states[state + 1, FIRST_EDGE]
    while begin < end:
        middle = (begin + end) // 2
        if automaton.tags[middle] < tag:
            begin = middle + 1
        else:
            end = middle
    if begin < automaton.states[state + 1, FIRST_EDGE] and automaton.tags[begin] == tag:
        return int(automaton.targets[begin])
    return -1


@kernel
def run_automaton(
    documents: Documents, automaton: Automaton, structure_count: int, evidence: Int64s
) -> tuple[Int64s, Int32s]:
    """Return the structures that match each document. Candidates are the states reached, steps the states tried."""
    count = len(documents.bounds) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    used = 0
    states, signature = automaton.states, automaton.signature
    size = len(states) - 1
    seen = np.full(size, -1, dtype=np.int32)
    accepted = np.full(size, -1, dtype=np.int32)
    active = np.empty(4096, dtype=np.int32)
    level_start = np.zeros(67, dtype=np.int64)
    one = np.uint64(1)
    reached = 0
    tried = 0
    for document in range(count):
        out = with_room(out, used, structure_count)
        active[0] = 0
        level_start[0] = 0
        level_start[1] = 1
        if states[0, BELOW] >= 0:
            active[1] = states[0, BELOW]
            level_start[1] = 2
        for row in range(documents.bounds[document] + 1, documents.bounds[document + 1]):
            level = documents.level[row]
            tag = documents.tag[row]
            bit = np.uint64(tag & 63)
            top = level_start[level]
            if top + 2 * size + 2 > len(active):
                grown = np.empty(2 * len(active) + 2 * size, dtype=np.int32)
                grown[:top] = active[:top]
                active = grown
            tried += level_start[level] - level_start[level - 1]
            for i in range(level_start[level - 1], level_start[level]):
                state = active[i]
                for way in range(3):
                    target = -1
                    if way == 0:
                        if signature[state] >> bit & one:
                            target = _target(automaton, state, tag)
                    elif way == 1:
                        target = states[state, STAR]
                    elif states[state, LOOPS]:
                        target = state
                    if target < 0 or seen[target] == row:
                        continue
                    seen[target] = row
                    reached += 1
                    waiting = states[target, BELOW]
                    # A state without a way out has accepted all it will, so it need not stay active.
                    if signature[target] != 0 or states[target, STAR] >= 0 or states[target, LOOPS]:
                        active[top] = target
                        top += 1
                    if accepted[target] != document:
                        accepted[target] = document
                        for k in range(states[target, FIRST_ACCEPT], states[target + 1, FIRST_ACCEPT]):
                            out[used] = automaton.accepts[k]
                            used += 1
                    if waiting >= 0 and seen[waiting] != row:
                        seen[waiting] = row
                        reached += 1
                        active[top] = waiting
                        top += 1
            level_start[level + 1] = top
        offsets[document + 1] = used
    evidence[STEPS] += tried
    evidence[CANDIDATES] += reached
    return offsets, out[:used]
