"""Small trees as text and as SVG: what a structure shows of itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

# Pixels: a character, a box, the distance of levels, the space between boxes.
CELL, BOX, LEVEL, GAP = 7.2, 36, 62, 10


@dataclass(frozen=True)
class Drawing:
    """One node of a tree to be shown: it is on the path of each code from `first` to `last`.

    `bits` is the node's set of predicates, where it has one.
    """

    first: int
    last: int
    label: str
    bits: str = ""
    children: tuple["Drawing", ...] = ()

    def path(self, code: int) -> Iterator["Drawing"]:
        """Yield the nodes that a search for `code` visits, from the root down."""
        visited = [self]
        while visited:
            node = visited.pop()
            yield node
            visited += [child for child in node.children if child.first <= code <= child.last]


def bit_vector(ids: list[int], size: int) -> str:
    """Write a set of predicates as the paper does, bit 0 first; a large one as its number of members.

    >>> bit_vector([0, 1, 4], 6)
    '110010'
    """
    if size > 32:
        return f"{len(ids)} of {size}"
    members = set(ids)
    return "".join("1" if number in members else "0" for number in range(size))


def as_text(root: Drawing, code: int | None) -> str:
    """Draw a tree as indented lines; the nodes on the path of `code` carry a star."""
    marked = {id(node) for node in root.path(code)} if code is not None else set()
    lines = []
    stack = [(root, "", "")]
    while stack:
        node, lead, below = stack.pop()
        star = "* " if id(node) in marked else ""
        lines.append(f"{lead}{star}{node.label}  {node.bits}".rstrip())
        for number, child in reversed(list(enumerate(node.children))):
            final = number == len(node.children) - 1
            stack.append((child, below + ("└─ " if final else "├─ "), below + ("   " if final else "│  ")))
    return "\n".join(lines)


def as_svg(root: Drawing, code: int | None) -> str:
    """Draw a tree as SVG: each node above the middle of its children, the path of `code` bold."""
    marked = {id(node) for node in root.path(code)} if code is not None else set()
    edges: list[str] = []
    boxes: list[str] = []

    def place(node: Drawing, left: float, top: int) -> tuple[float, float, int]:
        """Draw a subtree from `left` to the right; return its centre, its right end and its bottom."""
        lines = [node.label, *([node.bits] if node.bits else [])]
        width = CELL * max(len(line) for line in lines) + 10
        centres, right, bottom = [], left, top + BOX
        for child in node.children:
            centre, right, below = place(child, right, top + LEVEL)
            centres.append(centre)
            bottom = max(bottom, below)
        right = max(right, left + width + GAP)
        x = max((centres[0] + centres[-1]) / 2, left + width / 2) if centres else left + width / 2
        right = max(right, x + width / 2 + GAP)
        for child, centre in zip(node.children, centres, strict=True):
            weight = 2.5 if id(child) in marked else 1
            ends = f'x1="{x:.0f}" y1="{top + BOX}" x2="{centre:.0f}" y2="{top + LEVEL}"'
            edges.append(f'<line {ends} stroke-width="{weight}"/>')
        weight = 2.5 if id(node) in marked else 1
        corner = f'x="{x - width / 2:.0f}" y="{top}" width="{width:.0f}" height="{BOX}"'
        boxes.append(f'<rect {corner} rx="4" stroke-width="{weight}"/>')
        for number, line in enumerate(lines):
            y = top + BOX / (len(lines) + 1) * (number + 1) + 4
            boxes.append(f'<text x="{x:.0f}" y="{y:.0f}">{escape(line)}</text>')
        return x, right, bottom

    _, right, bottom = place(root, GAP, GAP)
    style = "line,rect{stroke:#334}rect{fill:#fff}text{font:12px monospace;text-anchor:middle;fill:#112}"
    size = f'width="{right:.0f}" height="{bottom + GAP}" viewBox="0 0 {right:.0f} {bottom + GAP}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{"".join(edges)}{"".join(boxes)}</svg>\n'
    )
