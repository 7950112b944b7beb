"""What would spoil a night is found before it: by --check, and at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from npulens.app.nightly import readiness
from tests.nights.lab import Lab, job

pytest.importorskip("apprise", reason="apprise is not installed")
# Its own use of what Python 3.13 leaves out.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def test_everything_is_there(tmp_path: Path) -> None:
    lab = Lab(tmp_path, '[night]\nout = "reports"\n' + job("a") + '[software]\nnumpy = "!echo 2.3"\n')
    done = lab.run("--check")
    assert done.exit_code == 0 and "Everything a night needs is there" in done.stdout, done.output
    assert "[software] numpy: 2.3" in done.stdout and lab.sessions() == []


@pytest.mark.parametrize(
    ("toml", "word"),
    [
        ('[software]\ncommit = "!git -C /nope rev-parse HEAD"\n', "[software] commit"),
        ('[machine]\ndriver = "!false"\n', "[machine] driver"),
        ('[[job]]\nname = "b"\ncommand = ["no-such"]\nmeasure = "time"\n', "there is no command no-such"),
        ('[[job]]\nname = "b"\ncommand = ["true"]\ndirectory = "gone"\nmeasure = "time"\n', "no folder"),
        ('[[job]]\nname = "b"\ncommand = ["true"]\nmeasure = "time"\nhead = { commit = "abc" }\n', "abc is no commit"),
        ('[[watch]]\nname = "b"\npath = "gone"\n', "no folder"),
        ('[notify]\nurls = ["nosuch://t0ken"]\n', "1 (nosuch)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, toml: str, word: str) -> None:
    done = Lab(tmp_path, job("a") + toml).run("--check")
    assert done.exit_code == 2 and word in done.stdout and "1 thing is wrong" in done.stdout, done.output
    assert "t0ken" not in done.output


def test_folders_that_take_no_files_and_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, '[night]\nout = "reports"\n' + job("a"))
    (tmp_path / "reports").write_text("")
    monkeypatch.setattr(readiness, "_ROOM", 1 << 80)
    done = lab.run("--check")
    assert done.exit_code == 2 and "2 things are wrong" in done.stdout and "takes no files" in done.stdout


def test_a_condition_that_cannot_be_asked_ends_the_night_before_it_begins(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a") + '[software]\ncommit = "!git -C /nope rev-parse HEAD"\n')
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 2 and "commit" in done.stderr and lab.sessions() == []
    lab.path.write_text(job("a"))
    assert lab.run("--night", "2026-03-01").exit_code == 0, "and the same date goes on"


def test_a_negative_wait_is_a_mistake(tmp_path: Path) -> None:
    done = Lab(tmp_path, '[[watch]]\nname = "b"\npath = "x"\nsettle = -1\n').run("--night", "2026-03-01")
    assert done.exit_code == 2 and "settle" in done.stderr and "line 4" in done.stderr


def test_a_second_configuration_of_the_same_name_hides_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, job("a"))
    assert lab.run("--night", "2026-03-01").exit_code == 0
    first, lab.path = lab.path, tmp_path / "other.toml"
    lab.path.write_text(job("b"))
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 2 and "belong to" in done.stderr and str(first) in done.stderr
    lab.path.write_text('[night]\nname = "other"\n' + job("b"))
    assert lab.run("--night", "2026-03-01").exit_code == 0 and "b head" in lab.sessions()
    first.unlink()
    lab.path.write_text(job("b"))
    assert lab.run("--night", "2026-03-02").exit_code == 0, "one that was moved goes on"


def test_a_reports_folder_that_takes_none_costs_the_reports_there_only(tmp_path: Path) -> None:
    lab = Lab(tmp_path, '[night]\nout = "reports"\n' + job("a"))
    (tmp_path / "reports").write_text("")
    done = lab.run("--night", "2026-03-01")
    assert done.exit_code == 2 and "report could not be written" in done.stdout
    assert (lab.store / ".nights" / "nightly" / "2026-03-01" / "night.html").is_file()
    (tmp_path / "reports").unlink()
    after = lab.run("--night", "2026-03-02")
    assert after.exit_code == 0 and "died" not in after.stdout
