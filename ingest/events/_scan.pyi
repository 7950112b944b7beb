from collections.abc import Sequence

from npulens.ingest.events.model import Column

class Scanner:
    def __init__(self, columns: Sequence[Column], flow_names: bool, table_bytes: int, seed: int, /) -> None: ...
    @property
    def pending(self) -> int: ...
    def feed(
        self, data: bytearray, start: int, end: int, last: bool, /
    ) -> tuple[int, int, int, tuple[object, ...]]: ...
