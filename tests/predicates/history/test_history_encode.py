"""Every value against every value: intervals over keys say what the definition of comparison says."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.model.condition import Op
from tocsin.model.values import compare_to_constant, compare_values, is_null, kind_of
from tocsin.predicates.history.dictionary import OrderedDictionary
from tocsin.predicates.history.encode import (
    IS_NOT_NULL,
    IS_NULL,
    Encoder,
    Lane,
    comparable,
    float_key,
    float_of,
    not_comparable,
)
from tocsin.predicates.history.kernels import Bounds

VALUES: list[object] = [
    *(0, -0.0, 1, 1.0, -1, 2**53 + 1, float(2**53), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, float(2**63)),
    *(math.inf, -math.inf, 19.99, 0.5, 5e-324, -5e-324, -2.5, 10**400, 1e308),
    *(Decimal("19.99"), Decimal("0.5"), Decimal("1e400"), Decimal("-19.99"), Decimal("1.00")),
    *("", "a", "b", "é", "zz", True, False, None, math.nan, [1], b"x"),
    *(dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(1960, 5, 4, 3, 2, 1, 7)),
    dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
]
CONSTANTS = [value for value in VALUES if kind_of(value) is not None]


def accepts(bounds: Bounds, encoder: Encoder, old: object) -> bool:
    lane, payload = encoder.encode(old)
    labels = {Lane.STRING: encoder.strings.labels, Lane.EXACT: encoder.exacts.labels}
    key = int(labels[lane][payload]) if lane in labels else payload
    return bool((bounds.low[lane] <= key <= bounds.high[lane]) != bounds.outside[lane])


@pytest.mark.parametrize("op", Op)
def test_every_old_value_against_every_new_value(op: Op) -> None:
    encoder = Encoder()
    for value in VALUES:
        encoder.encode(value)
    for new in VALUES:
        bounds = encoder.condition(op, new)
        for old in VALUES:
            sign = compare_values(old, new)
            assert accepts(bounds, encoder, old) == (sign is not None and op.holds(sign)), (old, op, new)


@pytest.mark.parametrize("op", Op)
def test_every_old_value_against_every_constant(op: Op) -> None:
    encoder = Encoder()
    for constant in CONSTANTS:
        encoder.intern(comparable(constant))
        bounds = encoder.condition(op, constant)
        for old in VALUES:
            sign = compare_to_constant(old, constant)  # type: ignore[arg-type]  # filtered by kind
            assert accepts(bounds, encoder, old) == (sign is not None and op.holds(sign)), (old, op, constant)


@pytest.mark.parametrize("value", VALUES)
def test_null_and_incomparable(value: object) -> None:
    encoder = Encoder()
    assert accepts(IS_NULL, encoder, value) == is_null(value)
    assert accepts(IS_NOT_NULL, encoder, value) != is_null(value)
    for other in VALUES:
        null = compare_values(value, other) is None
        assert accepts(not_comparable(kind_of(other)), encoder, value) == null


@pytest.mark.parametrize("value", VALUES)
def test_decoding_gives_an_equal_value(value: object) -> None:
    encoder = Encoder()
    decoded = encoder.decode(*encoder.encode(value))
    if kind_of(value) is None:
        assert decoded is (None if is_null(value) else ...)
    else:
        assert compare_values(decoded, value) == 0


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_float_keys_are_in_the_order_of_floats(a: float, b: float) -> None:
    assert (float_key(a) < float_key(b)) == (a < b)
    assert float_of(float_key(a)) == a


@settings(max_examples=50)
@given(st.lists(st.lists(st.text(max_size=3), max_size=30), max_size=5))
def test_dictionary_keeps_codes_and_order(batches: list[list[str]]) -> None:
    dictionary = OrderedDictionary()
    seen: dict[str, int] = {}
    for number, batch in enumerate(batches):
        codes = dictionary.intern_all(batch) if number % 2 else [dictionary.intern(value) for value in batch]
        dictionary.check()
        for value, code in zip(batch, codes, strict=True):
            assert seen.setdefault(value, int(code)) == code
    assert len(dictionary) == len(seen)
    ordered = sorted(seen)
    for probe in [*ordered, "", "m", "\U0010ffff"]:
        below = [value for value in ordered if value <= probe]
        label, equal = dictionary.floor(probe)
        assert equal == (probe in seen)
        assert label == (int(dictionary.labels[seen[below[-1]]]) if below else None)


def test_dictionary_labels_anew_when_a_gap_is_used_up() -> None:
    dictionary = OrderedDictionary()
    ends = [Fraction(0), Fraction(1)]
    dictionary.intern_all(ends)
    for number in range(100):
        ends[number % 2] = (ends[0] + ends[1]) / 2
        dictionary.intern(ends[number % 2])
        dictionary.check()
    assert dictionary.relabellings > 0


@pytest.mark.parametrize("step", [1, -1], ids=["rising", "falling"])
def test_values_in_order_within_a_gap_are_labelled_anew_once(step: int) -> None:
    dictionary = OrderedDictionary()
    dictionary.intern_all([-10_000, 10_000])
    for number in range(-3000 * step, 3000 * step, step):
        dictionary.intern(number)
    dictionary.check()
    assert dictionary.relabellings <= 1, "once, to spread the first two"


def test_dictionary_sorts_a_large_batch_once() -> None:
    dictionary = OrderedDictionary()
    dictionary.intern_all(str(number) for number in range(5000))
    assert dictionary.relabellings == 1
    for number in range(5000, 8000):
        dictionary.intern(str(number))
    dictionary.check()
