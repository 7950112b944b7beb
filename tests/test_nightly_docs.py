"""What docs/nightly.md tells people to copy is tried: the configuration, the units, the workflow."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from npulens.app.cli import main
from npulens.app.nightly import config
from tests.nights.lab import Lab, job

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "nightly.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_configuration_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "nightly.toml").write_text(blocks("toml")[0])
    found = config.read(tmp_path / "nightly.toml")
    assert [task.title for task in found.tasks] == ["llama-70b", "conv_bn_relu", "resnet", "serving"]


def test_every_key_of_a_night_is_on_the_page() -> None:
    for shape in (config.Night, config.Notify, config.Watch, config.Side):
        for name in shape.__struct_fields__:
            assert re.search(rf"\b{name}\b", PAGE), f"{shape.__name__}.{name}"


def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    if not (systemd := shutil.which("systemd-analyze")):
        pytest.skip("no systemd-analyze here")
    service, timer = blocks("ini")
    (tmp_path / "npulens-nightly.service").write_text(service)
    (tmp_path / "npulens-nightly.timer").write_text(timer)
    done = subprocess.run([systemd, "verify", *map(str, tmp_path.iterdir())], capture_output=True, text=True)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "npulens" in line]
    assert ours == []


def test_the_commands_of_workflow_cron_and_unit_run(tmp_path: Path) -> None:
    (workflow,) = blocks("yaml")
    steps = yaml.safe_load(workflow)["jobs"]["nightly"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    commands += re.findall(r"^ExecStart=/usr/bin/env (.+)$", PAGE, flags=re.MULTILINE)
    (cron,) = blocks("cron")
    commands.append(cron.split("/opt/npulens/bin/")[1].split(">>")[0])
    assert len(commands) == 3
    lab = Lab(tmp_path, job("a", "rounds = 1"))
    for place, command in enumerate(commands, 1):
        words = [str(lab.path) if word.endswith("nightly.toml") else word for word in shlex.split(command)]
        assert words[0] == "npulens"
        done = CliRunner().invoke(main, [*words[1:], "--store", str(lab.store), "--night", f"2026-03-0{place}"])
        assert done.exit_code == 0, done.output


def test_the_words_of_the_page_are_those_of_the_report() -> None:
    from npulens.app.nightly.words import TEXT

    for word in ("regressed", "machine", "improved", "same", "ambiguous", "young"):
        assert f"| {TEXT[f'verdict_{word}'][0]} |" in PAGE
