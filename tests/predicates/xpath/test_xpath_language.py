"""All of XPath 1.0, and documents of every kind: every index, `match` and `explain` say what lxml says."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from random_xpath import NAMESPACES, RandomXPath
from tocsin import Matcher
from tocsin.papers.gpx import XPATH_INDEXES
from tocsin.predicates.xpath import XPathIndex, parse_xpath
from tocsin.predicates.xpath.oracle import evaluate, failing_step

XHTML = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">'


def by_lxml(expressions: Iterable[str], document: str | bytes) -> list[int]:
    """Return the places of the expressions that hold, which are absolute."""
    data = document.encode() if isinstance(document, str) else document
    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False))
    evaluator = etree.XPathEvaluator(root, namespaces=NAMESPACES)
    return [place for place, text in enumerate(expressions) if evaluator(f"boolean({text})")]


def compare(source: RandomXPath, names: Iterable[str], expressions: int, documents: int) -> int:
    """Compare indexes with lxml on random pairs; return how many pairs."""
    asked = [source.expression() for _ in range(expressions)]
    parsed = [parse_xpath(text, NAMESPACES) for text, _ in asked]
    texts = [source.document() for _ in range(documents)]
    expected = [by_lxml([absolute for _, absolute in asked], text) for text in texts]
    for name in names:
        index = XPATH_INDEXES[name]()
        index.build(parsed)
        found = index.match_batch(texts)
        assert not found.errors
        for place, text in enumerate(texts):
            wrong = set(found[place].tolist()) ^ set(expected[place])
            assert not wrong, (name, [asked[i] for i in wrong], text)
    return expressions * documents


@pytest.mark.parametrize("name", XPATH_INDEXES)
def test_all_of_xpath_is_lxmls(name: str) -> None:
    compare(RandomXPath(len(name)), [name], expressions=100, documents=20)


@pytest.mark.slow
def test_a_million_pairs_are_lxmls(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = 0
    source = RandomXPath(20)
    while pairs < 1_000_000:
        pairs += compare(source, ["auto"], expressions=100, documents=50)
    for seed in range(10):
        compare(RandomXPath(seed), XPATH_INDEXES, expressions=100, documents=50)
    with capsys.disabled():
        print(f"\n{pairs} pairs of auto, {50_000} of each index: no difference from lxml")


def test_an_opened_index_keeps_its_alternatives() -> None:
    source = RandomXPath(7)
    asked = [source.expression() for _ in range(60)]
    index = XPathIndex()
    index.build([parse_xpath(text, NAMESPACES) for text, _ in asked])
    opened = XPathIndex.from_arrays(index.arrays())
    opened.check()
    assert len(opened) == len(index) == 60
    for _ in range(20):
        document = source.document()
        assert opened.match(document).tolist() == by_lxml([absolute for _, absolute in asked], document)


def test_lxml_evaluates_only_where_a_guard_holds() -> None:
    index = XPathIndex()
    index.build([parse_xpath(text) for text in ("/a/b[1]", "/a/c[last()]", "/a[not(d)]", "/a/b | /a/c[2]", "/a/b[1]")])
    assert index.match("<a><b/></a>").tolist() == [0, 2, 3, 4]
    assert index.statistics.verified == 2, "equal expressions once; the second and the fourth not at all"


@pytest.mark.parametrize(
    ("document", "held"),
    [
        (f"{XHTML}<html lang='en'><head><title>t</title></head><body><a name='x'>y</a></body></html>", [0, 1, 2, 3]),
        ('<!DOCTYPE a SYSTEM "a.dtd"><a x="p&trade;q">r&trade;s</a>', [4, 5, 6]),
        ('<!DOCTYPE a SYSTEM "a.dtd"><a x="&trade;">&trade;</a>', [7, 8]),
        ("<a x='y'><![CDATA[]]></a>", [8, 9]),
        ("<a>x<b/><![CDATA[]]></a>", [9, 10]),
        ('<?xml version="1.0" encoding="utf-16"?><a x="p&amp;q">rs</a>'.encode("utf-16"), [5, 9, 11]),
        ('<?xml version="1.0" encoding="utf-32"?><a x="p&amp;q">rs</a>'.encode("utf-32"), [5, 9, 11]),
        ("<a>1\r\n2&#13;</a>", [9, 12]),
        ("<a x='1\r\n2&#13;&#9;'/>", [8, 13]),
    ],
    ids=[
        "xhtml",
        "entity",
        "only an entity",
        "empty cdata",
        "empty cdata behind",
        "utf-16",
        "utf-32",
        "text",
        "attribute",
    ],
)
def test_documents_are_what_lxml_reads(document: str | bytes, held: list[int]) -> None:
    texts = [
        *("/html/body", "/html[not(@id)][not(@xml:lang)]/head[not(meta)]", "//a[@name = 'x']", "/html[@lang = 'en']"),
        *("/a[@x = 'pq']", "/a[. = 'rs']", "/a[text() = 'r'][text() = 's']", "/a[@x = '']", "/a[. = '']"),
        *("/a[text()]", "/a[. = 'x']", "/a[@x = 'p&q']", "/a[. = '1\n2\r']", "/a[@x = '1 2\r\t']"),
    ]
    index = XPathIndex()
    index.build([parse_xpath(text) for text in texts])
    assert index.match(document).tolist() == by_lxml(texts, document)
    assert set(held) <= set(by_lxml(texts, document))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "utf-16-be"])
def test_declared_entities_are_refused_in_every_encoding(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE a [<!ENTITY x "1">]><a>&x;</a>'
    index = XPathIndex()
    index.build([parse_xpath("/a")])
    found = index.match_batch([text.encode(encoding)])
    assert "declares entities" in found.errors[0].message
    assert not len(found.ids)


def in_disguise(document: str, number: int) -> str | bytes:
    """Return the same document as other bytes: another encoding, a document type, a declaration."""
    disguises: list[str | bytes] = [
        document,
        f'<?xml version="1.0" encoding="utf-16"?>{document}'.encode("utf-16"),
        f'<?xml version="1.0" encoding="utf-32"?>{document}'.encode("utf-32"),
        XHTML.replace("html PUBLIC", "a PUBLIC") + document,
        f"\ufeff{document}".encode(),
    ]
    return document if document.startswith("<!DOCTYPE") else disguises[number]


@given(seed=st.integers(0, 2**32), disguise=st.integers(0, 4))
@settings(max_examples=25, deadline=None)
def test_explain_and_match_agree(seed: int, disguise: int) -> None:
    source = RandomXPath(seed)
    matcher = Matcher(namespaces=NAMESPACES)
    asked = {f"s{number}": source.expression() for number in range(8)}
    for id, (text, _) in asked.items():
        quoted = text.replace("'", "''")
        matcher.subscribe(id, f"xpath_exists(doc, '{quoted}')")
    document = source.document()
    event = {"doc": in_disguise(document, disguise)}
    matched = {id for id, _ in matcher.match(event)}
    assert set(matcher.match_batch([event])["subscription"].to_pylist()) == matched
    expected = by_lxml([absolute for _, absolute in asked.values()], document)
    assert matched == {f"s{place}" for place in expected}
    for id, (text, _) in asked.items():
        assert matcher.explain(event, id).matches == (id in matched)
        parsed = parse_xpath(text, NAMESPACES)
        assert evaluate(parsed, event["doc"]) == (id in matched)
        assert (failing_step(parsed, event["doc"]) == "") == (id in matched)
