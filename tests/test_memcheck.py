"""Accesses of Triton kernels: what the checker names and says, and what it reads in the reports of devices' tools."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npulens.app.commands import memcheck as verb
from npulens.collectors.memcheck import device, running
from npulens.collectors.memcheck.finding import KINDS, Finding

ROOT = Path(__file__).resolve().parents[1]
there = {name: importlib.util.find_spec(name) is not None for name in ("torch", "triton")}
needs_triton = pytest.mark.skipif(not all(there.values()), reason="triton, and torch with it, is not installed")


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npulens.app.cli", "memcheck", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@needs_triton
def test_twenty_planted_accesses_are_named_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.generated.memory"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "20 of 20 planted accesses" in done.stdout and "0 findings on the same 20 launches" in done.stdout


JOB = """
import sys
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def copy_kernel(x_at, out_at, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_at + at, tl.load(x_at + at, mask=at < n), mask=at < 32)

def run():
    out = torch.zeros(32)
    copy_kernel[(1,)](torch.ones(20), out, 24)
    assert out[:16].sum() == 16

def fails():
    run()
    raise ValueError("zork")

def needs(x):
    copy_kernel[(1,)](x, torch.zeros(32), x.numel())

def inputs():
    return torch.ones(20)

def idle():
    pass

if __name__ == "__main__":
    assert sys.argv[1:] == ["--fast", "3"]
    run()
"""


#: Several targets in one process: what each gives, as JSON.
EVERY = """
import json, sys
from npulens.collectors.memcheck import running
told = []
for target in sys.argv[1:]:
    try:
        told.append(running.checked(target, ["--fast", "3"]).as_dict())
    except (ValueError, running.NotHere) as error:
        told.append(str(error))
print("\\n" + json.dumps(told))
"""


def checked(*targets: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", EVERY, *targets], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs_triton
def test_one_run_names_the_line_and_goes_on(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    line = JOB.splitlines().index("    tl.store(out_at + at, tl.load(x_at + at, mask=at < n), mask=at < 32)") + 1
    function, script, needs, fails = checked(f"{job}:run", str(job), f"{job}:needs", f"{job}:fails")
    for answer in (function, script, fails):
        # Of 24 elements 20 are there. In blocks of 16 all of them are; in blocks of 64 four are not.
        (found,) = answer["findings"]
        assert (found["kind"], found["line"], found["tensor"], found["lanes"]) == ("outside", line, "x_at", 4)
        assert (found["offset_bytes"], found["highest_bytes"], found["tensor_bytes"]) == (80, 92, 80)
        assert len(answer["launches"]) == 2 and answer["accesses"] == 16 + 16 + 24 + 32
    assert needs["findings"] == [] and len(needs["launches"]) == 2
    assert function["notes"] == [] and "ValueError: zork" in fails["notes"][0]


@needs_triton
def test_the_command_names_it_and_its_status_says_so(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    done = ran(f"{tmp_path}/job.py:run")
    assert done.returncode == 1 and "reads outside x_at: the first 80 bytes" in done.stdout, done.stderr


@needs_triton
def test_what_cannot_be_checked_says_why(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB.replace('["--fast", "3"]', '["zork"]'))
    found = checked(f"{job}:idle", f"{job}:zork", f"{tmp_path}/no.py", str(job))
    for told, why in zip(found, (
        "no kernel was launched, so nothing was checked", "zork is no function of", "there is no file",
        r"no kernel was launched: .*job.py:\d+: AssertionError",
    ), strict=True):  # fmt: skip
        assert re.match(why, told), told


@pytest.mark.skipif(there["triton"], reason="triton is there")
def test_without_triton_one_sentence_says_so() -> None:
    with pytest.raises(running.NotHere, match="the checker needs torch and triton: pip install triton"):
        running.checked(None)


CUDA = """\
========= COMPUTE-SANITIZER
of the job itself
========= Invalid __global__ write of size 4 bytes
=========     at scaled_kernel()+0x50 in job.py:6
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x710fdca00001 is misaligned
=========     and is inside the nearest allocation at 0x710fdca00000 of size 4 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0xae61] in job
=========
========= Invalid __global__ write of size 4 bytes
=========     at scaled_kernel()+0x50 in job.py:6
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x710fdca00005 is misaligned
=========
========= Invalid __global__ read of size 8
=========     at 0x000000c8 in /src/job.cu:75:void project<double>(double*, int)
=========     by thread (9,0,0) in block (3,1,0)
=========     Address 0x000370e8 is out of bounds
=========
========= Invalid __shared__ read of size 16 bytes
=========     at plain_kernel+0x2160
=========     by thread (2,0,0) in block (0,0,0)
=========     Access to 0x82 is misaligned
========= ERROR SUMMARY: 4 errors
"""
ASCEND = """\
[mssanitizer] logging to file: ./mindstudio_sanitizer_log/mssanitizer_1.log
====== ERROR: illegal read of size 368
======    at 0x12c0c0053190 on GM in triton_add
======    in block aiv(1) on device 0
======    code in pc current 0x1b0 (serialNo:524)
======    #0 sample.py:18:45

====== ERROR: misaligned access of size 13
======    at 0x6 on UB in add_custom_kernel
======    in block aiv(0) on device 0
======    code in pc current 0x780 (serialNo:33)
======    #0 ${ASCEND_HOME_PATH}/compiler/tikcpp/tikcfw/impl/kernel_operator_data_copy_impl.h:58:9
======    #1 op_kernel/add_custom.cpp:44:9
======    #2 op_kernel/add_custom.cpp:83:8
====== WARNING: out of bounds of size 256
======    at 0x12c0c00150fc on GM when writing data in add_custom_kernel
======    in block aiv(9) on device 0
======    code in add_custom.cpp:84 (serialNo:22)
"""


def told(text: str) -> list[tuple[Any, ...]]:
    return [
        (f.kind, f.access, f.kernel, f.file, f.line, f.lanes, f.program, f.lane)
        for f in device.parsed(text, "x").findings
    ]


def test_reports_of_compute_sanitizer() -> None:
    assert told(CUDA) == [
        ("unaligned", "store", "scaled_kernel()", "job.py", 6, 2, (0, 0, 0), (0, 0, 0)),
        ("outside", "load", "void project<double>(double*, int)", "/src/job.cu", 75, 1, (3, 1, 0), (9, 0, 0)),
        ("unaligned", "load", "plain_kernel", None, None, 1, (0, 0, 0), (2, 0, 0)),
    ]
    assert told("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


def test_reports_of_mssanitizer_name_the_owners_line() -> None:
    assert told(ASCEND) == [
        ("outside", "load", "triton_add", "sample.py", 18, 1, (1,), None),
        ("unaligned", None, "add_custom_kernel", "op_kernel/add_custom.cpp", 44, 1, (0,), None),
        ("other", "store", "add_custom_kernel", "add_custom.cpp", 84, 1, (9,), None),
    ]
    found = device.parsed(ASCEND, "x").findings[1]
    assert found.called_from == ("op_kernel/add_custom.cpp:83",) and found.element_bytes == 13
    assert told("[mssanitizer] logging to file: x.log\n") == []


@pytest.mark.parametrize("text", ["", "hello", "=" * 9 + " nothing", "\x00\xff"])
def test_another_file_is_no_report(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.txt").write_text(text)
    with pytest.raises(ValueError, match="is no report of compute-sanitizer or msSanitizer"):
        device.read(tmp_path / "report.txt")


def test_a_report_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    for text in (CUDA, ASCEND):
        for length in range(80, len(text), 37):
            for each in device.parsed(text[:length], "x").findings:
                assert each.kind in KINDS and each.lanes


def test_a_report_is_told_and_the_status_says_so(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(ASCEND)
    done = ran("--read", str(tmp_path / "report.txt"), "--lang", "zh")
    assert done.returncode == 1 and "sample.py:18：triton_add" in done.stdout and "依据文档" in done.stdout


def test_a_device_without_a_tool_says_which_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(running.NotHere, match="neither compute-sanitizer"):
        device.ran("job.py", [])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_words(kind: str) -> None:
    text = "multiple_of 16: 8 is left over" if kind in ("hint", "other") else None
    tensor = None if kind in ("hint", "null", "other") else "x_at"
    offset = None if tensor is None else 80
    found = Finding(kind, "load", "k", "a.py", 3, "tl.load(x)", ("a.py:9",), tensor, 40, 4, 5, 2, (1, 0, 0), (3,),
                    offset, offset, offset, text)  # fmt: skip
    answer = {"how": "interpreter", "launches": [{"kernel": "k"}], "findings": [found.as_dict()], "accesses": 1234,
              "unknown": 1, "notes": ["zork"]}  # fmt: skip
    english, chinese = ("\n".join(verb.lines(answer, lang)) for lang in ("en", "zh"))
    for said in (english, chinese):
        assert "a.py:9" in said and "zork" in said and "1,234" in said and "None" not in said
        assert tensor is None or ("x_at" in said and "80" in said)
    assert english != chinese
    nowhere = {**answer, "findings": [Finding("outside", "store", "k", "a.py", 3, lanes=1, programs=1).as_dict()]}
    assert "outside every tensor" in "\n".join(verb.lines(nowhere, "en"))
