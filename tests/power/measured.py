"""Every cell: the gate of the history, the rules of two nights, and the rivals in an environment of their own."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tests.bench.rivals import environment
from tests.power.cells import EFFECTS, NIGHTS, Cell, history, ours_on_history, since, two_nights
from tests.power.noise import KINDS, Floats

OTAVA, RUPTURES = "apache-otava==0.8.0", "ruptures==1.1.10"
#: What the rivals' own names become in the tables.
NAMES = {"otava": "Otava, its defaults", "ruptures": "ruptures, PELT"}


def ours(kind: str, rows: int, seed: int) -> list[Cell]:
    """Our gate and the rules of two nights on one kind of noise; each cell has numbers of its own."""
    cells: list[Cell] = []
    for effect in EFFECTS:
        for nights in NIGHTS:
            samples = history(kind, nights, effect, rows, generator(seed, kind, nights, effect))
            cells.append(ours_on_history(kind, nights, effect, np.median(samples, axis=2)))
            if nights == 30:
                cells += two_nights(kind, nights, effect, samples)
    return cells


def generator(seed: int, kind: str, nights: int, effect: float) -> np.random.Generator:
    """The same cell has the same numbers, whatever else is measured."""
    return np.random.default_rng([seed, list(KINDS).index(kind), nights, round(effect * 1000)])


def theirs(kind: str, rows: int, seed: int) -> list[Cell]:
    """The rivals on histories drawn alike."""
    cells = []
    with tempfile.TemporaryDirectory() as scratch:
        given, answer = Path(scratch, "in.npz"), Path(scratch, "out.npz")
        asked: dict[str, Floats] = {}
        for effect in EFFECTS:
            for nights in NIGHTS:
                samples = history(kind, nights, effect, rows, generator(seed, kind, nights, effect))
                asked[f"{nights}/{effect}/{since(nights)}"] = np.median(samples, axis=2)
        np.savez(given, **asked)  # type: ignore[arg-type]
        python = environment(OTAVA, RUPTURES) / "python"
        subprocess.run([python, Path(__file__).with_name("rivals_here.py"), given, answer], check=True)
        with np.load(answer) as found:
            for name in found.files:
                rival, nights, effect, truth = name.split("/")
                nearest = found[name]
                spoke = nearest >= 0
                dated = int((spoke & (np.abs(nearest - int(truth)) <= 1)).sum()) if float(effect) else None
                cells.append(
                    Cell(NAMES[rival], kind, int(nights), float(effect), len(nearest), int(spoke.sum()), dated)
                )
    return cells
