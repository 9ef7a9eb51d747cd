"""What a forked child finds: nothing half-made, no lock held."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from numba.core.compiler_lock import global_compiler_lock

from forking import forked
from tocsin._compile import COMPILED
from tocsin.forks import Guard, Level, cached


class Pair:
    """Two numbers that are equal whenever nobody changes them."""

    def __init__(self) -> None:
        self.guard = Guard(Level.INDEX)
        self.left = self.right = 0


def test_a_fork_waits_for_a_change_under_way() -> None:
    pair = Pair()
    changing = threading.Event()

    def change() -> None:
        with pair.guard:
            pair.left += 1
            changing.set()
            time.sleep(0.2)
            pair.right += 1

    def look() -> list[int]:
        with pair.guard:
            return [pair.left, pair.right]

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    changing.wait()
    assert forked(look) == [1, 1]
    thread.join()
    assert look() == [1, 1]


def test_locks_are_taken_in_the_order_of_their_levels() -> None:
    """A thread that has the first of two locks and waits for the second must not wait for the fork."""
    inner, outer = Guard(Level.INDEX), Guard(Level.SUBSCRIPTIONS)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            with outer:
                time.sleep(0.001)
                with inner:
                    pass

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    for _ in range(20):
        assert forked(lambda: outer.acquire(blocking=False) and inner.acquire(blocking=False))
    stop.set()
    thread.join()


def test_locks_that_are_made_while_a_fork_waits_are_free_in_the_child() -> None:
    guard, stop = Guard(Level.SUBSCRIPTIONS), threading.Event()
    made: list[Guard] = []

    def change() -> None:
        while not stop.is_set():
            with guard:
                made.append(Guard(Level.INDEX))
                with made[-1]:
                    time.sleep(0.001)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    for _ in range(8):
        assert forked(lambda: all(one.acquire(blocking=False) for one in [guard, *made]))
    stop.set()
    thread.join()


def test_a_thread_that_forks_within_a_change_keeps_its_lock() -> None:
    guard = Guard(Level.INDEX)

    def leave() -> bool:
        guard.release()
        return guard.acquire(blocking=False)

    with guard:
        assert forked(leave)
    assert guard.acquire(blocking=False)


def test_threads_that_fork_at_once() -> None:
    pair = Pair()
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(forked(lambda: pair.left))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [0] * 8


class Slow:
    """Something that is computed once."""

    computing = threading.Event()

    @cached
    def value(self) -> int:
        """Take some time."""
        self.computing.set()
        time.sleep(0.2)
        return 7


def test_what_another_thread_was_computing_is_computed_by_the_child() -> None:
    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value, daemon=True)
    thread.start()
    Slow.computing.wait()
    assert forked(lambda: [slow.value, Slow().value]) == [7, 7]
    thread.join()
    assert vars(slow) == {"value": 7}
    assert Slow.value.__doc__ == "Take some time."


IMPORTED_MEANWHILE = """
import os, threading, time
from tocsin.forks import Guard, Level

guard, changing = Guard(Level.INDEX), threading.Event()

def change():
    with guard:
        changing.set()
        time.sleep(0.2)
        import concurrent.futures.thread

thread = threading.Thread(target=change)
thread.start()
changing.wait()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
thread.join()
"""


def test_what_a_thread_imports_while_a_fork_waits_has_no_lock_released_that_nobody_took() -> None:
    """Python calls the hooks after a fork that stand then, also those that were not there before it."""
    ran = subprocess.run([sys.executable, "-c", IMPORTED_MEANWHILE], capture_output=True, text=True, check=True)
    assert "lock" not in ran.stderr


@pytest.mark.skipif(not COMPILED, reason="TOCSIN_KERNELS=python compiles nothing")
def test_a_fork_waits_for_the_compiler() -> None:
    importlib.import_module("tocsin._numba")  # what tells forks of the compiler's lock
    compiling = threading.Event()

    def compile_something() -> None:
        with global_compiler_lock:
            compiling.set()
            time.sleep(0.2)

    def compile_in_the_child() -> bool:
        with global_compiler_lock:
            return True

    thread = threading.Thread(target=compile_something, daemon=True)
    thread.start()
    compiling.wait()
    assert forked(compile_in_the_child)
    thread.join()


def test_a_child_that_hangs_is_told_from_one_that_answers() -> None:
    """The helper of these tests can fail."""
    with pytest.raises(AssertionError, match=f"signal {int(signal.SIGALRM)}"):
        forked(lambda: os.read(os.pipe()[0], 1), seconds=1)
