"""The engine without a device beside real ones: `python -m tests.serving.proof DIR...`, runs as files.

An engine is set up with what was fitted on a run, and asked the run's own requests. What its requests take is put
beside what was measured.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from npulens import ingest
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import UNLIMITED, Measures
from npulens.analysis.serving.served import Served, served
from npulens.collectors.serving.engine import Asked, Recorded, Setup, run
from npulens.ingest.store import runs as stores
from tests.serving.score import truth

SEEDS = 5
SHOWN = ("ttft_mean_ns", "ttft_p99_ns", "tpot_mean_ns", "tpot_p99_ns")


def set_up(found: Served) -> Setup:
    """The engine of a run, as fitted."""
    model, kept = found.model, ~found.stalled
    more = np.log(found.rows.dur_ns[kept] / found.said_ns[kept])
    scatter = float(min(0.3, np.std(more)))
    # The fit is of the middle; the mean is longer. So is that of a scatter, which is taken off.
    ratio = float(found.rows.dur_ns[kept].sum() / found.said_ns[kept].sum() / np.exp(scatter**2 / 2))
    stalls = (*model.stalls, *model.exports)
    return Setup(
        base_ns=ratio * model.base_ns, context_ns=ratio * model.context_ns,
        context_token_ns=ratio * model.context_token_ns, decoder_ns=ratio * model.decoder_ns, scatter=scatter,
        gap_ns=float(found.rows.gap_ns.mean()),
        front_ns=found.floor_ns, budget=_or(model.budget, 8192), slots=_or(model.slots, 1024),
        blocks=_or(model.blocks, 1 << 14), block_tokens=model.block_tokens,
        stalls=tuple((one.ts_ns, one.dur_ns) for one in stalls),
    )  # fmt: skip


def _or(limit: int, instead: int) -> int:
    return instead if limit == UNLIMITED else limit


def asked_of(found: Served) -> list[Asked]:
    """The requests of a run, as they were sent."""
    load = found.load
    return [
        Asked(load.ids[at], int(load.sent_ns[at]), int(load.prompt[at]), int(load.output[at]))
        for at in range(len(load.ids))
    ]


def beside(found: Served) -> tuple[Measures, Measures]:
    """What was measured, and the mean of what the engine does from several seeds."""
    setup = set_up(found)
    done: list[Recorded] = [run(asked_of(found), setup, seed) for seed in range(SEEDS)]
    measured = [truth(one) for one in done]
    mean = {name: float(np.mean([getattr(one, name) for one in measured])) for name in (*SHOWN, "good")}
    return found.real, replace(measured[0], **mean)


def main() -> None:
    print(f"{'run':28}" + "".join(f"{name.removesuffix('_ns'):>24}" for name in SHOWN) + f"{'goodput':>18}")
    with tempfile.TemporaryDirectory(prefix="npulens-proof-") as store:
        for place in map(Path, sys.argv[1:]):
            (loaded,) = ingest.load(place, Path(store)).runs
            with stores.open_run(Path(store), loaded.run_id) as con:
                found = Run(con).get(served)
            assert found is not None, f"{place} holds no requests with iterations"
            real, made = beside(found)
            cells = [f"{getattr(real, name) / 1e6:.1f} / {getattr(made, name) / 1e6:.1f} ms" for name in SHOWN]
            print(f"{place.name:28}" + "".join(f"{cell:>24}" for cell in cells)
                  + f"{real.good:>10.0f} / {made.good:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
