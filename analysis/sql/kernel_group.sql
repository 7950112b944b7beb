-- Kernels and memsets that are alike: same operator type, core, shapes and element types. The total adds lengths; it
-- is no share of the step, because kernels of several streams overlap.
CREATE OR REPLACE VIEW kernel_group (
    rank,          -- captured rank
    op,            -- operator type; where no type was recorded the kernel's name
    core,          -- core it ran on
    input_shapes,  -- tensors separated by ';'
    input_dtypes,  -- their element types
    output_shapes, -- tensors separated by ';'
    output_dtypes, -- their element types
    count,         -- how many
    total_ns,      -- their lengths, added
    min_ns,        -- the shortest
    median_ns,     -- half are at most this long
    p90_ns,        -- 90 % are at most this long
    p99_ns,        -- 99 % are at most this long
    max_ns         -- the longest
) AS
WITH task AS (
    SELECT
        s.rank, coalesce(k.op_type, s.name) AS op, k.core, k.input_shapes, k.input_dtypes, k.output_shapes,
        k.output_dtypes, s.dur_ns
    FROM span s LEFT JOIN kernel k USING (span_id) WHERE s.kind IN ('kernel', 'memset')
), grouped AS (
    SELECT
        rank, op, core, input_shapes, input_dtypes, output_shapes, output_dtypes, count(*) AS count,
        sum(dur_ns)::BIGINT AS total, min(dur_ns) AS least, quantile_disc(dur_ns, [0.5, 0.9, 0.99]) AS quantile,
        max(dur_ns) AS most
    FROM task GROUP BY ALL
)
SELECT
    rank, op, core, input_shapes, input_dtypes, output_shapes, output_dtypes, count, total, least, quantile[1],
    quantile[2], quantile[3], most
FROM grouped;
