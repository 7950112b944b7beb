"""The verdict of pairs for thousands of nights at once. A share of each call is held against `verdict.judge` itself."""

from __future__ import annotations

import numpy as np
from scipy import special

from npulens.analysis.regression import verdict
from tests.power.noise import Floats

#: Rows of each call that the real rule judges too; one that disagrees stops everything.
CHECKED = 40


def said(logs: Floats) -> list[str]:
    """For each row of log-ratios what `judge` says, where no two pairs are alike."""
    n, rule = logs.shape[1], verdict.RULE
    mean, error = logs.mean(1), logs.std(1, ddof=1) / np.sqrt(n)
    reach = special.stdtrit(n - 1, 1 - rule.alpha / 2) * error
    p = np.maximum(2 * special.stdtr(n - 1, -np.abs(mean) / error), signed_rank(logs))
    edge = np.log1p(rule.margin)
    same = (mean - reach >= -edge) & (mean + reach <= edge)
    moved = ~same & (p <= rule.alpha) & (np.abs(mean) > reach)
    found = np.select([same, moved & (mean > 0), moved], ["same", "regressed", "improved"], "ambiguous").tolist()
    assert found[:CHECKED] == [verdict.judge(list(row)).said for row in logs[:CHECKED]]
    return list(found)


def signed_rank(logs: Floats) -> Floats:
    """Wilcoxon's exact two-sided p, row by row."""
    n = logs.shape[1]
    ranks = np.abs(logs).argsort(1).argsort(1) + 1
    above = np.where(logs > 0, ranks, 0).sum(1)
    ways = np.ones(1)
    for rank in range(1, n + 1):  # of every choice of signs, how many give each sum of ranks
        ways = np.concatenate([ways, np.zeros(rank)]) + np.concatenate([np.zeros(rank), ways])
    tail = np.cumsum(ways) / 2.0**n
    return np.asarray(np.minimum(1.0, 2 * tail[np.minimum(above, n * (n + 1) // 2 - above)]))
