"""What proves evidence: each comparison believes what fits and nothing else; real captures trip no sign."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from npulens.analysis.proof import clocks, cycles, device_time, exports, numerics, planted, raw, signs, steps
from npulens.analysis.proof.clocks import Moment, Recorded
from npulens.analysis.proof.cycles import Core
from npulens.analysis.proof.verdict import BELIEVED, NOT_BELIEVED, NOT_THERE, Verdict
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.app.commands.evidence import sentence
from npulens.app.evidence.opened import MANIFEST, fits
from npulens.app.evidence.packing import pack_evidence
from npulens.app.text.i18n import known
from npulens.collectors.evidence import drawn, run
from npulens.collectors.evidence.cases import positions
from npulens.collectors.simulator.simulated import AscendOptions, SimConfig, simulate, write_both
from npulens.ingest import load
from npulens.ingest.store import runs as stores
from npulens.ingest.store.redact import Redactor
from npulens.ingest.store.redact_database import redacted_database
from tests.real_captures import loaded
from tests.tablecase import connection

ROOT = Path(__file__).resolve().parent.parent
MS = 1_000_000


def said(verdict: Verdict) -> tuple[str, str]:
    """Outcome and sentence's name; the sentence can be filled in both languages."""
    for lang in ("en", "zh"):
        assert "{" not in sentence(verdict, lang)
    return verdict.outcome, verdict.said


# Two exports
EVENTS = [("matmul", 1000, 500), ("matmul", 2000, 501), ("relu", 1600, 40)]


@pytest.mark.parametrize(("other", "within", "outcome"), [
    (EVENTS, 0, BELIEVED),
    (list(reversed(EVENTS)), 0, BELIEVED),
    ([("matmul", 1000, 501), ("matmul", 2000, 500), ("relu", 1601, 40)], 1, BELIEVED),
    ([("matmul", 1000, 501), ("matmul", 2000, 501), ("relu", 1600, 40)], 0, NOT_BELIEVED),
    (EVENTS[:2], 1, NOT_BELIEVED),
    ([*EVENTS, ("gelu", 3000, 1)], 1, NOT_BELIEVED),
    ([("gelu", 1000, 500), *EVENTS[1:]], 1, NOT_BELIEVED),
])  # fmt: skip
def test_two_exports_hold_the_same_events(other: list[exports.Event], within: int, outcome: str) -> None:
    assert said(exports.alike("x", EVENTS, other, within))[0] == outcome


def test_names_that_only_the_events_in_memory_have_may_be_left_aside() -> None:
    more = [*EVENTS, ("gpu_user_annotation", 3000, 1)]
    assert exports.alike("x", EVENTS, more, whole=False).outcome == BELIEVED
    assert exports.alike("x", EVENTS[1:], more, whole=False).outcome == NOT_BELIEVED
    assert said(exports.alike("x", [], []))[0] == NOT_THERE


# Steps
def stepping(*, marks: tuple[tuple[int, int], ...], ops: tuple[tuple[str, int], ...]) -> Run:
    spans: list[dict[str, Any]] = [
        {"id": 1 + at, "kind": "step_mark", "name": f"ProfilerStep#{at}", "at": begin, "for": length}
        for at, (begin, length) in enumerate(marks)
    ]
    spans += [{"id": 100 + at, "kind": "cpu_op", "name": name, "at": begin, "for": 5}
              for at, (name, begin) in enumerate(ops)]  # fmt: skip
    con = connection({"spans": spans, "run": {"origin_ns": 10**18}})
    install(con)
    return Run(con)


def test_steps_lie_where_the_job_says() -> None:
    """Marks of 20 ms from 0 and 30 ms on; times of the case are microseconds."""
    con = stepping(marks=((0, 20_000), (30_000, 20_000)), ops=()).con
    there = [[10**18 + 1 * MS, 10**18 + 19 * MS], [10**18 + 31 * MS, 10**18 + 49 * MS]]
    assert said(steps.where_they_were(con, "x", 0, there)) == (BELIEVED, "steps_where")
    late = [[begin + 12 * MS, end + 12 * MS] for begin, end in there]
    for told in (late, there[:1], [[begin - 12 * MS, end] for begin, end in there]):
        assert said(steps.where_they_were(con, "x", 0, told)) == (NOT_BELIEVED, "steps_where_not")
    assert said(steps.where_they_were(con, "x", 0, [])) == (NOT_THERE, "steps_untold")


def test_every_step_does_the_same() -> None:
    marks = ((0, 100), (200, 100), (400, 100))
    same = (("mm", 10), ("relu", 20), ("mm", 210), ("relu", 220), ("mm", 410), ("relu", 420))
    assert said(steps.alike(stepping(marks=marks, ops=same).con, "x", 0)) == (BELIEVED, "repeated_alike")
    found = steps.alike(stepping(marks=marks, ops=same[:-1]).con, "x", 0)
    assert said(found) == (NOT_BELIEVED, "repeated_alike_not")
    assert (found.seen["unlike"], found.seen["step"], found.seen["name"]) == (1, 2, "relu")
    assert said(steps.alike(stepping(marks=marks[:1], ops=same[:2]).con, "x", 0))[0] == NOT_THERE


# Cycles
def test_cores_give_one_clock_and_are_done_in_time() -> None:
    good = [Core(10_000 + 100 * at, 8_000, 1800 + at % 3) for at in range(40)]
    assert said(cycles.one_clock("x", good)) == (BELIEVED, "cycles_agree")
    assert cycles.one_clock("x", good).seen["mhz"] == 1801
    slower = [Core(core.dur_ns, core.core_ns, core.mhz * (0.9 if at < 5 else 1)) for at, core in enumerate(good)]
    longer = [Core(core.dur_ns, core.dur_ns * 1.1 if at < 5 else 8_000, core.mhz) for at, core in enumerate(good)]
    for wrong in (slower, longer):
        assert said(cycles.one_clock("x", wrong)) == (NOT_BELIEVED, "cycles_agree_not")
    assert said(cycles.one_clock("x", good[:3])) == (NOT_THERE, "cycles_untold")


def test_cores_are_read_from_the_counters() -> None:
    """32 blocks that were busy for 50.522 us at 1.8 GHz count 2,910,067 cycles; other cores of the kernel none."""
    kernel = {"core": "AI_VECTOR_CORE", "block_num": 32, "mix_block_num": 0}
    con = connection(
        {"spans": [{"id": 1, "kind": "kernel", "name": "TransData", "at": 0, "for": 53.741, "kernel": kernel}]}
    )
    rows = [
        ("aicore_time(us)", 0.0),
        ("aic_total_cycles", 0.0),
        ("aiv_time(us)", 50.522),
        ("aiv_total_cycles", 2910067.0),
    ]
    con.executemany("INSERT INTO pmu VALUES (1, 0, ?, ?)", rows)
    (core,) = cycles.cores(con)
    assert (core.dur_ns, core.core_ns) == (53_741, 50_522.0)
    assert core.mhz == pytest.approx(1800.0, abs=0.1)


# A step by events
@pytest.mark.parametrize(
    ("event_us", "outcome"), [(70, BELIEVED), (100, BELIEVED), (50, NOT_BELIEVED), (140, NOT_BELIEVED)]
)
def test_events_lie_between_the_kernels_sum_and_their_span(event_us: int, outcome: str) -> None:
    """Two kernels of 30 us, 100 us from the first to the end of the last."""
    spans: list[dict[str, Any]] = [{"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 200}]
    spans += [{"id": 2 + at, "kind": "kernel", "name": "k", "at": begin, "for": 30, "kernel": {}}
              for at, begin in enumerate((10, 80))]  # fmt: skip
    con = connection({"spans": spans})
    install(con)
    assert said(device_time.against_kernels(con, "x", event_us * 1000, "npu"))[0] == outcome
    assert said(device_time.against_kernels(con, "x", event_us * 1000, "cpu")) == (NOT_THERE, "events_cpu")


# Clocks
def recorded(name: str = "a", at_ms: int = 100, **more: Any) -> Recorded:
    """From 100 to 200 ms of the run; the machine was started 1 s before it."""
    begun, ended = (Moment(at * MS, at * MS + 1000 * MS) for at in (at_ms, at_ms + 100))
    first, last = (at_ms + 10) * MS, (at_ms + 90) * MS
    return Recorded(**{"name": name, "part": "planted", "pid": 7, "begun": begun, "ended": ended, "first_ns": first,
                       "last_ns": last, "traced_pid": 7, **more})  # fmt: skip


@pytest.mark.parametrize(("more", "outcome"), [
    ({}, (BELIEVED, "stamps")), ({"traced_pid": None}, (BELIEVED, "stamps")),
    ({"first_ns": None}, (NOT_THERE, "stamps_untold")),
    ({"traced_pid": 8}, (NOT_BELIEVED, "stamps_process_not")),
    ({"first_ns": 40 * MS}, (NOT_BELIEVED, "stamps_not")), ({"last_ns": 260 * MS}, (NOT_BELIEVED, "stamps_not")),
    ({"started": (1150 * MS,)}, (BELIEVED, "stamps")), ({"started": (3500 * MS,)}, (NOT_BELIEVED, "stamps_not")),
])  # fmt: skip
def test_stamps_lie_within_their_recording(more: dict[str, Any], outcome: tuple[str, str]) -> None:
    assert said(clocks.within(recorded(**more))) == outcome


def test_recordings_are_in_order_within_the_run() -> None:
    run = Moment(0, 1000 * MS), Moment(1000 * MS, 2000 * MS)
    good = [recorded("a", 100), recorded("b", 300), recorded("b", 310), recorded("c", 500)]  # b: two ranks
    assert said(clocks.in_order(*run, good)) == (BELIEVED, "order")
    drifted = recorded("d", 700, ended=Moment(800 * MS, 2600 * MS))
    for wrong in ([recorded("a", 100), recorded("b", 150)], [recorded("b", 300), recorded("a", 100)],
                  [recorded("z", 950)], [recorded("z", -50)], [drifted]):  # fmt: skip
        verdict = clocks.in_order(*run, wrong)
        assert said(verdict) == (NOT_BELIEVED, "order_not")
        assert verdict.seen["wrong"] == wrong[-1].name
    assert said(clocks.in_order(*run, []))[0] == NOT_THERE


def test_a_part_is_one_process() -> None:
    assert said(clocks.same_process([recorded("a"), recorded("b")])) == (BELIEVED, "process")
    assert said(clocks.same_process([recorded("a"), recorded("b", pid=8)])) == (NOT_BELIEVED, "process_not")
    ranks = [recorded("r", part="ranks"), recorded("r", part="ranks", pid=8)]
    assert clocks.same_process(ranks).outcome == BELIEVED


# Numerics
TRUTHS = {"w": [{"values": [1.0, -2.0, 0.0], "size": 2.0}]}


@pytest.mark.parametrize(("values", "allowed", "outcome"), [
    ([[1.00001, -2.0, 0.00001]], 1e-5, BELIEVED),
    ([[1.001, -2.0, 0.0]], 1e-5, NOT_BELIEVED),
    ([[1.001, -2.0, 0.0]], 1.0, BELIEVED),  # never wider than the type's own 5e-3, times 20
    ([[1.5, -2.0, 0.0]], 1.0, NOT_BELIEVED),
    ([[float("nan"), -2.0, 0.0]], 1e-5, NOT_BELIEVED),
    ([[1.0, -2.0]], 1e-5, NOT_BELIEVED), ([[1.0, -2.0, 0.0]] * 2, 1e-5, NOT_BELIEVED), ([], 1e-5, NOT_BELIEVED),
])  # fmt: skip
def test_values_are_those_of_float64(values: list[list[float]], allowed: float, outcome: str) -> None:
    case = {"workload": "w", "variant": "v", "dtype": "float32", "outcome": "run", "allowed": allowed, "values": values}
    assert said(numerics.right([case], TRUTHS))[0] == outcome
    assert said(numerics.right([case], None)) == (NOT_THERE, "numerics_no_torch")
    assert said(numerics.right([{**case, "outcome": "not here"}], TRUTHS)) == (NOT_THERE, "numerics_untold")
    assert numerics.right([{**case, "workload": "other"}], TRUTHS).outcome == NOT_BELIEVED


@pytest.mark.parametrize(
    ("count", "places"), [(0, []), (1, [0]), (3, [0, 1, 2]), (71, [0, 10, 20, 30, 40, 50, 60, 70])]
)
def test_values_stand_at_fixed_positions(count: int, places: list[int]) -> None:
    assert positions(count) == places


# Planted faults
def late(idle_us: tuple[int, ...]) -> Run:
    """Steps of 100 ms on a device, each with a kernel of 20 ms, idle time of the host's, and a kernel to the end."""
    spans: list[dict[str, Any]] = []
    for at, idle in enumerate(idle_us):
        begin, mark, launch = 100_000 * at, 10 * at, 1000 + 10 * at
        spans += [
            {"id": 1 + mark, "kind": "step_mark", "name": f"ProfilerStep#{at}", "at": begin, "for": 100_000},
            {"id": launch, "kind": "runtime", "name": "launch", "at": begin + 1, "for": 2},
            {"id": 2 + mark, "kind": "kernel", "name": "k", "at": begin + 5, "for": 19_995, "by": launch, "kernel": {}},
            {"id": 3 + mark, "kind": "annotation", "name": "sleep", "at": begin + 20_000, "for": idle - 10},
            {"id": launch + 1, "kind": "runtime", "name": "launch", "at": begin + 20_000 + idle - 5, "for": 2},
            {"id": 4 + mark, "kind": "kernel", "name": "k", "at": begin + 20_000 + idle, "for": 80_000 - idle,
             "by": launch + 1, "kernel": {}},
        ]  # fmt: skip
    con = connection({"spans": spans})
    install(con)
    return Run(con)


def test_planted_sleeps_are_in_the_capture_step_by_step() -> None:
    run = late((30_000, 40_000, 50_000))
    slept = [29_900 * 1000, 39_900 * 1000, 49_900 * 1000]
    wanted = [ns - 1000 for ns in slept]
    good = planted.sleeps(run, "x", "host_late", slept, wanted, ["slow_tail", "host_late"], "sleep")
    assert [said(each) for each in good] == [
        (BELIEVED, "planted_slept"), (BELIEVED, "planted_span"), (BELIEVED, "named"),
    ]  # fmt: skip
    assert good[0].seen["found_ns"] == pytest.approx(120_000 * 1000, rel=0.001)
    one_more = planted.sleeps(run, "x", "host_late", [slept[0], slept[1], 60 * MS], wanted, [], "sleep")
    assert [said(each) for each in one_more] == [
        (NOT_BELIEVED, "planted_slept_not"), (NOT_BELIEVED, "planted_span_not"), (NOT_BELIEVED, "named_not"),
    ]  # fmt: skip
    too_much = planted.sleeps(run, "x", "host_late", [ns // 2 for ns in slept], [0, 0, 0], ["host_late"], None)
    assert said(too_much[0]) == (NOT_BELIEVED, "planted_slept_not")
    early = planted.sleeps(run, "x", "host_late", slept, [ns + 1 for ns in slept], ["host_late"], None)
    assert [said(each) for each in early] == [(NOT_BELIEVED, "planted_told_not")]


def test_planted_copies_are_there_with_their_bytes() -> None:
    spans: list[dict[str, Any]] = [{"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 900}]
    sizes = (1 << 20, 3 << 20, 512)
    spans += [
        {"id": 2 + at, "kind": "memcpy", "name": "copy", "at": 100 * at + 10, "for": 20,
         "transfer": {"direction": "h2d", "bytes": size}}
        for at, size in enumerate(sizes)
    ]  # fmt: skip
    run = Run(connection({"spans": spans}))
    assert said(planted.copies(run, "x", [[1 << 20, 3 << 20]])) == (BELIEVED, "copied")
    for other in ([[3 << 20, 1 << 20]], [[1 << 20]], [[1 << 20, (3 << 20) + 4]]):
        assert said(planted.copies(run, "x", other)) == (NOT_BELIEVED, "copied_not")


# Raw data, shapes, challenges, redaction
PROF = "capture/a_ascend_pt/PROF_000001_20260101/"


def test_raw_data_of_the_device_lies_beside_its_export() -> None:
    good = {f"{PROF}device_0/data/stars_soc.data.0.slice_0": 4096, f"{PROF}host/data/unaging.slice_0": 10}
    assert said(raw.kept("x", good)) == (BELIEVED, "raw_kept")
    for wrong in ({}, {name: 0 for name in good}, dict([*good.items()][:1]), dict([*good.items()][1:]),
                  {"capture/PROF_1/device_0/data/x.slice_0.done": 9, "capture/PROF_1/host/x": 9}):  # fmt: skip
        assert said(raw.kept("x", wrong)) == (NOT_BELIEVED, "raw_kept_not")


@pytest.mark.parametrize(("value", "shape", "good"), [
    ({"a": 1, "b": []}, {"a": int}, True), ({"b": 1}, {"a": int}, False), ({"a": True}, {"a": int}, False),
    ({"a": 1 << 70}, {"a": int}, False), ([[1, 2]], [[int]], True), ([[1, "2"]], [[int]], False),
    (None, {"a": int}, False), ({"a": 1.5}, {"a": float}, True), ("a", str, True), ([], {"a": int}, False),
])  # fmt: skip
def test_only_what_has_its_shape_is_read(value: Any, shape: Any, good: bool) -> None:
    assert fits(value, shape) is good


def test_a_challenge_decides_every_number_and_another_word_others() -> None:
    one, again, other = drawn.plan("abc"), drawn.plan("abc"), drawn.plan("abd")
    assert one == again
    assert all(one[key] != other[key] for key in one)
    flat = [size for step in one["copied_bytes"] for size in step]
    assert len(one["loader_ns"]) == len(one["late_ns"]) == len(one["copied_bytes"]) == drawn.SETTINGS.steps
    assert all(planted.COPY_BYTES <= size <= 4 << 20 and size % 4 == 0 for size in flat)
    assert drawn.word(None) != drawn.word(None)
    for wrong in ("", "two words", "a/b", "x" * 65, "wörd"):
        with pytest.raises(ValueError, match="challenge"):
            drawn.word(wrong)


def test_a_database_is_redacted_and_keeps_no_old_page(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as con:
        con.execute("CREATE TABLE STRING_IDS (id INTEGER, value TEXT)")
        con.execute('CREATE TABLE "odd ""name" (at INTEGER, "a b" TEXT, raw BLOB)')
        con.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(1, "aclnnMatmul"), (2, "/home/liwei/train.py")])
        con.execute('INSERT INTO "odd ""name" VALUES (5, \'on trainhost9\', NULL)')
    told = redacted_database(path.read_bytes(), Redactor(["trainhost9"], ["liwei"]))
    assert told is not None and b"liwei" not in told and b"trainhost9" not in told
    (tmp_path / "b.db").write_bytes(told)
    with sqlite3.connect(tmp_path / "b.db") as con:
        assert con.execute("SELECT value FROM STRING_IDS ORDER BY id").fetchall()[0] == ("aclnnMatmul",)
        assert con.execute('SELECT at, raw FROM "odd ""name"').fetchall() == [(5, None)]
    assert redacted_database(b"SQLite format 3\0" + bytes(200), Redactor([], [])) is None


def test_raw_data_and_databases_go_along_without_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "trainhost9")
    monkeypatch.setattr("getpass.getuser", lambda: "liweijun")
    rank = tmp_path / "place/recordings/x/capture/trainhost9_5_ascend_pt"
    data = rank / "PROF_000001_20260101/device_0/data"
    data.mkdir(parents=True)
    (data / "stars.slice_0").write_bytes(b"\0\1trainhost9\0liweijun\2")
    (data.parent / "info.json.0").write_text('{"hostname": "trainhost9", "pid": 7, "dir": "/home/liweijun/jobs"}')
    (rank / "left.bin").write_bytes(b"\0\xff")
    with sqlite3.connect(rank / "a.db") as con:
        con.execute("CREATE TABLE T (v TEXT)")
        con.execute("INSERT INTO T VALUES ('/home/liweijun/train.py')")
    target = tmp_path / "out"
    target.mkdir()
    told = {"backend": "npu", "challenge": "0123456789abcdef", "device": "on trainhost9"}
    with zipfile.ZipFile(pack_evidence(tmp_path / "place", told, target, True, MANIFEST)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files[MANIFEST])
    home = "recordings/x/capture/host_5_ascend_pt"
    assert [*files] == [MANIFEST, *manifest["files"]]
    assert files[f"{home}/PROF_000001_20260101/device_0/data/stars.slice_0"] == b"\0\1xxxxxxxxxx\0xxxxxxxx\2"
    assert json.loads(files[f"{home}/PROF_000001_20260101/device_0/info.json.0"])["pid"] == 7
    assert not any(word in data for data in files.values() for word in (b"trainhost9", b"liweijun"))
    assert manifest["left_out"] == {f"{home}/left.bin": "cannot be redacted"}
    assert manifest["challenge"] == told["challenge"] and manifest["redacted"] is True
    for name, (size, digest) in manifest["files"].items():
        assert (len(files[name]), hashlib.sha256(files[name]).hexdigest()) == (size, digest)


# Signs of a simulator
@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A simulated NPU's recording, both exports."""
    home = tmp_path_factory.mktemp("simulator")
    write_both(simulate(SimConfig(seed=9, ranks=1, steps=6, layers=2)), home / "capture", AscendOptions("Level1"))
    report = load(home / "capture", home / "store")
    return stores.open_run(home / "store", str(report.runs[0].run_id))


def test_our_own_simulator_shows_the_signs(simulator: Any) -> None:
    assert said(signs.jitter([simulator])) == (NOT_BELIEVED, "jitter_not")
    assert said(signs.grid([simulator])) == (NOT_BELIEVED, "grid_not")
    assert said(signs.busy_cores(cycles.cores(simulator))) == (NOT_BELIEVED, "busy_cores_not")
    assert said(signs.equal([simulator])) == (BELIEVED, "equal")  # it draws every duration


def test_kernels_that_always_take_the_same_time_are_seen() -> None:
    def run(times: list[float]) -> Any:
        return connection({"spans": [
            {"id": number * 100 + at, "kind": "kernel", "name": f"k{number}", "at": 10 * at + number, "for": us,
             "kernel": {}}
            for number in range(3) for at, us in enumerate(times)
        ]})  # fmt: skip

    same, own = [5.001] * 10, [5.001 + at / 100 for at in range(10)]
    assert said(signs.equal([run(same)])) == (NOT_BELIEVED, "equal_not")
    assert said(signs.equal([run(own)])) == (BELIEVED, "equal")
    assert said(signs.equal([run([5.0] * 10)])) == (NOT_THERE, "equal_untold")  # whole microseconds


ASCEND = (
    "Ascend+msinsight/test/data/pytorch/text/level1", "Ascend+msinsight/test/data/pytorch/db/level2",
    "../traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/text/level1",
    "../traces_2/Ascend+msinsight/test/st/level2",
)  # fmt: skip
OTHERS = (
    "AMD-AGI+TraceLens/tests/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "AMD-AGI+TraceLens/tests/traces/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "facebookresearch+HolisticTraceAnalysis@hist-05cd72fe/tests/data/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "../traces_2/pytorch+ao@hist-7cb8af78/trace.json",
)  # fmt: skip


def real(place: Path) -> Any:
    if not place.exists():
        pytest.skip(f"the real capture {place.name} is not here")
    store, report = loaded(place)
    return stores.open_run(store, str(report.runs[0].run_id))


@pytest.mark.shared
@pytest.mark.parametrize("capture", ASCEND)
def test_real_npus_trip_no_sign(shared_traces: Path, capture: str) -> None:
    con = real((shared_traces / capture).resolve())
    verdicts = [signs.jitter([con]), signs.grid([con]), signs.equal([con]), signs.busy_cores(cycles.cores(con)),
                cycles.one_clock(capture, cycles.cores(con))]  # fmt: skip
    assert [(each.check, said(each)) for each in verdicts if each.outcome == NOT_BELIEVED] == []
    assert verdicts[1].outcome == BELIEVED
    assert verdicts[3].outcome == verdicts[4].outcome == BELIEVED
    assert verdicts[4].seen["mhz"] == (1650 if "st/level2" in capture else 1000 if "910A" in capture else 1800)


@pytest.mark.shared
@pytest.mark.parametrize("capture", OTHERS)
def test_other_real_devices_trip_no_sign(shared_traces: Path, capture: str) -> None:
    con = real((shared_traces / capture).resolve())
    assert said(signs.jitter([con])) == (BELIEVED, "jitter")
    assert said(signs.equal([con]))[0] != NOT_BELIEVED


# Documents and words
def test_the_list_of_archives_is_that_of_the_files() -> None:
    page = (ROOT / "docs/evidence/README.md").read_text("utf-8")
    listed = set(re.findall(r"[\w.-]+\.zip", page.partition("## Archives that passed")[2]))
    there = {path.name for path in (ROOT / "docs/evidence").rglob("*.zip")}
    assert listed == there
    assert there or "None yet." in page


def test_every_check_stands_in_the_document() -> None:
    page = (ROOT / "docs/evidence/README.md").read_text("utf-8")
    named = {name for row in re.findall(r"^\| ([a-z_, ]+) \|", page, re.MULTILINE) for name in row.split(", ")}
    assert {check for check, *_ in calls()} - named - {"rest", "part", "loaded", "told", "listed"} == set()


def calls() -> list[tuple[str, bool, str]]:
    """Check, whether it can only be disbelieved, and name of what is said, of every verdict in the code."""
    found = []
    for path in [*(ROOT / "analysis/proof").glob("*.py"), *(ROOT / "app/evidence").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ("judged", "absent"):
                continue
            values = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
            if values and isinstance(values[0], str):
                judged = getattr(node.func, "id", "") == "judged"
                found.append((values[0], judged and values[2] is True, str(values[3 if judged else 2]) + "?" * judged))
    return found


def test_everything_that_is_said_has_its_words() -> None:
    found = calls()
    assert len(found) > 40
    for _, only_wrong, name in found:
        key = f"evidence.{name.removesuffix('?')}"
        assert only_wrong or known(key), key
        assert not name.endswith("?") or known(f"{key}_not"), key


def test_the_answer_is_plain_data() -> None:
    verdict = cycles.one_clock("x", [Core(10_000, 8_000, 1800.0)] * 9)
    assert json.loads(json.dumps(verdict.as_dict()))["outcome"] == BELIEVED


def test_what_a_part_only_began_is_removed(tmp_path: Path) -> None:
    for name, begun in (("later", 2), ("begun", None), ("ranks", 1)):
        place = tmp_path / "recordings" / name
        (place / "capture").mkdir(parents=True)
        if begun is not None:
            (place / "truth.json").write_text(json.dumps({"begun": {"wall_ns": begun}}))
    run._tidy(tmp_path, "settings", False)
    assert run.recordings(tmp_path) == ["ranks", "later"]
    assert not (tmp_path / "recordings/begun").exists()
    run._tidy(tmp_path, "ranks", False)
    assert run.recordings(tmp_path) == ["later"]
