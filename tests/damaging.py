"""Damage the files of an index that holds every family, open it in a child process, and say what came of it.

Run as a program: `python tests/damaging.py FOLDER KIND COUNT SEED` prints a JSON object for each damage.
KIND is random or crafted, or both with a comma. A child ends
by a signal if a kernel reads outside its arrays, and by its alarm if something hangs.
"""

import contextlib
import datetime as dt
import itertools
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from tocsin import Matcher, StorageError
from tocsin.storage import container
from tocsin.storage.container import Container

SECONDS = 30
"""A child that takes longer hangs: of processor time, or ten times that by the clock, however busy the machine is."""
PAGE = 4096
NAMED, SAME, OTHER, WRONG, RAW, CRASH, HANG = "named", "same", "other", "wrong", "raw", "crash", "hang"


PAPERS = ({}, *({"index": "pbtree", "matcher": matcher} for matcher in ("key", "count", "tree", "brute-force")))
"""The options of the indexes that are damaged: the first is the product's own."""


def subscriptions() -> Iterator[dict[str, Any]]:
    """Subscriptions of every family, indexed in every way."""
    for i in range(3000):
        low = i * 7919 % 30_011 / 10
        yield {"id": f"grid{i:04}", "where": f"a BETWEEN {low} AND {low + 9} AND b < {i % 50} AND c >= {i % 20}"}
    for i in range(300):
        yield {"id": f"wide{i}", "where": " AND ".join(f"w{k} > {i * k % 40}" for k in range(1, 7))}
    for i in range(60):
        yield {"id": f"text{i}", "where": f"name = 'n{i % 9}' AND (flag OR day > DATE '2026-01-{1 + i % 28:02}')"}
        yield {"id": f"words{i}", "where": f"has_words(text, 'w{i} common') OR has_phrase(text, 'two w{i % 7}')"}
        yield {"id": f"prefix{i}", "where": f"has_words(text, 'pre{i % 9}*') AND NOT has_words(text, 'w{i % 4}')"}
        yield {"id": f"like{i}", "where": f"text LIKE '%w{i}_%' OR text ILIKE 'PRE{i % 5}%' OR name LIKE '_{i % 3}'"}
        yield {"id": f"list{i}", "where": f"array_contains(tags, 't{i % 6}') AND c < b"}
        yield {"id": f"path{i}", "where": f"xpath_exists(doc, '/r/e{i % 5}[@k > {i % 11}]//f[g = \"{i % 4}\"]')"}
        yield {"id": f"nest{i}", "where": f"xpath_exists(doc, '//e{i % 5}[f[g]]/*') AND b > {i % 30}"}
        yield {"id": f"big{i}", "where": f"big > {10**20 + i} AND NOT (c IN ({i}, {i + 2}, {i + 5}))"}
        path = f'//f[g/text() = "{i % 4}" and . != "{i}"] | /r/z{i}'
        yield {"id": f"value{i}", "where": f"xpath_exists(doc, '{path}')"}
        yield {"id": f"rest{i}", "where": f"xpath_exists(doc, '//e{i % 5}[count(f) = {1 + i % 2}]')"}
        yield {"id": f"regexp{i}", "where": f"regexp_matches(text, '(w{i}|pre{i % 9})[a-z]* .*common') AND c > {i % 9}"}
        yield {"id": f"circle{i}", "where": f"within_distance(lat, lon, {i % 50}, {i % 40}, '{50 * (1 + i % 20)} km')"}
        ring = f"POLYGON (({i % 40} 0, {i % 40 + 9} 0, {i % 40 + 9} 30, {i % 40} 0))"
        yield {"id": f"ring{i}", "where": f"within_polygon(lat, lon, '{ring}')"}
        yield {"id": f"network{i}", "where": f"ip_in(ip, '10.{i}.0.0/{12 + i % 8}')"}
        # Rare attributes, since there are more than 64 others, and tests that many demand together.
        yield {"id": f"rare{i}", "where": f"(r{i} > {i} OR r{i} IS NULL) AND s{i % 20} BETWEEN {i} AND {i + 30}"}
        yield {"id": f"join{i}", "where": f"c <> {i} AND w1 < w2 AND w3 < w4"}
        yield {"id": f"common{i}", "where": " AND ".join(f"q{k} > {i * k % 40}" for k in range(1, 64))}
        any_item = f"EXISTS (SELECT 1 FROM UNNEST(items) x WHERE x.sku = 's{i % 12}' AND x.quantity > {i % 7})"
        yield {"id": f"item{i}", "where": f"{any_item} OR NOT {any_item.replace('sku', 'name')} AND b > {i}"}
        yield {"id": f"near{i}", "where": f"has_words(text, 'w{i} common', near => {1 + i % 4})"}
        yield {"id": f"of{i}", "where": f"b > {i}", "tags": {"tenant": f"t{i % 3}"}, "weights": {"b": 0.5}}
    for i in range(6):
        clauses = " AND ".join(f"(a < {k} OR b = {k + i} OR name = 'n{k}')" for k in range(12))
        yield {"id": f"tree{i}", "where": clauses}
        yield {"id": f"old{i}", "where": f"b >= ALL (SELECT c FROM history) AND b > {i}"}
        yield {"id": f"total{i}", "where": f"b - {i} > (SELECT avg(c) FROM history h WHERE h.name = event.name)"}
        yield {"id": f"some{i}", "where": f"EXISTS (SELECT * FROM history h WHERE h.name = event.name AND h.b > {i})"}
    for i in range(100):
        # Most events satisfy them: they are in blocks.
        yield {"id": f"most{i}", "where": f"NOT has_words(text, 'no{i}')"}
    yield {"id": "never", "where": "a < 1 AND a > 2"}
    yield {"id": "always", "where": "a IS NULL OR a IS NOT NULL"}


def events(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Events that satisfy some subscriptions of each kind."""
    chance = random.Random(seed)
    made = []
    for i in range(count):
        words = " ".join(chance.choice(["common", "two", f"w{chance.randrange(60)}", f"pre{i % 9}x"]) for _ in range(8))
        doc = f"<r><e{i % 5} k='{chance.randrange(14)}'><f><g>{i % 4}</g></f></e{i % 5}></r>"
        made.append(
            {
                "a": chance.choice([None, chance.uniform(0, 3100)]),
                "b": chance.randrange(60),
                "c": chance.randrange(25),
                **{f"w{k}": chance.randrange(60) for k in range(1, 7)},
                "name": f"n{chance.randrange(12)}",
                "flag": chance.choice([True, False, None]),
                "day": dt.date(2026, 1, 1 + i % 28),
                "text": words,
                "tags": [f"t{chance.randrange(8)}"],
                "doc": doc,
                "items": [{"sku": f"s{chance.randrange(12)}", "quantity": chance.randrange(9)} for _ in range(i % 4)],
                "big": Decimal(10**20 + chance.randrange(60)),
                "lat": chance.uniform(0, 50),
                "lon": chance.uniform(0, 50),
                "ip": f"10.{chance.randrange(70)}.{chance.randrange(256)}.1",
                **{f"r{k}": chance.randrange(90) for k in range(i % 3, 60, 3)},
                **{f"s{k}": chance.randrange(90) for k in range(20)},
                **{f"q{k}": chance.randrange(30, 60) for k in range(1, 64)},
            }
        )
    return made


def make(folder: Path, options: dict[str, Any]) -> None:
    """Save an index with all families, tombstones, other scores, new subscriptions and a history."""
    matcher = Matcher(background_merge=False, **options)
    rejected = matcher.subscribe_many(list(subscriptions())[:: 7 if options else 1])
    assert not rejected, rejected
    matcher.save(folder)
    for i in range(0, 350, 7):
        matcher.unsubscribe(f"grid{i:04}")
        matcher.rescore(f"grid{i + 350:04}", 7.0 + i)
    matcher.subscribe("fresh", "b < 30", tags={"tenant": "t1"})
    matcher.publish_batch(events(20, seed=2))
    matcher.commit()
    matcher.close()


def answers(folder: Path, verify: Any = "open") -> list[Any]:
    """Ask a matcher for all that it can be asked for."""
    with Matcher.open(folder, mode="copy", verify=verify, background_merge=False) as matcher:
        asked = events(30)
        said: list[Any] = [matcher.match(event).ids for event in asked[:4]]
        said.append(matcher.match_batch(asked).to_pylist())
        said.append(matcher.match_batch(asked, tags={"tenant": "t1"}).to_pylist())
        said.append(matcher.match_batch(asked[:3], top_k=3, mode="relaxed").to_pylist())
        said.append(list(matcher.top_k(asked[5], 5)))
        said.append(sorted((s.id, s.where, s.score, str(s.tags), str(s.weights)) for s in matcher.subscriptions()))
        named = [id for id in ("path3", "old1", "tree2", "grid0105", "rare8", "ring2", "regexp4") if id in matcher]
        said.append([str(matcher.explain(asked[0], id)) for id in named])
        said.append([str(event) for event in matcher.history.events()])
        said.append(matcher.looking_back())
        matcher.compact()
        said.append(matcher.match_batch(asked).to_pylist())
        matcher.publish(asked[0])
        said.append(matcher.match(asked[1]).ids)
        return said


def damage(folder: Path, kind: str, chance: random.Random) -> str:
    """Damage one file at random; return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "write.lock")
    if kind == "crafted":
        kind = "segment" if chance.random() < 0.9 else "changes"
        return craft(chance.choice([path for path in files if path.name.startswith(kind)]), chance)
    large = [path for path in files if path.stat().st_size > PAGE]
    path = chance.choice(large if chance.random() < 0.7 else files)
    data = bytearray(path.read_bytes())
    at = chance.randrange(max(len(data), 1))
    how = chance.choice(["flip", "zero", "truncate", "garbage"])
    if how == "flip" and data:
        data[at] ^= 1 << chance.randrange(8)
    elif how == "zero":
        at = at // PAGE * PAGE
        data[at : at + PAGE] = bytes(len(data[at : at + PAGE]))
    elif how == "truncate":
        del data[at:]
    elif how == "garbage":
        data[at : at + 64] = chance.randbytes(len(data[at : at + 64]))
    path.write_bytes(bytes(data))
    return f"{how} {path.name} at {at}"


def craft(path: Path, chance: random.Random) -> str:
    """Change an array or an entry of a file so that all its checksums are right."""
    read = container.read(path)
    arrays, meta = dict(read.arrays), json.loads(json.dumps(read.meta))
    names = [name for name in arrays if arrays[name].size]
    if chance.random() < 0.1 and meta:
        key = chance.choice(sorted(meta))
        meta[key] = chance.choice([None, [], 7, "x", {"a": 1}, [[0, 1, 2]]])
        container.write(path, Container(arrays, meta))
        return f"meta {key} becomes {meta[key]!r}"
    # The names that steer a kernel are few beside those of domains.
    name = chance.choice([name for name in names if chance.random() < 0.2 or not name.startswith("domain")] or names)
    array = arrays[name].copy()
    how = chance.choice(["value", "value", "value", "many", "shorter", "longer", "type", "shape", "shuffle", "missing"])
    flat = array.reshape(-1)
    extremes = [-1, 0, 1, 2, flat.size, 255, 2**15, 2**31 - 1, -(2**31), 2**40, chance.randrange(-100, 100_000)]
    if how in ("value", "many"):
        for _ in range(1 if how == "value" else 50):
            with np.errstate(all="ignore"):
                flat[chance.randrange(flat.size)] = np.array(chance.choice(extremes)).astype(array.dtype)
    elif how == "shorter":
        array = array[:-1]
    elif how == "longer":
        array = np.concatenate([array, array[-1:]])
    elif how == "type":
        array = array.astype(chance.choice([np.int32, np.int64, np.uint8, np.float64, np.uint16]))
    elif how == "shape":
        array = array.reshape(1, *array.shape)
    elif how == "shuffle":
        np.random.default_rng(chance.randrange(2**32)).shuffle(array)
    arrays[name] = array
    if how == "missing":
        del arrays[name]
    container.write(path, Container(arrays, meta))
    return f"{how} {name}"


def outcome(folder: Path, expected: list[Any], crafted: bool) -> tuple[str, str]:
    """Open a damaged index in a child and say what came of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)
        said = (RAW, "")
        try:
            found = answers(folder)
            said = (SAME, "") if found == expected else (OTHER if crafted else WRONG, "")
        except StorageError as error:
            said = NAMED if str(folder) in str(error) else RAW, str(error)
        except BaseException as error:
            said = RAW, f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(said).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return (HANG if number in (signal.SIGALRM, signal.SIGPROF) else CRASH), signal.Signals(number).name
    what, why = json.loads(data)
    return what, why


def run(folder: Path, kinds: Sequence[str], count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Damage an index again and again, so often in each way; yield what was done and what came of it."""
    copy = folder / "copy"
    sound: dict[int, tuple[Path, list[Any]]] = {}
    for number, kind in itertools.product(range(count), kinds):
        chance = random.Random(f"{seed} {number}")
        # Most damage is done to the product's own index.
        options = number // 5 % len(PAPERS) if number % 5 == 4 else 0
        if options not in sound:
            folder_of = folder / f"sound-{options}"
            make(folder_of, PAPERS[options])
            sound[options] = folder_of, answers(folder_of)
            for verify in ("lazy", "full"):
                assert answers(folder_of, verify) == sound[options][1]
        folder_of, expected = sound[options]
        shutil.copytree(folder_of, copy)
        done = damage(copy, kind, chance)
        what, why = outcome(copy, expected, kind == "crafted")
        shutil.rmtree(copy)
        yield {"number": number, "kind": kind, "done": done, "outcome": what, "why": why}


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        for result in run(Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])):
            print(json.dumps(result), flush=True)
