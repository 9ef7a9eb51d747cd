"""SIGTERM ends a process by an exception, and never in the middle of an import."""

import signal
import subprocess
import sys
from pathlib import Path

TOLD_TO_END = "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.01)\nprint('whole')\n"
"""A module that gets the signal while it is imported."""
PROGRAM = """
import time
from tocsin.sigterm import unwound_by_sigterm

try:
    with unwound_by_sigterm():
        {work}
        time.sleep(60)
finally:
    print("cleaned up")
"""


def run(work: str, folder: Path) -> tuple[int, list[str]]:
    """Run a program that is told to end; return its exit code and what it printed."""
    (folder / "told_to_end.py").write_text(TOLD_TO_END)
    program = [sys.executable, "-c", PROGRAM.format(work=work)]
    done = subprocess.run(program, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=50, check=False)
    return done.returncode, done.stdout.split("\n")[:-1]


def test_sigterm_is_an_exit(tmp_path: Path) -> None:
    assert run("exec(open('told_to_end.py').read())", tmp_path) == (128 + signal.SIGTERM, ["cleaned up"])


def test_an_import_is_finished_first(tmp_path: Path) -> None:
    assert run("import told_to_end", tmp_path) == (128 + signal.SIGTERM, ["whole", "cleaned up"])
