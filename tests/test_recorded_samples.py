"""The samples that were recorded on a CPU: whole, small, described, silent about whose machine it was."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.look import learned
from npulens.app import run_check
from npulens.app.text import wording
from npulens.collectors import samples
from npulens.collectors.workloads.workload import workload
from npulens.ingest.store import runs as stores

ROOT = Path(__file__).resolve().parent.parent
HOMES = [ROOT / "sample_traces" / sample.name for sample in samples.RECORDED]
#: What stands in a trace with a slash in front, or after a name: a place on a disk.
PATHS = re.compile(r'"/\w|[ (]/\w+/|/(?:home|root|tmp|usr|var|opt|Users|site-packages)/')

#: What is said of each, and who finds something, judged by hand. The first idles in Python between forward and
#: backward. The same three operators of the second take 0.7 to 45, 1.1 to 53 and 41 to 118 ms: something else used the
#: CPU, most in step 3. The third idles between its steps.
JUDGED = {
    "cpu_train_step": ("Rank 0: no operator runs for 4.36 ms of each step (3.2 %)", ["host_late"]),
    "cpu_conv_unfused": (
        "Rank 0: 8 calls take longer than the quickest of their kind", ["slow_tail", "step_jitter"]
    ),
    "cpu_conv_folded": ("Rank 0: no operator runs for 12.8 ms of each step (9.4 %)", ["host_late"]),
}  # fmt: skip


def described(home: Path) -> tuple[dict[str, object], Path, str]:
    """Manifest, trace and text of a sample whose manifest is true of it."""
    manifest = json.loads((home / "manifest.json").read_text())
    ((name, said),) = manifest["files"].items()
    content = (home / name).read_bytes()
    assert (said["bytes"], said["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert len(content) <= samples.LARGEST and {path.name for path in home.iterdir()} == {
        name,
        "manifest.json",
    }
    return manifest, home / name, gzip.decompress(content).decode()


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)
def test_a_sample_is_what_its_manifest_says(home: Path) -> None:
    manifest, trace, text = described(home)
    assert (manifest["evidence"], manifest["licence"], manifest["status"]) == ("cpu", "Apache-2.0", "complete")
    assert "never the same bytes" in str(manifest["how"]) and manifest["command"] == samples.RECORDING_COMMAND
    steps = {event["name"] for event in json.loads(text)["traceEvents"] if "ProfilerStep#" in str(event.get("name"))}
    assert len(steps) == manifest["settings"]["active"]  # type: ignore[index]
    assert manifest["variant"] in workload(str(manifest["workload"])).VARIANTS
    assert not PATHS.search(text) and set(re.findall(r'"host_name": "(.*?)"', text)) == {samples.HOST}
    assert trace.name.startswith(samples.HOST + "_")


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)
def test_a_sample_loads_and_is_judged_honestly(home: Path, tmp_path: Path) -> None:
    (run,) = ingest.load(home, tmp_path).runs
    assert run.run_id and run.status == "complete" and run.ranks == (0,)
    check = run_check.judge(tmp_path, run.run_id)
    said = re.split("[,;]", wording.answer(check, "en"))[0]
    assert (said, [found.detector for found in check.findings]) == JUDGED[home.name]
    silent = {found.detector for found in check.outcomes if found.outcome == "not_measured"}
    assert silent >= {"memory_alloc", "aicpu", "frequency_drop", "gc", "dataloader"}  # none of it was recorded
    named = [event["name"] for event in json.loads(described(home)[2])["traceEvents"] if event.get("cat") == "cpu_op"]
    con = stores.open_run(tmp_path, run.run_id)
    assert learned.level(con, ()).level == "cpu"  # what the Learn page says of the evidence
    assert con.execute("SELECT count(*) FROM span WHERE kind = 'cpu_op'").fetchall() == [(len(named),)]


def test_the_folded_convolution_has_an_operator_less() -> None:
    """Counted in the two traces: the normalisation is gone, the convolution is there as often."""
    unfused, folded = (described(ROOT / "sample_traces" / name)[2] for name in ("cpu_conv_unfused", "cpu_conv_folded"))
    assert (unfused.count('"aten::batch_norm"'), folded.count('"aten::batch_norm"')) == (5, 0)
    assert unfused.count('"aten::conv2d"') == folded.count('"aten::conv2d"') == 5


def test_redaction_leaves_packages_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    packages = Path(pytest.__file__).parent.parent
    text = f'"host_name": "node-7", "name": "{packages}/torch/nn/a.py(3): f", "path": "{Path.home()}/x", "who": "ada 1"'
    assert samples.redacted(text) == (
        '"host_name": "host", "name": "torch/nn/a.py(3): f", "path": "x", "who": "user 1"'
    )


@pytest.mark.torch
@pytest.mark.torture
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_command_records_them_again(tmp_path: Path) -> None:
    shutil.copytree(HOMES[0], tmp_path / HOMES[0].name)  # an older recording, which goes
    subprocess.run([sys.executable, "-m", "npulens.collectors.samples", "--cpu", str(tmp_path)], check=True, cwd=ROOT)
    for home in HOMES:
        test_a_sample_is_what_its_manifest_says(tmp_path / home.name)
