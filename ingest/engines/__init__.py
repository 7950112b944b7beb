"""Where ranks are read and tables written: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npulens.ingest.engines.engine import Engine
from npulens.ingest.engines.local import Local
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message


@contextmanager
def opened(name: str) -> Iterator[Engine]:
    """An engine by its name: local, ray (the cluster of this machine) or ray://HEAD."""
    if name == "local":
        yield Local()
        return
    if name != "ray" and not name.startswith("ray://"):
        raise IngestError("engine", Message("engine_is_local_or_ray", {"name": name}))
    from npulens.ingest.engines.ray_cluster import Ray

    engine = Ray(name)
    try:
        yield engine
    finally:
        engine.close()
