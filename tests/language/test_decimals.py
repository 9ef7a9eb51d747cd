"""Decimals of any length stay exact, whatever the decimal context of the process says."""

from decimal import Context, Decimal, getcontext, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.condition import Comparison, Op
from tocsin.reference import evaluate

DIGITS = st.text(alphabet="0123456789", min_size=1, max_size=60)
SIGNS = ["-{}", "- {}", "-({})", "(-({}))", "- (- {})", "-(- (- {}))"]
# Rounds to one digit and raises for all that can be raised.
NARROW = Context(prec=1, Emax=1, Emin=-1, traps=list(getcontext().traps))
CARELESS = Context(prec=1, traps=[])


def negated(sign: str) -> bool:
    return sign.count("-") % 2 == 1


@given(whole=DIGITS, fraction=DIGITS, sign=st.sampled_from(SIGNS))
def test_a_sign_rounds_nothing(whole: str, fraction: str, sign: str) -> None:
    digits = f"{whole}.{fraction}"
    condition = parse(f"x = {sign.format(digits)}")
    # Integers and fractions know no context: they are the judge.
    numerator = int(whole + fraction) * (-1 if negated(sign) else 1)
    assert isinstance(condition, Comparison)
    assert isinstance(condition.constant, Decimal)
    assert Fraction(condition.constant) == Fraction(numerator, 10 ** len(fraction))


@pytest.mark.parametrize("context", [NARROW, CARELESS], ids=["narrow", "careless"])
@pytest.mark.parametrize("sign", SIGNS)
def test_values_of_forty_digits_are_told_apart(context: Context, sign: str) -> None:
    digits = "0.1234567890123456789012345678901234567890"
    texts = [
        f"x = {sign.format(digits)}",
        f"x <= {sign.format(digits)} AND NOT (x < {sign.format(digits)})",
        f"x IN ({sign.format(digits)})",
        f"array_contains(l, {sign.format(digits)})",
        f"EXISTS (SELECT 1 FROM history h WHERE h.x = {sign.format(digits)})",
        f"x = ANY (SELECT h.x FROM history h WHERE h.x <= {sign.format(digits)} AND h.x >= {sign.format(digits)})",
    ]
    sought = Decimal(("-" if negated(sign) else "") + digits)
    near = Decimal(("-" if negated(sign) else "") + digits[:-1] + "1")
    with localcontext(context):
        matcher = Matcher()
        for number, text in enumerate(texts):
            matcher.subscribe(str(number), text)
        for value in (near, sought):
            published = set(matcher.publish({"x": value, "l": [value]}).ids)
            again = set(matcher.match({"x": value, "l": [value]}).ids)
            is_sought = value is sought
            assert published == ({"0", "1", "2", "3"} if is_sought else set())
            assert again == (set(map(str, range(6))) if is_sought else set())


@given(
    text=st.sampled_from(["x < 0.5", "x = 19.99", "x >= -123456789.125", "x = 1e-1"]),
    value=st.decimals(),
    at=st.floats(),
)
def test_the_context_changes_no_answer(text: str, value: Decimal, at: float) -> None:
    condition = parse(text)
    expected = [evaluate(condition, {"x": held}) for held in (value, at)]
    with localcontext(NARROW):
        assert parse(text) == condition
        assert normalise(parse(text)) == normalise(condition)
        assert [evaluate(condition, {"x": held}) for held in (value, at)] == expected


def test_a_number_that_is_none_is_refused_in_every_context() -> None:
    for context in (getcontext(), NARROW, CARELESS):
        with localcontext(context), pytest.raises(SubscriptionError, match="is not a number"):
            parse("x = 1.2.3")


def test_a_sign_keeps_the_operator() -> None:
    assert parse("x < - 2.5") == Comparison("x", Op.LT, Decimal("-2.5"))
