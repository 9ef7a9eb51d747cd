"""The tests of kernels in this folder again, with the kernels as plain Python."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILES = (
    "xpath/test_xpath_kernels.py",
    "words/test_word_kernels.py",
    "patterns/test_pattern_kernels.py",
)


def test_uncompiled_kernels_pass_the_same_tests() -> None:
    environment = {**os.environ, "TOCSIN_KERNELS": "python"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in FILES)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parent.parent)
    assert run.returncode == 0, run.stdout
