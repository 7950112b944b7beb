"""An archive that this CPU made passes, and what is made of it does not; `python -m tests.evidence` tries all."""

from __future__ import annotations

import importlib.util
import json
import socket
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_schemas import fits

from npulens.app.cli import main
from npulens.app.evidence.verify import verify
from npulens.ingest.errors import IngestError
from tests.evidence.__main__ import WORD, refused
from tests.evidence.forged import FORGERIES, LATE, MANIFEST, Archive, Forgery

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
#: They want the whole archive, another one, or gigabytes: `python -m tests.evidence`.
APART = {"exchanged", "other_values", "bomb"}


def invoked(*words: str) -> Result:
    return CliRunner().invoke(main, ["evidence", *words])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The planted faults of this CPU, as `npulens evidence run` packs them."""
    home = tmp_path_factory.mktemp("made")
    done = invoked("run", "-o", str(home), "--backend", "cpu", "--challenge", WORD, "--part", "planted", "--json")
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    fits("evidence-run", answer)
    return answer


@pytest.fixture(scope="module")
def genuine(made: dict[str, Any]) -> Path:
    return Path(made["archive"])


@pytest.fixture(scope="module")
def small(genuine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One recording of it: too little to pass, and enough to be forged."""
    archive = Archive(genuine)
    archive.only({"host_late"})
    return archive.write(tmp_path_factory.mktemp("small") / "small.zip")


def test_a_genuine_archive_passes(genuine: Path) -> None:
    done = invoked("verify", str(genuine), "--challenge", WORD, "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["status"]) == (0, "believed"), answer
    fits("evidence-verify", answer)
    believed = {each["check"] for each in answer["verdicts"] if each["outcome"] == "believed"}
    checks = """whole files challenge backend exports steps repeated planned planted planted_span named copied stamps
    order process listed enough"""
    assert believed >= set(checks.split())
    assert {each["outcome"] for each in answer["verdicts"]} == {"believed", "not_there"}


def test_what_was_left_out_is_told(made: dict[str, Any]) -> None:
    assert [part["part"] for part in made["parts"] if part["outcome"] == "run"] == ["planted"]
    assert all(part["reason"] for part in made["parts"] if part["outcome"] != "run")
    assert made["recordings"] == [[name, "planted"] for name in ("loader_sleeps", "host_late", "copies")]


def test_the_archive_names_nobody(genuine: Path) -> None:
    host = socket.gethostname().encode()
    archive = Archive(genuine)
    assert archive.manifest["redacted"] is True and archive.manifest["challenge"] == WORD
    assert not any(len(host) > 3 and host in name.encode() for name in archive.files)
    assert str(Path.home()).encode() not in b"".join(archive.files.values()) or str(Path.home()) == "/root"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_part_of_it_is_too_little_and_every_line_has_its_words(small: Path, lang: str) -> None:
    done = invoked("verify", str(small), "--challenge", WORD, "--lang", lang)
    assert done.exit_code == 1 and "{" not in done.output
    wrong = [line for line in done.output.splitlines() if line.startswith(("NOT BELIEVED", "不可信"))]
    assert len(wrong) == 1 and "copied" in wrong[0]


@pytest.mark.parametrize(
    "forgery", [each for each in FORGERIES if each.made.__name__ not in APART], ids=lambda each: each.made.__name__
)
def test_a_forged_or_damaged_archive_is_refused_for_its_own_reason(
    forgery: Forgery, small: Path, genuine: Path, tmp_path: Path
) -> None:  # fmt: skip
    base = genuine if forgery.made.__name__ in ("without", "cut") else small
    good, said = refused(forgery, forgery.made(base, base, tmp_path / "forged.zip"))
    assert good, said


def test_a_recording_of_another_run_is_out_of_order(genuine: Path, small: Path, tmp_path: Path) -> None:
    """The one recording is said to be of a run that ended before it began."""
    archive = Archive(small)
    truth = archive.truth(LATE)
    archive.say({**archive.manifest, "ended": truth["begun"]})
    answer = verify(archive.write(tmp_path / "late.zip"), WORD)
    assert "order" in {each.check for each in answer.verdicts if each.outcome == "not_believed"}


def broken(archive: Archive, how: str) -> None:
    told = archive.manifest
    if how == "truth":
        archive.files[f"{LATE}truth.json"] = b"[" * 100_000
    elif how == "truth_of_nothing":
        archive.files[f"{LATE}truth.json"] = b"{}"
    elif how == "second":
        archive.files[f"{LATE}second.json"] = b'[["a", 1, "2"]]'
    elif how == "trace":
        archive.files[archive.trace(LATE)[0]] = b"\x1f\x8b\x08 nothing"
    elif how == "slept":
        archive.tell(LATE, {**archive.truth(LATE), "slept_ns": [1 << 61] * 6})
    elif how == "steps":
        archive.tell(LATE, {**archive.truth(LATE), "steps": [[1]] * 6})
    elif how == "names":
        archive.say({**told, "recordings": [["../../etc", "x"], ["host_late", "x"], ["host_late"], []]})
    elif how == "numerics":
        archive.files["numerics.jsonl"] = b'{"outcome": "run"}\n[[[\n\xff\n'
    archive.repair()


@pytest.mark.parametrize("how", ["truth", "truth_of_nothing", "second", "trace", "slept", "steps", "names", "numerics"])
def test_nonsense_in_an_archive_is_a_line_and_no_traceback(small: Path, tmp_path: Path, how: str) -> None:
    archive = Archive(small)
    broken(archive, how)
    done = invoked("verify", str(archive.write(tmp_path / "broken.zip")))
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit) and "NOT BELIEVED" in done.output


@pytest.mark.parametrize(("name", "data", "said"), [
    ("a.zip", b"PK", "no archive of npulens evidence run"), ("a.zip", None, "no archive of npulens evidence run"),
    ("a.json", b"{}", "no archive of npulens evidence run"),
    ("manifest", {MANIFEST: b"{}"}, "evidence.json"), ("none", {"a.txt": b"x"}, "evidence.json"),
    ("older", None, "version 0"),
])  # fmt: skip
def test_what_is_no_evidence_is_an_error_of_one_sentence(
    small: Path, tmp_path: Path, name: str, data: bytes | dict[str, bytes] | None, said: str
) -> None:  # fmt: skip
    path = tmp_path / name
    if name == "older":
        archive = Archive(small)
        archive.say({**archive.manifest, "evidence": 0})
        archive.write(path)
    elif isinstance(data, bytes):
        path.write_bytes(data)
    elif data is not None:
        with zipfile.ZipFile(path, "w") as out:
            for member, content in data.items():
                out.writestr(member, content)
    done = invoked("verify", str(path))
    assert done.exit_code == 2
    assert said in done.output and done.output.count("\n") == 1


def test_a_wrong_word_or_part_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    for words, said in ((["--challenge", "two words"], "challenge"), (["--part", "zork"], "there is no part"),
                        (["--minutes", "0"], "minutes"), (["--ranks", "1"], "ranks")):  # fmt: skip
        done = invoked("run", "-o", str(tmp_path), "--backend", "cpu", *words)
        assert done.exit_code == 2 and said in done.output
    assert list(tmp_path.glob("*.zip")) == []


def test_a_run_without_time_says_so(tmp_path: Path) -> None:
    done = invoked("run", "-o", str(tmp_path), "--backend", "cpu", "--minutes", "0.01", "--json")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert {part["outcome"] for part in answer["parts"]} == {"no time"}
    with pytest.raises(IngestError, match="no archive"):
        verify(tmp_path)
    assert verify(Path(answer["archive"])).passes is False
