"""What the performance counters of a kernel say: a healthy profile per kind of core, with a little noise."""

from __future__ import annotations

from npulens.collectors.simulator.config import RATED_MHZ

Pipes = tuple[tuple[str, float], ...]
CUBE: Pipes = (("mac", 0.76), ("scalar", 0.21), ("mte1", 0.57), ("mte2", 0.63), ("fixpipe", 0.09))
VECTOR: Pipes = (("vec", 0.52), ("scalar", 0.07), ("mte2", 0.64), ("mte3", 0.55))
_BLOCKS = {"AI_CORE": (24, 0), "AI_VECTOR_CORE": (48, 0), "MIX_AIC": (24, 48), "MIX_AIV": (48, 0)}


def block_num(core: str, wanted: int = 0) -> tuple[int, int]:
    """Blocks on the main and on the other kind of core; as many as there are cores where no number is wanted."""
    if core == "AI_CPU":
        return 1, 0
    main, other = _BLOCKS.get(core, (0, 0))
    return (wanted, other * wanted // main) if wanted and main else (main, other)


def measure(
    core: str, ns: int, blocks: int, noise: float, mhz: int = RATED_MHZ, busy: Pipes = ()
) -> tuple[tuple[str, float], ...]:
    """The PipeUtilization group, named and in the units (ns, cycles, shares) of the database."""
    if core not in _BLOCKS:
        return ()
    cube = _side("aic", _busy(CUBE, busy), ns if core in ("AI_CORE", "MIX_AIC") else 0, blocks, noise, mhz)
    vector = _side("aiv", _busy(VECTOR, busy), ns if core != "AI_CORE" else 0, blocks, noise, mhz)
    return cube + vector


def _busy(healthy: Pipes, busy: Pipes) -> Pipes:
    return tuple((pipe, dict(busy).get(pipe, share)) for pipe, share in healthy)


def _side(
    prefix: str, pipes: Pipes, ns: int, blocks: int, noise: float, mhz: int
) -> tuple[tuple[str, float], ...]:
    busy = ns * 97 // 100
    rows: list[tuple[str, float]] = [
        (f"{prefix}_total_time", busy),
        (f"{prefix}_total_cycles", int(busy * (mhz / 1000)) * blocks),
    ]
    for pipe, share in pipes:
        ratio = round(share + 0.04 * noise, 3) if ns else 0.0
        rows += [(f"{prefix}_{pipe}_time", int(busy * ratio)), (f"{prefix}_{pipe}_ratio", ratio)]
    rows.append((f"{prefix}_icache_miss_rate", round(0.002 + 0.004 * noise, 3) if ns else 0.0))
    return tuple(rows)
