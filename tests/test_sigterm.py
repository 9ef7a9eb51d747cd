"""SIGTERM ends a process by an exception, and never in the middle of an import."""

import importlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tocsin.sigterm import unwound_by_sigterm


@unwound_by_sigterm()
def end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@unwound_by_sigterm()
def end_within_an_import() -> None:
    importlib.import_module("told_to_end")
    time.sleep(60)


def test_sigterm_is_an_exit() -> None:
    with pytest.raises(SystemExit) as ended:
        end()
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_import_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.01)\nIS_WHOLE = True\n"
    (tmp_path / "told_to_end.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit):
        end_within_an_import()
    assert sys.modules.pop("told_to_end").IS_WHOLE
