"""The part that needs the official SDK, which is an extra: imported when it is asked for."""

from __future__ import annotations

from types import ModuleType

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

_EXTRA = ("mcp", "mcp_types", "anyio", "jsonschema", "starlette")


def server() -> ModuleType:
    """npulens.app.agents.server; without the SDK one sentence that says what to install."""
    try:
        from npulens.app.agents import server as found
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _EXTRA:
            raise
        raise IngestError("needs_extra", Message("this_needs_the_extra", {"extra": "mcp"})) from error
    return found
