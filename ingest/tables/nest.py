"""Lanes for the spans of a track.

Host spans nest; device spans of one track overlap in real captures (notify waits, FFTS), so a stack is wrong. Each span
gets the lowest lane below its parent that is free when it starts. Its parent is the latest-starting open span that
contains it. Spans must come sorted by track, start, longest first. The C twin does the same some fifty times faster.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

_native: Any = None
if not os.environ.get("NPULENS_PLAIN"):
    with suppress(ImportError):  # built without a compiler
        _native = import_module("npulens.ingest.tables._nest")

#: Lanes a track can have; a hostile file could ask for millions. Spans beyond share the last one and are counted.
LANES = 1024
_HEAD = struct.Struct("=qqqq")  # track, lanes in use, spans beyond the last lane, lanes
_LANE = struct.Struct("=qqq")  # start, end, span id

Ints = NDArray[np.int64]


@dataclass
class Nest:
    """Places batch after batch; a track may go on in the next one."""

    state: bytearray = field(
        default_factory=lambda: bytearray(_HEAD.pack(-(2**63), 0, 0, LANES) + bytes(_LANE.size * LANES))
    )

    def place(self, track: Ints, start: Ints, dur: Ints, span_id: Ints) -> tuple[NDArray[np.int32], Ints]:
        """Lane and parent (-1: none) of each span."""
        depth, parent = np.empty(len(track), np.int32), np.empty(len(track), np.int64)
        if _native is not None:
            _native.nest(track, start, dur, span_id, depth, parent, self.state)
        else:
            self._plain(track, start, dur, span_id, depth, parent)
        return depth, parent

    @property
    def crowded(self) -> int:
        """Spans that found no lane of their own."""
        return int(_HEAD.unpack_from(self.state)[2])

    def _plain(
        self, track: Ints, start: Ints, dur: Ints, span_id: Ints, depth: NDArray[np.int32], parent: Ints
    ) -> None:
        current, used, crowded, _ = _HEAD.unpack_from(self.state)
        lanes = [_LANE.unpack_from(self.state, _HEAD.size + i * _LANE.size) for i in range(used)]
        rows = zip(track.tolist(), start.tolist(), dur.tolist(), span_id.tolist(), strict=True)
        for i, (of, begin, length, key) in enumerate(rows):
            if of != current:
                current, lanes = of, []
            while lanes and lanes[-1][1] <= begin:
                lanes.pop()
            below = max(
                (j for j, (_, end, _) in enumerate(lanes) if end > begin and end >= begin + length),
                key=lambda j: (lanes[j][0], j),
                default=-1,
            )
            parent[i] = lanes[below][2] if below >= 0 else -1
            lane = below + 1
            while lane < len(lanes) and lanes[lane][1] > begin:
                lane += 1
            if lane >= LANES:
                lane, crowded = LANES - 1, crowded + 1
            lanes[lane : lane + 1] = [(begin, begin + length, key)]
            depth[i] = lane
        _HEAD.pack_into(self.state, 0, current, len(lanes), crowded, LANES)
        for j, row in enumerate(lanes):
            _LANE.pack_into(self.state, _HEAD.size + j * _LANE.size, *row)
