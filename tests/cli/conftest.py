"""Run commands in this process, as the shell would."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tocsin.cli import main

Run = Callable[..., "Answer"]
WriteLines = Callable[[str, Sequence[Mapping[str, object] | str]], Path]


class Answer:
    """What a command did: exit code, standard output, standard error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `tocsin` with these arguments."""
    monkeypatch.setenv("COLUMNS", "200")
    # On a busy machine a short stage may take long, and would be told of.
    monkeypatch.setattr("tocsin.cli.progress.TOLD_FROM", math.inf)

    def run(*arguments: object) -> Answer:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capfd.readouterr())

    return run


@pytest.fixture
def write_lines(tmp_path: Path) -> WriteLines:
    """Write a file of JSON Lines; texts are written as they are."""

    def write(name: str, records: Sequence[Mapping[str, object] | str]) -> Path:
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write
