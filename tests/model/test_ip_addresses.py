"""ip_in equals Python's ipaddress, where IPv4 addresses are those of IPv6 that they are mapped to."""

import json
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.grammar import read_condition
from tocsin.language.parse import parse
from tocsin.language.shape import split
from tocsin.model.casts import UndefinedError
from tocsin.model.ip_addresses import address_order, addresses_in_order, network_bounds
from tocsin.reference import evaluate

NUMBERS = st.sampled_from([0, 1, 0x0A000001, 0x0AFFFFFF, 0x0B000000, 0xC0A80001, 0xFFFFFFFF]) | st.integers(
    0, 2**32 - 1
)
WIDE = st.sampled_from([0, 1, 2**128 - 1, 0xFFFF << 32, (0xFFFF << 32) + 0x0A000001, 0x20010DB8 << 96])
V4 = st.builds(lambda number: str(IPv4Address(number)), NUMBERS)
V6 = st.builds(lambda number: str(IPv6Address(number)), WIDE | st.integers(0, 2**128 - 1))
WRITTEN = ["::FFFF:10.0.0.1", "2001:0DB8:0:0:0:0:0:1", "fe80::1%eth0", "::"]
NONE = ["", "x", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.1 ", "1.2.3.4.5", "\uff11.2.3.4", ":::", "10.0.0.1\n"]
TEXTS = V4 | V6 | st.sampled_from(WRITTEN) | st.sampled_from(NONE)
NETWORKS = st.one_of(
    st.builds("{}/{}".format, V4, st.integers(0, 32)), st.builds("{}/{}".format, V6, st.integers(0, 128)), V4, V6
)


def mapped(text: str) -> int:
    """The integer of an address of IPv6, or of the one that an address of IPv4 is mapped to."""
    address = ip_address(text)
    return int(IPv6Address(f"::ffff:{address}")) if address.version == 4 else int(address)


def judge(text: object, network: str) -> bool | None:
    """Judge by ipaddress."""
    try:
        address = ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if address is None:
        return None
    wide = ip_network(network, strict=False)
    if wide.version == 4:
        wide = IPv6Network((f"::ffff:{wide.network_address}", wide.prefixlen + 96))
    return IPv6Address(mapped(str(address))) in wide


@given(st.lists(TEXTS, max_size=6))
@example(["10.0.0.1", None, "::1"])
def test_digits_are_in_the_order_of_addresses(texts: list[str | None]) -> None:
    def digits(text: str | None) -> str | None:
        try:
            return None if text is None else f"{mapped(text):032x}"
        except ValueError:
            return None

    wanted = [digits(text) for text in texts]
    found, is_none = addresses_in_order(pa.array(texts, pa.large_string()))
    assert found.to_pylist() == wanted
    assert is_none.tolist() == [text is not None and each is None for text, each in zip(texts, wanted, strict=True)]
    for text, each in zip(texts, wanted, strict=True):
        if each is not None and text is not None:
            assert address_order(text) == each
        elif text is not None:
            with pytest.raises(UndefinedError):
                address_order(text)


@settings(max_examples=30, deadline=None)
@given(st.lists(NETWORKS, min_size=1, max_size=3), st.lists(TEXTS | st.none() | st.just(5), min_size=1, max_size=12))
@example(["10.1.2.3/8", "::/0"], ["10.0.0.1", "::ffff:10.0.0.1", "::1", None, 5, "x", "9.255.255.255", "11.0.0.0"])
def test_equals_ipaddress(networks: list[str], addresses: list[object]) -> None:
    texts = [f"ip_in(a, '{network}')" for network in networks]
    together = "ip_in(a, {})".format(", ".join(f"'{network}'" for network in networks))
    wheres = [*texts, together, f"NOT {texts[0]}", f"({texts[0]}) IS NULL"]
    truth = [[judge(address, network) for network in networks] for address in addresses]
    wanted = [
        [
            *(each is True for each in row),
            True in row,
            row[0] is False,
            row[0] is None,
        ]
        for row in truth
    ]
    for where, column in zip(texts, zip(*truth, strict=True), strict=True):
        assert [evaluate(parse(where), {"a": address}) for address in addresses] == list(column)
    with Matcher() as matcher:
        ids = [str(number) for number in range(len(wheres))]
        assert not matcher.subscribe_many(pa.table({"id": ids, "where": wheres}))
        found = matcher.match_batch([{"a": address} for address in addresses])
        pairs = set(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
        assert pairs == {(r, ids[c]) for r, row in enumerate(wanted) for c, holds in enumerate(row) if holds}
        for address, row in zip(addresses, wanted, strict=True):
            assert sorted(matcher.match({"a": address}).ids) == sorted(ids[c] for c in np.flatnonzero(row))
            assert [matcher.explain({"a": address}, id).matches for id in ids] == row


@given(NETWORKS)
def test_bounds_of_a_network(network: str) -> None:
    first, last = network_bounds(network)
    wide = ip_network(network, strict=False)
    assert (int(last, 16) - int(first, 16)) + 1 == wide.num_addresses
    assert judge(str(wide.network_address), network)
    assert judge(str(wide.broadcast_address), network)


def test_many_networks_and_changes(tmp_path: Path) -> None:
    wheres = [f"ip_in(user.ip, '10.{n}.0.0/16') AND n < {n}" for n in range(200)]
    with Matcher() as matcher:
        matcher.subscribe_many(pa.table({"id": [str(n) for n in range(200)], "where": wheres}))
        assert matcher.match({"user": {"ip": "10.7.1.2"}, "n": 6}).ids == ["7"]
        matcher.subscribe("more", "ip_in(user.ip, ['10.7.0.0/24', '10.7.1.0/24'])")
        matcher.unsubscribe("7")
        assert matcher.match({"user": {"ip": "10.7.1.2"}, "n": 6}).ids == ["more"]
        matcher.save(tmp_path / "index")
    with Matcher.open(tmp_path / "index", mode="read") as reader:
        assert reader.match({"user": {"ip": "::ffff:a07:102"}, "n": 6}).ids == ["more"]


def test_a_text_that_is_no_address_is_counted() -> None:
    with Matcher() as matcher:
        matcher.subscribe("a", "ip_in(ip, '10.0.0.0/8')")
        for events in ([{"ip": "x"}], [{"ip": "x"}] * 20):
            found = matcher.match_batch(events)
            [(reason, times)] = json.loads(found.schema.metadata[b"tocsin"])["errors"].items()
            assert "no IP address" in reason
            assert times == len(events)


def test_both_parsers_read_it() -> None:
    text = "ip_in(a, '10.0.0.0/8', '::1') AND b = 1"
    assert read_condition(split(text), lambda _number, _reading: "") is not None
    assert read_condition(split("ip_in(a, ['10.0.0.0/8'])"), lambda _number, _reading: "") is None


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("b = 1 AND ip_in(a, '10.0.0.0/33')", "'10.0.0.0/33' is not a network", 19),
        ("ip_in(a, '10.0.0')", "is not a network", 9),
        ("ip_in(a)", "takes an address and networks", 0),
        ("ip_in(a, b)", "must be a string", 9),
        ("ip_in('10.0.0.1', '10.0.0.0/8')", "needs an attribute", 6),
    ],
)
def test_errors_have_a_position(text: str, message: str, position: int) -> None:
    with pytest.raises(SubscriptionError, match=message) as caught:
        parse(text)
    assert caught.value.position == position
