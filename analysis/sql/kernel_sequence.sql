-- Which kernels follow each other on a stream: every pair and every run of three. No copy, collective, memset or event
-- wait lies in between. A run of three also counts as its two pairs. The same sequence may begin again before it has
-- ended (A, A, A, A or A, B, A, B, A). What two of them share is added once.
CREATE OR REPLACE VIEW kernel_sequence (
    rank,          -- captured rank
    ops,           -- operator types in order; where no type was recorded the kernel's name
    count,         -- how often they follow each other so
    total_ns,      -- lengths of these kernels, added, each once
    gap_ns,        -- time between the end of one and the start of the next, each added once; overlapping kernels: none
    median_gap_ns, -- of one sequence: half have at most this much
    first_id       -- span_id of the first kernel of the earliest such sequence
) AS
WITH task AS (
    SELECT
        s.span_id, s.rank, s.track, s.ts_ns, s.dur_ns,
        CASE WHEN s.kind = 'kernel' THEN coalesce(k.op_type, s.name) END AS op
    FROM span s LEFT JOIN kernel k USING (span_id)
    WHERE s.kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'unknown') OR (s.kind = 'wait' AND s.dur_ns > 0)
), neighbour AS (
    SELECT
        rank, op AS last, lag(op) OVER before AS middle, lag(op, 2) OVER before AS first,
        lag(op, 3) OVER before AS third, lag(op, 4) OVER before AS fourth, dur_ns,
        lag(dur_ns) OVER before AS middle_ns, lag(dur_ns, 2) OVER before AS first_ns, ts_ns,
        greatest(0, ts_ns - lag(ts_ns + dur_ns) OVER before) AS gap_ns,
        greatest(0, lag(ts_ns) OVER before - lag(ts_ns + dur_ns, 2) OVER before) AS first_gap_ns,
        lag(span_id) OVER before AS middle_id, lag(span_id, 2) OVER before AS first_id
    FROM task WINDOW before AS (PARTITION BY track ORDER BY ts_ns, span_id)
), shared AS (
    SELECT
        *, coalesce(middle = last AND first = last, false) AS pair_again,
        coalesce(first = last AND middle = last AND third = last, false) AS two_again,
        coalesce(first = last AND third = middle AND fourth = last, false) AS one_again
    FROM neighbour
), pair AS (
    SELECT
        rank, middle, last, count(*) AS count,
        sum(dur_ns + CASE WHEN pair_again THEN 0 ELSE middle_ns END)::BIGINT AS total_ns,
        sum(gap_ns)::BIGINT AS gap_ns, quantile_disc(gap_ns, 0.5) AS median_ns,
        arg_min(middle_id, (ts_ns, middle_id)) AS id
    FROM shared WHERE middle IS NOT NULL AND last IS NOT NULL GROUP BY rank, middle, last
), triple AS (
    SELECT
        rank, first, middle, last, count(*) AS count,
        sum(dur_ns + CASE WHEN two_again THEN 0 ELSE middle_ns END
            + CASE WHEN two_again OR one_again THEN 0 ELSE first_ns END)::BIGINT AS total_ns,
        sum(gap_ns + CASE WHEN two_again THEN 0 ELSE first_gap_ns END)::BIGINT AS gap_ns,
        quantile_disc(first_gap_ns + gap_ns, 0.5) AS median_ns,
        arg_min(first_id, (ts_ns, first_id)) AS id
    FROM shared WHERE first IS NOT NULL AND middle IS NOT NULL AND last IS NOT NULL
    GROUP BY rank, first, middle, last
)
SELECT rank, [middle, last], count, total_ns, gap_ns, median_ns, id FROM pair
UNION ALL
SELECT rank, [first, middle, last], count, total_ns, gap_ns, median_ns, id FROM triple;
