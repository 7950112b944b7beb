"""Runs inside an environment of its own, with apache-otava and ruptures as they are: series in, change points out.

    python rivals_here.py IN.npz OUT.npz

IN holds arrays of series, one a row, by name; OUT holds for each name and rival the first index of the new level that
lies nearest the middle of what was planted, -1 for none, and the number of change points.
"""

from __future__ import annotations

import sys

import numpy as np


def otava(values: np.ndarray) -> list[int]:
    """Otava at the defaults of its own code."""
    from otava.analysis import compute_change_points

    found = compute_change_points(list(values))
    points = found[0] if isinstance(found, tuple) else found
    return [point.index for point in points]


def ruptures(values: np.ndarray) -> list[int]:
    """PELT with squared error and the penalty its own documentation derives: 3 variances of the noise times log n."""
    import ruptures as rpt

    noise = float(np.median(np.abs(np.diff(values))) / 0.6745 / np.sqrt(2)) or 1e-12
    found = rpt.Pelt(model="l2").fit(values[:, None]).predict(pen=3 * noise**2 * np.log(len(values)))
    return [int(each) for each in found[:-1]]


def main() -> None:
    given = np.load(sys.argv[1])
    answer: dict[str, np.ndarray] = {}
    for name in given.files:
        truth = int(name.split("/")[-1])
        for rival in (otava, ruptures):
            found = [rival(np.exp(row)) for row in given[name]]
            nearest = [min(points, key=lambda index: abs(index - truth), default=-1) for points in found]
            answer[f"{rival.__name__}/{name}"] = np.array(nearest)
    np.savez(sys.argv[2], **answer)


if __name__ == "__main__":
    main()
