"""The tools as an MCP server: over stdin and stdout, or over HTTP with a bearer token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import jsonschema
import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from npulens.app import docs_of, schemas
from npulens.app.agents import budget, skill
from npulens.app.agents.answers import TOOLS, Answers, Asked
from npulens.app.agents.door import Door
from npulens.app.agents.who import HERE, Who
from npulens.app.text import wording
from npulens.ingest.errors import IngestError

_RUN = "A run: its id, the beginning of one, or its label."
_FINDING = "The id of a finding, as `check` gives it."
#: What each tool is asked: argument -> what it is; those of the second list must be there.
_ARGUMENTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "runs": ({"words": "Only runs that all these words fit. tag:night, ranks:8, format:kineto ask one field."}, []),
    "check": ({"run": _RUN}, ["run"]),
    "why": ({"run": _RUN, "finding": _FINDING}, ["run", "finding"]),
    "evidence": ({"run": _RUN, "finding": _FINDING}, ["run", "finding"]),
    "compare": ({"base": _RUN, "head": _RUN}, ["base", "head"]),
    "sql": ({"run": _RUN, "query": "One SELECT. Times are whole ns, counted where the run begins."}, ["run"]),
    "next_capture": ({"run": _RUN}, ["run"]),
}
_SHARED = {
    "budget": {
        "type": "integer", "minimum": budget.LEAST, "maximum": budget.MOST, "default": budget.DEFAULT,
        "description": "Tokens that the answer may have. What is worth least is left out, and counted.",
    },
    "lang": {"type": "string", "enum": ["en", "zh"], "default": "en", "description": "Language of the sentences."},
}  # fmt: skip
_LONGEST = 10_000  # characters of an argument
_SHOWN = 300  # characters of a mistake in the arguments
_MOST_BYTES = 1 << 18  # of a question over HTTP
#: Questions that are answered side by side; more wait. The other threads of a server are its pages'.
_AT_ONCE = anyio.CapacityLimiter(8)


def arguments(tool: str) -> dict[str, Any]:
    """The JSON Schema of what a tool is asked."""
    own, required = _ARGUMENTS[tool]
    texts = {name: {"type": "string", "maxLength": _LONGEST, "description": text} for name, text in own.items()}
    return {
        "type": "object", "properties": {**texts, **_SHARED}, "required": required, "additionalProperties": False,
    }  # fmt: skip


def tools() -> list[types.Tool]:
    """What a client is told of the tools: all of them only read."""
    reads = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    return [
        types.Tool(
            name=name, description=" ".join((ask.__doc__ or "").split()), input_schema=arguments(name),
            output_schema=schemas.schema(f"agents/{name}"), annotations=reads,
        )
        for name, ask in TOOLS.items()
    ]  # fmt: skip


#: What answers a question, and as whom: by the token, the tool and its arguments.
Opened = Callable[[str, str, Mapping[str, Any]], tuple[Answers, Who]]


def server(opened: Opened) -> Server[dict[str, Any]]:
    """The server; ``opened`` lets each question in."""
    known = tools()

    async def listed(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=known)

    async def called(_: ServerRequestContext[Any], given: types.CallToolRequestParams) -> types.CallToolResult:
        told = get_access_token()
        token = "" if told is None else told.token
        asked = given.arguments or {}
        return await anyio.to_thread.run_sync(call, partial(opened, token), given.name, asked, limiter=_AT_ONCE)

    return Server("npulens", version=docs_of.version(), instructions=skill.text(), on_list_tools=listed,
                  on_call_tool=called)  # fmt: skip


def call(
    opened: Callable[[str, Mapping[str, Any]], tuple[Answers, Who]], tool: str, given: dict[str, Any]
) -> types.CallToolResult:
    """One question. What cannot be answered is one sentence, never a traceback."""
    if tool not in TOOLS:
        return _failed(f"There is no tool {tool!r}. There are {', '.join(TOOLS)}.")
    try:
        jsonschema.validate(given, arguments(tool))
    except jsonschema.ValidationError as error:
        return _failed(f"{'.'.join(map(str, error.path)) or 'arguments'}: {error.message[:_SHOWN]}")
    own = {name: given[name] for name in _ARGUMENTS[tool][0] if name in given}
    lang = given.get("lang", "en")
    try:
        answers, who = opened(tool, given)
        answer = TOOLS[tool](answers, Asked(who, lang, given.get("budget", budget.DEFAULT)), **own)
    except IngestError as error:
        return _failed(wording.error(error, lang))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=budget.compact(answer))], structured_content=answer
    )


def _failed(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], is_error=True)


async def over_stdio(answers: Answers) -> None:
    """Until the client goes away. Whoever started this process can read the store's files anyway."""
    told = server(lambda token, tool, given: (answers, HERE))
    async with stdio_server() as (read, write):
        await told.run(read, write, told.create_initialization_options())


def over_http(door: Door, address: str, path: str = "/mcp", *, own_guard: bool = True) -> Starlette:
    """The server at a path. Who shows no token is refused, and so is a page of another site.

    Without ``own_guard`` somebody else has looked at names and origins already.
    """

    class Tokens:
        async def verify_token(self, token: str) -> AccessToken | None:
            name = await anyio.to_thread.run_sync(door.name, token)
            return None if name is None else AccessToken(token=token, client_id=name, scopes=[])

    auth = AuthSettings.model_validate({"issuer_url": address, "resource_server_url": None})
    security = None if own_guard else TransportSecuritySettings(enable_dns_rebinding_protection=False)
    told: Starlette = server(door.opened).streamable_http_app(
        streamable_http_path=path, json_response=True, stateless_http=True, auth=auth, token_verifier=Tokens(),
        transport_security=security, max_request_body_size=_MOST_BYTES,
    )  # fmt: skip
    return told
