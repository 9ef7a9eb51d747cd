"""The pages of a PB+tree of integers as a small drawing: inner pages, leaves, and the list pages they point to."""

from tocsin.papers.pbtree.leaves import Outline
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.protocol import CodeNames

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def drawing(outline: Outline, names: CodeNames, first: int = _LEAST, last: int = _GREATEST) -> Drawing:
    """The pages below one page, which leads to the keys from `first` to `last`."""
    below = [first, *outline.keys]
    upto = [key - 1 for key in outline.keys] + [last]
    children = tuple(
        drawing(child, names, low, high) for child, low, high in zip(outline.children, below, upto, strict=False)
    )
    if outline.level:
        label = f"page {outline.page} splits at {', '.join(names(key, key) for key in outline.keys[:4])}"
        return Drawing(first, last, label + (", ..." if len(outline.keys) > 4 else ""), children=children)
    pointed = (
        f"{symbol} {','.join(map(str, sorted(pages)))}"
        for symbol, pages in zip(("GT", "LT", "INEQ"), outline.pointers, strict=True)
        if pages
    )
    return Drawing(first, last, f"leaf {outline.page}: {len(outline.keys)} keys", "  ".join(pointed))
