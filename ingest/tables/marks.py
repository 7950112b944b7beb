"""What marks the steps of a job, whatever the format: the profiler's own marks, else what a serving engine annotates.

A reader brings the spans whose names are marks; what they mean as steps is worked out here, once for all formats.
"""

from __future__ import annotations

PROFILER_STEP = r"^ProfilerStep#\d+$"
#: What serving engines put around each step of theirs: vLLM and vllm-ascend, SGLang, vLLM's older versions.
ENGINE_STEP = r"^execute_(\d+_)?context_\d+\(|^step\[[A-Z_]+[ \]]|^execute_model$"
STEP_MARK = f"{PROFILER_STEP}|{ENGINE_STEP}"

#: Steps of a serving engine by its annotations, in order of time. Taken are those of the thread that was in them
#: longest, the finest kind, the outer one of two within each other. The device's are matched by the id that they share.
_ENGINE_STEPS = """
WITH mark AS (
    SELECT *, min(text = 'execute_model') OVER () AS coarse FROM ({marks})
), fine AS (SELECT * FROM mark WHERE (text = 'execute_model') = coarse
), host AS (
    SELECT *, max(ts + dur) OVER (ORDER BY ts, dur DESC, row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until
    FROM fine WHERE NOT device AND track =
        (SELECT track FROM fine WHERE NOT device GROUP BY track ORDER BY sum(dur) DESC, track LIMIT 1)
), device AS (
    SELECT text, coalesce(id, -row) AS id, min(ts) AS ts, max(ts + dur) - min(ts) AS dur FROM fine WHERE device
    GROUP BY ALL
), found AS (
    SELECT h.text, h.ts, h.dur AS host_dur, d.ts AS device_ts, d.dur AS device_dur
    FROM host h LEFT JOIN device d ON d.text = h.text AND d.id = h.id WHERE h.until IS NULL OR h.until <= h.ts
    UNION ALL
    SELECT text, ts, NULL, ts, dur FROM device WHERE NOT EXISTS (FROM host)
), counted AS (
    SELECT *, regexp_extract(text, '^step\\[(\\w+)', 1) AS mode,
        try_cast(regexp_extract(text, 'context_(\\d+)', 1) AS BIGINT) > 0 AS context,
        try_cast(regexp_extract(text, 'generation_(\\d+)', 1) AS BIGINT) > 0 AS generation FROM found
)
SELECT row_number() OVER (ORDER BY ts, text) - 1 AS step, ts AS ts_ns, host_dur AS host_dur_ns,
    device_ts AS device_ts_ns, device_dur AS device_dur_ns,
    CASE WHEN mode = 'MIXED' OR (context AND generation) THEN 'mixed' WHEN mode = 'EXTEND' OR context THEN 'prefill'
        WHEN mode IN ('DECODE', 'TARGET_VERIFY') OR generation THEN 'decode' END AS phase,
    CASE WHEN host_dur IS NULL THEN 'device annotation' ELSE 'engine annotation' END AS source
FROM counted
"""


def engine_steps(marks: str) -> str:
    """The steps of a serving engine. `marks` selects its annotations: row, text, ts, dur, device, track and id."""
    return _ENGINE_STEPS.format(marks=marks)
