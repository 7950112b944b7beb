"""The comm table: communication operators with the profiler's analysis, their tasks with the peers they wait for."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.db.details import DTYPE_BYTES
from npulens.ingest.readers.ascend.helpers import said
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text.lanes import group_name
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import whens

#: communication.json writes its stamps as floats of microseconds: they are this far off at most.
NEAR_NS = 1000
#: Ranks beyond this are no ranks.
MAX_LOCAL = 1 << 17
_TAIL = r"'__\d{3}_\d+_\d+$'"
_DTYPE_BYTES = f"CASE dtype {whens(DTYPE_BYTES)} END"
_OP_GROUP = pa.schema([(name, pa.string()) for name in ("lane", "hash", "tail", "group_name")])
_PEER = pa.schema([("group_name", pa.string()), ("local", pa.int64()), ("rank", pa.int32())])


def provide(draft: Draft, groups: Mapping[str, str], ranks: Mapping[str, tuple[int, ...]]) -> None:
    """``groups``: hash of a group -> its name; ``ranks``: name of a group -> its global ranks in order."""
    _analysis(draft)
    _op_groups(draft, groups)
    _peers(draft, ranks)
    draft.provide(
        "comm",
        f"""SELECT o.row AS span_id, o.row AS op_span_id, {_collective("o.name")} AS collective, g.group_name,
            TRY(o.count * {_DTYPE_BYTES}) AS bytes, o.count, o.dtype, o.algorithm, {_flag("o.relay")} AS relay,
            {_flag("o.retry")} AS retry, a.transit_ns, a.wait_ns, a.synchronization_ns, a.idle_ns
        FROM op o JOIN op_group g USING (row) LEFT JOIN op_analysed a USING (row)""",
    )
    draft.provide(
        "arg",
        """SELECT row AS span_id,
            coalesce(left(r.rest, -1) || ',', '{') || '"Communication Bandwidth Info":' || bandwidth || '}' AS args
        FROM op_analysed LEFT JOIN rest r USING (row) WHERE bandwidth IS NOT NULL""",
    )
    _tasks(draft)


def _collective(name: str) -> str:
    """SQL: hcom_allReduce__586_0_1 and Default/AllReduce-op534_0 are an allreduce."""
    return f"nullif(lower(regexp_extract({name}, '^(?:.*/)?(?:hcom_)?([A-Za-z]+)', 1)), '')"


def _flag(text: str) -> str:
    """SQL: yes and no, in words or as a number."""
    return f"coalesce(try_cast({text} AS BOOLEAN)::INTEGER, try_cast({text} AS INTEGER))"


def _small(number: str) -> str:
    """SQL: a rank number; what is too large to be one stands for none."""
    return f"CASE WHEN {number} BETWEEN 0 AND 2147483647 THEN {number} END"


def _analysis(draft: Draft) -> None:
    """To each operator its analysis: the same name, and a start that agrees as far as communication.json is exact."""
    draft.keep(
        "op_analysed",
        f"""SELECT DISTINCT ON (o.row) o.row, a.* FROM analysed a
        ASOF JOIN op o ON o.name = a.name AND a.start_ns + {NEAR_NS} >= o.ts
        WHERE o.ts >= a.start_ns - {NEAR_NS} ORDER BY o.row, a.step""",
    )
    left = count(draft, "SELECT (SELECT count(*) FROM analysed) - (SELECT count(*) FROM op_analysed)")
    draft.drop("comm", Message("analysis_operator_that_is_not"), left)


def _op_groups(draft: Draft, groups: Mapping[str, str]) -> None:
    """The group of each operator: as its analysis or its lane says, else as its name lets see."""
    tail = f"regexp_extract(regexp_extract(o.name, {_TAIL}), '__\\d{{3}}')"
    known = draft.con.execute(
        f"SELECT DISTINCT o.group_name, a.hash, {tail} FROM op o LEFT JOIN op_analysed a USING (row)"
    ).fetchall()
    rows = [
        {"lane": lane, "hash": told, "tail": tail,
         "group_name": groups.get(told, told) if told else group_name(lane, f"{tail}_0_0", groups)}
        for lane, told, tail in known
    ]  # fmt: skip
    draft.table("op_group_name", rows, _OP_GROUP)
    draft.keep(
        "op_group",
        f"""SELECT o.row, n.group_name FROM op o LEFT JOIN op_analysed a USING (row)
        LEFT JOIN op_group_name n ON n.lane IS NOT DISTINCT FROM o.group_name AND n.hash IS NOT DISTINCT FROM a.hash
            AND n.tail = {tail}""",
    )


def _peers(draft: Draft, ranks: Mapping[str, tuple[int, ...]]) -> None:
    """Make the view ``peer``: what a rank number of a group's tasks means in the job.

    Tasks number ranks within their group. Where the group is known its list says who is who. It does not where the
    number that the rank gives itself shows that the file holds global ranks. Where it is not known, the numbers are
    taken for global ranks only if the rank gives itself its own.
    """
    told = draft.con.execute(
        f"SELECT group_name, mode(src), max(greatest(src, dst)) FROM "
        f"(SELECT group_name, {_small('src')} AS src, {_small('dst')} AS dst FROM plane) GROUP BY group_name"
    ).fetchall()
    rows, guessed = [], False
    for name, own, largest in told:
        listed = ranks.get(name, ())
        meaning: dict[int, int] = {}
        if listed and (own is None or (own < len(listed) and listed[own] == draft.rank)):
            meaning = dict(enumerate(listed))
        elif own == draft.rank:
            meaning = {number: number for number in listed or range(min(largest + 1, MAX_LOCAL))}
            guessed |= not listed
        rows += [{"group_name": name, "local": local, "rank": rank} for local, rank in meaning.items()]
    draft.table("peer", rows, _PEER)
    if guessed:
        draft.note("comm", Message("ranks_group_are_listed_nowhere"))


def _tasks(draft: Draft) -> None:
    """Tasks of the planes, and those that a capture without planes shows on their stream."""
    draft.keep(
        "plane_op",
        """SELECT p.row, CASE WHEN p.ts <= o.till THEN o.row END AS op
        FROM (SELECT row, ts, coalesce(group_name, '') AS named FROM plane) p
        ASOF LEFT JOIN (SELECT row, ts, ts + dur AS till, coalesce(group_name, '') AS named FROM op_lane) o
            ON o.named = p.named AND p.ts >= o.ts""",
    )
    draft.provide(
        "comm",
        f"""SELECT p.row AS span_id, i.op AS op_span_id, {_collective("o.name")} AS collective,
            coalesce(g.group_name, p.group_name) AS group_name, p.plane, coalesce(p.type, p.name) AS task_type,
            s.rank AS src_rank, d.rank AS dst_rank, {_small("p.src")} AS src_local, {_small("p.dst")} AS dst_local,
            CASE WHEN p.bytes >= 0 THEN p.bytes END AS bytes, nullif(p.dtype, 'INVALID_TYPE') AS dtype,
            nullif(p.transport, 'INVALID_TYPE') AS transport, nullif(p.link_type, 'INVALID_TYPE') AS link_type,
            finite(p.bandwidth) * 1000000000 AS bandwidth_bytes_per_s,
            CASE WHEN p.notify NOT IN ('4294967295', '18446744073709551615') THEN p.notify END AS notify_id,
            p.stream, p.task AS task_id
        FROM plane p JOIN plane_op i USING (row)
        LEFT JOIN op_lane o ON o.row = i.op LEFT JOIN op_group g ON g.row = i.op
        LEFT JOIN peer s ON s.group_name IS NOT DISTINCT FROM p.group_name AND s.local = p.src
        LEFT JOIN peer d ON d.group_name IS NOT DISTINCT FROM p.group_name AND d.local = p.dst""",
    )
    draft.provide(
        "comm",
        f"""SELECT t.row AS span_id, t.op AS op_span_id, {_collective("o.name")} AS collective, g.group_name,
            {said("t.type", "t.name")} AS task_type, t.stream, t.task AS task_id,
            CASE WHEN h.row IS NOT NULL THEN true END AS by_stream
        FROM dev t LEFT JOIN helped h ON h.row = t.row LEFT JOIN op_lane o ON o.row = t.op
        LEFT JOIN op_group g ON g.row = t.op WHERE t.kind = 'comm_task'""",
    )
    draft.provide(
        "span", "SELECT row AS span_id, track, 'comm_task' AS kind, name, ts AS ts_ns, dur AS dur_ns FROM plane"
    )
