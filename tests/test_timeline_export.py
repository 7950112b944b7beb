"""A window exported for Perfetto and speedscope: exact stamps, nothing that crosses, arrows at both ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_served import SAMPLES, Served, get, layout_of, load

from npulens.app.timeline import export, route


@pytest.fixture(scope="module", params=["late_rank", "kineto"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("store")
    info = load(place, SAMPLES / request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPULENS_STORE", str(place))
        found = Served(info, place, route.token(info.run_id))
        layout_of(found)
        yield found


def nested(events: list[dict[str, Any]]) -> bool:
    """Whether spans of each thread lie within or after each other."""
    by_thread: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            by_thread.setdefault((event["pid"], event["tid"]), []).append((start, start + round(event["dur"] * 1000)))
    for spans in by_thread.values():
        open_: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ and open_[-1] <= start:
                open_.pop()
            if open_ and end > open_[-1]:
                return False
            open_.append(end)
    return True


def test_perfetto_gets_the_window_exactly(served: Served) -> None:
    end = layout_of(served)["to"]
    begin, end = end // 5, end // 2
    answer = served.get(f"export?to=perfetto&from={begin}&end={end}")
    assert "attachment" in answer.headers["content-disposition"]
    events = answer.json["traceEvents"]
    spans = [event for event in events if event["ph"] == "X" and event["cat"] != "idle"]
    rows = served.rows(
        f"SELECT span_id, greatest(ts_ns, {begin}) - {begin}, least(ts_ns + dur_ns, {end}) - greatest(ts_ns, {begin}), "
        f"name FROM span WHERE ts_ns < {end} AND ts_ns + greatest(dur_ns, 1) > {begin} ORDER BY span_id"
    )
    got = sorted((int(e["args"]["span_id"]), round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"]) for e in spans)
    assert got == rows and nested(events)
    times = re.findall(rb'"ts":(-?[0-9.]+)', answer.body)
    assert times and all(re.fullmatch(rb"[0-9]+\.[0-9]{3}", text) for text in times)
    ids = {event["tid"] for event in events} | {event["pid"] for event in events}
    assert max(ids) < 10_000
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in spans} <= named
    arrows = [event for event in events if event["ph"] in "sf"]
    inside = {row[0] for row in rows}
    links = served.rows("SELECT src_span_id, dst_span_id FROM link")
    assert len(arrows) == 2 * sum(a in inside and b in inside for a, b in links)
    at = {(e["pid"], e["tid"], e["ts"]) for e in spans}
    assert all((e["pid"], e["tid"], e["ts"]) in at for e in arrows)


def test_speedscope_gets_balanced_profiles(served: Served) -> None:
    layout = layout_of(served)
    tracks = [track["id"] for track in layout["tracks"] if track["id"] >= 0][:4]
    answer = served.get(f"export?to=speedscope&from=0&end={layout['to']}&tracks={','.join(map(str, tracks))}").json
    frames, opened_ = answer["shared"]["frames"], 0
    for profile in answer["profiles"]:
        stack, at = [], 0
        for event in profile["events"]:
            assert event["at"] >= at and 0 <= event["frame"] < len(frames)
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                opened_ += 1
            else:
                assert stack.pop() == event["frame"]
        assert not stack and at <= profile["endValue"]
    expected = served.rows(f"SELECT count(*) FROM span WHERE track IN ({','.join(map(str, tracks))})")[0][0]
    assert opened_ == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=40))
def test_stacks_never_cross(drawn: list[tuple[int, int]]) -> None:
    rows = [(1, s, s + d, f"n{n}", "k", n) for n, (s, d) in enumerate(sorted(drawn, key=lambda x: (x[0], -x[1])))]
    writer = export.Perfetto(0, 100, {1: (0, "t")})
    text = "".join(export.perfetto(writer, "x", iter(rows), lambda ids: iter(())))
    events = json.loads(text)["traceEvents"]
    assert nested(events) and sum(event["ph"] == "X" for event in events) == len(rows)
    profiles = json.loads("".join(export.speedscope(0, 100, {1: (0, "t")}, "x", iter(rows))))["profiles"]
    assert sum(len(profile["events"]) for profile in profiles) == 2 * len(rows)


def test_a_link_may_carry_the_token_to_an_export(served: Served) -> None:
    target = f"{route.prefix()}/{served.info.run_id}/export?to=perfetto&from=0&end=1000"
    assert get(f"{target}&token={served.token}", None).status == 200
    assert get(f"{target}&token=forged", None).status == get(target, None).status == 403
