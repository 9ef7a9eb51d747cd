"""What every index of path expressions must do, by itself and behind `Matcher(xpath=...)`."""

from pathlib import Path

import numpy as np

from random_xpath import NAMESPACES, RandomXPath
from tocsin import Matcher
from tocsin.predicates.xpath import parse_xpath
from tocsin.registry import XPathName, xpath_index

TEXTS = ["/a/b", "//b[@x > 3]", "/a[c = 'y']/b", "a/b[1]", "/a/b | //d[not(e)]", "/a/b", "count(//b) = 2"]
DOCUMENTS = ['<a><b x="4"/></a>', "<a><b/><c>y</c><b/></a>", "<d/>", "<e/>"]
HELD = [[0, 1, 3, 4, 5], [0, 2, 3, 4, 5, 6], [4], []]


class XPathIndexContract:
    """Inherit and name an index."""

    name: XPathName

    def test_it_finds_what_holds(self) -> None:
        index = xpath_index(self.name)
        index.build([parse_xpath(text) for text in TEXTS])
        index.check()
        assert len(index) == len(TEXTS)
        found = index.match_batch([*DOCUMENTS, None, "<a>"])
        assert [found[place].tolist() for place in range(6)] == [*HELD, [], []]
        assert list(found.errors) == [5]
        assert index.nbytes > 0

    def test_it_is_restored_from_its_arrays(self) -> None:
        source = RandomXPath(3)
        index, other = xpath_index(self.name), xpath_index(self.name)
        index.build([parse_xpath(source.expression()[0], NAMESPACES) for _ in range(60)])
        arrays = {name: array.copy() for name, array in index.arrays().items()}
        other.restore(arrays)
        other.check()
        documents = [source.document() for _ in range(10)]
        one, two = index.match_batch(documents), other.match_batch(documents)
        assert np.array_equal(one.offsets, two.offsets)
        assert np.array_equal(one.ids, two.ids)

    def test_no_expression_and_no_document(self) -> None:
        index = xpath_index(self.name)
        index.build([])
        assert index.match("<a/>").tolist() == []
        index.build([parse_xpath("false()"), parse_xpath("/a")])
        assert index.match("<a/>").tolist() == [1]
        assert len(index.match_batch([])) == 0

    def test_a_matcher_changes_saves_and_opens(self, tmp_path: Path) -> None:
        matcher = Matcher(xpath=self.name)
        for number, text in enumerate(TEXTS):
            quoted = text.replace("'", "''")
            matcher.subscribe(f"s{number}", f"xpath_exists(doc, '{quoted}')")
        self._check(matcher, dropped=-1)
        matcher.unsubscribe("s0")
        self._check(matcher, dropped=0)
        matcher.save(tmp_path / "index")
        opened = Matcher.open(tmp_path / "index", mode="read")
        self._check(opened, dropped=0)

    def _check(self, matcher: Matcher, dropped: int) -> None:
        for document, held in zip(DOCUMENTS, HELD, strict=True):
            expected = [f"s{number}" for number in held if number != dropped]
            assert matcher.match_batch([{"doc": document}])["subscription"].to_pylist() == expected
            assert matcher.match({"doc": document}).ids == expected
            for number in set(range(len(TEXTS))) - {dropped}:
                assert matcher.explain({"doc": document}, f"s{number}").matches == (number in held)
