"""Whether a model was left in training mode where a range of the job says that it infers.

`aten::batch_norm` is called with `training=True` in two cases: its module is in training mode, or it keeps no running
statistics. Where it was given them, it is the first. A capture with a backward pass or an optimizer trains.
"""

from __future__ import annotations

from collections.abc import Iterator

from npulens.analysis.idle.host_names import names
from npulens.analysis.run import Run
from npulens.analysis.say import duration

_INFERS = r"(?i)(?:^|[^a-z])(?:infer|inference|predict|prediction|evaluate|evaluation|eval)(?:[^a-z]|$)"
_TRAINS = r"Backward\d*$|^Optimizer\.|^aten::_(?:foreach|fused)_(?:add_|adam\w*|sgd)"
_KNOWN = f"""
    SELECT bool_or(name = 'aten::batch_norm'), bool_or(regexp_matches(name, '{_TRAINS}')),
        list(DISTINCT name ORDER BY name) FILTER (
            kind IN ('annotation', 'cpu_op') AND NOT contains(name, '::') AND regexp_matches(name, '{_INFERS}'))
    FROM {{names}}
"""
_IN_TRAINING = """
    SELECT s.rank, any_value(r.name), count(DISTINCT s.span_id), sum(s.dur_ns)::BIGINT
    FROM span s JOIN arg a USING (span_id) JOIN host_op h USING (span_id)
    JOIN span r ON r.rank = s.rank AND r.kind IN ('annotation', 'cpu_op') AND list_contains(?, r.name)
        AND r.ts_ns <= s.ts_ns AND r.ts_ns + r.dur_ns >= s.ts_ns + s.dur_ns
    WHERE s.name = 'aten::batch_norm' AND s.kind = 'cpu_op'
        AND TRY(json_extract_string(a.args, '$."Concrete Inputs"[5]')) = 'True'
        AND TRY(json_array_length(h.input_shapes, '$[3]')) > 0
    GROUP BY s.rank ORDER BY s.rank LIMIT 1
"""


def training_mode(run: Run) -> Iterator[tuple[str, str]]:
    """At most one doubt, in both languages: of the first rank that shows it."""
    ((norm, trains, ranges),) = run.con.execute(_KNOWN.format(names=run.get(names))).fetchall()
    if not norm or trains or not ranges:
        return
    for rank, name, count, ns in run.con.execute(_IN_TRAINING, [ranges]).fetchall():
        yield (
            f"rank {rank}: batch_norm runs in training mode within {name} ({count} calls, {duration(ns)}), and no "
            "backward pass was recorded. If that is inference, model.eval() was not called: results depend on the "
            "batch, and these times are not those of inference",
            f"rank {rank}：{name} 中的 batch_norm 处于训练模式（{count} 次调用，{duration(ns)}），"
            "且没有采集到反向计算。若这是推理，则没有调用 model.eval()：结果会随 batch 变化，这些时间也不是推理的时间",
        )
