"""The engine of a Ray cluster: a task reads a few ranks in sandboxed children of its node, another writes one table.

Every node has the same npulens, and sees the capture and the store under the same path. A task whose worker or node is
lost is done again elsewhere, into another directory. If it cannot be done, the load ends, and nothing of it stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from npulens.ingest.engines import node
from npulens.ingest.engines.engine import Outcome
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.capture import RankSource
from npulens.ingest.loading.parsing import Parsed, Say, batches
from npulens.ingest.loading.quota import UsageWatch
from npulens.ingest.messages import Message, one_line
from npulens.ingest.tables.finish import Part

#: Where a head listens for drivers from elsewhere, unless the address says so.
_PORT = 10001
#: How often a task is done again whose worker or node was lost.
_RETRIES = 3
#: A cluster without a processor is waited for this long: nodes may be on their way.
_NOBODY_S = 60.0


class Ray:
    """A cluster: ray (the one this machine belongs to), or ray://HEAD[:PORT]."""

    def __init__(self, name: str) -> None:
        head = name.removeprefix("ray://").rstrip("/")
        self._address = "auto" if name == "ray" else f"ray://{head}" if ":" in head else f"ray://{head}:{_PORT}"
        self._ray: Any = None

    def parse(self, sources: tuple[RankSource, ...], scratch: Path, watch: UsageWatch, say: Say) -> Outcome:
        """Read every rank on some node."""
        total, done, rows = sum(source.size for source in sources), 0, 0
        found: dict[int, Parsed] = {}
        failed: list[tuple[RankSource, IngestError]] = []
        many = batches(sources, self._processors())
        asked = [
            (node.Ranks(tuple(sources[i] for i in some), scratch, len(sources) > 1, node.this_version()),)
            for some in many
        ]
        for which, said in self._each(node.read, asked, watch.look):
            for number, answer in zip(many[which], node.understood(said), strict=True):
                source = sources[number]
                if "part" in answer:
                    part = Part(**answer["part"])
                    found[number] = Parsed(source, part, time.monotonic() - part.seconds)
                    rows += sum(part.rows.values())
                else:
                    error = IngestError(**answer["error"])
                    failed.append(
                        (source, IngestError(error.kind, error.message, error.path or str(source.root), error.offset))
                    )
                done += source.size
            say({"stage": "read", "done_bytes": done, "total_bytes": total, "rows": rows, "text": source.root.name})
        return [found[number] for number in sorted(found)], failed

    def write(self, tables: Sequence[str], parts: Sequence[tuple[Path, int]], staged: Path) -> None:
        """Write the tables, each on some node."""
        where = [(str(directory), shift) for directory, shift in parts]
        for _ in self._each(node.write, [(table, where, str(staged)) for table in tables], lambda: None):
            pass

    def close(self) -> None:
        """Leave the cluster."""
        if self._ray is not None:
            self._ray.shutdown()

    def _each(
        self, work: Callable[..., Any], asked: Sequence[tuple[Any, ...]], look: Callable[[], None]
    ) -> Iterator[tuple[int, Any]]:
        """Do something for each of several requests, on as many nodes as there are; place and answer, as they come."""
        ray = self._connected()
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(work)
        pending = {task.remote(*arguments): number for number, arguments in enumerate(asked)}
        alone_since: float | None = None
        try:
            while pending:
                done, _ = ray.wait(list(pending), num_returns=1, timeout=1.0)
                look()
                for reference in done:
                    yield pending.pop(reference), ray.get(reference)
                alone_since = None if done or self._processors() else alone_since or time.monotonic()
                if alone_since is not None and time.monotonic() - alone_since > _NOBODY_S:
                    raise IngestError("engine", Message("cluster_has_no_node_left"), self._address)
        except (ray.exceptions.RayError, ConnectionError) as error:
            said = _first(getattr(error, "cause", None) or error)  # what a task raised, or what became of it
            raise IngestError("engine", Message("cluster_lost_its_work", {"error": said}), self._address) from error
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _processors(self) -> int:
        return int(self._connected().cluster_resources().get("CPU", 0))

    def _connected(self) -> Any:
        if self._ray is None:
            try:
                import ray
            except ImportError as error:
                raise IngestError("engine", Message("ray_is_not_installed"), self._address) from error
            try:
                ray.init(self._address, log_to_driver=False, logging_level=logging.ERROR, namespace="npulens")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise IngestError(
                    "engine", Message("no_cluster_answers", {"error": _first(error)}), self._address
                ) from error
            self._ray = ray
        return self._ray


def _first(error: Exception) -> str:
    """The first line of what Ray says, which may be a page."""
    return one_line((str(error).strip().splitlines() or [type(error).__name__])[0], 200)
