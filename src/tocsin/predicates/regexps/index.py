"""The index of regular expressions: which of many match each text, found by a literal of each.

What was measured against sets of automata and other libraries stands in docs/internals/regexps.md. RE2 is the one in
Arrow, which compiles an expression at each call, in 15 microseconds; it judges what the strands of an expression leave
open, and expressions without a literal.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Int32s, Int64s, Strings, UInt8s
from tocsin.errors import SubscriptionError
from tocsin.forks import cached
from tocsin.invariants import (
    BrokenInvariantError,
    check_fields,
    check_starts,
    check_strings,
    check_type,
    check_within,
    demand,
)
from tocsin.model.regexp import check_expression, finder
from tocsin.model.regexp_strands import (
    VARIANTS,
    WORD_BITS,
    Assertion,
    LiteralText,
    Piece,
    Strand,
    Strands,
    bits_of,
    strands_of,
)
from tocsin.predicates.patterns.index import check_windows, file_windows
from tocsin.predicates.patterns.kernels import FiledWindows, Scan, lower_ascii, prepare_scan
from tocsin.predicates.regexps.kernels import (
    ASSERTION,
    BACKWARD_FIRST,
    CERTAIN,
    CHARACTER,
    COLUMNS,
    EDGE,
    EXACT,
    FOLDED,
    ITEM_BITS,
    ITEM_MASK,
    MOST_ITEMS,
    NEIGHBOUR_BITS,
    NEIGHBOURS,
    ONE_OF,
    OPTIONAL,
    STAR,
    WIDE,
    StrandItems,
    find_expressions,
)
from tocsin.predicates.texts import TextBytes, TextIndex, as_bytes, has_wide_bytes

TAKEN_PAIRS = 16_384
"""Pairs of an expression and a text whose texts are copied at a time: some megabytes of lines."""
_FEW = 4
"""A literal of fewer bytes occurs in many texts: characters of small sets then become part of it."""
_EDGE_BIT = 1 << EDGE
_ALL_COLUMNS = (1 << COLUMNS) - 1


class FoundExpressions(NamedTuple):
    """The expressions that match: those of text r are ``expressions[offsets[r]:offsets[r + 1]]``, ascending."""

    offsets: Int64s
    expressions: Int32s
    compared: int
    """How many strands were compared with a text because their window occurs."""
    judged: int
    """How many pairs of an expression and a text RE2 has judged."""


class Regexps(TextIndex):
    """Find the expressions that match each text of a column.

    A probe costs a few steps per byte of text, and a comparison for each strand whose literal occurs; RE2's time for an
    expression that its strands do not say exactly, if they match. An expression without any literal, such as ``\\d+``,
    is judged by RE2 for every text.

    >>> index = Regexps.build([r"GET /\\w+\\.php", "(?i)error [45]", r"^\\d+$"])
    >>> offsets, expressions = index.probe_batch(pa.array(["GET /a.php: ERROR 4", "17", "GET /", None]))
    >>> offsets.tolist(), expressions.tolist()
    ([0, 2, 3, 3, 3], [0, 1, 2])
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__(arrays)
        self._expressions = Strings(self._arrays["offsets"], self._arrays["bytes"])
        if "strand_owners" not in self._arrays:
            # A file of format 6 or older has the expressions and other arrays.
            built = Regexps.build(self._expressions.arrow().to_pylist())
            self._arrays = built.arrays()
        self._windows = FiledWindows(*(self._arrays[name] for name in FiledWindows._fields))
        self._items = StrandItems(*(self._arrays[f"item_{name}"] for name in StrandItems._fields))
        self._unfiled: Int32s = self._arrays["unfiled"]
        # Work arrays of zeros that a probe takes, or makes, and gives back as they were.
        self._scratch: list[tuple[Int64s, UInt8s]] = []

    @cached
    def _scan(self) -> Scan:
        """What a probe reads first. Made at the first probe: who only opens a segment does not need it."""
        windows = self._windows._replace(literal_data=lower_ascii(self._windows.literal_data))
        scan = prepare_scan(windows, np.append(self._arrays["strand_owners"], 0).astype(np.int64))
        scan.postings[:, NEIGHBOURS] = self._items.neighbours[windows.bucket_patterns]
        return scan

    @classmethod
    def build(cls, expressions: Sequence[str]) -> Self:
        """Build for expressions that RE2 can read; about linear in the length of all."""
        strands: list[Strand] = []
        owners, kinds, unfiled = [], [], []
        for expression, text in enumerate(expressions):
            found = _searchable(text)
            if found is None:
                unfiled.append(expression)
                continue
            strands += found.strands
            owners += [expression] * len(found.strands)
            kinds += [EXACT * found.is_exact] * len(found.strands)
        literals = [[piece for piece in strand if isinstance(piece, LiteralText)] for strand in strands]
        encoded = [[literal.text.encode() for literal in each] for each in literals]
        windows, chosen = file_windows([[text.lower() for text in each] for each in encoded], kinds)
        windows = windows._replace(
            literal_data=np.frombuffer(b"".join(text for each in encoded for text in each), np.uint8)
        )
        classes = _Classes()
        starts, items, neighbours = [0], [], []
        for strand, which in enumerate(chosen.tolist()):
            filed = literals[strand][which]
            middle = [place for place, piece in enumerate(strands[strand]) if isinstance(piece, LiteralText)][which]
            forward, all_forward = _items(strands[strand][middle + 1 :], classes)
            backward, all_backward = _items(strands[strand][:middle], classes, backward=True)
            items += [*forward, *backward]
            behind = classes.number(_neighbours(forward, Assertion.END, filed.text[-1], classes))
            ahead = classes.number(_neighbours(backward, Assertion.BEGIN, filed.text[0], classes))
            neighbours.append(behind | ahead << NEIGHBOUR_BITS)
            reads_far = [any(item & ITEM_MASK == STAR for item in side) for side in (forward, backward)]
            starts += [starts[-1] + len(forward), starts[-1] + len(forward) + len(backward)]
            exact = kinds[strand] if all_forward and all_backward else 0
            windows.kind[strand] = exact | FOLDED * filed.folds | BACKWARD_FIRST * (reads_far == [True, False])
        texts = Strings.of(expressions)
        table = np.array([[bits >> column & 1 for column in range(COLUMNS)] for bits in classes.sets], np.uint8)
        parts = StrandItems(
            np.array(starts, np.int64),
            np.array(items, np.int32),
            table.reshape(-1, COLUMNS),
            np.array(neighbours, np.int64),
        )
        return cls(
            {
                "offsets": texts.offsets,
                "bytes": texts.data,
                **windows._asdict(),
                **{f"item_{name}": array for name, array in parts._asdict().items()},
                "strand_owners": np.array(owners, np.int32),
                "unfiled": np.array(unfiled, np.int32),
            }
        )

    @property
    def predicate_count(self) -> int:
        """The number of expressions."""
        return len(self._expressions)

    def probe_texts(self, texts: pa.Array) -> tuple[Int64s, Int32s]:
        """Return where the expressions that match each text start, and these, ascending; no text is NULL."""
        return self.search(texts)[:2]

    def search(self, texts: pa.Array) -> FoundExpressions:
        """Do what `probe_texts` does, and count what was compared and judged."""
        read = as_bytes(texts)
        has_variants = np.zeros(len(texts), np.bool_)
        if has_wide_bytes(read.offsets, read.data).any():
            for variant in VARIANTS:
                has_variants |= pc.match_substring(texts, variant).to_numpy(zero_copy_only=False)
            if has_variants.any():
                read = as_bytes(_without_variants(texts))
        starts, candidates, states, compared = self._find(read, has_variants)
        row = np.repeat(np.arange(len(texts)), np.diff(starts))
        matches = states == CERTAIN
        open_pairs = np.flatnonzero(~matches)
        matches[open_pairs] = self._judge(texts, row[open_pairs], candidates[open_pairs])
        row, found = row[matches], candidates[matches]
        if self._unfiled.size:
            for expression in self._unfiled.tolist():
                every = pc.match_substring_regex(texts, pattern=self._expressions[expression])
                rows = np.flatnonzero(every.to_numpy(zero_copy_only=False))
                row, found = np.append(row, rows), np.append(found, np.full(rows.size, expression, np.int32))
            order = np.lexsort((found, row))
            row, found = row[order], found[order]
        offsets = np.searchsorted(row, np.arange(len(texts) + 1))
        judged = len(open_pairs) + len(texts) * self._unfiled.size
        return FoundExpressions(offsets, found, compared, judged)

    def probe_text(self, text: str) -> Int32s:
        """Return the expressions that match one text, ascending."""
        has_variants = any(variant in text for variant in VARIANTS)
        searched = text
        for variant, letter in VARIANTS.items() if has_variants else ():
            searched = searched.replace(variant, letter)
        data = np.frombuffer(searched.encode(), np.uint8)
        read = TextBytes(np.array([0, data.size]), data)
        _, candidates, states, _ = self._find(read, np.array([has_variants]))
        certain = states == CERTAIN
        doubtful = [*candidates[~certain].tolist(), *self._unfiled.tolist()]
        judged = [expression for expression in doubtful if finder(self._expressions[expression])(text)]
        return np.sort(np.append(candidates[certain], np.array(judged, np.int32))) if judged else candidates[certain]

    def _find(self, texts: TextBytes, has_variants: Bools) -> tuple[Int64s, Int32s, UInt8s, int]:
        try:
            read, seen = self._scratch.pop()
        except IndexError:
            read, seen = np.zeros(self._windows.kind.size, np.int64), np.zeros(self.predicate_count, np.uint8)
        found = find_expressions(
            texts.offsets, texts.data, has_variants, self._windows, self._items, self._scan, read, seen
        )
        self._scratch.append((read, seen))
        return found

    def _judge(self, texts: pa.Array, row: Int64s, candidates: Int32s) -> Bools:
        """Let RE2 judge pairs of a text and an expression."""
        order = np.argsort(candidates, kind="stable")
        distinct, first = np.unique(candidates[order], return_index=True)
        matches = np.zeros(len(candidates), np.bool_)
        ends = np.append(first[1:], len(order))
        place = 0
        while place < distinct.size:
            # The texts of several expressions are taken at once: to take those of each costs more than to judge them.
            last = max(place + 1, int(np.searchsorted(ends, first[place] + TAKEN_PAIRS, side="right")))
            taken = texts.take(pa.array(row[order[first[place] : ends[last - 1]]]))
            for each in range(place, last):
                judged = taken.slice(first[each] - first[place], ends[each] - first[each])
                found = pc.match_substring_regex(judged, pattern=self._expressions[int(distinct[each])])
                matches[order[first[each] : ends[each]]] = found.to_numpy(zero_copy_only=False)
            place = last
        return matches

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays, and expressions that RE2 can read."""
        check_strings("", self._expressions, joint="")
        check_windows(self._windows)
        strands, parts = self._windows.kind.size, self._items
        check_fields(StrandItems, parts, {"classes": COLUMNS})
        check_starts("item_starts", parts.starts, 2 * strands, parts.items.size)
        demand(np.diff(parts.starts) <= MOST_ITEMS, "item_starts", f"a strand has more than {MOST_ITEMS} items")
        check_within("item_items", parts.items, 0, 2**31)
        kinds, operands = parts.items & ITEM_MASK, parts.items >> ITEM_BITS
        check_within("item_items", kinds, CHARACTER, ASSERTION + 1)
        classed = (kinds != CHARACTER) & (kinds != ASSERTION)
        check_within("item_items", operands[classed], 0, len(parts.classes))
        demand(parts.neighbours.size == strands, "item_neighbours", "not each strand has them")
        check_within("item_neighbours", parts.neighbours, 0, 2 ** (2 * NEIGHBOUR_BITS))
        for side in (parts.neighbours & ((1 << NEIGHBOUR_BITS) - 1), parts.neighbours >> NEIGHBOUR_BITS):
            check_within("item_neighbours", side, 0, len(parts.classes))
        for name in ("strand_owners", "unfiled"):
            check_type(name, self._arrays[name], np.int32)
            check_within(name, self._arrays[name], 0, self.predicate_count)
        demand(self._arrays["strand_owners"].size == strands, "strand_owners", "not each strand has one")
        for expression in self._expressions.arrow().to_pylist():
            try:
                check_expression(expression)
            except SubscriptionError as error:
                raise BrokenInvariantError("bytes", error.message) from None

    def check(self) -> None:
        """Assert what must be true of the arrays."""
        owners, windows = self._arrays["strand_owners"], self._windows
        assert sorted({*owners.tolist(), *self._unfiled.tolist()}) == list(range(self.predicate_count)), (
            "an expression has strands, or RE2 judges it always"
        )
        assert sorted(windows.bucket_patterns.tolist()) == list(range(windows.kind.size)), "a strand is in one bucket"
        assert self._items.classes.max(initial=0) <= 1, "a byte belongs to a class or not"


def _searchable(expression: str) -> Strands | None:
    """Return the strands of an expression by which it can be found; None if one of them has no literal."""
    strands = strands_of(expression, expand=False)
    if _longest(strands) < _FEW:
        strands = max(strands, strands_of(expression, expand=True), key=_longest)
    return strands if _longest(strands) else None


def _longest(strands: Strands) -> int:
    """Return the bytes of the longest literal of the strand where that is shortest."""
    return min(
        max((len(piece.text.encode()) for piece in strand if isinstance(piece, LiteralText)), default=0)
        for strand in strands.strands
    )


class _Classes:
    """Sets of characters, as bits, and their numbers."""

    def __init__(self) -> None:
        self.sets: list[int] = []
        self._numbers: dict[int, int] = {}

    def number(self, bits: int) -> int:
        found = self._numbers.setdefault(bits, len(self.sets))
        if found == len(self.sets):
            self.sets.append(bits)
        return found


def _items(pieces: Sequence[Piece], classes: _Classes, *, backward: bool = False) -> tuple[list[int], bool]:
    """Return pieces as items, and whether these say the same; those next to the literal first."""
    items = [item for piece in pieces for item in _items_of(piece, classes, loosely=False)]
    is_exact = len(items) <= MOST_ITEMS
    if not is_exact:
        items = [item for piece in pieces for item in _items_of(piece, classes, loosely=True)]
    if backward:
        items.reverse()
    return items[:MOST_ITEMS], is_exact


def _items_of(piece: Piece, classes: _Classes, *, loosely: bool) -> list[int]:
    """Return the items of a piece; `loosely`: a run of a bounded length is one of any length."""

    def item(kind: int, bits: int) -> int:
        return classes.number(bits) << ITEM_BITS | kind

    if isinstance(piece, Assertion):
        return [int(piece) << ITEM_BITS | ASSERTION]
    if isinstance(piece, LiteralText):
        return [
            item(ONE_OF, bits_of(each + each.upper()))
            if piece.folds and each.isascii() and each.isalpha()
            else ord(each) << ITEM_BITS | CHARACTER
            for each in piece.text
        ]
    bits = piece.bits | piece.wide << WIDE
    least, most = piece.least, piece.most
    if loosely and (most is None or most > 2):
        least, most = min(least, 2), None
    made = [item(ONE_OF, bits)] * least
    return [*made, item(STAR, bits)] if most is None else made + [item(OPTIONAL, bits)] * (most - least)


def _neighbours(items: Sequence[int], edge: Assertion, letter: str, classes: _Classes) -> int:
    """Return the set of what may stand beside a literal that ends with a letter if items are to match from there.

    `edge` is the assertion that says that the text ends there.
    """
    is_word = letter.isascii() and bool(WORD_BITS >> ord(letter) & 1)
    to_edge = {edge: _EDGE_BIT, Assertion(edge + Assertion.LINE_BEGIN): _EDGE_BIT | bits_of("\n")}
    words = {Assertion.WORD_EDGE: is_word, Assertion.NO_WORD_EDGE: not is_word}
    found, limit = 0, _ALL_COLUMNS
    for item in items:
        kind, operand = item & ITEM_MASK, item >> ITEM_BITS
        if kind == ASSERTION:
            assertion = Assertion(operand)
            if assertion in words:
                limit &= _ALL_COLUMNS ^ WORD_BITS if words[assertion] else WORD_BITS
            else:
                limit &= to_edge.get(assertion, _ALL_COLUMNS)
            continue
        found |= limit & (1 << min(operand, WIDE) if kind == CHARACTER else classes.sets[operand])
        if kind in (CHARACTER, ONE_OF):
            return found
    return found | limit


def _without_variants(texts: pa.Array) -> pa.Array:
    """Return texts as RE2 reads them where case does not matter: the long s is an s, the Kelvin sign a k."""
    for variant, letter in VARIANTS.items():
        texts = pc.replace_substring(texts, variant, letter)
    return texts
