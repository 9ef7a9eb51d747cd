"""Sigma rules to subscriptions, by pySigma's own parser, which applies modifiers and processing pipelines.

Sigma compares text without regard to case, and a condition of its own is TRUE or FALSE: NOT holds for an event without
the field. A number also matches the text that writes it, since log sources differ in that.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from sigma.collection import SigmaCollection
from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.correlations import SigmaCorrelationRule
from sigma.exceptions import SigmaError
from sigma.filters import SigmaFilter
from sigma.processing.pipeline import ProcessingPipeline
from sigma.rule import SigmaRule
from sigma.types import (
    CompareOperators,
    SigmaBool,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaCompareExpression,
    SigmaExists,
    SigmaExpansion,
    SigmaFieldReference,
    SigmaNull,
    SigmaNumber,
    SigmaRegularExpression,
    SigmaString,
    SigmaTimestampPart,
    SpecialChars,
    TimestampPart,
)

from tocsin.errors import OptionError, SubscriptionError
from tocsin.importers.imported import Imported, UntranslatableError
from tocsin.importers.sql import Wildcard, all_of, any_of, has_expression, in_networks, is_like, literal, name, not_true
from tocsin.model.subscription import Subscription

SCORES = {"informational": 1.0, "low": 2.0, "medium": 3.0, "high": 4.0, "critical": 5.0}
"""The score of a subscription by the level of its rule."""


def import_rules(
    paths: Sequence[Path],
    pipelines: Sequence[Path] = (),
    raw: str | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> Imported:
    """Translate the rules of files and folders; what has no equivalent is rejected with the reason, rule by rule.

    `pipelines` are processing pipelines of pySigma, as YAML files: they rename fields and add log sources. Keywords
    without a field are looked for in the attribute `raw`. `progress` is called with the number of rules so far.
    """
    pipeline = _pipeline(pipelines)
    imported = Imported()
    found = [(file, rule) for path in paths for file in _rule_files(path) for rule in _rules(file, imported)]
    # A filter may stand in another file than the rules that it narrows.
    filters = [rule for _, rule in found if isinstance(rule, SigmaFilter) and not rule.errors]
    used: set[int] = set()
    for file, rule in found:
        if rule in filters:
            continue
        progress(len(imported.subscriptions) + len(imported.rejected))
        try:
            _check(rule)
            used |= _apply(filters, rule)
            imported.subscriptions.append(_subscription(rule, _id(rule, file), pipeline, raw))
        except (UntranslatableError, SigmaError) as error:
            message = error.message if isinstance(error, UntranslatableError) else str(error)
            _reject(imported, message, file, rule)
    for file, rule in found:
        if rule in filters and id(rule) not in used:
            _reject(imported, "filter: it narrows no rule of these files", file, rule)
    return imported


def _rules(file: Path, imported: Imported) -> Sequence[Any]:
    """The rules of a file, correlations and filters among them; one that is not YAML is rejected as a whole."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        # A correlation may refer to rules of other files, and is not translated anyway.
        collection = SigmaCollection.from_yaml(
            text, collect_errors=True, collect_filters=True, resolve_references=False
        )
    except (yaml.YAMLError, SigmaError, UnicodeDecodeError, AttributeError, TypeError) as error:
        message = f"not a file of rules: {' '.join(str(error).split())}"
        imported.rejected.append(SubscriptionError(message, "Write it as YAML", subscription=file.name))
        return []
    rules = [*collection.rules, *collection.filters]
    of_rules = [id(error) for rule in rules for error in rule.errors]
    for other in collection.errors:
        if id(other) not in of_rules:
            imported.rejected.append(SubscriptionError(str(other), "Check the file", subscription=file.name))
    return rules


def _id(rule: Any, file: Path) -> str:
    return str(getattr(rule, "id", None) or rule.title or file.name)


def _reject(imported: Imported, message: str, file: Path, rule: Any) -> None:
    hint = f"{file.name}: {rule.title}"
    imported.rejected.append(SubscriptionError(message, hint, subscription=_id(rule, file)))


def _check(rule: Any) -> None:
    if isinstance(rule, SigmaCorrelationRule):
        raise UntranslatableError("correlation", "a rule over several events is not a condition")
    if rule.errors:
        raise UntranslatableError(
            "filter" if isinstance(rule, SigmaFilter) else "rule", "; ".join(map(str, rule.errors))
        )


def _apply(filters: Sequence[SigmaFilter], rule: SigmaRule) -> set[int]:
    """Narrow a rule by the filters that are for it; return which these are."""
    applied = set()
    for one in filters:
        before = list(rule.detection.condition)
        one.apply_on_rule(rule)
        if rule.detection.condition != before:
            applied.add(id(one))
    return applied


def _pipeline(paths: Sequence[Path]) -> ProcessingPipeline | None:
    found: ProcessingPipeline | None = None
    for path in paths:
        try:
            one = ProcessingPipeline.from_yaml(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError, SigmaError) as error:
            raise OptionError(f"cannot read {path}: {error}", "Give a processing pipeline of pySigma") from error
        found = one if found is None else found + one
    return found


def _rule_files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise OptionError(f"there is no file {path}", "Give Sigma rules as .yml files or a folder of them")
    if path.is_dir():
        yield from (file for file in sorted(path.rglob("*")) if file.suffix in (".yml", ".yaml"))
    else:
        yield path


def _subscription(rule: SigmaRule, id: str, pipeline: ProcessingPipeline | None, raw: str | None) -> Subscription:
    if pipeline is not None:
        pipeline.apply(rule)
    where = any_of([_condition(condition.parsed, raw) for condition in rule.detection.parsed_condition])
    return Subscription(id, where, SCORES.get(str(rule.level).lower(), 1.0) if rule.level else 1.0, {}, _tags(rule))


def _tags(rule: SigmaRule) -> dict[str, str]:
    """What describes a rule: its title, level and status, its log source, and its own tags as one list."""
    source = rule.logsource
    found = {
        "title": rule.title,
        "level": rule.level and str(rule.level).lower(),
        "status": rule.status and str(rule.status).lower(),
        "product": source.product,
        "category": source.category,
        "service": source.service,
        "tags": ",".join(map(str, rule.tags)),
    }
    return {key: str(value) for key, value in found.items() if value}


def _condition(item: Any, raw: str | None) -> str:
    if isinstance(item, ConditionAND):
        return all_of([_condition(argument, raw) for argument in item.args])
    if isinstance(item, ConditionOR):
        return any_of([_condition(argument, raw) for argument in item.args])
    if isinstance(item, ConditionNOT):
        return not_true(_condition(item.args[0], raw))
    if isinstance(item, ConditionFieldEqualsValueExpression):
        return _field(item.field, item.value)
    if isinstance(item, ConditionValueExpression):
        if raw is None:
            raise UntranslatableError("keywords", "words without a field: say with --raw which attribute they are in")
        return _keyword(raw, item.value)
    raise UntranslatableError("condition", f"{type(item).__name__} is not understood")


def _field(field: str, value: Any) -> str:
    for kind, translate in _VALUES:
        if isinstance(value, kind):
            return translate(field, value)
    raise UntranslatableError(field, f"{type(value).__name__} is not understood")


def _keyword(raw: str, value: Any) -> str:
    if isinstance(value, SigmaNumber):
        value = SigmaString(str(value.number))
    if not isinstance(value, SigmaString):
        raise UntranslatableError("keywords", f"{type(value).__name__} without a field")
    pieces = _pieces(value)
    return is_like(raw, [Wildcard.ANY, *pieces, Wildcard.ANY], any_case=not isinstance(value, SigmaCasedString))


def _text(field: str, value: SigmaString) -> str:
    pieces = _pieces(value)
    if not pieces:
        return f"{name(field)} = ''"
    if isinstance(value, SigmaCasedString) and not any(isinstance(piece, Wildcard) for piece in pieces):
        return f"{name(field)} = {literal(''.join(map(str, pieces)))}"
    return is_like(field, pieces, any_case=not isinstance(value, SigmaCasedString))


def _pieces(value: SigmaString) -> list[str | Wildcard]:
    signs = {SpecialChars.WILDCARD_MULTI: Wildcard.ANY, SpecialChars.WILDCARD_SINGLE: Wildcard.ONE}
    pieces: list[str | Wildcard] = []
    for part in value.s:
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, SpecialChars):
            pieces.append(signs[part])
        else:
            raise UntranslatableError("placeholder", f"{part} has no value: expand it with a pipeline")
    return pieces


def _number(field: str, value: SigmaNumber) -> str:
    if isinstance(value, SigmaTimestampPart):
        return f"{_part(field, value)} = {literal(value.number)}"
    return any_of([f"{name(field)} = {literal(value.number)}", f"{name(field)} = {literal(str(value.number))}"])


def _compared(field: str, value: SigmaCompareExpression) -> str:
    compared = _part(field, value.number) if isinstance(value.number, SigmaTimestampPart) else name(field)
    return f"{compared} {_OPERATORS[value.op]} {literal(value.number.number)}"


def _part(field: str, value: SigmaTimestampPart) -> str:
    """A part of a time, which may be a text."""
    if value.timestamp_part is TimestampPart.WEEK:
        raise UntranslatableError(field, "the week of a time: Sigma does not say how weeks are counted")
    return f"extract({value.timestamp_part.name.lower()} FROM CAST({name(field)} AS TIMESTAMP))"


_OPERATORS = {
    CompareOperators.LT: "<",
    CompareOperators.LTE: "<=",
    CompareOperators.GT: ">",
    CompareOperators.GTE: ">=",
    CompareOperators.NEQ: "<>",
}


def _network(field: str, value: SigmaCIDRExpression) -> str:
    return in_networks(field, [str(value.network)])


def _other_field(field: str, value: SigmaFieldReference) -> str:
    one, other = f"lower({name(field)})", f"lower({name(value.field)})"
    if value.starts_with and value.ends_with:
        return f"contains({one}, {other})"
    if value.starts_with or value.ends_with:
        return f"{'starts' if value.starts_with else 'ends'}_with({one}, {other})"
    # Numbers as they are, and texts in any case.
    return any_of([f"{name(field)} = {name(value.field)}", f"{one} = {other}"])


def _expanded(field: str, value: SigmaExpansion) -> str:
    return any_of([_field(field, one) for one in value.values])


def _exists(field: str, value: SigmaExists) -> str:
    return f"{name(field)} IS {'NOT ' if value else ''}NULL"


def _null(field: str, _: SigmaNull) -> str:
    return f"{name(field)} IS NULL"


def _boolean(field: str, value: SigmaBool) -> str:
    word = "true" if value else "false"
    return any_of([f"{name(field)} = {literal(bool(value))}", is_like(field, [word], any_case=True)])


def _expression(field: str, value: SigmaRegularExpression) -> str:
    names = {value.sigma_to_re_flag[flag] for flag in value.flags}
    flags = "".join(sorted(names & {"i", "s"}))
    return has_expression(field, ("(?m)" if "m" in names else "") + str(value.regexp), flags)


_VALUES: tuple[tuple[type, Callable[[str, Any], str]], ...] = (
    (SigmaString, _text),
    (SigmaNumber, _number),
    (SigmaBool, _boolean),
    (SigmaNull, _null),
    (SigmaExists, _exists),
    (SigmaExpansion, _expanded),
    (SigmaCompareExpression, _compared),
    (SigmaCIDRExpression, _network),
    (SigmaFieldReference, _other_field),
    (SigmaRegularExpression, _expression),
)
"""How a value of each type becomes a condition."""
