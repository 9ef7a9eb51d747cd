"""Forks: a child starts from a state that nobody was changing, with locks that nobody holds.

A fork copies memory as it is, but only the thread that forks. What another thread was changing would stay half-made in
the child, and its locks locked for ever. So the thread that forks takes all locks first: it waits until changes under
way are done. Afterwards both sides let go of them.
"""

# A fork takes the locks of these two as well, and releases them. If another thread imported them while the fork waits
# for our locks, theirs would be released without having been taken ("release unlocked lock"): they come before us.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
import weakref
from collections.abc import Callable
from enum import IntEnum
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, overload

Value = TypeVar("Value")


class Level(IntEnum):
    """The order in which locks are taken: a thread that has one may wait for those of later levels only."""

    SUBSCRIPTIONS = 0
    HISTORY = 1
    INDEX = 2
    COMPILER = 3


class Lock(Protocol):
    """What a guard needs of a lock; one that its thread may take again."""

    def acquire(self) -> object:
        """Take it."""

    def release(self) -> None:
        """Let go of it."""


class Guard:
    """A lock that forks wait for; the thread that has it may take it again.

    >>> guard = Guard(Level.INDEX)
    >>> with guard, guard:
    ...     pass
    """

    def __init__(self, level: Level) -> None:
        self.level = level
        self._lock = threading.RLock()
        _guards.add(self)

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; return whether we have it."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Let go of the lock."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free, whoever held it in the parent."""
        self._lock = threading.RLock()


class cached(Generic[Value]):  # noqa: N801 (a decorator)
    """As functools.cached_property without a lock; before Python 3.12 that has one for all objects of its class.

    Threads that ask at once may each compute the value, and one of the results stays.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, item: None, owner: type) -> "cached[Value]": ...
    @overload
    def __get__(self, item: object, owner: type) -> Value: ...
    def __get__(self, item: object, owner: type) -> "cached[Value] | Value":
        if item is None:
            return self
        value: Value = vars(item).setdefault(self._name, self._compute(item))
        return value


class Inherited(Protocol):
    """An object that a child must not use as it is."""

    def become_child(self) -> None:
        """Let go of what belongs to the parent."""


_guards: "weakref.WeakSet[Guard]" = weakref.WeakSet()
_inherited: "weakref.WeakSet[Inherited]" = weakref.WeakSet()
_foreign: list[Lock] = []
_one_at_a_time = threading.RLock()
_held: list[Lock] = []


def tell_children(item: Inherited) -> None:
    """Have `become_child` called in every child that this process forks, while the object lives."""
    _inherited.add(item)


def wait_for(lock: Lock) -> None:
    """Have forks wait for the lock of another library, which stands below all guards."""
    _foreign.append(lock)


def _all_guards() -> list[Guard]:
    while True:
        try:
            return sorted(_guards, key=lambda guard: guard.level)
        except RuntimeError:  # another thread has just made one
            continue


def _before() -> None:
    _one_at_a_time.acquire()
    while True:
        guards = _all_guards()
        _held.extend(guards)
        for guard in guards:
            guard.acquire()
        if set(_all_guards()) <= set(guards):
            break
        # One that was made meanwhile may have to be taken before those we have.
        _release()
    for lock in _foreign:
        lock.acquire()
        _held.append(lock)


def _release() -> None:
    while _held:
        _held.pop().release()


def _in_parent() -> None:
    _release()
    _one_at_a_time.release()


def _in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.RLock()
    # What was made between our last look and the fork may be in the hands of a thread that is not here.
    for guard in set(_all_guards()) - set(_held):
        guard.renew()
    _release()
    for item in list(_inherited):
        item.become_child()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
