"""Steps, memory and counters: what Kineto marks in time rather than as spans."""

from __future__ import annotations

from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.marks import ENGINE_STEP, PROFILER_STEP, engine_steps

#: c10::DeviceType, as "[memory]" events number it.
_DEVICE_TYPE = """CASE device_type
    WHEN 0 THEN 'cpu' WHEN 1 THEN 'cuda' WHEN 6 THEN 'hip' WHEN 12 THEN 'xpu' WHEN 13 THEN 'mps'
    WHEN 15 THEN 'hpu' WHEN 19 THEN 'mtia' WHEN 20 THEN 'npu' ELSE 'device type ' || device_type END"""

#: Marks of one step on several threads: the one of the thread that was in steps longest.
#: Device annotations of one step lie on several streams: from the first start to the last end.
_STEPS = f"""
WITH mark AS (
    SELECT try_cast(regexp_extract(s.text, '(\\d+)$', 1) AS BIGINT) AS step, e.ts, e.dur, s.device, l.track
    FROM ev e JOIN sort s USING (shape) JOIN lane l USING (lane)
    WHERE s.kind IN ('step_mark', 'device_annotation') AND regexp_matches(s.text, '{PROFILER_STEP}')
), host AS (
    SELECT step, ts, dur FROM (SELECT *, sum(dur) OVER (PARTITION BY track) AS total FROM mark WHERE NOT device)
    QUALIFY row_number() OVER (PARTITION BY step ORDER BY total DESC, dur DESC, ts) = 1
), device AS (
    SELECT step, min(ts) AS ts, max(ts + dur) - min(ts) AS dur FROM mark WHERE device GROUP BY step
)
SELECT coalesce(h.step, d.step) AS step, coalesce(h.ts, d.ts) + {{shift}} AS ts_ns, h.dur AS host_dur_ns,
    d.ts + {{shift}} AS device_ts_ns, d.dur AS device_dur_ns,
    CASE WHEN h.step IS NULL THEN 'device annotation' ELSE 'ProfilerStep' END AS source
FROM host h FULL JOIN device d ON d.step = h.step WHERE coalesce(h.step, d.step) IS NOT NULL
"""

#: Annotations of a serving engine; those of the device share the External id of the host's.
_ENGINE_MARKS = f"""
SELECT e.row, e.ts + {{shift}} AS ts, e.dur, s.device, l.track, s.text, coalesce(h.external_id, d.external_id) AS id
FROM ev e JOIN sort s USING (shape) JOIN lane l USING (lane)
    LEFT JOIN host_raw h ON h.row = e.row LEFT JOIN device_raw d ON d.row = e.row
WHERE s.kind IN ('step_mark', 'device_annotation') AND regexp_matches(s.text, '{ENGINE_STEP}')
"""

#: An allocation ends where the same address of the same device is next released. 2021 traces give no address.
_BLOCKS = f"""
WITH m AS (
    SELECT *, {_DEVICE_TYPE} || CASE WHEN device_id >= 0 THEN ':' || device_id ELSE '' END AS device FROM memory_raw
), w AS (
    SELECT *, lead(bytes) OVER t AS next_bytes, lead(ts) OVER t AS next_ts, lead(allocated) OVER t AS next_allocated,
        lead(reserved) OVER t AS next_reserved, lag(bytes) OVER t AS last_bytes
    FROM m WINDOW t AS (PARTITION BY device, address ORDER BY ts, row)
), p AS (
    SELECT *, address IS NOT NULL AND bytes > 0 AND coalesce(next_bytes = -(bytes::HUGEINT), false) AS closed,
        address IS NOT NULL AND bytes < 0 AND coalesce(last_bytes = -(bytes::HUGEINT), false) AS closes FROM w
)
SELECT ts + {{shift}} AS ts_ns, CASE WHEN closed THEN next_ts - ts END AS dur_ns, bytes, address::VARCHAR AS address,
    allocated AS allocated_bytes, reserved AS reserved_bytes, device,
    CASE WHEN closed THEN next_allocated END AS release_allocated_bytes,
    CASE WHEN closed THEN next_reserved END AS release_reserved_bytes
FROM p WHERE NOT closes
"""

_POOLS = f"""
SELECT 'PyTorch' AS component, ts + {{shift}} AS ts_ns, allocated AS allocated_bytes, reserved AS reserved_bytes,
    {_DEVICE_TYPE} || CASE WHEN device_id >= 0 THEN ':' || device_id ELSE '' END AS device
FROM memory_raw WHERE allocated IS NOT NULL OR reserved IS NOT NULL
"""

_COUNTS = """
WITH value AS (
    SELECT ts, name, key, value FROM count_raw
    UNION ALL
    SELECT r.ts, r.name, j.key, try_cast(j.value ->> '$' AS DOUBLE) FROM count_rest_raw r, json_each(r.rest) j
)
SELECT n.text AS counter, v.key AS series, v.ts + {shift} AS ts_ns, v.value
FROM value v JOIN strings n ON n.code = v.name WHERE isfinite(v.value)
"""

#: CUPTI's range profiler writes the metrics of each range as arguments.
_METRICS = """
SELECT r.row AS span_id, j.key AS metric, try_cast(j.value ->> '$' AS DOUBLE) AS value
FROM device_raw d JOIN sort s USING (shape) JOIN device_rest_raw r ON r.row = d.row, json_each(r.rest) j
WHERE s.cat = 'cuda_profiler_range' AND isfinite(try_cast(j.value ->> '$' AS DOUBLE))
"""


def series(draft: Draft, shift_ns: int, *, memory: bool, counters: bool) -> None:
    """Provide step, and memory, counters and metrics where there are any."""
    if count(draft, "SELECT count(*) FROM sort WHERE cat = 'cuda_profiler_range'"):
        draft.provide("pmu", _METRICS)
    if not draft.keep("steps", _STEPS.format(shift=shift_ns)):
        draft.keep("steps", engine_steps(_ENGINE_MARKS.format(shift=shift_ns)))
    draft.provide("step", "FROM steps")
    if memory:
        draft.keep("blocks", _BLOCKS.format(shift=shift_ns))
        draft.provide("memory_event", "FROM blocks")
        if count(draft, "SELECT count(*) FROM memory_raw WHERE allocated IS NOT NULL OR reserved IS NOT NULL"):
            draft.provide("memory_sample", _POOLS.format(shift=shift_ns))
    if counters:
        draft.keep("counted", _COUNTS.format(shift=shift_ns))
        draft.provide("sample", "FROM counted")
