"""Two serving builds under one load: what is said of percentiles, goodput and iterations, by command and by night."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.serving.compared import GOODPUT, Side, compared, made_of, side
from npulens.analysis.serving.slo import USUAL, Slo, objectives
from npulens.analysis.settings import read_settings
from npulens.app.cli import main
from npulens.collectors.serving.engine import Recorded, run
from npulens.collectors.serving.plants import Plan, plan
from npulens.collectors.serving.writers import write
from tests.nights.lab import Lab
from tests.serving.rows import connection

MS = 1_000_000


def planned(count: int = 80) -> Plan:
    return plan(random.Random(12), count)


def slower(clean: Plan) -> Plan:
    """A build whose decoders take 2.5 times as long."""
    return replace(clean, setup=replace(clean.setup, decoder_ns=2.5 * clean.setup.decoder_ns))


def recorded(of: Plan, seed: int) -> Recorded:
    return run(list(of.asked), of.setup, seed)


def measured(of: Plan, seed: int) -> Side:
    with connection(recorded(of, seed)) as con:
        found = side(con)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def sides() -> tuple[Side, Side, Side]:
    """A build, the same again, and one with slower decoders."""
    clean = planned()
    return measured(clean, 1), measured(clean, 2), measured(slower(clean), 3)


def test_a_slower_build_is_told_with_its_class_and_its_part(sides: tuple[Side, Side, Side]) -> None:
    said = compared([sides[0]], [sides[2]], USUAL)
    assert said.same_requests and said.said == "regressed"
    lines = {line.name: line for line in said.lines}
    for percent in (50, 90, 99):
        line = lines[f"tpot_p{percent}"]
        ours, theirs = (one.tpot[~np.isnan(one.tpot)] for one in (sides[0], sides[2]))
        assert (line.base, line.head) == tuple(float(np.percentile(each, percent)) for each in (ours, theirs))
        assert line.beyond == 80 * (100 - percent) // 100
    assert lines["tpot_p50"].verdict.said == "regressed"
    change, low, high = lines["tpot_p50"].change
    assert low is not None and high is not None and 0 < low < change < high
    assert lines["tpot_p50"].parts[0].kind in ("decode", "longer_batch")
    classes = {one.kind: one for one in said.classes}
    assert classes["decode"].verdict.said == "regressed" and classes["decode"].head_ns > classes["decode"].base_ns
    assert compared([sides[2]], [sides[0]], USUAL).said == "improved"


def test_the_same_build_again_is_not_told_and_a_run_equals_itself(sides: tuple[Side, Side, Side]) -> None:
    again = compared([sides[0]], [sides[1]], USUAL)
    assert {line.verdict.said for line in again.lines} <= {"ambiguous", "same"}
    assert compared([sides[0]], [sides[0]], USUAL).said == "same"


def test_drift_between_captures_widens_the_interval_until_nothing_is_told(sides: tuple[Side, Side, Side]) -> None:
    sure = compared([sides[0]], [sides[2]], USUAL).lines[3].verdict
    wide = compared([sides[0]], [sides[2]], USUAL, drift=0.5).lines[3].verdict
    assert wide.low is not None and sure.low is not None and wide.high is not None and sure.high is not None
    assert wide.high / wide.low > sure.high / sure.low and wide.said == "ambiguous"


def test_several_captures_a_side_are_a_value_each(sides: tuple[Side, Side, Side]) -> None:
    slow = slower(planned())
    several = compared([sides[0], sides[1]] * 3, [sides[2], measured(slow, 5)] * 3, USUAL)
    median = next(line for line in several.lines if line.name == "tpot_p50")
    assert (median.verdict.method, median.verdict.n, median.verdict.said) == ("sets", 6, "regressed")
    good = next(line for line in several.lines if line.name == GOODPUT)
    assert good.base == pytest.approx(np.mean([one.value(GOODPUT, USUAL) for one in sides[:2]]))


def test_another_load_is_said_and_few_requests_tell_nothing(sides: tuple[Side, Side, Side]) -> None:
    clean = planned()
    longer = replace(clean, asked=tuple(replace(one, prompt=3 * one.prompt) for one in clean.asked))
    said = compared([sides[0]], [measured(longer, 4)], USUAL)
    assert not said.same_requests and said.unlike == ("prompt_tokens",)
    few = measured(replace(clean, asked=clean.asked[:20]), 1)
    assert {line.verdict.said for line in compared([few], [measured(clean, 3)], USUAL).lines} == {"ambiguous"}


def test_goodput_goes_by_the_objectives(sides: tuple[Side, Side, Side]) -> None:
    for slo in (USUAL, Slo(10 * MS, 5 * MS)):
        line = next(one for one in compared([sides[0]], [sides[2]], slo).lines if one.name == GOODPUT)
        for value, of in ((line.base, sides[0]), (line.head, sides[2])):
            good = [ttft <= slo.ttft_ns and not tpot > slo.tpot_ns for ttft, tpot in zip(of.ttft, of.tpot, strict=True)]
            assert value == pytest.approx(sum(good) / 80)
        assert line.change[0] == pytest.approx(line.head - line.base)


def test_objectives_are_read_as_they_are_written(tmp_path: Path) -> None:
    assert objectives("ttft=1500.5, tpot=30") == Slo(1_500_500_000, 30 * MS)
    assert objectives("tpot=9") == Slo(USUAL.ttft_ns, 9 * MS)
    for wrong in ("", "ttft", "ttft=-1", "e2e=3", "ttft=1;tpot=2", "ttft=1e9"):
        with pytest.raises(ValueError, match="no list of objectives"):
            objectives(wrong)
    file = tmp_path / "npulens.toml"
    file.write_text('[serving]\nslo = "ttft=80"\n')
    assert read_settings(file).slo == Slo(80 * MS, USUAL.tpot_ns)
    for wrong in ('slo = "fast"', "slo = 3", 'other = ""'):
        file.write_text(f"[serving]\n{wrong}\n")
        with pytest.raises(ValueError, match="serving"):
            read_settings(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two builds asked the same, as files."""
    place = tmp_path_factory.mktemp("builds")
    write(recorded(planned(), 1), place / "build1")
    write(recorded(slower(planned()), 3), place / "build2")
    return place


@pytest.fixture(scope="module")
def store(files: Path) -> Path:
    for name in ("build1", "build2"):
        ingest.load(files / name, files / "store", label=name)
    return files / "store"


def asked(store: Path, *words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--store", str(store)])
    assert done.exit_code == 0, done.output
    return json.loads(done.output) if "--json" in words else done.output


def test_the_command_says_it_to_people_and_to_scripts(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(store, "compare", "build1", "build2", "--json")["requests"]
    figures = {one["name"]: one for one in found["figures"]}
    assert found["verdict"] == "regressed" and figures["tpot_p50"]["verdict"] == "regressed"
    english, chinese = (asked(store, "compare", "build1", "build2", "--lang", lang) for lang in ("en", "zh"))
    assert "TPOT P99" in english and "the very same requests" in english and "Regressed" in english
    assert "变慢" in chinese and "请求及其顺序完全相同" in chinese
    done = CliRunner().invoke(main, ["compare", "build1", "build2", "--fail-on-regression", "--store", str(store)])
    assert done.exit_code == 1
    # Objectives come from the option, else from npulens.toml; check, requests and compare count by the same.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "npulens.toml").write_text('[serving]\nslo = "ttft=20,tpot=5"\n')
    words = ("build2", "--json")
    both = asked(store, "compare", "build1", *words)["requests"]
    head = next(one for one in both["figures"] if one["name"] == GOODPUT)["head"]
    good = asked(store, "requests", *words)["goodput"]["good"]
    assert good == pytest.approx(head * 80) and good < 80
    wide = (*words, "--slo", "ttft=9000,tpot=900")
    checked = asked(store, "check", *wide)["serving"]
    assert checked["slo"] == {"ttft_ns": 9000 * MS, "tpot_ns": 900 * MS}
    assert checked["good"] == asked(store, "requests", *wide)["goodput"]["good"] == 80


def test_nights_keep_percentiles_goodput_and_classes(files: Path, tmp_path: Path, sides: tuple[Side, ...]) -> None:
    lab = Lab(tmp_path, '[[watch]]\nname = "serving"\npath = "captures"\nsettle = 0.0\n')
    for day, name in enumerate(("build1", "build2"), 1):
        shutil.copytree(files / name, tmp_path / "captures" / name)
        lab.run("--night", f"2026-03-0{day}")
    rows = [{row.metric: row for row in lab.night(f"2026-03-0{day}").rows} for day in (1, 2)]
    names = {f"{measure}_p{percent}_ns" for measure in ("ttft", "tpot") for percent in (50, 90, 99)}
    assert {*names, GOODPUT, "iteration_ns decode", "iteration_ns mixed"} <= set(rows[0])
    for found, of in zip(rows, (sides[0], sides[2]), strict=True):
        assert found["tpot_p50_ns"].value == pytest.approx(of.value("tpot_p50", USUAL), rel=0.02)
        assert (found[GOODPUT].unit, found[GOODPUT].better) == ("%", "higher")

    from npulens.app.nightly import work

    before, after = (each["tpot_p50_ns"] for each in rows)
    moved = work.explained(lab.store, [
        replace_row(after, verdict="regressed", by="history", fresh=True, base_run=before.run_id),
    ])[0]  # fmt: skip
    assert moved.parts and moved.parts_ns is not None and moved.residual_ns is not None
    assert sum(part.delta_ns for part in moved.parts) + moved.residual_ns == moved.parts_ns
    assert moved.parts[0].what == made_of([sides[0]], [sides[2]], "tpot", 50)[0].kind


def replace_row(row: Any, **values: Any) -> Any:
    from msgspec.structs import replace as changed

    return changed(row, **values)


def test_a_job_leaves_a_capture(files: Path, tmp_path: Path) -> None:
    """A session copies what a server and its client would have left."""
    lab = Lab(
        tmp_path,
        f"""
[[job]]
name = "serve"
command = ["{{python}}", "serve.py", "{files}/build2"]
measure = "capture"
rounds = 1
""",
    )
    (tmp_path / "serve.py").write_text(
        "import os, shutil, sys\nshutil.copytree(sys.argv[1], os.environ['NPULENS_CAPTURE'], dirs_exist_ok=True)\n"
    )
    lab.run("--night", "2026-03-01")
    assert "tpot_p50_ns" in {row.metric for row in lab.night("2026-03-01").rows}
