"""The sides of a convolution's result, where only another operator was recorded with them.

Before 2.1 torch recorded no stride and no padding, and Kineto records no results. But the gradient of a result has its
sides. autograd counts its operators: the backward node with the number of a convolution was called with that gradient.
The two gradients of a convolution lie within an operator that was called with all that they result in.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npulens.analysis.device.kernels import NO_HOST
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: One result: its shape as Kineto writes a list of tensors, by the host operator that gives it.
_RESULTS = """
    WITH op AS (
        SELECT s.span_id, s.rank, s.parent_id, s.name, h.sequence, h.input_shapes AS shapes FROM host_op h
        JOIN span s USING (span_id)
        WHERE contains(s.name, 'onvolution') AND h.input_shapes IS NOT NULL
            -- of these only: a condition on one table is asked of all of its rows
            AND CASE WHEN contains(s.name, 'onvolution') THEN json_valid(h.input_shapes) END
    ), forward AS (
        SELECT rank, sequence, any_value(span_id) AS span_id FROM op
        WHERE regexp_full_match(name, 'aten::(cudnn|miopen)_convolution') AND sequence IS NOT NULL
        GROUP BY rank, sequence HAVING count(*) = 1
    ), node AS (
        SELECT rank, sequence, any_value(json_extract(shapes, '$[0]')) AS shape FROM op
        WHERE regexp_full_match(name, '(Cudnn|Miopen)?ConvolutionBackward0?') AND sequence IS NOT NULL
        GROUP BY rank, sequence HAVING count(*) = 1
    )
    SELECT f.span_id, n.shape::VARCHAR AS shape FROM forward f JOIN node n USING (rank, sequence)
    UNION ALL
    SELECT one.span_id, json_extract(both_.shapes, CASE WHEN ends_with(one.name, '_input') THEN '$[0]' ELSE '$[2]' END)
        ::VARCHAR
    FROM op one JOIN op both_ ON both_.span_id = one.parent_id
    WHERE regexp_full_match(one.name, 'aten::(cudnn|miopen)_convolution_backward_(input|weight)')
        AND regexp_full_match(both_.name, 'aten::(cudnn|miopen)_convolution_backward')
"""


def results(run: Run, host: Ints) -> tuple[Ints, Mapping[int, str]]:
    """Per host operator a number for the sides of its result, -1 where nothing tells them; and those, `[[2, 3]]`."""
    ((there,),) = run.con.execute("SELECT bool_or(contains(name, 'onvolution')) FROM span").fetchall()
    if not there or (host == NO_HOST).all():
        return np.full(len(host), -1, np.int64), {}
    told = run.con.execute(f"SELECT span_id, shape FROM ({_RESULTS}) WHERE shape NOT IN ('[]', 'null')").fetchall()
    texts = sorted({shape for _, shape in told})
    place = {shape: at for at, shape in enumerate(texts)}
    known = {span_id: place[shape] for span_id, shape in told}  # of several the last one counts
    spans = np.array(sorted(known), np.int64)
    numbers = np.array([known[span] for span in spans.tolist()], np.int64)
    if not len(spans):
        return np.full(len(host), -1, np.int64), {}
    at = np.minimum(np.searchsorted(spans, host), len(spans) - 1)
    return np.where(spans[at] == host, numbers[at], -1), {at: f"[{shape}]" for at, shape in enumerate(texts)}
