"""What repetition costs, in steps counted: nothing may explode, whatever repeats."""

from collections.abc import Callable, Sequence

import pytest

from tocsin.papers.gpx import XPATH_INDEXES
from tocsin.predicates.xpath import parse_xpath

LEVELS = 40
EQUAL = ["a"] * LEVELS
DISTINCT = [f"t{level}" for level in range(LEVELS)]


def nested(tags: Sequence[str]) -> str:
    opened = "".join(f'<{tag} x="1">' for tag in tags)
    return opened + "".join(f"</{tag}>" for tag in reversed(tags))


def descendants(tags: Sequence[str]) -> list[str]:
    return ["//" + "//".join(tags[:length]) for length in range(1, LEVELS + 5)]


def children(tags: Sequence[str]) -> list[str]:
    return [start + "/".join(tags[:length]) for length in range(1, LEVELS) for start in ("/", "//")]


def mixed(tags: Sequence[str]) -> list[str]:
    """Every other step a wildcard, every third below at any depth."""
    texts = []
    for length in range(1, LEVELS):
        steps = ["*" if place % 2 else tag for place, tag in enumerate(tags[:length])]
        texts.append("".join(("//" if place % 3 == 2 else "/") + step for place, step in enumerate(steps)))
    return texts


def filtered(tags: Sequence[str]) -> list[str]:
    return ["//" + "//".join(f"{tag}[@x = 1]" for tag in tags[:length]) for length in range(1, LEVELS)]


def steps_of(name: str, tags: Sequence[str], write: Callable[[Sequence[str]], list[str]]) -> tuple[int, list[int]]:
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in write(tags)])
    found = index.match(nested(tags)).tolist()
    return index.statistics.steps, found


@pytest.mark.parametrize("name", XPATH_INDEXES)
@pytest.mark.parametrize("write", [descendants, children, mixed, filtered])
def test_forty_equal_tags_cost_at_most_twenty_times_forty_distinct_ones(
    name: str, write: Callable[[Sequence[str]], list[str]]
) -> None:
    """Forty equal tags have 2 ** 39 publications by the book; here a path is one publication."""
    equal, found = steps_of(name, EQUAL, write)
    distinct, also_found = steps_of(name, DISTINCT, write)
    assert found == also_found, "the expressions match at the same depths"
    assert len(found) >= LEVELS - 1
    assert distinct >= LEVELS, "each level of the document is a step at least"
    assert equal <= 20 * distinct


@pytest.mark.parametrize("name", XPATH_INDEXES)
def test_steps_grow_with_the_levels_no_faster_than_their_cube(name: str) -> None:
    """Half the levels and half the expressions: an eighth of the steps, or more; not the square root."""
    counted = []
    for levels in (20, 40):
        index = XPATH_INDEXES[name]()
        index.build([parse_xpath("//a" * length) for length in range(1, levels)])
        index.match(nested(["a"] * levels))
        counted.append(index.statistics.steps)
    assert counted[0] < counted[1] <= 8 * counted[0]


@pytest.mark.parametrize("name", XPATH_INDEXES)
def test_steps_are_counted(name: str) -> None:
    """A document twice as wide, with other tags, is more work: the counter moves."""
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in ("/a/b/c", "//c", "/a//d[@x > 0]")])
    index.match("<a><b/></a>")
    first = index.statistics.steps
    index.match('<a><b><c/></b><d x="1"/><e><c/></e></a>')
    assert 0 < first < index.statistics.steps - first
