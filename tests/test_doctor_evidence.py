"""The self-test goes the whole way on whatever is there, its checks can fail, and its archive says nothing too much."""

from __future__ import annotations

import ast
import gzip
import hashlib
import importlib.util
import json
import socket
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens.app.cli import main
from npulens.app.commands import doctor as verb
from npulens.app.evidence import packing, self_test
from npulens.app.text.i18n import known
from npulens.collectors.simulator.simulated import SimConfig, simulate, write_both
from npulens.ingest.store.redact import Redactor

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text and database of one simulated rank, as torch_npu writes them."""
    home = tmp_path_factory.mktemp("both")
    write_both(simulate(SimConfig(seed=5, ranks=1, steps=2, layers=1)), home, ranks=(0,))
    return home


def judged(capture: Path, tmp_path: Path, steps: int, step_ns: int | None) -> dict[str, dict[str, Any]]:
    answer = {"backend": "npu", "captures": {"kernels": {"path": str(capture), "steps": steps, "step_ns": step_ns}}}
    checks = list(self_test.judged(answer, tmp_path / "store"))
    for check in checks:
        assert all("{" not in verb.sentence(check, lang) for lang in ("en", "zh"))
    return {check["name"]: check for check in checks}


def test_a_capture_of_a_device_is_loaded_split_and_held_against_its_other_export(capture: Path, tmp_path: Path) -> None:
    checks = judged(capture, tmp_path / "a", 2, None)
    assert {name: check["status"] for name, check in checks.items()} == {
        "loaded_kernels": "PASS", "split_kernels": "PASS", "text_and_db_kernels": "PASS",
    }  # fmt: skip
    assert checks["split_kernels"]["seen"]["residual_ns"] == 0
    computing = checks["text_and_db_kernels"]["seen"]["text"][0]
    assert computing > 0
    near, far = (judged(capture, tmp_path / name, 2, ns) for name, ns in (("b", computing), ("c", computing * 2)))
    assert (near["clocks_kernels"]["status"], far["clocks_kernels"]["status"]) == ("PASS", "FAIL")


def test_a_capture_with_other_steps_or_none_fails(capture: Path, tmp_path: Path) -> None:
    assert judged(capture, tmp_path / "a", 3, None)["loaded_kernels"]["status"] == "FAIL"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert judged(empty, tmp_path / "b", 3, None)["loaded_kernels"]["status"] == "FAIL"


def packed(tmp_path: Path, redact: bool) -> dict[str, bytes]:
    host = socket.gethostname()
    place = tmp_path / "evidence"
    (place / "tools").mkdir(parents=True)
    (place / "tools/board.txt").write_text("Product Name : IT21\n\tSerial Number      : 1025C9048791\n")
    (place / f"{host}_12.pt.trace.json.gz").write_bytes(
        gzip.compress(b'{"host_name": "train", "dir": "/home/liwei/jobs/a", "ts": 12.340}')
    )
    (place / "rank.db").write_bytes(b"SQLite format 3\0/home/liwei")
    archive = packing.pack(place, {"backend": "cpu", "place": "/home/liwei/x"}, tmp_path, redact)
    with zipfile.ZipFile(archive) as found:
        assert found.testzip() is None
        return {name: found.read(name) for name in found.namelist()}


def test_the_archive_holds_every_file_and_its_digest(tmp_path: Path) -> None:
    files = packed(tmp_path, False)
    told = dict(reversed(line.split("  ")) for line in files["sha256.txt"].decode().splitlines())
    assert set(told) == set(files) - {"sha256.txt"}
    assert all(hashlib.sha256(files[name]).hexdigest() == digest for name, digest in told.items())
    assert len(told) == 4


def test_a_redacted_archive_names_nobody(tmp_path: Path) -> None:
    files = packed(tmp_path, True)
    assert "rank.db" not in files and "rank.db" in files["left_out.txt"].decode()
    texts = {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}
    for name, data in texts.items():
        assert b"liwei" not in data and b"1025C9048791" not in data, name
    assert b"train" not in texts["host_12.pt.trace.json.gz"]
    assert texts["host_12.pt.trace.json.gz"].endswith(b'"ts": 12.340}')


def test_what_is_no_text_is_left_out_of_a_redacted_archive() -> None:
    redactor = Redactor([], [])
    assert packing.redacted("a.json", b"\xff\xfe", redactor) is None
    assert packing.redacted("a.bin", b"text", redactor) is None


@needs_torch
@pytest.mark.torch
def test_the_whole_way_on_this_machine(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["doctor", "--self-test", "--backend", "cpu", "-o", str(tmp_path), "--json"])
    answer = json.loads(done.stdout.splitlines()[-1])
    checks = {check["name"]: check for check in answer["checks"]}
    assert done.exit_code == (0 if answer["status"] == "usable" else 1), done.output
    assert checks["operators"]["status"] == "PASS" and checks["operators"]["seen"]["count"] >= 7
    for name in ("train_step", "matmul_layernorm_gelu", "own_script"):
        assert checks[f"recorded_{name}"]["status"] == checks[f"loaded_{name}"]["status"] == "PASS"
        assert checks[f"loaded_{name}"]["seen"]["steps"] == 3
    assert checks["event_and_wall"]["said"] == "ratio" and checks["same_twice"]["seen"]["pairs"] == 10
    assert sum(check["status"] != "SKIP" for check in checks.values()) >= 9
    with zipfile.ZipFile(answer["archive"]) as found:
        names = set(found.namelist())
        assert {"report.json", "environment.json", "visit.json", "sha256.txt"} <= names
        assert sum(name.endswith(".pt.trace.json.gz") for name in names) == 3


def test_every_outcome_of_the_self_test_has_its_words() -> None:
    """Read from the source: the last argument before what was seen names the outcome, or one of two."""
    root = Path(__file__).resolve().parent.parent
    outcomes = set()
    for path in [root / f"collectors/doctor/{name}.py" for name in ("self_test",)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
                name, _, said = node.args[:3]
                said_words = [each.value for each in ast.walk(said) if isinstance(each, ast.Constant)]
                if isinstance(name, ast.Constant):
                    outcomes |= {(name.value, word) for word in said_words if isinstance(word, str)}
    assert len(outcomes) > 20
    assert [pair for pair in outcomes if not known(f"self_test.{pair[0]}_{pair[1]}")] == []
