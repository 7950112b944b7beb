"""Send and receive between two neighbours of a pipeline, alone or both ways at once, simulated for both together.

Both tell each other that they are ready and wait for each other, so that whoever comes first waits for the other; then
each writes what it has to send over the link, and both tell and wait once more.
"""

from __future__ import annotations

from npulens.collectors.simulator.collective import LINK_BYTES_PER_NS, PER_TASK, Side, meet, noise_of, record
from npulens.collectors.simulator.items import Exchange
from npulens.collectors.simulator.job import Group
from npulens.collectors.simulator.rank_sim import Pending, RankSim


def exchange(group: Group, pending: dict[int, Pending], sims: list[RankSim], index: int) -> None:
    """Unfolds one exchange of the two ranks of ``group`` and records it on both."""
    sides = [Side(sims[rank], pending[rank], pending[rank].arrival, []) for rank in group.ranks]
    noise = noise_of(group, sides[0], index)
    meet(sides, ready=None)
    for number, side in enumerate(sides):
        peer = sides[1 - number]
        item, other = side.pending.item, peer.pending.item
        assert isinstance(item, Exchange) and isinstance(other, Exchange)
        if item.send != other.receive:
            raise RuntimeError(f"rank {side.sim.rank} sends {item.send}, its neighbour takes {other.receive}")
        if item.send:
            size = item.send * item.item_bytes
            ns = int(size / LINK_BYTES_PER_NS * (1.0 + 0.03 * noise())) + 900
            ns = side.sim.cost("link", f"{side.sim.rank}-{peer.sim.rank}", ns, "device")
            side.now = side.add(1, "Memcpy", side.now + PER_TASK, ns, 1 - number, size) + PER_TASK
    meet(sides, ready=None)
    for side in sides:
        record(side, group, index)
