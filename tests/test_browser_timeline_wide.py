"""The timeline in a real browser: first sight, the picture of all ranks, filters, commands, flags, areas, arrows."""

# ruff: noqa: F811 -- a fixture is asked for by its name
from __future__ import annotations

from pathlib import Path

import pytest
from test_browser import CHROMIUM, browser, playwright  # noqa: F401
from timeline_screen import Screen, awake, screen, server, store  # noqa: F401
from timeline_served import Served

from npulens.app.timeline import scripts
from npulens.ingest.store import runs

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture
def tables(store: dict[str, str]) -> Served:
    """The tables of the sample on the screen, asked directly."""
    place = Path(store[""])
    return Served(next(run for run in runs.runs(place) if run.run_id == store["late"]), place, "")


def test_it_opens_on_the_steps_and_shows_ranks_in_three_ways(
    screen: Screen, store: dict[str, str], tables: Served
) -> None:
    screen.go(store["late"])
    first, last = tables.rows("SELECT min(ts_ns), max(ts_ns + dur_ns) FROM step")[0]
    assert screen.view == (first, last)
    hosts = [row for row in screen.hook("rows") if row["label"] == "Host threads"]
    assert hosts and all(row["folded"] for row in hosts)
    ranks = [rank for (rank,) in tables.rows("SELECT rank FROM rank ORDER BY rank")]
    screen.point(700, 600)
    screen.press("v")
    lanes = screen.hook("rows")
    heads = [at for at, row in enumerate(lanes) if row["type"] == "group"]
    together = [
        [row["label"] for row in lanes[at + 1 : after] if row["type"] == "track"]
        for at, after in zip(heads, [*heads[1:], len(lanes)], strict=True)
    ]
    assert [f"rank {rank}" for rank in ranks] in together
    screen.press("v")
    assert screen.hook("state.by") == "picture"
    did = [row for row in screen.hook("rows") if row["type"] == "did"]
    assert [row["label"] for row in did] == [f"rank {rank}" for rank in ranks]
    screen.point(700, did[1]["y"] + 5)
    tip = screen.page.locator(".tip").inner_text()
    assert f"rank {ranks[1]}" in tip and "%" in tip
    screen.click(700, did[1]["y"] + 5)
    assert screen.hook("by") == "ranks" and screen.view == (first, last)
    assert screen.row("rank", 1)["y"] < 60 or screen.hook("state.y")


def test_links_of_evidence_stay_exact_and_within_the_capture(
    screen: Screen, store: dict[str, str], tables: Served
) -> None:
    span, ts, dur = tables.rows("SELECT span_id, ts_ns, dur_ns FROM span ORDER BY dur_ns DESC, span_id LIMIT 1")[0]
    for first, last, span_word in (
        (ts - 7, ts + dur + 11, f"&span={span}"),
        (ts + 1, 10**15, f"&span={span}"),
        (3, 1000, ""),
    ):
        screen.page.evaluate("delete window.__npulens_timeline")
        screen.go(store["late"], f"&rank=0&from={max(first, 0)}&to={last}{span_word}")
        end = screen.hook("capture")
        assert screen.view == (max(first, 0), min(last, end))
        said = screen.query()
        assert (int(said["from"]), int(said["to"])) == screen.view


def test_filters_commands_and_named_marks(screen: Screen, store: dict[str, str], tables: Served) -> None:
    screen.go(store["late"], "&fold=-")
    page, field = screen.page, screen.page.locator(".find input")
    rank, least = tables.rows("SELECT rank, quantile_disc(dur_ns, 0.5) FROM span WHERE kind = 'kernel' GROUP BY rank")[
        0
    ]
    field.fill(f"rank:{rank} cat:kernel dur>{least}ns")
    wanted = {
        number for (number,) in
        tables.rows(f"SELECT span_id FROM span WHERE rank = {rank} AND kind = 'kernel' AND dur_ns > {least}")
    }  # fmt: skip
    page.locator(".hits .link").first.wait_for(timeout=10_000)
    assert f"{len(wanted):,} hits" in page.locator(".found").inner_text()
    lit = set(screen.hook("lit()"))
    assert lit and lit <= wanted
    page.get_by_text("All hits as a list").click()
    rows = page.locator(".drawerbody tbody tr")
    assert rows.count() == len(wanted)
    rows.nth(3).click()
    screen.settle()
    assert screen.hook("picked")["id"] in wanted
    page.get_by_role("button", name="All hits as a list").click()
    assert rows.count() == len(wanted)
    field.fill("dur>5")
    page.get_by_text("cannot read dur>5").wait_for(timeout=10_000)
    field.fill("@120.5ms")
    field.press("Enter")
    screen.settle()
    page.wait_for_function("window.__npulens_timeline.settled")
    assert sum(screen.view) / 2 == pytest.approx(120_500_000, abs=1)

    page.keyboard.press(":")
    page.locator(".palette input").fill("go step 11")
    page.keyboard.press("Enter")
    screen.settle()
    step = tables.rows("SELECT ts_ns, ts_ns + dur_ns FROM step WHERE step = 11 ORDER BY rank LIMIT 1")
    if step:
        assert screen.view == step[0]
    screen.point(700, 300)
    screen.press("m")
    page.locator("button.marks").click()
    page.locator(".menu input").fill("here: a, b")
    page.get_by_role("button", name="Change the colour").click()
    mark = screen.hook("state.mark")
    assert mark.endswith(":1:here%3A%20a%2C%20b")
    assert screen.query()["mark"] == mark
    page.keyboard.press("Escape")
    page.reload()
    screen.settle()
    assert screen.hook("state.mark") == mark


def test_an_area_in_four_ways_and_arrows_of_a_kind(screen: Screen, store: dict[str, str], tables: Served) -> None:
    screen.go(store["late"], "&fold=-")
    page = screen.page
    screen.drag(400, 40, 1000, 42)  # in the ruler: every row
    page.locator(".drawerbody tbody tr").first.wait_for(timeout=20_000)
    page.get_by_role("tab", name="One by one").click()
    screen.settle()
    page.locator(".drawerbody tbody tr").first.wait_for(timeout=20_000)
    page.locator(".drawerbody tbody tr").first.click()
    screen.settle()
    assert screen.hook("picked")["id"] is not None
    page.get_by_role("button", name="Back to the area").click()
    page.get_by_role("tab", name="Flame graph").click()
    frame = page.locator(".flame .frame")
    frame.first.wait_for(timeout=20_000)
    assert frame.count() > 5
    page.get_by_role("tab", name="What the ranks did").click()
    page.locator(".drawerbody td", has_text="Computing").first.wait_for(timeout=20_000)
    screen.press("Escape")
    route = tables.rows("SELECT min(route) FROM link")[0][0]
    page.locator("button.arrows").click()
    page.locator(".menu label", has_text=route).locator("input").check()
    screen.settle()
    assert screen.hook("arrows") > 0 or "Zoom in" in page.locator(".status").inner_text()
    assert screen.query()["flow"] == route
    assert screen.mistakes() == []
    track, begin, end = tables.rows(
        "SELECT track, end_ns, next_ns FROM (SELECT track, max(ts_ns + dur_ns) OVER w AS end_ns, lead(ts_ns) OVER w AS "
        "next_ns FROM span JOIN track t USING (track) WHERE t.kind = 'stream' "
        "WINDOW w AS (PARTITION BY track ORDER BY ts_ns)) "
        "WHERE next_ns > end_ns + 10 ORDER BY ALL LIMIT 1"
    )[0]
    page.evaluate("delete window.__npulens_timeline")
    screen.go(store["late"], f"&area={begin + 1},{end - 1},{track}")
    page.get_by_role("tab", name="By name").click()
    page.get_by_text("Nothing ran here.").wait_for(timeout=10_000)


#: What is typed or recorded, and what the canvas makes of it.
CALLED = {
    "void dpsk::ep::internode::combine<128, true, (anonymous namespace)::X>(int*, float)": "combine<128, true, X>",
    "void at::native::elementwise_kernel<4, at::native::AddFunctor<float> >(int, float)": (
        "elementwise_kernel<4, AddFunctor<float> >"
    ),
    "std::enable_if<!T, void>::type internal::gemv<float, 1>(Params<float>)": "gemv<float, 1>",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    ),
    "/usr/lib/torch/nn/modules/linear.py(114): forward": "forward · linear.py(114)",
    "aten::add": "aten::add", "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "autograd::engine::evaluate_function: AddBackward0": "autograd::engine::evaluate_function: AddBackward0",
    "hcom_allReduce__848_2_1": "hcom_allReduce__848_2_1", "<script>alert(1)</script>": "<script>alert(1)</script>",
    "step(3)": "step(3)", "": "",
}  # fmt: skip
#: What the gutter says of a name that has no room there.
TELLING = {
    "Group 10.20.0.1%eth0_60000_tp_1767599940000 Communication": "tp · 10.20.0.1:60000",
    "3 · Group 10.170.22.98%enp_67s0_60002_0_1702612379468468 Communication (4)": "3 · 0 · 10.170.22.98:60002 (4)",
    "Group 8471234098712340987 Communication": "8471234098712340987", "Group of mine": "Group of mine",
    "rank 1008–1023": "1008–1023", "rank 12": "rank 12", "Stream 5": "Stream 5", "a%b_c": "a%b_c", "": "",
    "%_" * 200: "%_" * 200,
}  # fmt: skip
LIKE = [
    (["gemm"], False, False, "aten::GEMM_x", True), (["a", "c"], False, False, "xaxbxcx", True),
    (["c", "a"], False, False, "abc", False), (["add"], True, False, "Add", True),
    (["add"], True, False, "adds", False), (["ad", "s"], True, False, "adds", True),
    (["ad", "ds"], True, False, "ads", False), (["x"], False, True, "abc", True),
    (["", "c"], True, False, "abc", True), (["a", ""], True, False, "abc", True),
    (["aa", "aa"], True, False, "aaa", False),
]  # fmt: skip


def test_names_patterns_flags_and_folded_ranks_by_hand(browser: playwright.Browser) -> None:
    page = browser.new_page()
    page.add_script_tag(content=scripts.js().replace("export default mounted;", ""))
    assert page.evaluate("(names) => names.map(called)", list(CALLED)) == list(CALLED.values())
    assert page.evaluate("(names) => names.map(telling)", list(TELLING)) == list(TELLING.values())
    for pieces, whole, absent, name, fits in LIKE:
        text = {"pieces": pieces, "whole": whole, "absent": absent}
        assert page.evaluate("([text, name]) => like(text, name)", [text, name]) is fits, (pieces, name)
    flags = "5,7:2,9:1:a%2C%20b%3A%25"
    assert page.evaluate("(text) => spelledFlags(readFlags(text))", flags) == flags
    assert page.evaluate("(text) => readFlags(text).map((one) => one.name)", flags) == ["", "", "a, b:%"]
    assert page.evaluate("readFlags('x,7:,-3,5:9:%E0%A4%A,5:1:<b>').map((one) => one.at + one.name)") == ["5<b>", "7"]
    rows = """([count, opened]) => pictureRows({
        layout: { ranks: [...Array(count).keys()].map((rank) => ({ rank })) }, order: [], hide: new Set(),
        opened: new Set(opened), stepsOf: new Map(), data: { height: 480 },
    }).map((row) => row.ranks)"""
    assert page.evaluate(rows, [3, []]) == [[0, 0], [1, 1], [2, 2]]
    many = page.evaluate(rows, [1000, []])
    assert len(many) <= 64 and many[0][0] == 0 and many[-1][1] == 999
    assert all(after[0] == before[1] + 1 for before, after in zip(many, many[1:], strict=False))
    low, high = many[1]
    opened = page.evaluate(rows, [1000, [f"d{low}"]])
    assert opened[0] == many[0] and opened[1 : 2 + high - low] == [[rank, rank] for rank in range(low, high + 1)]
    page.close()
