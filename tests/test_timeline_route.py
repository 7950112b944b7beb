"""The timeline's routes: who may ask, what a wrong question gets, and answers that agree with the run's own tables."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import hostile_capture
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timeline_served import SAMPLES, Served, get, layout_of, load

from npulens.analysis.timeline import path
from npulens.analysis.timeline.did import WORK
from npulens.app.timeline import asked, opened, route, wire
from npulens.ingest.store import runs


@pytest.fixture(scope="module", params=["late_rank", "kineto"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("store")
    info = load(place, SAMPLES / request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPULENS_STORE", str(place))
        found = Served(info, place, route.token(info.run_id))
        layout_of(found)
        yield found


def test_only_a_token_of_the_run_opens_it(served: Served) -> None:
    target = f"{route.prefix()}/{served.info.run_id}/layout"
    for token in (None, "", "forged", "ImFiYyI.aaaa.bbbb", route.token("another")):
        found = get(target, token)
        assert (found.status, found.json) == (403, {"refused": "bad_token"})
    assert get(target, served.token).status == 200
    assert get(f"{route.prefix()}/{served.info.run_id}/tile?from=0&to=9&px=9&token={served.token}", None).status == 403


def test_the_secret_is_the_stores_and_nobody_elses(served: Served) -> None:
    path = served.place / ".secret"
    assert path.stat().st_mode & 0o777 == 0o600 and len(path.read_bytes()) == 32
    route._own.cache_clear()
    assert served.get("layout").status == 200  # a server that starts anew takes the token


@pytest.mark.parametrize("run_id", ["nope", "..", ".timeline", "%2e%2e", "a.b"])
def test_an_unknown_run_is_not_there(served: Served, run_id: str) -> None:
    found = get(f"{route.prefix()}/{run_id}/layout", route.token(run_id))
    assert (found.status, found.json) == (404, {"refused": "unknown_run"})


WINDOW = "from=0&to=1000"
BAD = [
    ("tile", 400), ("tile?from=0&to=0&px=9", 400), ("tile?from=5&to=1&px=9", 400), (f"tile?{WINDOW}&px=0", 400),
    (f"tile?{WINDOW}&px=99999", 400), ("tile?from=1e3&to=9999&px=9", 400), (f"tile?{WINDOW}&px=9&tracks=x", 400),
    ("tile?from=0&to=99999999999999999999&px=9", 400), (f"tile?{WINDOW}&px=9&tracks=12345678", 404),
    (f"tile?{WINDOW}&px=9&tracks=" + ",".join(map(str, range(5000))), 400), ("tile?from=%EF%BC%91&to=9&px=9", 400),
    (f"counter?ids=99999&{WINDOW}&px=9", 404), (f"counter?ids=1;2&{WINDOW}&px=9", 400), ("span/x", 400),
    ("span/99999999999", 404), ("span/-1", 404), ("span/1'%20OR%201=1", 400), ("gap/99/0", 404), ("gap/0/9999999", 404),
    ("gap/0/-1", 404), ("gap/0/@-1", 404), ("gap/0/@", 400),
    ("near?track=1&lane=0&ts=5", 400), ("near?track=1&lane=0&ts=5&dir=up", 400),
    ("near?track=999999&lane=0&ts=5&dir=next", 404), ("search", 400), ("search?q=", 400),
    ("search?q=" + "a" * 501, 400),
    ("search?q=a&limit=0", 400), ("search?q=a&limit=99999", 400), (f"export?to=zip&{WINDOW}", 400),
    ("export?to=perfetto&from=0", 400), ("summary?from=a&to=b", 400), (f"strip?{WINDOW}&px=9", 400),
    (f"strip?{WINDOW}&px=9&rows=1-", 400), (f"strip?{WINDOW}&px=9999&rows=0", 400), (f"arrows?{WINDOW}&routes=x", 400),
    (f"strip?{WINDOW}&px=9&rows=" + ",".join(["0"] * 1025), 400), ("flame?from=9&to=1", 400),
]  # fmt: skip


@pytest.mark.parametrize(("path", "status"), BAD)
def test_a_wrong_question_is_refused_in_words(served: Served, path: str, status: int) -> None:
    found = served.get(path)
    assert found.status == status and re.fullmatch("[a-z_]+", found.json["refused"])
    assert found.headers["cache-control"] == "no-store"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="0123456789-+eE.,_xX %&=#\u0661", max_size=12), st.sampled_from(("from", "to", "px", "tracks")))
def test_no_parameter_breaks_a_route(served: Served, text: str, key: str) -> None:
    given_ = {"from": "0", "to": "1000", "px": "100", "tracks": ""} | {key: text}
    query = "&".join(f"{name}={quote(value)}" for name, value in given_.items())
    assert served.get(f"tile?{query}").status in (200, 400, 404)


def test_the_layout_holds_every_span(served: Served) -> None:
    found = layout_of(served)
    tracks = {track["id"]: track for track in found["tracks"]}
    rows = served.rows("SELECT track, count(*), max(depth) + 1, min(ts_ns) FROM span GROUP BY track")
    assert {number for number in tracks if number >= 0} == {row[0] for row in rows}
    for number, spans, lanes, begin in rows:
        track = tracks[number]
        assert (track["spans"], track["lanes"], track["from"]) == (spans, lanes, begin)
    gaps = {number for number, track in tracks.items() if track["group"] == "gaps"}
    assert {-1 - number for number in gaps} <= {rank["rank"] for rank in found["ranks"]}
    assert {number for number in tracks if number < 0} - gaps == {path.TRACK}
    assert set(found["causes"]) >= {"host_late", "dependency", "unknown"}
    assert found["tracks"][0]["group"] == "path" and found["tracks"][0]["rank"] is None
    ranks = [track["rank"] for track in found["tracks"][1:]]
    assert ranks == sorted(ranks) and found["from"] == 0


def test_a_tile_says_what_the_parquet_says(served: Served) -> None:
    layout = layout_of(served)
    begin, end = layout["to"] // 4, layout["to"] // 2
    answer = served.get(f"tile?from={begin}&to={end}&px=1000")
    assert answer.headers["cache-control"].startswith("private") and "immutable" in answer.headers["cache-control"]
    header, columns = wire.decoded(answer.body)
    assert header["bucket_ns"] == 0 and header["causes"] == "done"
    assert all(offset % 8 == 0 for offset, _ in header["columns"].values())
    mine = columns["s_track"] >= 0
    expected = served.rows(
        "SELECT span_id, track, depth, ts_ns, dur_ns, name, kind FROM span "
        f"WHERE ts_ns < {end} AND ts_ns + greatest(dur_ns, 1) > {begin} ORDER BY span_id"
    )
    names, kinds = header["names"], header["kinds"]
    got = sorted(
        (int(columns["s_id"][n]), int(columns["s_track"][n]), int(columns["s_lane"][n]), int(columns["s_ts"][n]),
         int(columns["s_dur"][n]), names[columns["s_name"][n]], kinds[columns["s_kind"][n]])
        for n in np.flatnonzero(mine)
    )  # fmt: skip
    assert got == [(*row[:5], wire.shown(row[5]), row[6]) for row in expected]
    assert {names[n] for n in columns["s_name"][~mine]} <= set(layout["causes"])


def test_gap_pieces_tile_the_idle_time(served: Served) -> None:
    """Pieces do not overlap, lie in no work, and their sum is the idle time that the split finds on its own."""
    layout = layout_of(served)
    for track in [track for track in layout["tracks"] if track["group"] == "gaps"]:
        _, columns = wire.decoded(served.get(f"tile?from=0&to={layout['to']}&px=4000&tracks={track['id']}").body)
        ends = columns["s_ts"] + columns["s_dur"]
        assert track["spans"] == len(ends) > 0 and (columns["s_ts"][1:] >= ends[:-1]).all()
        work = served.rows(
            f"SELECT ts_ns, ts_ns + dur_ns FROM span WHERE rank = {track['rank']} AND dur_ns > 0 "
            "AND kind IN ('kernel', 'memset', 'memcpy', 'comm_op')"
        )
        for start, stop in work:
            at = int(np.searchsorted(ends, start, side="right"))
            assert at == len(ends) or columns["s_ts"][at] >= stop
        first = served.get(f"gap/{track['rank']}/0").json
        assert (first["ts"], first["dur"]) == (columns["s_ts"][0], columns["s_dur"][0])
        assert first["cause"] in layout["causes"]
        middle = first["ts"] + first["dur"] // 2
        assert served.get(f"gap/{track['rank']}/@{middle}").json == first and first["id"] == 0
        assert served.get(f"gap/{track['rank']}/@{int(work[0][0]) + 1}").status == 404  # at work then
        after = served.get(f"near?track={track['id']}&lane=0&ts={first['ts']}&dir=next").json
        assert (after["id"], after["ts"]) == (1, columns["s_ts"][1])


def test_the_path_tiles_the_longest_window(served: Served) -> None:
    """From the first to the last edge of the longest rank's steps, without a hole; every piece leads somewhere."""
    layout = layout_of(served)
    (track,) = [track for track in layout["tracks"] if track["group"] == "path"]
    header, columns = wire.decoded(served.get(f"tile?from=0&to={layout['to']}&px=4000&tracks={track['id']}").body)
    ends = columns["s_ts"] + columns["s_dur"]
    assert (columns["s_ts"][1:] == ends[:-1]).all() and track["spans"] == len(ends)
    longest = served.rows("SELECT max(e - b) FROM (SELECT min(ts_ns) b, max(ts_ns + dur_ns) e FROM step GROUP BY rank)")
    assert int(columns["s_dur"].sum()) == longest[0][0]
    assert {header["names"][n] for n in columns["s_name"]} <= set(layout["path_kinds"])
    assert {header["kinds"][n] for n in columns["s_kind"]} == {"path"}
    for at in range(0, len(ends), 7):
        found = served.get(f"path/{int(columns['s_id'][at])}").json
        assert (found["ts"], found["dur"]) == (columns["s_ts"][at], columns["s_dur"][at])
        assert found["kind"] == header["names"][columns["s_name"][at]] and found["whole"] == longest[0][0]
        if found["span"]:
            assert served.get(f"span/{found['span']['id']}").json["name"] == found["span"]["name"]
    after = served.get(f"near?track={track['id']}&lane=0&ts={track['from']}&dir=next").json
    assert (after["id"], after["ts"]) == (1, columns["s_ts"][1])
    assert (served.get("path/-1").status, served.get(f"path/{len(ends)}").status) == (404, 404)


def test_a_span_and_its_arrows(served: Served) -> None:
    rows = served.rows(
        "SELECT l.src_span_id, l.dst_span_id, d.name, d.ts_ns, d.dur_ns, d.track FROM link l "
        "JOIN span d ON d.span_id = l.dst_span_id ORDER BY ALL LIMIT 3"
    )
    assert rows
    for source, target, name, ts, dur, track in rows:
        found = served.get(f"span/{target}").json
        assert (found["id"], found["name"], found["ts"], found["dur"], found["track"]) == (
            target, wire.shown(name, 4096), ts, dur, track)  # fmt: skip
        assert source in [link["id"] for link in found["links"] if not link["out"]]
        assert target in [link["id"] for link in served.get(f"span/{source}").json["links"] if link["out"]]
    kernel = served.rows("SELECT span_id, op_type, block_num FROM kernel ORDER BY span_id LIMIT 1")[0]
    facts = dict(served.get(f"span/{kernel[0]}").json["facts"])
    assert (facts.get("op_type"), facts.get("block_num")) == kernel[1:]


def test_search_summary_and_neighbours_agree_with_sql(served: Served) -> None:
    name, count, total = served.rows(
        "SELECT name, count(*), sum(dur_ns) FROM span GROUP BY name ORDER BY 3 DESC LIMIT 1"
    )[0]
    found = served.get(f"search?q={quote(name.upper())}").json
    assert found["total"] >= count and found["total_ns"] >= total and found["hits"]
    end = layout_of(served)["to"]
    rows = served.get(f"summary?from=0&to={end}").json
    recorded = sum(row["count"] for row in rows["rows"] if row["kind"] != "idle")
    assert recorded == served.rows("SELECT count(*) FROM span")[0][0] or rows["cut"]
    idle = sum(row["count"] for row in rows["rows"] if row["kind"] == "idle")
    assert idle == sum(track["spans"] for track in layout_of(served)["tracks"] if track["group"] == "gaps")
    assert all(row["self_ns"] <= row["total_ns"] for row in rows["rows"])
    track = served.rows("SELECT track, depth, span_id, ts_ns, dur_ns FROM span ORDER BY track, depth, ts_ns LIMIT 1")[0]
    near = served.get(f"near?track={track[0]}&lane={track[1]}&ts={track[3] - 1}&dir=next").json
    assert (near["id"], near["ts"], near["dur"], near["track"]) == (track[2], track[3], track[4], track[0])
    assert served.get(f"near?track={track[0]}&lane={track[1]}&ts={track[3]}&dir=prev").json == {"id": None}


def test_a_search_says_what_it_understood(served: Served) -> None:
    rank, low, high = served.rows("SELECT rank, min(ts_ns), max(ts_ns + dur_ns) FROM step GROUP BY rank ORDER BY 1")[-1]
    sql = f"SELECT count(*), sum(dur_ns) FROM span WHERE rank = {rank} AND kind = 'kernel' AND dur_ns > 5000"
    found = served.get(f"search?q={quote(f'rank:{rank} cat:kernel dur>5us')}").json
    assert [(found["total"], found["total_ns"])] == served.rows(sql)
    assert found["wanted"]["ranks"] == [[rank, rank]] and found["wanted"]["least"] == 5001
    steps = served.get(f"search?q={quote(f'rank:{rank} step:0-999999')}").json
    assert (
        steps["total"]
        == served.rows(f"SELECT count(*) FROM span WHERE rank = {rank} AND ts_ns >= {low} AND ts_ns < {high}")[0][0]
    )
    assert served.get(f"search?q={quote('@120.5ms')}").json == {"place": [120_500_000, None]}
    assert served.get(f"search?q={quote('gemm dur>5')}").json == {"not_understood": "dur>5"}


def test_what_ranks_did_tiles_their_time(served: Served) -> None:
    """The roles of a rank share its window without holes and overlaps, and the picture shows the same shares."""
    windows = dict(
        (rank, (low, high))
        for rank, low, high in served.rows("SELECT rank, min(ts_ns), max(ts_ns + dur_ns) FROM step GROUP BY rank")
    )
    layout = layout_of(served)
    measured = [track["rank"] for track in layout["tracks"] if track["group"] == "gaps" and track["spans"]]
    assert measured
    for rank in measured:
        low, high = windows[rank]
        states = served.get(f"states?from={low}&to={high}&ranks={rank}").json["states"]
        assert sum(one["ns"] for one in states) == high - low
        work = {one["role"]: one["ns"] for one in states if one["role"] in WORK}
        split = served.rows(
            "SELECT sum(computing_ns), sum(coalesce(communication_not_overlapped_ns, 0)), sum(copy_not_overlapped_ns) "
            f"FROM device_time WHERE rank = {rank} AND step IS NOT NULL"
        )[0]
        moved = work.get("transferring", 0) + work.get("waiting", 0)
        assert (work.get("computing", 0), moved, work.get("copying", 0)) == split
        answer = served.get(f"strip?from={low}&to={high}&px=1&rows={rank}")
        header, columns = wire.decoded(answer.body)
        shares = dict(zip(header["roles"], columns["c_share"].tolist(), strict=True))
        assert {role: round(255 * one["ns"] / (high - low)) for one in states if (role := one["role"])} == {
            role: share for role, share in shares.items() if share or role in {one["role"] for one in states}
        }
    several = served.get(f"strip?from=0&to={layout['to']}&px=40&rows=0-3,{measured[0]}")
    header, columns = wire.decoded(several.body)
    assert header["rows"] == [[0, 3], [measured[0], measured[0]]]
    assert len(columns["c_share"]) == 2 * 40 * len(header["roles"])


def test_arrows_of_a_kind_join_spans_of_the_run(served: Served) -> None:
    layout = layout_of(served)
    assert [tuple(route) for route in layout["routes"]] == served.rows(
        "SELECT route, count(*) FROM link GROUP BY route ORDER BY route"
    )
    route, tracks = layout["routes"][0][0], [track["id"] for track in layout["tracks"] if track["id"] >= 0]
    (begin, end), = served.rows(f"SELECT quantile_disc(ts_ns, [0.4, 0.5]) FROM (SELECT s.ts_ns FROM link JOIN span s "
                                f"ON span_id = src_span_id WHERE route = '{route}')")[0]  # fmt: skip
    some = tracks[::2]
    query = f"arrows?from={begin}&to={end + 1}&routes={quote(route)}&tracks={','.join(map(str, some))}"
    chosen = ", ".join(map(str, some))
    inside = "({0}.ts_ns < {2} AND {0}.ts_ns + greatest({0}.dur_ns, 1) > {1})"
    expected = served.rows(
        "SELECT DISTINCT s.ts_ns, s.span_id, t.ts_ns, t.span_id FROM link JOIN span s ON s.span_id = src_span_id "
        f"JOIN span t ON t.span_id = dst_span_id WHERE route = '{route}' AND s.track IN ({chosen}) AND t.track IN "
        f"({chosen}) AND ({inside.format('s', begin, end + 1)} OR {inside.format('t', begin, end + 1)}) ORDER BY ALL"
    )
    found = served.get(query).json
    got = [(each["source"]["ts"], each["source"]["id"], each["target"]["ts"], each["target"]["id"])
           for each in found["arrows"]]  # fmt: skip
    assert got == expected and not found["cut"]


def test_an_area_one_by_one_and_as_a_flame_graph(served: Served) -> None:
    end = layout_of(served)["to"]
    longest = served.rows("SELECT span_id, dur_ns FROM span ORDER BY dur_ns DESC, ts_ns, span_id LIMIT 3")
    slices = served.get(f"slices?from=0&to={end}").json
    assert [(one["id"], one["dur"]) for one in slices["slices"][:3]] == longest and slices["cut"]
    frames = served.get(f"flame?from=0&to={end}").json
    assert frames["spans"] == served.rows("SELECT count(*) FROM span")[0][0]
    top = sum(frame["total_ns"] for frame in frames["frames"] if frame["parent"] < 0)
    assert top <= served.rows("SELECT sum(dur_ns) FROM span WHERE parent_id IS NULL")[0][0]


def test_a_notebook_is_answered_without_a_server(served: Served) -> None:
    end = layout_of(served)["to"]
    for target in (
        "layout",
        f"tile?from=0&to={end}&px=300",
        f"export?to=perfetto&from=0&end={end}",
        "span/99999999999",
    ):
        said = served.get(target)
        assert asked.asked(served.place, served.info.run_id, target) == (said.status, said.body)
    assert asked.asked(served.place, served.info.run_id, "../../etc")[0] == 404


def test_counters_answer(served: Served) -> None:
    layout = layout_of(served)
    ids = ",".join(str(counter["id"]) for counter in layout["counters"][:20])
    found = served.get(f"counter?ids={ids}&from=0&to={layout['to'] + 1}&px=500").json["series"]
    for series, counter in zip(found, layout["counters"], strict=False):
        assert len(series["t"]) <= 501
        assert (min(series["min"]), max(series["max"])) == (counter["min"], counter["max"])


NAMES = ("\x00\x1b[31m", "\u202egnp.exe", "a" * 500_000, hostile_capture.MARKUP, '"]}\n', "=1+1", "\ud800", "\u2028")


def test_hostile_names_stay_text_and_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = hostile_capture.write(tmp_path / "rank0.json")
    trace = json.loads(path.read_text("utf-8"))
    for number, name in enumerate(NAMES):
        at = {"ts": 2000 + 10 * number, "dur": 5, "pid": 1, "tid": name[:100]}
        trace["traceEvents"].append({"ph": "X", "cat": "cpu_op", "name": name, "args": {"x": name[:1000]}, **at})
    path.write_text(json.dumps(trace), "utf-8")
    place = tmp_path / "store"
    info = load(place, path)
    monkeypatch.setenv("NPULENS_STORE", str(place))
    of = Served(info, place, route.token(info.run_id))
    layout = layout_of(of)
    header, columns = wire.decoded(of.get(f"tile?from=0&to={layout['to'] + 1}&px=500").body)
    assert len(columns["s_ts"]) >= len(NAMES)
    texts = [*header["names"], *(track["name"] for track in layout["tracks"])]
    for text in texts:
        assert len(text) <= wire.LONGEST_NAME
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]", text)
    assert hostile_capture.MARKUP in header["names"] and any(text.endswith("…") for text in header["names"])
    for number in columns["s_id"][columns["s_track"] >= 0]:
        assert of.get(f"span/{int(number)}").status == 200
    for kind in ("perfetto", "speedscope"):
        assert of.get(f"export?to={kind}&from=0&end={layout['to'] + 1}").json
    assert of.get("search?q=%3Cscript%3E").json["total"] > 0 and of.get("search?q=%ED%A0%80").status == 200


def test_a_deleted_run_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "store"
    info = load(place, SAMPLES / "kineto")
    monkeypatch.setenv("NPULENS_STORE", str(place))
    of = Served(info, place, route.token(info.run_id))
    assert of.get("layout").status == 200
    runs.remove(place, info.run_id)
    assert (of.get("layout").status, of.get("layout").json) == (404, {"refused": "unknown_run"})


def test_many_visitors_at_once_get_the_same(served: Served) -> None:
    end = layout_of(served)["to"]
    target, found = f"tile?from=0&to={end}&px=800", list[bytes]()
    threads = [threading.Thread(target=lambda: found.append(served.get(target).body)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


def test_runs_are_let_go(tmp_path: Path) -> None:
    assert len(opened._open) <= opened.KEPT
