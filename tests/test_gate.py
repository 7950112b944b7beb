"""The gate for changes that are not merged yet: what it says of two commits, and that the workflows run."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result

from npulens.analysis.regression.looks import Pairs, decide
from npulens.app.cli import main
from npulens.app.nightly import kept
from npulens.ingest.store import history
from tests.nights import thirty
from tests.nights.thirty import Repository

CI = Path(__file__).resolve().parents[1] / "docs" / "ci"
ROOT = Path(__file__).resolve().parents[1]


def gate(repository: Repository, base: str, head: str, *more: str, env: dict[str, str] | None = None) -> Result:
    """One gate in this process."""
    words = ["gate", str(repository.config), "--base", base, "--head", head, "--store",
             str(repository.folder.parent / "store"), *more]  # fmt: skip
    return CliRunner().invoke(main, words, env=env, catch_exceptions=False)


def test_a_slower_commit_is_red_and_named(tmp_path: Path) -> None:
    repository = thirty.made(tmp_path / "repository", (1000, 1050), noise=0.001)
    comment, junit, summary = tmp_path / "out" / "c.md", tmp_path / "out" / "j.xml", tmp_path / "summary"
    done = gate(repository, *repository.commits, "--comment", str(comment), "--junit", str(junit), "--json",
                env={"GITHUB_STEP_SUMMARY": str(summary)})  # fmt: skip
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    (row,) = said["rows"]
    assert (said["base"], said["head"]) == repository.commits and row["verdict"] == "regressed" and row["n"] == 10
    # Ten pairs of sessions with a noise of 0.1 %: four standard errors are 0.0018. One in twenty intervals misses 1.05.
    assert abs(row["ratio"] - 1.05) < 0.0018 and row["low"] < row["ratio"] < row["high"] < row["low"] + 0.005
    text = comment.read_text()
    assert text.startswith("<!-- npulens gate -->\n") and text == summary.read_text()
    assert "**1 metric regressed**" in text and "**1 项指标变差**" in text
    suites = ElementTree.parse(junit).getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("1", "1", "0")


def test_a_gate_leaves_no_history_and_opens_nothing(tmp_path: Path) -> None:
    repository = thirty.made(tmp_path / "repository", (1000, 1050), noise=0.001)
    assert gate(repository, *repository.commits).exit_code == 1
    store = tmp_path / "store"
    assert history.identities(store) == [] and kept.names(store) == []
    left = [path.name for path in (store / ".nights").rglob("*") if path.is_file()]
    assert left == [".lock"]


def test_what_base_gained_since_is_not_blamed_on_head(tmp_path: Path) -> None:
    """Base was made faster after head had left it: head is as fast as where it began."""
    repository = thirty.made(tmp_path / "repository", (1000,), noise=0.001)
    (start,), folder = repository.commits, repository.folder
    thirty.git(folder, "checkout", "-q", "-b", "change")
    (folder / "notes").write_text("a word\n")
    head = thirty.committed(folder, "A word")
    thirty.git(folder, "checkout", "-q", "main")
    (folder / "loops").write_text("900")
    base = thirty.committed(folder, "Faster")
    done = gate(repository, base, head, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["base"] == start
    assert gate(repository, start, base).exit_code == 0  # improved is not red
    assert gate(repository, base, start).exit_code == 2  # brings nothing


def test_a_commit_that_does_not_run_fails_the_gate(tmp_path: Path) -> None:
    repository = thirty.made(tmp_path / "repository", (1000, -1), noise=0.001)
    junit = tmp_path / "j.xml"
    done = gate(repository, *repository.commits, "--junit", str(junit), "--lang", "en")
    assert done.exit_code == 2 and "it does not build" in done.stdout and "Nothing was measured" in done.stdout
    assert ElementTree.parse(junit).getroot().get("errors") == "1"


def test_what_takes_no_commit_is_named(tmp_path: Path) -> None:
    repository = thirty.made(tmp_path / "repository", (1000, 1000), noise=0.001)
    with repository.config.open("a") as stream:
        stream.write(f'[[job]]\nname = "elsewhere"\ncommand = ["true"]\ndirectory = "{tmp_path}"\n')
        stream.write(f'[[watch]]\nname = "folder"\npath = "{tmp_path}"\n')
    done = gate(repository, *repository.commits, "--json")
    assert json.loads(done.stdout)["left_out"] == ["folder", "elsewhere"]
    assert {row["task"] for row in json.loads(done.stdout)["rows"]} == {"work"}
    wrong = gate(repository, "nothing", repository.commits[1])
    assert wrong.exit_code == 2 and "'nothing'" in wrong.stderr


def test_a_killed_gate_goes_on_and_a_finished_one_begins_anew(tmp_path: Path) -> None:
    repository = thirty.made(tmp_path / "repository", (1000, 1050), noise=0.001)
    words = [sys.executable, "-m", "npulens.app.cli", "gate", str(repository.config), "--base", repository.commits[0],
             "--head", repository.commits[1], "--store", str(tmp_path / "store")]  # fmt: skip
    child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while thirty.sessions(repository) < 8 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()
    killed = thirty.sessions(repository)
    assert 8 <= killed < 20
    assert gate(repository, *repository.commits).exit_code == 1
    after = thirty.sessions(repository)
    assert 20 <= after <= 21  # ten pairs; the session that was killed may have been counted
    assert gate(repository, *repository.commits).exit_code == 1
    assert thirty.sessions(repository) == after + 20


def test_tasks_share_the_alarms_of_a_gate() -> None:
    """Ten pairs that all rose have p = 2 / 2^10 = 0.00195: enough for the 0.002 of one task, not for half of it."""
    logs = [0.01 + 0.001 * place for place in range(10)]
    assert decide([Pairs(logs, False)], 10).verdicts[0].said == "regressed"
    half = decide([Pairs(logs, False)], 10, among=2)
    assert half.verdicts[0].said == "ambiguous" and half.goes_on
    twenty = decide([Pairs(logs * 2, False)], 10, among=2)  # 2 / 2^20 is below any share of 0.0072 here
    assert twenty.verdicts[0].said == "regressed"


# The workflows: their own commands, in a shell, against a repository and an interface on this machine.
def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CI / name).read_text())
    return found


@pytest.fixture
def shell_env(tmp_path: Path) -> dict[str, str]:
    """The environment of a runner that has npulens."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "npulens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m npulens.app.cli "$@"\n')
    (tools / "npulens").chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "NPULENS_STORE": str(tmp_path / "store")}


def shell(script: str, folder: Path, env: dict[str, str]) -> int:
    """Runs a step as both services do: the first command that fails ends it."""
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=env).returncode


@contextmanager
def interface(comments: list[dict[str, Any]]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A web interface on this machine that has some comments and keeps what is sent to it."""
    seen: list[tuple[str, str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            seen.append((self.command, self.path, sent))
            body = json.dumps(comments if self.command == "GET" else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = answer

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("loops", "status"), [((1000, 1000), 0), ((1000, 1050), 1), ((1000, -1), 2)])
@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_the_measuring_step_ends_as_the_gate_does(
    tmp_path: Path, shell_env: dict[str, str], service: str, loops: tuple[int, int], status: int
) -> None:
    repository = thirty.made(tmp_path / "repository", loops, noise=0.001)
    repository.config.rename(repository.folder / "nightly.toml")
    base, head = repository.commits
    if service == "github":
        steps = workflow("github.yml")["jobs"]["measure"]["steps"]
        (script,) = [step["run"] for step in steps if "run" in step]
        env = {"BASE": base, "HEAD": head}
    else:
        script = "\n".join(workflow("gitlab.yml")["npulens-gate"]["script"])
        env = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": head}
    assert shell(script, repository.folder, {**shell_env, **env}) == status
    assert (repository.folder / "gate" / "comment.md").stat().st_size > 100
    ElementTree.parse(repository.folder / "gate" / "junit.xml")


@pytest.mark.parametrize("before", [[], [{"id": 7, "user": {"type": "Bot"}, "body": "<!-- npulens gate -->\nold"}]])
def test_github_has_one_comment_that_is_kept_up(
    tmp_path: Path, shell_env: dict[str, str], before: list[dict[str, Any]]
) -> None:
    others = [{"id": 5, "user": {"type": "User"}, "body": "<!-- npulens gate -->"},
              {"id": 6, "user": {"type": "Bot"}, "body": "good morning"}]  # fmt: skip
    (script,) = [step["run"] for step in workflow("github.yml")["jobs"]["comment"]["steps"] if "run" in step]
    (tmp_path / "gate").mkdir()
    text = '<!-- npulens gate -->\n**"1" metric** $(touch pwned) `id`\n'
    (tmp_path / "gate" / "comment.md").write_text(text)
    with interface(others + before) as (address, seen):
        env = {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": "lab/model", "TOKEN": "t", "NUMBER": "12"}
        assert shell(script, tmp_path, {**shell_env, **env}) == 0
    sent = [("PATCH", "/repos/lab/model/issues/comments/7") if before else
            ("POST", "/repos/lab/model/issues/12/comments")]  # fmt: skip
    assert [(verb, path) for verb, path, _ in seen[1:]] == sent
    assert json.loads(seen[1][2]) == {"body": text} and not (tmp_path / "pwned").exists()


def test_gitlab_gets_a_note(tmp_path: Path, shell_env: dict[str, str]) -> None:
    script = "\n".join(workflow("gitlab.yml")["npulens-comment"]["script"])
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "comment.md").write_text("a & b = 5 %\n")
    with interface([]) as (address, seen):
        env = {"CI_API_V4_URL": address, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "4",
               "NPULENS_COMMENT_TOKEN": "t"}  # fmt: skip
        assert shell(script, tmp_path, {**shell_env, **env}) == 0
    ((verb, path, sent),) = seen
    assert (verb, path) == ("POST", "/projects/3/merge_requests/4/notes")
    assert parse_qs(sent) == {"body": ["a & b = 5 %\n"]}


@pytest.mark.parametrize(("file", "schema"), [("github.yml", "github-workflows"), ("gitlab.yml", "gitlab-ci")])
def test_the_templates_have_the_form_that_the_service_asks_for(tmp_path: Path, file: str, schema: str) -> None:
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    assert subprocess.run([*words, str(CI / file)]).returncode == 0
    wrong = tmp_path / file
    wrong.write_text((CI / file).read_text().replace("artifact", "artifakt").replace("permissions:", "permission:"))
    assert subprocess.run([*words, str(wrong)], capture_output=True).returncode == 1, "it says so where one has not"


def test_what_runs_strangers_code_may_write_nothing() -> None:
    text, found = (CI / "github.yml").read_text(), workflow("github.yml")
    assert "pull_request_target" not in text and found["permissions"] == {}
    assert found["jobs"]["measure"]["permissions"] == {"contents": "read"}
    assert not any("checkout" in step.get("uses", "") for step in found["jobs"]["comment"]["steps"])
    scripts = [step["run"] for each in found["jobs"].values() for step in each["steps"] if "run" in step]
    assert len(scripts) == 2 and not any("${{" in script for script in scripts)
