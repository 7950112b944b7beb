"""Changes of several things at once: all kernels alike, a late rank, drift from the history, and who is told what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.regression.capture_drift import drift_of
from npulens.analysis.regression.change import _clock_step_ns
from npulens.analysis.regression.common_factor import Moved, common_factor
from npulens.analysis.regression.late import Late, late
from npulens.analysis.regression.pieces import Measured, OfRank, measure
from npulens.app.cli import main
from npulens.ingest.store import history
from npulens.ingest.store.history import Identity, Point
from tests.captures_of_kernels import capture, varied
from tests.pairs.together import pairs
from tests.tablecase import connection

SAMPLES = Path(ingest.__file__).resolve().parents[1] / "sample_traces"
KERNELS = [(f"layer_{place}", 100_000 + 40_000 * (place * 3 % 7)) for place in range(12)]


def said(store: Path, *args: str) -> str:
    done = CliRunner().invoke(main, ["compare", *args, "--store", str(store)])
    assert done.exit_code == 0, done.output
    return done.output


def asked(store: Path, *args: str) -> dict[str, Any]:
    found = json.loads(said(store, *args, "--json"))
    assert sum(one["delta_ns"] for one in found["contributions"]) + found["residual_ns"] == found["delta_ns"]
    return dict(found)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One job, with a slower clock, with two kernels fused, with one kernel slower; and on another device."""
    place = tmp_path_factory.mktemp("together")
    fused = [*KERNELS[:4], ("fused_4_5", round(0.7 * (KERNELS[4][1] + KERNELS[5][1]))), *KERNELS[6:]]
    slower = [*KERNELS[:4], (KERNELS[4][0], round(KERNELS[4][1] * 1.6)), *KERNELS[5:]]
    cold = [[(name, 3 * ns) for name, ns in KERNELS], *varied(KERNELS, 10)]
    for label, steps, device in (
        ("usual", varied(KERNELS, 10), "Ascend910B3"), ("clock", varied(KERNELS, 10, 1.06), "Ascend910B3"),
        ("fused", varied(fused, 10), "Ascend910B3"), ("slower", varied(slower, 10), "Ascend910B3"),
        ("elsewhere", cold, "Ascend910B4"),
    ):  # fmt: skip
        ingest.load(capture(place / f"{label}.json", steps, device), place / "store", label=label)
    for name in ("kineto", "torch_npu_text"):
        ingest.load(SAMPLES / name, place / "store", label=name)
    return place / "store"


def test_all_kernels_alike_are_one_line_and_stand_below_it(store: Path) -> None:
    found = asked(store, "usual", "clock")
    lead = found["contributions"][0]
    assert (lead["state"], lead["what"], len(lead["parts"])) == ("alike", "kernels_alike", 12)
    assert lead["factor"] == pytest.approx(0.06, abs=0.001)
    assert sum(part["delta_ns"] for part in lead["parts"]) == lead["delta_ns"]
    low, high = lead["interval_ns"]
    assert low < 0.06 * sum(ns for _, ns in KERNELS) < high
    text = said(store, "usual", "clock")
    assert "all 12 kernels alike: +6 % each" in text and text.index("kernels alike") < text.index("layer_")
    assert "同幅变化" in said(store, "usual", "clock", "--lang", "zh")


def test_one_slower_kernel_is_no_clock(store: Path) -> None:
    lead = asked(store, "usual", "slower")["contributions"][0]
    assert (lead["what"], lead["state"], lead["parts"]) == ("layer_4", "time", [])


def test_a_fusion_and_a_split_name_their_members(store: Path) -> None:
    lead = asked(store, "usual", "fused")["contributions"][0]
    members = {"base": ["layer_4", "layer_5"], "head": ["fused_4_5"]}
    assert (lead["state"], lead["members"], lead["before"]) == ("fused", members, "layer_4 + layer_5")
    assert "fused_4_5 · fused from layer_4 + layer_5" in said(store, "usual", "fused")
    back = asked(store, "fused", "usual")["contributions"][0]
    assert (back["state"], back["delta_ns"]) == ("split", -lead["delta_ns"])
    assert "layer_4 + layer_5 · split, was fused_4_5" in said(store, "fused", "usual")


@pytest.mark.parametrize(("base", "head", "about"), [
    ("usual", "elsewhere", {"devices", "warm_up"}), ("kineto", "torch_npu_text", {"formats"}),
])  # fmt: skip
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_scripts_are_told_every_line_that_people_are(store: Path, base: str, head: str, about: set[str],
                                                     lang: str) -> None:  # fmt: skip
    lines = said(store, base, head, "--lang", lang).splitlines()
    found = asked(store, base, head, "--lang", lang)
    told = [line.removeprefix("  ◐ ") for line in lines if line.startswith("  ◐ ")]
    assert told and [one["text"] for one in found["warnings"]] == told
    assert about <= {one["about"] for one in found["warnings"]}
    assert found["reasons"] == [line.removeprefix("  ") for line in lines[1 : 1 + len(found["reasons"])]]
    assert lines[1 + len(found["reasons"])] == ""
    if "devices" in about:
        (devices,) = (one for one in found["warnings"] if one["about"] == "devices")
        assert devices["values"] == {"base": ["Ascend910B3"], "head": ["Ascend910B4"]}


def test_drift_comes_from_the_history_unless_it_is_given(store: Path) -> None:
    """The captures of before lie up to 4 % apart: a change of 6 % is none to be sure of."""
    assert asked(store, "usual", "clock")["drift"]["source"] == "unknown"
    run_id = asked(store, "usual", "clock")["base"]
    identity = Identity("nightly job")
    values = [2.0e6 * (1 + share) for share in (0.04, -0.04, 0.02, -0.03, 0.03, -0.02, 0.0, 0.01)]
    history.add(store, identity, [Point("", "step_ns", "ns", "lower", value, place, run_id=f"{place:064x}")
                                  for place, value in enumerate(values)])  # fmt: skip
    own = Point("", "step_ns", "ns", "lower", 9.9e6, 99, run_id=run_id)
    history.replace_run(store, run_id, identity, [own])
    found = asked(store, "usual", "clock")
    assert found["verdict"] == "ambiguous"
    assert found["drift"] == {"share": pytest.approx(np.std(np.log(values), ddof=1), rel=0.05), "source": "history",
                              "captures": 8, "workload": "nightly job"}  # fmt: skip
    assert "8 earlier captures of nightly job" in said(store, "usual", "clock")
    off = asked(store, "usual", "clock", "--drift", "0")
    assert (off["verdict"], off["drift"]["source"]) == ("regressed", "off")
    assert any("not counted" in line for line in off["reasons"])
    assert asked(store, "usual", "clock", "--drift", "0.05")["drift"]["source"] == "given"


def test_nights_on_which_the_job_changed_are_no_drift() -> None:
    noise = np.random.default_rng(5).normal(0, 0.004, 60)
    level = np.where(np.arange(60) < 30, 1e6, 1.3e6)
    found = drift_of((level * np.exp(noise)).tolist(), "job")
    assert found.captures == 60 and 0.003 < found.share < 0.005
    assert drift_of([1e6, 1.1e6, 1e6, 1.1e6], "job").source == "unknown"


def test_a_common_factor_by_hand() -> None:
    alike = [Moved(1000, 1050, 8.0), Moved(2000, 2104, 16.0), Moved(500, 523, 4.0)]
    assert common_factor(alike, 0, 0.01) == pytest.approx(177 / 3500)
    assert common_factor(alike, 100, 0.01) is None  # a new kernel makes a third of the change
    assert common_factor(alike[:2], 0, 0.01) is None  # two are no pattern
    assert common_factor([*alike, Moved(1000, 1000, 8.0)], 0, 0.01) is None  # one stayed
    assert common_factor([replace(one, reach_ns=None) for one in alike], 0, 0.01) is None
    assert common_factor([replace(one, reach_ns=500.0) for one in alike], 0, 0.01) is None  # all of it may be noise
    assert common_factor([Moved(1000, 1000, 8.0)] * 3, 0, 0.01) is None


def test_whole_microseconds_hide_what_short_kernels_change_by() -> None:
    """Three kernels of 100 us take 5 % longer. Two of 1 us, twelve times, cannot: there is no stamp between 1 and 2."""
    long = [Moved(100_000, 105_000, 1_000.0, 1_000.0)] * 3
    short = Moved(12_000, 12_000, 0.0, 12_000.0)
    assert common_factor([*long, short, short], 0, 0.01) == pytest.approx(15_000 / 324_000)
    exact = replace(short, blur_ns=12.0)  # in ns they certainly stayed, and two of five are no chance
    assert common_factor([*long, exact, exact], 0, 0.01) is None


def test_what_a_clock_steps_by() -> None:
    def of(*ns: int) -> int:
        return _clock_step_ns(pd.DataFrame({"kind": ["kernel"] * len(ns) + ["gap"], "whole_ns": [*ns, 7]}))

    assert of(3_000, 8_000) == 1_000 and of(300_000) == 1_000 and of(1_240, 320) == 40 and of() == 0


def ranked(*ranks: tuple[int, int, int]) -> Measured:
    """Ranks of two windows: kernels, exposed communication and gaps of each window."""
    one = measure(connection({"spans": [{"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 1}]}))
    kinds = ("kernel", "communication", "gap")
    return replace(one, ranks=tuple(
        OfRank(rank, 2, 2 * sum(each), tuple((kind, 2 * ns) for kind, ns in zip(kinds, each, strict=True)))
        for rank, each in enumerate(ranks)
    ))  # fmt: skip


def test_the_rank_that_is_late_by_hand() -> None:
    base, head = ranked((100, 10, 5), (100, 12, 5), (100, 11, 5)), ranked((100, 40, 5), (100, 12, 35), (101, 40, 5))
    assert late([base], [head]) == Late(1, "gap", 30, round(29.5))
    assert late([head], [base]) == Late(1, "gap", -30, round(-29.5))
    every = ranked((130, 10, 5), (130, 12, 5), (130, 11, 5))
    assert late([base], [every]) is None  # all of them are slower: nobody waits
    link = ranked((100, 40, 5), (100, 42, 5), (100, 41, 5))
    assert late([base], [link]) is None  # communication itself is slower
    assert late([base], [ranked((100, 10, 5))]) is None


def test_the_clock_of_both_sides_is_said() -> None:
    spans = [{"id": 1000 + place, "kind": "step_mark", "name": f"ProfilerStep#{place}", "at": 100 * place, "for": 100}
             for place in range(2)]  # fmt: skip
    samples = [{"rank": 0, "counter": "AI Core Freq", "series": "MHz", "at": at, "value": mhz} for at, mhz in (
        (0, 1800), (50, 900), (100, 1800), (150, 900))]  # fmt: skip
    assert measure(connection({"spans": spans, "tables": {"sample": samples}})).mhz == pytest.approx(1350)
    assert measure(connection({"spans": spans})).mhz is None


def test_planted_pairs_are_told_as_what_they_are() -> None:
    """`python -m tests.pairs --together` tries 200; here one of each kind."""
    for one in pairs(4, 5, ("fused", "split", "clock", "late")):
        assert one.right and one.residual_ns == 0, one
