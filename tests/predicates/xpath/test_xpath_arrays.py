"""An index that is opened from its arrays is the index that wrote them."""

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.predicates.xpath import AutoIndex, parse_xpath

NAMESPACES = {"p": "urn:p", "q": "urn:q?a&b"}


def reopened(index: AutoIndex) -> AutoIndex:
    """Open from copies that cannot be written, as a mapped file cannot."""
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return AutoIndex.from_arrays(arrays)


def test_an_opened_index_equals_lxml_and_grows(
    random_documents: st.SearchStrategy[str],
    random_expressions: st.SearchStrategy[str],
    lxml_says: Callable[[str, str], bool],
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(random_documents, st.lists(random_expressions, min_size=2, max_size=10), st.data())
    def run(document: str, expressions: list[str], data: st.DataObject) -> None:
        built = data.draw(st.integers(0, len(expressions)))
        index = AutoIndex()
        index.build([parse_xpath(text, NAMESPACES) for text in expressions[:built]])
        opened = reopened(index)
        opened.check()
        expected = [i for i, text in enumerate(expressions) if lxml_says(text, document)]
        assert opened.match(document).tolist() == [i for i in expected if i < built]
        for place, text in enumerate(expressions[built:], start=built):
            assert opened.insert(parse_xpath(text, NAMESPACES)) == place
        opened.check()
        assert opened.match(document).tolist() == expected
        again = reopened(opened)
        again.check()
        assert again.match(document).tolist() == expected

    run()


def test_what_was_deleted_stays_deleted_and_mapped_arrays_stay_as_they_are() -> None:
    index = AutoIndex()
    index.build([parse_xpath(text) for text in ("/a/b", "//b[@x > 1]", "/a/b")])
    index.delete(0)
    opened = reopened(index)
    assert opened.match('<a><b x="2"/></a>').tolist() == [1, 2]
    opened.delete(2)
    assert opened.match('<a><b x="2"/></a>').tolist() == [1]
    assert index.match('<a><b x="2"/></a>').tolist() == [1, 2]
    assert opened.statistics.expressions == 1


def test_opening_copies_no_table() -> None:
    index = AutoIndex()
    index.build([parse_xpath(f"/a/b{i}[@x = {i}]") for i in range(100)])
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    opened = AutoIndex.from_arrays(arrays)
    catalog = opened.catalog
    for name, table in (("paths", catalog.paths), ("structures", catalog.structures), ("filters", catalog.filters)):
        assert np.shares_memory(arrays[f"catalog.{name}.data"], table.data)
        assert np.shares_memory(arrays[f"catalog.{name}.offsets"], table.offsets)
        assert table.slots.size == 0, "the hash table waits for the next expression"
    assert opened.nbytes == index.nbytes
    assert opened.insert(parse_xpath("/a/b7[@x = 7]")) == 100
    assert opened.catalog.paths.slots.size > 0
    assert opened.statistics.distinct == 100, "an expression that was built is known again"
