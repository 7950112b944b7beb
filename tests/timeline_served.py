"""A loaded run behind the timeline's routes, and its tables asked directly, for tests that compare the two."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from starlette.applications import Starlette

from npulens.app.timeline import route
from npulens.ingest.loading import worker
from npulens.ingest.loading.worker import Request
from npulens.ingest.store import runs
from npulens.ingest.store.runs import RunInfo

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(target: str, token: str | None) -> Answer:
    """One request against the routes."""
    path, _, query = target.partition("?")
    headers = [] if token is None else [(route.TOKEN_HEADER.lower().encode(), token.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
             "headers": headers, "http_version": "1.1", "scheme": "http", "root_path": "",
             "server": ("test", 80)}  # fmt: skip
    said: dict[str, Any] = {"body": b""}

    async def receive() -> dict[str, object]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            said.update(message)
        else:
            said["body"] += message.get("body", b"")

    asyncio.run(Starlette(routes=route.routes())(scope, receive, send))
    headers_ = {name.decode(): value.decode() for name, value in said["headers"]}
    return Answer(said["status"], headers_, said["body"])


@dataclass(frozen=True)
class Served:
    """A loaded run, its token, and its spans asked of the Parquet directly."""

    info: RunInfo
    place: Path
    token: str

    def get(self, path: str) -> Answer:
        return get(f"{route.prefix()}/{self.info.run_id}/{path}", self.token)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """SQL over span.parquet as `span`, link.parquet as `link`..."""
        with duckdb.connect() as con:
            for path in (self.place / self.info.run_id).glob("*.parquet"):
                con.execute(f"CREATE VIEW {path.stem} AS FROM read_parquet('{path}')")
            return con.execute(sql).fetchall()


def load(place: Path, capture: Path) -> RunInfo:
    worker.load(Request((capture,), place), lambda said: None)
    return runs.runs(place)[0]


def layout_of(of: Served) -> Any:
    """The layout once the causes and the critical path are known."""
    for _ in range(600):
        found = of.get("layout").json
        if "working" not in (found["causes_state"], found["path_state"]):
            return found
        time.sleep(0.05)
    raise AssertionError("the causes never came")
