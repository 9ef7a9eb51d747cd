"""Path expressions evaluated by lxml itself: the definition of what holds and of which step fails."""

import os
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lxml import etree

from tocsin.predicates.xpath.document import read_document
from tocsin.predicates.xpath.expression import Filter, Step, Steps, XPath


def evaluate(xpath: XPath, document: str | bytes) -> bool:
    """Tell whether the expression selects anything in the document. Cost: parsing and one evaluation by lxml.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> evaluate(parse_xpath("a/b[@x > 3]"), '<a><b x="4"/></a>')
    True
    """
    root = read_document(document)
    if xpath.rest is not None:
        return xpath.rest.holds(root)
    return any(_selects(path, root) for path in xpath.paths)


def failing_step(xpath: XPath, document: str | bytes) -> str:
    """Name the first step that selects nothing, or the first filter of it that fails; empty if the expression holds.

    Of several alternatives it is that of the first one.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> failing_step(parse_xpath("/a/b[@x > 3]/c"), '<a><b x="1"/></a>')
    'step 2, /b[@x > 3]: the filter [@x > 3] fails'
    >>> failing_step(parse_xpath("/a/d/c"), '<a><b x="1"/></a>')
    'step 2, /d: no such element'
    >>> failing_step(parse_xpath("/a/b[2]"), '<a><b/></a>')
    '/a/b[2]: it selects nothing'
    """
    if evaluate(xpath, document):
        return ""
    root = read_document(document)
    for path in (*xpath.paths, *xpath.guards):
        found = _failing(path, root)
        if found:
            return found
    return f"{xpath}: it selects nothing"


def _failing(steps: Steps, root: etree._Element) -> str:
    for number, step in enumerate(steps, start=1):
        if _selects(steps[:number], root):
            continue
        before = steps[: number - 1]
        if not _selects((*before, replace(step, filters=())), root):
            return f"step {number}, {step}: no such element"
        for count, condition in enumerate(step.filters, start=1):
            if not _selects((*before, replace(step, filters=step.filters[:count])), root):
                return f"step {number}, {step}: the filter {condition} fails"
    return ""


def _selects(steps: Steps, root: etree._Element) -> bool:
    evaluator, constants = _compiled(steps)
    return bool(evaluator(root.getroottree(), **constants))


@lru_cache(maxsize=4096)
def _compiled(steps: Steps) -> tuple[etree.XPath, dict[str, Any]]:
    """Return a path for lxml; constants are variables, so that none is rounded or quoted on the way."""
    writer = _Writer()
    text = writer.steps(steps)
    prefixes = {prefix: uri for uri, prefix in writer.prefixes.items()}
    return etree.XPath(f"boolean({text})", namespaces=prefixes), writer.constants


# A path of lxml is locked while it is evaluated. What another thread was evaluating would stay locked in a child.
os.register_at_fork(after_in_child=_compiled.cache_clear)


class _Writer:
    def __init__(self) -> None:
        self.prefixes: dict[str, str] = {}
        self.constants: dict[str, Any] = {}

    def steps(self, steps: tuple[Step, ...]) -> str:
        return "".join(map(self.step, steps))

    def step(self, step: Step) -> str:
        filters = "".join(f"[{self.condition(condition)}]" for condition in step.filters)
        return step.place + self.name(step.tag) + filters

    def condition(self, condition: Filter) -> str:
        if condition.kind == "path":
            return "." + self.steps(condition.path)
        subject = {"attribute": f"@{self.name(condition.name)}", "text": "text()", "string": "."}[condition.kind]
        if not condition.operator:
            return subject
        variable = f"v{len(self.constants)}"
        self.constants[variable] = condition.value
        return f"{subject} {condition.operator} ${variable}"

    def name(self, name: str) -> str:
        if not name.startswith("{"):
            return name
        uri, _, local = name[1:].rpartition("}")
        if uri.endswith("XML/1998/namespace"):
            return f"xml:{local}"
        return f"{self.prefixes.setdefault(uri, f'n{len(self.prefixes)}')}:{local}"
