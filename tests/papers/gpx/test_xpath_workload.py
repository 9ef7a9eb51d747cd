"""The benchmark's document types and generators have the character that the paper's experiments need."""

import pytest
from lxml import etree

from tocsin.papers.gpx.workload import DTDS, generate_documents, generate_expressions, load_dtd
from tocsin.predicates.xpath import parse_xpath


@pytest.mark.parametrize(
    ("name", "elements", "recursive"), [("newswire", 115, True), ("protein", 70, False), ("astronomy", 59, True)]
)
def test_document_types(name: str, elements: int, recursive: bool) -> None:
    root, types = load_dtd(name)
    assert len(types) == elements
    below = {root}
    reached = {root}
    for _ in range(len(types)):
        below = {child for parent in below for child in types[parent].children}
        reached |= below
    assert reached == set(types), "every element can be reached from the root"
    assert bool(below) == recursive, "a walk as long as there are elements exists only with recursion"


@pytest.mark.parametrize("name", DTDS)
def test_documents_are_well_formed_and_repeatable(name: str) -> None:
    documents = generate_documents(name, 5, levels=6, seed=3)
    assert documents == generate_documents(name, 5, levels=6, seed=3)
    assert len(set(documents)) == 5
    root, types = load_dtd(name)
    for document in documents:
        tree = etree.fromstring(document)
        assert tree.tag == root
        assert {element.tag for element in tree.iter()} <= set(types)


def test_expressions_follow_the_parameters() -> None:
    texts = generate_expressions("newswire", 200, length=6, wildcard=0.0, descendant=0.0)
    parsed = [parse_xpath(text) for text in texts]
    assert len(set(parsed)) == 200
    assert all(4 <= len(xpath.paths[0]) <= 6 or text.count("/") < 4 for xpath, text in zip(parsed, texts, strict=True))
    assert all(step.exact and step.distance == 1 for xpath in parsed for step in xpath.paths[0])
    wild = generate_expressions("newswire", 200, wildcard=0.7)
    share = sum(text.count("*") for text in wild) / sum(text.replace("//", "/").count("/") for text in wild)
    assert 0.5 < share < 0.9
    filtered = generate_expressions("newswire", 50, filters=2)
    assert all(text.count("[") in (0, 2) for text in filtered)
    assert any("[" in text for text in filtered)
