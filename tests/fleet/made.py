"""Summaries of a made fleet, with a rank, a host and a link that are slow. Every length is worked out from arrivals.

Ranks lie eight to a host. Groups `tp` hold the ranks of a host, groups `dp` one rank of every host. On each rank a
collective begins when the rank comes to it; all leave it together, a transfer after the last has come.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

HOST = 8
#: What a collective takes once all have come, and what lies between two of them.
TRANSFER_NS, BETWEEN_NS = 1_000_000, 10_000_000
#: Ranks scatter by up to so much: less than what can be told.
SCATTER_NS = 5_000
USUAL = 25.0  # bytes per ns


@dataclass(frozen=True)
class Planted:
    """What is slow: a rank in its dp group, every rank of a host in theirs, a link."""

    late: int
    late_ns: int
    host: int
    host_ns: int
    link: tuple[int, int]
    slower: float


def tables(ranks: int, steps: int, tp: int, dp: int, planted: Planted, seed: int = 1) -> dict[str, pd.DataFrame]:
    """The three tables of a summary: ``tp`` and ``dp`` collectives of each kind in a step."""
    draw = np.random.default_rng(seed)
    rank = np.arange(ranks)
    own = np.zeros(ranks, np.int64)
    own[rank // HOST == planted.host] = planted.host_ns
    own[planted.late] = planted.late_ns
    teams = [_meetings(rank, step, "tp", tp, np.zeros(ranks, np.int64), rank // HOST, draw) for step in range(steps)]
    teams += [_meetings(rank, step, "dp", dp, own, rank % HOST, draw) for step in range(steps)]
    step_ns = (tp + dp) * (BETWEEN_NS + TRANSFER_NS)
    every = np.tile(rank, steps)
    of_rank = pd.DataFrame({
        "rank": every, "step": np.repeat(np.arange(steps), ranks), "host": [f"node{r // HOST:04d}" for r in every],
        "device_name": "made", "dur_ns": step_ns, "computing_ns": step_ns // 2 + own[every], "exposed_ns": 0,
        "copying_ns": 0, "idle_ns": step_ns // 4, "only_waiting_ns": pd.array([None], "Int64").repeat(len(every)),
    })  # fmt: skip
    return {
        "fleet_rank": of_rank,
        "fleet_team": pd.concat(teams, ignore_index=True),
        "fleet_link": _links(rank, planted, draw),
    }


def _meetings(
    rank: np.ndarray, step: int, kind: str, many: int, own: np.ndarray, team: np.ndarray, draw: np.random.Generator
) -> pd.DataFrame:  # fmt: skip
    """A row per rank: its collectives of one group in one step."""
    planned = step * 10**9 + np.arange(many) * (BETWEEN_NS + TRANSFER_NS)
    came = planned[None, :] + own[:, None] + draw.integers(0, SCATTER_NS, (len(rank), many))
    last = np.zeros((int(team.max()) + 1, many), np.int64)
    np.maximum.at(last, team, came)
    durs = last[team] - came + TRANSFER_NS
    members = np.bincount(team)
    return pd.DataFrame({
        "rank": rank, "step": step, "team": [f"{kind}{t}" for t in team], "kind": kind, "size": members[team],
        "members": (team + 1).astype(np.uint64), "count": many, "sequence": np.uint64(7),
        "durs": list(durs), "begins": list(came),
    })  # fmt: skip


def _links(rank: np.ndarray, planted: Planted, draw: np.random.Generator) -> pd.DataFrame:
    """Transfers of every rank to the others of its host and to its neighbour on the next."""
    peers = [
        (r, p) for r in rank.tolist()
        for p in [*(q for q in range(r // HOST * HOST, r // HOST * HOST + HOST) if q != r), (r + HOST) % len(rank)]
    ]  # fmt: skip
    found = pd.DataFrame(peers, columns=["rank", "peer"])
    rate = USUAL * draw.uniform(0.98, 1.02, len(found))
    slow = (found["rank"] == planted.link[0]) & (found["peer"] == planted.link[1])
    rate = np.where(slow, rate / planted.slower, rate)
    bytes_ = np.full(len(found), 20 << 24)
    return found.assign(
        link="HCCS", what="Memcpy", size=24, count=20, bytes=bytes_, dur_ns=(bytes_ / rate).astype(np.int64),
        rate=rate.astype(np.float32),
    )  # fmt: skip


def opened(found: dict[str, pd.DataFrame]) -> duckdb.DuckDBPyConnection:
    """A connection that holds them."""
    con = duckdb.connect()
    for name, frame in found.items():
        con.register("frame", frame)
        con.execute(f"CREATE TABLE {name} AS FROM frame")
        con.unregister("frame")
    return con
