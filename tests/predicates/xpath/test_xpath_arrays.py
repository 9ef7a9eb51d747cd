"""An index that is opened from its arrays is the index that wrote them."""

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.predicates.xpath import XPathIndex, parse_xpath

NAMESPACES = {"p": "urn:p", "q": "urn:q?a&b"}


def reopened(index: XPathIndex) -> XPathIndex:
    """Open from copies that cannot be written, as a mapped file cannot."""
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return XPathIndex.from_arrays(arrays)


def test_an_opened_index_equals_lxml(
    random_documents: st.SearchStrategy[str],
    random_expressions: st.SearchStrategy[str],
    lxml_says: Callable[[str, str], bool],
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(random_documents, st.lists(random_expressions, max_size=10))
    def run(document: str, expressions: list[str]) -> None:
        index = XPathIndex()
        index.build([parse_xpath(text, NAMESPACES) for text in expressions])
        opened = reopened(reopened(index))
        opened.check()
        expected = [i for i, text in enumerate(expressions) if lxml_says(text, document)]
        assert opened.match(document).tolist() == expected
        assert opened.statistics.distinct == index.statistics.distinct
        assert opened.nbytes == index.nbytes

    run()


def test_opening_copies_no_table() -> None:
    index = XPathIndex()
    index.build([parse_xpath(f"/a/b{i}[@x = {i}]") for i in range(100)])
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    tables = XPathIndex.from_arrays(arrays).catalog.tables
    for name, data, offsets in (
        ("structures", tables.structures, tables.structure_offsets),
        ("filters", tables.filters, tables.filter_offsets),
        ("paths", tables.paths, tables.path_offsets),
    ):
        assert np.shares_memory(arrays[f"catalog.{name}.data"], data)
        assert np.shares_memory(arrays[f"catalog.{name}.offsets"], offsets)
