"""Documents: what is read, what is refused and how, and what repetition costs."""

import contextlib
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

import forking
from tocsin.errors import EventError
from tocsin.papers.gpx import XPATH_INDEXES, GPXIndex
from tocsin.predicates.xpath import XPathIndex, parse_xpath
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.document import _PARSERS, MAX_DEPTH, encode_documents, read_document

Documents = st.SearchStrategy[str]

BOMB = (
    '<!DOCTYPE a [<!ENTITY x0 "ha">'
    + "".join(f'<!ENTITY x{i} "{f"&x{i - 1};" * 10}">' for i in range(1, 10))
    + "]><a>&x9;</a>"
)


def nested(levels: int, tag: str = "a") -> str:
    return f"<{tag}>" * levels + f"</{tag}>" * levels


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("<a><b></a>", "not well-formed"),
        ("", "not well-formed"),
        ("text", "not well-formed"),
        ("<a>&x;</a>", "not well-formed"),
        ("<x:a/>", "not well-formed"),
        ("<a b='1' b='2'/>", "not well-formed"),
        (b"<a>\xff</a>", "not well-formed"),
        ("<a>\ud800</a>", "surrogate"),
        (BOMB, "entit"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>', "declares entities"),
        ('<!DOCTYPE a [<!ELEMENT a ANY><!ATTLIST a x CDATA "1">]><a/>', "declares entities or elements"),
        (nested(MAX_DEPTH + 1), "more than 64 levels"),
        (nested(10_000), "more than 64 levels"),
        (b"<a>" + bytes(100_000_000), "the limit is 10,000,000"),
    ],
    ids=lambda value: str(value)[:40] if len(value) < 10_000 else "large",
)
def test_refused(document: str | bytes, reason: str) -> None:
    index = XPathIndex()
    index.build([parse_xpath("/a")])
    with pytest.raises(EventError, match=reason) as error:
        index.match(document)
    assert error.value.hint
    matches = index.match_batch(["<a/>", document, None, "<a/>"])
    assert [matches[place].tolist() for place in range(4)] == [[0], [], [], [0]]
    assert list(matches.errors) == [1]


SUSPECT = [
    "<a xml:id='1'/>",
    "<a xml:id='q'><b xml:id='q'/></a>",
    "<a xml:id='q'><b xml:id='r'/></a>",
    "<a xmlns:x=''/>",
    "<a xmlns='zz yy'/>",
    "<a xmlns:xml='q'/>",
    "<a:b:c xmlns:a='q'/>",
    "<a x:y='1'/>",
    "<a xmlns:x='q' xmlns:y='q' x:b='1' y:b='2'/>",
    "<a xml:space='zz'/>",
    "<?a:b c?><a/>",
    "<?xml version='1.7'?><a/>",
    "<?xml version='2.0'?><a/>",
    "<?xml version='1.0' encoding='utf-7'?><a/>",
    "<a>]]></a>",
    "<a>&#0;</a>",
    "<!-- -- --><a/>",
    "<a/><b/>",
    "<a>\0</a>",
]


def verdicts(document: str) -> tuple[bool, bool]:
    """Whether the document is refused: by the index, which need not build a tree, and by lxml's tree."""
    refused = bool(encode_documents([document.encode()], Catalog.build([])[0]).errors)
    try:
        read_document(document.encode())
    except EventError:
        return refused, True
    return refused, False


@pytest.mark.parametrize("document", SUSPECT)
def test_what_lxml_refuses_is_refused_without_its_tree(document: str) -> None:
    by_index, by_tree = verdicts(document)
    assert by_index == by_tree


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_broken_documents_are_those_that_lxml_refuses(data: st.DataObject, random_documents: Documents) -> None:
    document = data.draw(random_documents)
    place = data.draw(st.integers(0, len(document)))
    cut = data.draw(st.integers(0, 3))
    more = data.draw(
        st.sampled_from(["", "<", ">", "&", "/", '"', ":", "x:", " xml:id='a'", "<a>", "</a>", "]]>", "\x01"])
    )
    by_index, by_tree = verdicts(document[:place] + more + document[place + cut :])
    assert by_index == by_tree


@pytest.mark.parametrize("name", XPATH_INDEXES)
def test_the_deepest_document_is_matched(name: str) -> None:
    index = XPATH_INDEXES[name]()
    deepest = "/a" * MAX_DEPTH
    index.build([parse_xpath(text) for text in (deepest, deepest + "/a", "//a" * MAX_DEPTH, "/*" * 65, "/*" * 64)])
    assert index.match(nested(MAX_DEPTH)).tolist() == [0, 2, 4]
    assert index.match(nested(MAX_DEPTH - 1)).tolist() == []


def test_an_external_document_type_is_not_loaded() -> None:
    root = read_document('<!DOCTYPE a SYSTEM "http://localhost:1/nothing.dtd"><a x="1"/>')
    assert root.tag == "a"
    assert XPathIndex().match('<!DOCTYPE a SYSTEM "nothing.dtd"><a/>').tolist() == []


@pytest.mark.parametrize(
    "document",
    [
        '<a x="é">ü</a>'.encode("utf-16"),
        '<?xml version="1.0" encoding="iso-8859-1"?><a x="é">ü</a>'.encode("latin-1"),
        '<?xml version="1.0" encoding="iso-8859-1"?><a x="é">ü</a>',
        '<?xml version="1.0" encoding="UTF-8"?><a x="é">ü</a>'.encode(),
        b"\xef\xbb\xbf" + '<a x="é">ü</a>'.encode(),
        '<!DOCTYPE a SYSTEM "a.dtd"><a x="&#233;"><![CDATA[ü]]></a>',
        "<a\n x\t=\r\n'é'\r>ü</a >",
    ],
)
def test_encodings_are_lxmls(document: str | bytes) -> None:
    index = XPathIndex()
    index.build([parse_xpath("/a[@x = 'é'][. = 'ü']")])
    assert index.match(document).tolist() == [0]


def test_values_are_lxmls() -> None:
    document = '<a x="1\n2" y="&#10;7&lt;" z=\' "\'>1<!-- -->2<b>3</b>&#x1F600;</a>'
    root = etree.fromstring(document)
    assert root.xpath("string(/a)") == "123\U0001f600"
    index = XPathIndex()
    index.build(
        [
            parse_xpath(text)
            for text in (
                "/a[@x = '1 2']",
                "/a[@y = '\n7<']",
                "/a[@z = ' \"']",
                "/a[. = '123\U0001f600']",
                "/a[text() = 1]",
                "/a[text() = 12]",
                "/a[text() = '\U0001f600']",
                "/a[b = 3]",
            )
        ]
    )
    assert index.match(document).tolist() == [0, 1, 2, 3, 4, 6, 7]


def test_attributes_that_nobody_asks_for_are_left_out() -> None:
    catalog, _ = Catalog.build(parse_xpath("/a[@x]").paths)
    batch = encode_documents(['<a x="1" y="2"><c z="3"/></a>'], catalog)
    assert batch.arrays.attribute_name.tolist() == [catalog.names["x"]]
    assert batch.arrays.tag.tolist() == [-2, catalog.names["a"], 0]


def test_full_memory_starts_anew_and_stays_right() -> None:
    index = XPathIndex(memory_bytes=1)
    index.build([parse_xpath(text) for text in ("a//b", "/a/*/c", "//c/b")])
    other = GPXIndex()
    other.build([parse_xpath(text) for text in ("a//b", "/a/*/c", "//c/b")])
    documents = []
    for number in range(1200):
        word = [("a", "b", "c")[number // 3**place % 3] for place in range(7)]
        documents.append("<a>" + "".join(f"<{tag}>" for tag in word) + "".join(f"</{t}>" for t in word[::-1]) + "</a>")
    for document in documents:
        assert index.match(document).tolist() == other.match(document).tolist()
    index.check()
    assert index.statistics.memo_resets > 0
    assert index.statistics.memo_hits > 0


def test_known_paths_are_not_matched_again() -> None:
    index = XPathIndex()
    index.build([parse_xpath("//b"), parse_xpath("/a/b/c"), parse_xpath("/a/b/c")])
    index.match("<a><b><c/></b><b><c/></b></a>")
    before = index.statistics
    assert (before.memo_misses, before.memo_hits, before.expressions, before.distinct) == (3, 2, 3, 2)
    assert index.match("<a><b/><b><c/></b></a>").tolist() == [0, 1, 2]
    assert index.statistics.candidates == before.candidates
    assert index.statistics.memo_misses == 3


def test_filters_are_checked_for_structural_candidates_only() -> None:
    index = XPathIndex()
    index.build([parse_xpath("/a/b[x][y]"), parse_xpath("/a/c[x][y]"), parse_xpath("/a/d[x][y]")])
    assert index.match("<a><b><x/><y/></b><c><x/></c></a>").tolist() == [0]
    assert index.statistics.filtered == 2


def test_filters_on_attributes_and_values_need_no_evaluation() -> None:
    index = XPathIndex()
    texts = ("/a/b[@x = 1]", "/a/c[@x = 1]", "//*[@x = 2]", "/a/*[@x < 2]", "b[@x]/*[@y = 3]/*", "//c[@x = 2][. = 1]")
    index.build([parse_xpath(text) for text in texts])
    assert index.match('<a><b x="1"/><c x="2"/><b x="0"><d y="3"><e/></d><d y="4"/></b></a>').tolist() == [0, 2, 3, 4]
    assert index.statistics.filtered == 0, "neither those on attributes nor that on a value"
    index.check()


@pytest.mark.parametrize("name", XPATH_INDEXES)
def test_equal_expressions_are_all_found_and_stored_once(name: str) -> None:
    texts = ["//b", "/a/b", "a/b[@x = 1]", "b", "/a/b", "/a[. = 'y']", "//a/b[@x = 1]", "/a[. = 'y']", "/c"]
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in texts])
    assert index.statistics.distinct == 5
    batch = index.encode(['<a><b x="1">y</b></a>', "<a><b/></a>", "<c/>"])
    for _ in range(2):
        found = index.match_encoded(batch)
        assert [found[place].tolist() for place in range(3)] == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 3, 4], [8]]


def test_memory_of_expressions() -> None:
    """At most 150 bytes a distinct expression and 12 a duplicate."""
    texts = [f"/a/b{i % 20}/*//c{i // 20 % 25}/d{i // 500}" for i in range(10_000)]
    once, twice = XPathIndex(), XPathIndex()
    once.build([parse_xpath(text) for text in texts])
    twice.build([parse_xpath(text) for text in texts * 2])
    assert once.statistics.distinct == 10_000
    assert once.nbytes <= 150 * 10_000
    assert twice.nbytes - once.nbytes <= 12 * 10_000


class _Endless:
    """A file whose first read says that it was begun, and waits."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def read(self, _size: int = -1) -> bytes:
        self.begun.set()
        self.go_on.wait(forking.LONG)
        return b""


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("kind", ["building", "checking"])
def test_a_child_reads_documents_whatever_another_thread_was_reading(kind: str, text: bool) -> None:
    file: Any = _Endless()

    def read() -> None:
        with contextlib.suppress(etree.XMLSyntaxError):
            etree.parse(file, getattr(_PARSERS, kind)[text])

    thread = threading.Thread(target=read)
    thread.start()
    assert file.begun.wait(forking.LONG)
    source = "<a><b/></a>" if text else b"<a><b/></a>"
    try:
        assert forking.forked(lambda: read_document(source).tag) == "a"
        assert forking.forked(lambda: encode_documents([source], Catalog.build([])[0]).errors) == {}
    finally:
        file.go_on.set()
        thread.join()
