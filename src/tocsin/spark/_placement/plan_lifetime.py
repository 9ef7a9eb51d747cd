"""Remove the folders that lazy DataFrames read, once Spark has forgotten every plan that reads them.

A DataFrame that is derived from another keeps no reference to the Python object of that one. But the plans of both, in
the JVM, refer to one object with the Python function; so do those of views, cached DataFrames, jobs and streams.
So a folder is needed until the JVM has collected the functions that read it, as `java.lang.ref.WeakReference` tells.
The JVM collects when it wants memory, and Spark lets it every half an hour; shuffle files and broadcasts of Spark go in
the same way. A folder that was shipped to the executors is not needed any more.

A Spark Connect server does not tell which plans it has. There, folders that are mapped in place stay until this process
ends.
"""

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no stubs
from pyspark.sql import DataFrame

from tocsin.spark._placement.ship import is_connect

RELEASE_SECONDS = 30.0
"""How often a thread looks for folders that are not needed any more; so does each call that makes a lazy DataFrame."""

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_readers: dict[Path, list[Any]] = {}
"""The folders to remove, each with weak references to the functions in the JVM that read it."""
_calls = 0
"""The calls under way that make lazy DataFrames: a folder that one has found may not go before it is noted."""
_watcher: threading.Thread | None = None


@contextlib.contextmanager
def planning() -> Iterator[None]:
    """Let no folder go while a call makes lazy DataFrames that may read it."""
    global _calls
    release()
    with _lock:
        _calls += 1
    try:
        yield
    finally:
        with _lock:
            _calls -= 1


def keep_while_planned(folder: Path, frame: DataFrame | None = None) -> None:
    """Remove a folder when no plan has the last step of `frame` any more, which is a `mapInArrow`, nor other readers.

    Without `frame`, the folder needs no further reader. To be called within `planning`.
    """
    global _watcher
    if frame is not None and is_connect(frame.sparkSession):
        return
    try:
        readers = [] if frame is None else [_function_of(frame)]
    except Py4JError:
        _log.warning("cannot tell how long %s is needed: it is kept until this process ends", folder, exc_info=True)
        return
    with _lock:
        _readers.setdefault(folder, []).extend(readers)
        if _watcher is None:
            _watcher = threading.Thread(target=_watch, name="tocsin-plans", daemon=True)
            _watcher.start()


def release() -> None:
    """Remove the folders that no plan reads any more, unless a call is under way that may read them."""
    with _lock:
        if _calls:
            return
        for folder, readers in list(_readers.items()):
            readers[:] = [reader for reader in readers if not _is_forgotten(reader)]
            if not readers:
                del _readers[folder]
                shutil.rmtree(folder, ignore_errors=True)
                _log.info("released %s, which no DataFrame reads any more", folder)


def _function_of(frame: DataFrame) -> Any:
    """Return a weak reference of the JVM to the Python function of a plan whose last step is `mapInArrow`."""
    function = frame._jdf.queryExecution().logical().productElement(0).func()
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return jvm.java.lang.ref.WeakReference(function)


def _is_forgotten(reader: Any) -> bool:
    try:
        return bool(reader.refersTo(None))
    except (Py4JError, OSError):
        return False  # the JVM has ended; the folder goes with this process


def _watch() -> None:
    while True:
        time.sleep(RELEASE_SECONDS)
        release()


def _forget() -> None:
    """Leave the folders to the parent, in a forked child."""
    global _lock, _calls, _watcher
    _lock, _calls, _watcher = threading.Lock(), 0, None
    _readers.clear()


os.register_at_fork(after_in_child=_forget)
