"""Short codes of a quantizer never contradict the codes of the domain."""

from dataclasses import replace
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.values import Kind
from tocsin.predicates.ranges import quantize
from tocsin.predicates.ranges.domain import Domain
from tocsin.predicates.ranges.quantize import LAST_SHORT, Quantizer
from tocsin.tuning import TUNING

NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1, 1), st.integers(-50, 50).map(float))
ODD = st.one_of(NUMBERS, st.none(), st.just(float("nan")), st.just(float("inf")), st.integers(-(10**400), 10**400))
DECIMALS = st.one_of(
    st.decimals(-60, 60, allow_nan=False, places=20),
    # Endless, or too long to be written out as an integer.
    st.sampled_from([Decimal("Infinity"), Decimal("-Infinity"), Decimal("1E+999999"), Decimal("-1E+999999")]),
)


@given(st.lists(NUMBERS, min_size=2, max_size=60), st.lists(st.one_of(ODD, DECIMALS), min_size=1))
def test_a_value_has_a_short_code_that_its_code_allows(constants: list[float], values: list[object]) -> None:
    distinct = np.unique(np.array(constants))
    domain = Domain(Kind.NUMBER, distinct)
    with patch.object(quantize, "TUNING", replace(TUNING, min_even_codes=1)):
        any_spread = Quantizer.of(domain)
    for found in filter(None, (any_spread, Quantizer.between(distinct, logarithmic=True))):
        check_codes(found, domain, values)


def check_codes(found: Quantizer, domain: Domain, values: list[object]) -> None:
    allowed = found.of_codes(domain)
    assert (np.diff(allowed.lowest.astype(int)) >= 0).all()
    assert (np.diff(allowed.highest.astype(int)) >= 0).all()
    for value, short in zip(values, found.codes_of_values(values), strict=True):
        code = domain.code(value)
        assert allowed.lowest[code + 1] <= short <= allowed.highest[code + 1]
        assert (short == 0) == (code < 0), "NULL has a short code of its own"


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), min_size=1))
def test_columns_have_the_short_codes_of_their_values(values: list[int | None]) -> None:
    cut = Quantizer(-100.0, 300.0)
    expected = cut.codes_of_values(list(values)).tolist()
    column = pa.array(values, pa.int64())
    assert cut.codes_of_values(column).tolist() == expected
    assert cut.codes_of_values(column.dictionary_encode()).tolist() == expected
    exact = [None if value is None else Decimal(value) for value in values]
    assert cut.codes_of_values(pa.array(exact, pa.decimal128(38, 3))).tolist() == expected


def test_similar_constants_have_the_same_quantizer() -> None:
    random = np.random.default_rng(5)
    quantizers = {Quantizer.of(Domain(Kind.NUMBER, np.unique(random.random(20_000) * 1.1 - 0.05))) for _ in range(5)}
    assert len(quantizers) == 1
    assert None not in quantizers
    quantizers = {Quantizer.of(Domain(Kind.NUMBER, np.unique(np.exp(random.normal(3, 2, 20_000))))) for _ in range(5)}
    assert len(quantizers) <= 2, "an end may fall on either side of where it is rounded"
    assert {found is not None and found.logarithmic for found in quantizers} == {True}


@pytest.mark.parametrize(
    "constants",
    [
        np.linspace(0, 1, TUNING.min_even_codes - 1),
        np.concatenate([np.linspace(0, 1, 10_000), np.linspace(0.3, 0.3 + 1e-9, 10_000)]),
        np.linspace(-1.7, 1.7, 50_000) * 1e308,
    ],
    ids=["too few", "a cluster", "no finite span"],
)
def test_other_constants_have_none(constants: np.ndarray) -> None:
    assert Quantizer.of(Domain(Kind.NUMBER, np.unique(constants))) is None


def test_a_value_outside_the_quantizer_has_an_end_of_it() -> None:
    assert Quantizer(0.0, 1.0).codes_of_values(pa.array([-1e300, 1e300, None])).tolist() == [1, LAST_SHORT, 0]


def test_a_decimal_is_never_written_out() -> None:
    """As an integer this one would need more memory than there is."""
    values = [Decimal(f"{digits}999999999999999999") for digits in ("-1E+", "1E+", "1E-")]
    assert Quantizer(0.0, 1.0).codes_of_values([*values, 10**400]).tolist() == [1, LAST_SHORT, 2, LAST_SHORT]
