"""XML documents, read with care and turned into arrays.

lxml reads each document: it decides what is well-formed. It expands no entity, loads no document type and opens no
connection. Walking its tree from Python costs more than reading it, so the arrays come from a compiled pass over the
bytes instead: over the document's own when they are plain (UTF-8, no document type, no CDATA section, no carriage
return). For plain bytes lxml need not even build the tree, which halves its time. Other documents are written anew from
the tree, node by node: libxml2's own serialiser adds what is not in the tree (a namespace and ``<meta>`` below an XHTML
document type) and drops what is (empty texts).
"""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from lxml import etree

from tocsin.arrays import UInt8s
from tocsin.errors import EventError
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.kernels.characters import EMPTY_REFERENCE
from tocsin.predicates.xpath.kernels.tokens import Documents, tokenize
from tocsin.predicates.xpath.syntax import XML_NAMESPACE

MAX_DEPTH: Final = 64
"""Levels of a document. A path is one machine word, so this limit is fixed; libxml2's own is 256."""
MAX_BYTES: Final = 10_000_000

_RESERVED: Final = b"xml" + XML_NAMESPACE.encode()


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Documents as arrays, and the error of each that could not be read, by its place; such a document has no rows.

    The `sources` are the documents as they came, for expressions that lxml evaluates.
    """

    sources: Sequence[str | bytes | None]
    arrays: Documents
    errors: dict[int, EventError]

    def __len__(self) -> int:
        return len(self.arrays.bounds) - 1


def read_document(document: str | bytes, max_bytes: int = MAX_BYTES) -> etree._Element:
    """Parse one document with lxml, hardened. Cost: linear in the document.

    >>> read_document("<a><b/></a>").tag
    'a'
    >>> read_document("<a><b></a>")
    Traceback (most recent call last):
    tocsin.errors.EventError: XML: not well-formed: Opening and ending tag mismatch: b line 1 and a, line 1, ...
    """
    return _read(_checked(document, max_bytes), isinstance(document, str))


def encode_documents(
    documents: Sequence[str | bytes | None], catalog: Catalog, max_bytes: int = MAX_BYTES
) -> EncodedBatch:
    """Read documents into arrays, in the names of a catalog; None is an event without a document."""
    errors: dict[int, EventError] = {}
    plain = []
    for place, document in enumerate(documents):
        serialised = b""
        if document is not None:
            try:
                serialised = _plain(document, max_bytes)
            except EventError as error:
                # One that was raised holds this frame, which holds the errors and the documents: a cycle.
                errors[place] = EventError(error.message, error.hint)
        plain.append(serialised)
    starts = np.zeros(len(plain) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in plain], out=starts[1:])
    joined = b"".join(plain)
    data = np.frombuffer(joined, dtype=np.uint8)
    opens = np.flatnonzero(data == ord("<"))
    arrays = _empty_arrays(data, len(opens), len(plain))
    reserved = np.frombuffer(_RESERVED, dtype=np.uint8)
    has_spaces = b"xmlns" in joined
    uris = np.zeros(len(reserved) + (max(map(len, plain), default=0) if has_spaces else 0), dtype=np.uint8)
    uris[: len(reserved)] = reserved
    used = tokenize(arrays, starts, opens, catalog.hashed_names, uris, len(reserved), MAX_DEPTH)
    for place in np.flatnonzero(used[:-3] > MAX_DEPTH).tolist():
        errors[place] = _too_deep()
    return EncodedBatch(documents, _trimmed(arrays, *used[-3:].tolist()), errors)


def _plain(document: str | bytes, max_bytes: int) -> bytes:
    """Well-formed UTF-8 of the document, without a document type, CDATA sections and carriage returns."""
    text = isinstance(document, str)
    data = _checked(document, max_bytes)
    plain = _is_plain(data, text)
    if plain and _is_sound(data, text):
        return data
    root = _read(data, text)
    return data if plain else "".join(_written(root, "")).encode()


def _written(element: etree._Element, space: str) -> Iterator[str]:
    """Write the nodes that XPath sees, for the tokenizer: names with their namespaces, texts, and what parts texts.

    `space` is the default namespace here. A reference to an entity that is not declared has no value, in XPath, but it
    parts two texts like a comment.
    """
    tag = str(element.tag)
    uri, local = _parted(tag)
    yield f"<{local}"
    if uri != space:
        yield f" xmlns={_quoted(uri)}"
    for number, (name, value) in enumerate(element.attrib.items()):
        own, local_name = _parted(str(name))
        if own == XML_NAMESPACE:
            local_name = f"xml:{local_name}"
        elif own:
            yield f" xmlns:n{number}={_quoted(own)}"
            local_name = f"n{number}:{local_name}"
        elif local_name.startswith("xmlns:"):
            # `xmlns:=""` beside an undeclared entity is an attribute for lxml: one that no expression can name.
            local_name = f".{local_name}"
        yield f" {local_name}={_quoted(str(value))}"
    yield ">"
    yield _escaped(element.text)
    for child in element:
        # Comments, instructions and references have a function in the place of a tag.
        is_element = isinstance(child.tag, str)
        yield from _written(child, uri) if is_element else ("<!---->",)
        yield _escaped(child.tail)
    yield f"</{local}>"


def _parted(name: str) -> tuple[str, str]:
    """Return the namespace and the local part of a name in Clark notation."""
    uri, brace, local = name[1:].rpartition("}")
    return (uri, local) if brace else ("", name)


def _quoted(value: str) -> str:
    return '"' + value.translate(_REFERENCES) + '"'


def _escaped(text: str | None) -> str:
    """Return a text as it stands between tags; an empty one, which is a node all the same, as an empty reference."""
    if text is None:
        return ""
    return text.translate(_REFERENCES) or EMPTY_REFERENCE


def _is_plain(data: bytes, text: bool) -> bool:
    if data[:1] != b"<" or b"<!DOCTYPE" in data or b"<![CDATA[" in data or b"\r" in data or b"\0" in data:
        return False
    declaration = data[: data.find(b"?>")].lower() if data.startswith(b"<?xml") else b""
    return text or b"encoding" not in declaration or _UTF8.search(declaration) is not None


def _is_sound(data: bytes, text: bool) -> bool:
    """Whether lxml finds nothing to say against the document; if it does, its tree decides whether that is an error."""
    if b"xml:id" in data:
        # That these are unique names is found out by the tree.
        return False
    parser = _PARSERS.checking[text]
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        return False
    return len(parser.error_log) == 0


def _checked(document: str | bytes, max_bytes: int) -> bytes:
    if isinstance(document, str):
        try:
            document = document.encode()
        except UnicodeEncodeError as error:
            raise EventError("XML: the text holds half of a surrogate pair", "Send well-formed Unicode") from error
    if len(document) > max_bytes:
        raise EventError(
            f"XML: the document has {len(document):,} bytes, the limit is {max_bytes:,}",
            "Split it, or raise max_bytes",
        )
    return document


class _Nothing:
    """What a parser makes of a document that it only checks."""

    def close(self) -> None:
        """End the document."""


def _parser(text: bool, target: Any = None) -> etree.XMLParser:
    # collect_ids=False would be a little faster, but it makes libxml2 load external document types.
    return etree.XMLParser(
        encoding="utf-8" if text else None,
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        target=target,
    )


class _Parsers(threading.local):
    """Parsers that build a tree, and such that build none, for each thread its own.

    What one found stands in its log until the next document. One that a thread of the parent was using when it forked
    would stay locked in the child for ever.
    """

    def __init__(self) -> None:
        self.building = {text: _parser(text) for text in (False, True)}
        self.checking = {text: _parser(text, _Nothing()) for text in (False, True)}


_PARSERS: Final = _Parsers()
_REFERENCES: Final = {ord(character): f"&#{ord(character)};" for character in '&<>"\t\n\r'}
_UTF8: Final = re.compile(rb"""encoding\s*=\s*["']utf-8["']""")


def _read(data: bytes, text: bool) -> etree._Element:
    try:
        root = etree.fromstring(data, _PARSERS.building[text])
    except etree.XMLSyntaxError as error:
        if "xcessive depth" in str(error):
            raise _too_deep() from error
        raise EventError(f"XML: not well-formed: {error.msg}", "Send a well-formed document") from error
    # The bytes "<!DOCTYPE" look different in UTF-16 and UTF-32, so the tree is asked.
    subset: Any = root.getroottree().docinfo.internalDTD
    if subset is not None and (subset.entities() or subset.elements()):
        raise EventError("XML: the document declares entities or elements", "Send it without an internal subset")
    return root


def _too_deep() -> EventError:
    return EventError(f"XML: the document has more than {MAX_DEPTH} levels", "Flatten it")


def _empty_arrays(data: UInt8s, opens: int, count: int) -> Documents:
    rows = opens + count + 1
    attributes = int(np.count_nonzero(data == ord("="))) + 1

    def ints(size: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.empty(size, dtype=np.int32)

    return Documents(
        data,
        ints(count + 1),
        *(ints(rows) for _ in range(4)),
        *(ints(attributes) for _ in range(3)),
        *(ints(rows) for _ in range(5)),
    )


def _trimmed(arrays: Documents, rows: int, attributes: int, texts: int) -> Documents:
    """The arrays cut to what is used, as a copy: room was made for the most that the bytes might hold."""
    lengths = [rows, rows, rows, rows + 1]
    lengths += [attributes, attributes, attributes, rows, rows, texts, texts, texts]
    cut = [array[:length].copy() for array, length in zip(arrays[2:], lengths, strict=True)]
    return Documents(arrays.data, arrays.bounds, *cut)
