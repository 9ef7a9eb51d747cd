"""Expressions with several paths, or with a rest that lxml evaluates: from the paths that hold to the expressions."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from lxml import etree

from tocsin.arrays import Int32s, Int64s
from tocsin.errors import EventError
from tocsin.forks import cached
from tocsin.invariants import check_fields, check_within, demand
from tocsin.predicates.xpath.document import EncodedBatch, read_document
from tocsin.predicates.xpath.expression import Rest, Steps, XPath, has_branches, trunk_first, values_of

SURE = -1
"""In the place of a rest: there is none, the path is enough."""


@dataclass(frozen=True)
class Alternatives:
    """Of each path, the expression that it belongs to, and the number of the rest that it is a guard of, or SURE.

    `texts` are the rests as JSON, UTF-8, read when the first one is needed.
    """

    count: int
    owner: Int32s
    rest: Int32s
    texts: npt.NDArray[np.uint8]

    @classmethod
    def build(cls, expressions: Sequence[XPath]) -> tuple[list[Steps], "Alternatives | None"]:
        """Return the paths of all expressions, and whose they are; None if each expression is one path."""
        if all(expression.rest is None and len(expression.paths) == 1 for expression in expressions):
            return _rarest_first([expression.paths[0] for expression in expressions]), None
        paths: list[Steps] = []
        owner: list[int] = []
        rest: list[int] = []
        numbers: dict[Rest, int] = {}
        for number, expression in enumerate(expressions):
            paths += (*expression.paths, *expression.guards)
            owner += [number] * (len(expression.paths) + len(expression.guards))
            rest += [SURE] * len(expression.paths)
            if expression.rest is not None:
                rest += [numbers.setdefault(expression.rest, len(numbers))] * len(expression.guards)
        texts = json.dumps([[each.text, each.namespaces] for each in numbers]).encode()
        return _rarest_first(paths), cls(
            len(expressions),
            np.array(owner, dtype=np.int32),
            np.array(rest, dtype=np.int32),
            np.frombuffer(texts, dtype=np.uint8),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Alternatives | None":
        """Return what `arrays` came from; None if there are none."""
        return cls(int(arrays["count"][0]), arrays["owner"], arrays["rest"], arrays["texts"]) if arrays else None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays."""
        return {"count": np.array([self.count]), "owner": self.owner, "rest": self.rest, "texts": self.texts}

    def check_arrays(self, paths: int) -> None:
        """Demand an expression for each of so many paths, and rests that can be read."""
        check_fields(Alternatives, self)
        for name in ("owner", "rest"):
            demand(getattr(self, name).size == paths, name, "not each path has one")
        check_within("owner", self.owner, 0, self.count)
        check_within("rest", self.rest, SURE, len(self.rests))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.owner.nbytes + self.rest.nbytes + self.texts.nbytes

    @cached
    def rests(self) -> list[Rest]:
        """The rests by their numbers."""
        return [
            Rest(text, tuple((prefix, uri) for prefix, uri in spaces))
            for text, spaces in json.loads(self.texts.tobytes() or b"[]")
        ]

    def settle(
        self, batch: EncodedBatch, offsets: Int64s, paths: Int32s, errors: dict[int, EventError]
    ) -> tuple[Int64s, Int32s, int]:
        """Return the expressions that hold on each document, in order, and how many lxml evaluated.

        `paths` hold on the documents, paths[offsets[d]:offsets[d + 1]] on document d. lxml evaluates a rest once for a
        document, and only if no path of its expression is enough. What it cannot evaluate is an error of the document.
        """
        documents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        keys = documents * self.count + self.owner[paths]
        sure = self.rest[paths] == SURE
        held = np.unique(keys[sure])
        asked, first = np.unique(keys[~sure], return_index=True)
        new = ~np.isin(asked, held, assume_unique=True)
        asked, numbers = asked[new], self.rest[paths[~sure]][first[new]]
        verdicts = np.zeros(len(asked), dtype=np.bool_)
        evaluated = 0
        place, root, known = -1, None, dict[int, bool]()
        for i, (key, number) in enumerate(zip(asked.tolist(), numbers.tolist(), strict=True)):
            source = batch.sources[key // self.count]
            if place != key // self.count and source is not None:
                place, root, known = key // self.count, read_document(source, sys.maxsize), {}
            if root is None or place in errors:
                continue
            if number not in known:
                evaluated += 1
                try:
                    known[number] = self.rests[number].holds(root)
                except etree.XPathError as error:
                    errors[place] = EventError(
                        f"XML: lxml cannot evaluate {self.rests[number].text}: {error}", "Simplify the expression"
                    )
                    continue
            verdicts[i] = known[number]
        held = np.union1d(held, asked[verdicts])
        found_in = held // self.count
        if errors:
            held = held[~np.isin(found_in, list(errors))]
            found_in = held // self.count
        new_offsets = np.searchsorted(found_in, np.arange(len(offsets))).astype(np.int64)
        return new_offsets, (held % self.count).astype(np.int32), evaluated


def _rarest_first(paths: list[Steps]) -> list[Steps]:
    """Return equal paths that go along the branches with the rarest constants, once for each distinct object."""
    branched = {id(path): path for path in paths if has_branches(path)}
    if not branched:
        return paths
    shared = Counter(value for path in branched.values() for value in values_of(path))
    turned = {key: trunk_first(path, shared) for key, path in branched.items()}
    return [turned.get(id(path), path) for path in paths]
