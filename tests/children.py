"""What child processes of the tests do; a module of its own, so that they can import it."""

import itertools
import multiprocessing
import os
import random
import resource
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tocsin import Matcher
from tocsin.storage import atomic_files, container
from tocsin.storage import folder as storage_folder

STEP = 5


def expected_ids(commits: int) -> list[str]:
    """The ids after so many commits: each adds STEP and removes the first of the commit before."""
    added = [f"s{commit}-{place}" for commit in range(commits) for place in range(STEP)]
    return sorted(id for id in added if not (id.endswith("-0") and not id.startswith(f"s{commits - 1}-")))


def write_forever(folder: Path, commits: Connection) -> None:
    """Commit again and again, now and then merged, and tell the number of each commit; somebody will kill us."""
    matcher = Matcher.open(folder, background_merge=False)
    for number in itertools.count(len(matcher) and max(int(id[1:].split("-")[0]) for id in matcher) + 1):
        write_once(matcher, number)
        commits.send(number + 1)
        if random.random() < 0.2:
            matcher.compact()


def write_once(matcher: Matcher, number: int) -> None:
    """Make commit `number` of the sequence that `expected_ids` describes."""
    for place in range(STEP):
        matcher.subscribe(f"s{number}-{place}", f"x >= {place} AND y < {number + 1}")
    if number:
        matcher.unsubscribe(f"s{number - 1}-0")
    matcher.commit()


def write_commits(folder: Path, count: int) -> None:
    """Make so many commits."""
    matcher = Matcher.open(folder)
    for number in range(count):
        write_once(matcher, number)
    matcher.close()


def hold_the_lock(folder: Path, ready: Connection) -> None:
    """Change something and wait to be killed."""
    matcher = Matcher.open(folder)
    matcher.subscribe("held", "x > 1")
    ready.send(os.getpid())
    signal.pause()


def kill_while_resharding(folder: Path, written: int, shards: int = 8) -> None:
    """Let a process reshard an index and be killed when it has written so many files."""
    child = multiprocessing.get_context("spawn").Process(target=_reshard_and_die, args=(folder, written, shards))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


def _reshard_and_die(folder: Path, written: int, shards: int) -> None:
    files = itertools.count()

    def or_die(*given: Any, **named: Any) -> None:
        if next(files) == written:
            os.kill(os.getpid(), signal.SIGKILL)
        atomic_files.write_file(*given, **named)

    for module in (container, storage_folder):
        module.write_file = or_die  # type: ignore[attr-defined]  # where they import it to
    matcher = Matcher.open(folder, background_merge=False)
    matcher.reshard(shards)
    matcher.commit()


def write_beyond_the_limit(folder: Path, limit: int, answer: Connection) -> None:
    """Commit more than a file may hold, as on a full disk; tell the error."""
    matcher = Matcher.open(folder, background_merge=False)
    # Kernels that are compiled now would be larger than the limit.
    warm = Matcher(background_merge=False)
    warm.subscribe("warm", "x > 1 AND y LIKE '%abcdefgh%'")
    warm.match({"x": 2, "y": "abcdefgh"})
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for number in range(500):
        matcher.subscribe(f"big{number}", f"x > {number} AND y LIKE '%{'z' * 200}{number}%'")
    try:
        matcher.commit()
        answer.send("committed")
    except Exception as error:
        answer.send(f"{type(error).__name__}: {error}")


def look_back(folder: Path, detached: bool, user: int | None = None) -> None:
    """Ask the history of a folder in which 10 was published, as another user if one is given."""
    if user is not None:
        os.setuid(user)
    reader = Matcher.open(folder, background_merge=False, mode="copy" if detached else "write")
    assert reader.match({"price": 9}).ids == []
    if detached:
        assert reader.publish({"price": 11}).ids == ["record"]
