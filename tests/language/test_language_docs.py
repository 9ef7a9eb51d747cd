"""docs/language.md is the specification: its examples run, and it leaves nothing out."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from tocsin import Analyzer, Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.normalise import normalise
from tocsin.language.operands import FUNCTIONS
from tocsin.language.parse import parse
from tocsin.language.shape import MAX_DEPTH
from tocsin.model.condition import And, Atom, Condition, IsTruth, Not, Op, Or
from tocsin.model.limits import Limits
from tocsin.predicates.evaluate import holds
from tocsin.reference import evaluate

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (TRUE|FALSE|NULL) \|$", TEXT, re.M)
ANALYSED = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (TRUE|FALSE|NULL) \| `(.+?)` \|$", TEXT, re.M)
REFUSED = re.findall(r"^\| `(.+?)` \| ([^|`]+) \|$", TEXT[TEXT.index("## What is refused") :], re.M)
HISTORY = [{"price": 10, "author": "Smith"}, {"price": 30, "author": "Jones"}]
VALUES = {"TRUE": True, "FALSE": False, "NULL": None}


@pytest.mark.parametrize(("text", "event", "value"), EXAMPLES, ids=[f"{text} {event}" for text, event, _ in EXAMPLES])
def test_examples(text: str, event: str, value: str) -> None:
    condition, given = parse(text), json.loads(event)
    assert evaluate(condition, given, HISTORY) is VALUES[value]
    matched = any(all(holds(p, given, HISTORY) for p in conjunction) for conjunction in normalise(condition).leaves)
    assert matched == (value == "TRUE")


@pytest.mark.parametrize(("text", "event", "value", "analyzer"), ANALYSED)
def test_examples_with_analyzers(text: str, event: str, value: str, analyzer: str) -> None:
    declared = {"body": Analyzer(**json.loads(analyzer))}
    assert evaluate(parse(text, declared), json.loads(event)) is VALUES[value]
    matcher = Matcher(analyzers=declared)
    matcher.subscribe("it", text)
    assert len(matcher.match(json.loads(event))) == (value == "TRUE")


def test_every_option_of_an_analyzer_has_an_example() -> None:
    options = {one.name for one in fields(Analyzer)}
    assert {name for _, _, _, analyzer in ANALYSED for name in json.loads(analyzer)} == options
    assert all(f"| `{name}`: " in TEXT for name in options)


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(SubscriptionError, match=re.escape(message)):
        normalise(parse(text))


def nodes(condition: Condition) -> list[Condition]:
    found, waiting = [], [condition]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += getattr(node, "operands", ()) or ([node.operand] if isinstance(node, (Not, IsTruth)) else [])
    return found


def test_every_example_is_run() -> None:
    rows = [line for line in TEXT.splitlines() if re.match(r"\| `.*\| (TRUE|FALSE|NULL) \|$", line)]
    assert len(rows) == len(EXAMPLES) > 50
    assert len(REFUSED) > 10


def test_every_family_and_operator_has_an_example() -> None:
    found = [node for text, _, _ in EXAMPLES for node in nodes(parse(text))]
    assert {type(node) for node in found} == {*get_args(Atom), And, Or, Not, IsTruth}
    assert {node.op for node in found if hasattr(node, "op")} == set(Op)
    assert all(f"`{op.value}`" in TEXT for op in Op)
    assert all(any(f"{function}(" in text for text, _, _ in EXAMPLES) for function in FUNCTIONS)


def test_the_limits_are_those_of_the_code() -> None:
    assert f"nest {MAX_DEPTH} levels" in TEXT
    assert f"at most {Limits().predicates:,} predicates" in TEXT
