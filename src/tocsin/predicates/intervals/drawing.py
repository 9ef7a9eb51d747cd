"""Small trees as text and as SVG: what a structure shows of itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

CELL = 7.2


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
    """Draw a tree as SVG: leaves side by side, parents above the middle of their children, the path of `code` bold."""
    marked = {id(node) for node in root.path(code)} if code is not None else set()
    shapes: list[str] = []
    right, bottom = 0.0, 0

    def place(node: Drawing, depth: int) -> float:
        nonlocal right, bottom
        lines = [node.label, *([node.bits] if node.bits else [])]
        width = CELL * max(len(line) for line in lines) + 10
        centres = [place(child, depth + 1) for child in node.children]
        x = (centres[0] + centres[-1]) / 2 if centres else right + width / 2 + 6
        right = max(right, x + width / 2 + 6)
        top = 10 + depth * 62
        bottom = max(bottom, top + 44)
        for child, centre in zip(node.children, centres, strict=True):
            weight = 2.5 if id(child) in marked else 1
            shapes.insert(
                0, f'<line x1="{x:.0f}" y1="{top + 36}" x2="{centre:.0f}" y2="{top + 62}" stroke-width="{weight}"/>'
            )
        weight = 2.5 if id(node) in marked else 1
        shapes.append(
            f'<rect x="{x - width / 2:.0f}" y="{top}" width="{width:.0f}" height="36" rx="4" stroke-width="{weight}"/>'
        )
        for number, line in enumerate(lines):
            y = top + (36 / (len(lines) + 1)) * (number + 1) + 4
            shapes.append(f'<text x="{x:.0f}" y="{y:.0f}">{escape(line)}</text>')
        return x

    place(root, 0)
    style = "line,rect{stroke:#334}rect{fill:#fff}text{font:12px monospace;text-anchor:middle;fill:#112}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 6:.0f} {bottom + 6}">'
        f"<style>{style}</style>{''.join(shapes)}</svg>\n"
    )
