"""A condition as a tree with the truth of every part for an event, as the page shows it.

The truth is that of the executable specification, in three-valued logic, so that NULL is told from FALSE. Tests on the
history are judged by the matcher, which has it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from tocsin.index.options import Options
from tocsin.language.to_sql import to_sql
from tocsin.model.analyzer import analyzed_source
from tocsin.model.condition import And, Condition, HistoryTest, IsTruth, Not, Or
from tocsin.model.lookup import lookup
from tocsin.predicates.evaluate import all_of, any_of
from tocsin.reference import evaluate

_QUOTED = re.compile(r"""'(?:[^']|'')*'|"([A-Za-z_][A-Za-z0-9_]*)\"""")
Judge = Callable[[HistoryTest], bool | None]


def tree(where: str, event: Mapping[str, Any], options: Options, judge: Judge) -> dict[str, Any]:
    """Return the tree of a condition: `kind`, `truth`, and `parts`, or the `text` and `values` of a predicate.

    >>> found = tree("price < 10 OR author = 'Smith'", {"price": 12}, Options(), lambda _: None)
    >>> found["truth"], [(part["text"], part["truth"], part["values"]) for part in found["parts"]]
    ('NULL', [('price < 10', 'FALSE', {'price': 12}), ("author = 'Smith'", 'NULL', {'author': None})])
    """
    return _node(options.parse(where), event, options.namespaces, judge)[1]


def _node(
    node: Condition, event: Mapping[str, Any], namespaces: Mapping[str, str], judge: Judge
) -> tuple[bool | None, dict[str, Any]]:
    if isinstance(node, (And, Or)):
        parts = [_node(operand, event, namespaces, judge) for operand in node.operands]
        truths = [truth for truth, _ in parts]
        truth = all_of(truths) if isinstance(node, And) else any_of(truths)
        return truth, _shown(type(node).__name__.upper(), truth) | {"parts": [part for _, part in parts]}
    if isinstance(node, (Not, IsTruth)):
        inner, part = _node(node.operand, event, namespaces, judge)
        if isinstance(node, Not):
            truth, kind = None if inner is None else not inner, "NOT"
        else:
            truth = (inner is node.value) != node.negated
            kind = f"IS {'NOT ' if node.negated else ''}{_name(node.value)}"
        return truth, _shown(kind, truth) | {"parts": [part]}
    truth = judge(node) if isinstance(node, HistoryTest) else evaluate(node, event, (), namespaces)
    values = {attribute: lookup(event, attribute) for attribute in map(analyzed_source, _attributes(node))}
    return truth, _shown("predicate", truth) | {"text": _plain(to_sql(node, as_written=True)), "values": values}


def _plain(text: str) -> str:
    """Return SQL without the quotes of names that need none; texts stay as they are."""
    return _QUOTED.sub(lambda found: found[1] or found[0], text)


def _shown(kind: str, truth: bool | None) -> dict[str, Any]:
    return {"kind": kind, "truth": _name(truth)}


def _name(truth: bool | None) -> str:
    return "NULL" if truth is None else str(truth).upper()


def _attributes(node: Condition) -> Iterator[str]:
    for field in fields(node):
        if field.name in ("attribute", "left", "right"):
            attribute: str | None = getattr(node, field.name)
            if attribute is not None:
                yield attribute
