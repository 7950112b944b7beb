-- The ranks of each communication group, as the job lists them. Where a group is listed nowhere, they are those that
-- its tasks name and those that were seen running its operators. Then there may be more.
CREATE OR REPLACE VIEW group_member (
    group_name,    -- the group, as communication operators name it
    kind,          -- tp, pp, dp, ep..., default_group; NULL: not recorded
    rank,          -- rank of the job that belongs to it
    position,      -- its place in the group, from 0; NULL: not recorded
    captured,      -- the run holds this rank
    source         -- where it was read; 'communication': from operators and their tasks
) AS
WITH listed AS (
    SELECT group_name, kind, source, unnest(ranks) AS rank, generate_subscripts(ranks, 1) - 1 AS position
    FROM parallel_group WHERE len(ranks) > 0
), named AS (
    SELECT DISTINCT group_name, dst_rank AS rank, dst_local AS position FROM comm WHERE dst_rank IS NOT NULL
    UNION
    SELECT DISTINCT group_name, src_rank, src_local FROM comm WHERE src_rank IS NOT NULL
    UNION
    SELECT DISTINCT group_name, rank, NULL FROM comm
), member AS (
    SELECT group_name, kind, rank, position, source FROM listed
    UNION ALL
    SELECT group_name, NULL, rank, position, 'communication'
    FROM named WHERE group_name IS NOT NULL AND group_name NOT IN (SELECT group_name FROM listed)
)
SELECT
    group_name, min(kind), rank, min(position)::BIGINT, rank IN (SELECT rank FROM rank), min(source)
FROM member GROUP BY group_name, rank;
