"""100,000 networks of IP addresses and as many addresses, against a table of prefixes, NumPy and Python's ipaddress.

Networks have prefixes as routing tables and block lists have them, most of them 16 to 32 bits long, a tenth of them
IPv6. Half of the addresses lie in some network. The table of prefixes is what a careful programmer writes: a dictionary
from prefix to subscriptions for each length, asked once for each length that occurs. NumPy compares an address with the
bounds of all networks. ipaddress asks network by network; some addresses and networks are timed and the sum scaled.
All seconds are processor time.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from random import Random

import numpy as np
import pyarrow as pa

from tocsin.bench.runner import Report, Result, processor_timed
from tocsin.matcher import Matcher
from tocsin.model.ip_addresses import address_order, network_bounds

SCALED_ADDRESSES, SCALED_NETWORKS, NUMPY_ADDRESSES = 20, 2_000, 200
WIDE_SHARE = 0.1


def make_networks(random: Random, count: int) -> list[str]:
    """Distinct networks.

    >>> made = make_networks(Random(1), 50)
    >>> len({ip_network(one) for one in made})
    50
    """
    made: dict[str, None] = {}
    while len(made) < count:
        if random.random() < WIDE_SHARE:
            address: IPv4Address | IPv6Address = IPv6Address(
                (0x2001 << 112) + (random.getrandbits(20) << 92) + random.getrandbits(64)
            )
            bits = random.choice([32, 36, 48, 56, 64, 128])
        else:
            address = IPv4Address(random.getrandbits(32))
            bits = random.choice([12, 16, 16, 20, 22, 24, 24, 24, 24, 28, 32])
        made[str(ip_network(f"{address}/{bits}", strict=False))] = None
    return list(made)


def make_addresses(random: Random, networks: list[str], count: int) -> list[str]:
    """Addresses, half of them from some network."""
    made = []
    for _ in range(count):
        if random.random() < 0.5:
            network = ip_network(random.choice(networks))
            made.append(str(network.network_address + random.randrange(min(network.num_addresses, 2**32))))
        else:
            made.append(str(IPv4Address(random.getrandbits(32))))
    return made


def _by_prefixes(networks: list[str], addresses: list[str]) -> int:
    """Count the matches with a dictionary for each length of prefix; mapped addresses are not among these."""
    tables: dict[tuple[int, int], dict[int, list[int]]] = {}
    for number, text in enumerate(networks):
        network = ip_network(text)
        shift = network.max_prefixlen - network.prefixlen
        table = tables.setdefault((network.version, shift), {})
        table.setdefault(int(network.network_address) >> shift, []).append(number)
    found: list[int] = []
    for text in addresses:
        address = ip_address(text)
        value, version = int(address), address.version
        for (of_version, shift), table in tables.items():
            if version == of_version:
                found += table.get(value >> shift, ())
    return len(found)


def _by_numpy(networks: list[str], addresses: list[str]) -> int:
    bounds = np.array([network_bounds(text) for text in networks], "S32")
    first, last = bounds[:, 0].copy(), bounds[:, 1].copy()
    keys = np.array([address_order(text) for text in addresses], "S32")
    return sum(int(np.count_nonzero((first <= key) & (key <= last))) for key in keys)


def _by_ipaddress(networks: list[str], addresses: list[str]) -> int:
    parsed = [ip_network(text) for text in networks]
    return sum(sum(address in network for network in parsed) for address in map(ip_address, addresses))


def run(*, quick: bool = False, seed: int = 1, repeats: int = 3) -> Report:
    """Addresses a second of a matcher and of its rivals."""
    random = Random(seed)
    count = 5_000 if quick else 100_000
    networks = make_networks(random, count)
    addresses = make_addresses(random, networks, count)
    report = Report("ip", {"networks": count, "addresses": count, "seed": seed})
    wheres = [f"ip_in(source, '{network}')" for network in networks]
    table = pa.table({"source": addresses})
    with Matcher() as few:
        few.subscribe_many(pa.table({"id": [str(n) for n in range(500)], "where": wheres[:500]}))
        few.match_batch(table.slice(0, 500))

    matcher = Matcher()
    subscriptions = pa.table({"id": [str(n) for n in range(count)], "where": wheres})
    build_s, rejected = processor_timed(
        lambda: (matcher.subscribe_many(subscriptions), matcher.match_batch(table[:2]))[0]
    )
    for bad in rejected:
        report.disagreements.append(f"a network was refused: {bad}")
    runs = [processor_timed(lambda: matcher.match_batch(table)) for _ in range(repeats)]
    ours, found = min(seconds for seconds, _ in runs), runs[0][1]
    report.results.append(Result("tocsin", build_s=build_s, events_per_s=count / ours, matches=found.num_rows))

    theirs, matches = processor_timed(lambda: _by_prefixes(networks, addresses))
    report.results.append(Result("a table of prefixes, with its build", events_per_s=count / theirs, matches=matches))
    report.expect_equal_matches()
    numpy_s, _ = processor_timed(lambda: _by_numpy(networks, addresses[:NUMPY_ADDRESSES]))
    report.results.append(Result("NumPy, all bounds", events_per_s=NUMPY_ADDRESSES / numpy_s))
    slow_s, _ = processor_timed(lambda: _by_ipaddress(networks[:SCALED_NETWORKS], addresses[:SCALED_ADDRESSES]))
    slow_s *= count / min(SCALED_NETWORKS, count)
    report.results.append(Result("ipaddress, one by one (scaled)", events_per_s=SCALED_ADDRESSES / slow_s))
    ratio = (count / ours) / (SCALED_ADDRESSES / slow_s)
    report.claim("at least 1,000 times ipaddress, one by one", "1,000", f"{ratio:,.0f}", ratio >= 1_000)
    ratio = theirs / ours
    report.claim("as fast as a table of prefixes", "1", f"{ratio:.1f}", ratio >= 1)
    return report
