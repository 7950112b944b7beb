"""What two sides of a comparison ran, row by row: new, gone, more or less often, longer or shorter."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def matched(base: pd.DataFrame, head: pd.DataFrame, keys: Sequence[str], counts: tuple[int, int]) -> pd.DataFrame:
    """What both sides ran, per window, the largest change of time first. ``counts``: windows of each side.

    state: 'new' or 'gone' where one side has none, 'count' where it ran more or less often. It is 'time' where only its
    time differs, else 'same'.
    """
    sides = [
        frame.groupby(list(keys), as_index=False)[["count", "total_ns"]].sum() for frame in (base, head)
    ]  # fmt: skip
    both = sides[0].merge(sides[1], on=list(keys), how="outer", suffixes=("_base", "_head"))
    for name in ("count_base", "count_head", "total_ns_base", "total_ns_head"):
        both[name] = both[name].fillna(0).astype("int64")
    for name, windows in zip(("base", "head"), counts, strict=True):
        both[f"{name}_count"] = both[f"count_{name}"] / max(1, windows)
        both[f"{name}_ns"] = both[f"total_ns_{name}"] / max(1, windows)
    both["change_ns"] = both["head_ns"] - both["base_ns"]
    both["state"] = _states(both, counts)
    order = (-both["change_ns"].abs()).sort_values(kind="stable").index
    return both.loc[order].reset_index(drop=True)


def _states(both: pd.DataFrame, counts: tuple[int, int]) -> list[str]:
    """Compared crosswise, so that no division rounds."""
    windows_base, windows_head = max(1, counts[0]), max(1, counts[1])
    found = []
    for a, b, x, y in zip(both["count_base"], both["count_head"], both["total_ns_base"], both["total_ns_head"],
                          strict=True):  # fmt: skip
        if not a or not b:
            found.append("new" if b else "gone")
        elif a * windows_head != b * windows_base:
            found.append("count")
        else:
            found.append("time" if x * windows_head != y * windows_base else "same")
    return found
