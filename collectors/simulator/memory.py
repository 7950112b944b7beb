"""The caching allocator of a simulated rank."""

from __future__ import annotations

from dataclasses import dataclass, field

from npulens.collectors.simulator.job import MemoryBlock, MemoryState

MIB = 1 << 20
_SEGMENT = 20 * MIB  # reserved memory grows by whole segments and is kept


@dataclass
class Allocator:
    offset: int
    _allocated: int
    _reserved: int
    blocks: list[MemoryBlock] = field(default_factory=list)
    states: list[MemoryState] = field(default_factory=list)
    _live: dict[str, int] = field(default_factory=dict)  # slot -> index of its block

    def allocate(self, slot: str, name: str, size: int, now: int) -> None:
        size = -(-size // 512) * 512
        self._allocated += size
        while self._reserved < self._allocated:
            self._reserved += _SEGMENT
        self._live[slot] = len(self.blocks)
        self.blocks.append(MemoryBlock(name, size, now + self.offset, None, self._state(now), None))

    def release(self, slot: str, now: int) -> None:
        index = self._live.pop(slot)
        block = self.blocks[index]
        self._allocated -= block.bytes
        self.blocks[index] = block._replace(release_ns=now + self.offset, release_totals=self._state(now))

    def _state(self, now: int) -> tuple[int, int, int]:
        totals = (self._allocated, self._reserved, self._allocated)
        for component in ("PTA", "PTA+GE"):
            self.states.append(MemoryState(component, now + self.offset, totals))
        return totals
