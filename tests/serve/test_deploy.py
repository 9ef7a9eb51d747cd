"""The files of deploy/ name what there is: commands with their options, files, the port."""

import json
import re
import shlex
from pathlib import Path

import typer
import yaml

from tocsin import cli

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"


def demand_known(command: list[str]) -> None:
    """Check a command line of ours: the command exists and has the options."""
    group = typer.main.get_command(cli.app)
    found = group.commands[command[1]]  # type: ignore[attr-defined]  # a group has commands
    options = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in command if word.startswith("--")} <= options


def test_the_dockerfile_copies_what_there_is_and_runs_what_we_have() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists()
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    demand_known(json.loads(command))
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
    assert "EXPOSE 8080" in text


def test_the_compose_file_builds_the_dockerfile() -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["tocsin"]
    context = (DEPLOY / service["build"]["context"]).resolve()
    assert (context / service["build"]["dockerfile"]).is_file()
    assert service["ports"] == ["8080:8080"]


def test_the_unit_runs_what_we_have() -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / "tocsin.service").read_text(), re.MULTILINE)
    demand_known(shlex.split(command))
