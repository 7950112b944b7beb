"""What msprof-mcp answers about a planted late rank: its analyses of every file of every rank, their tokens and times.

    pip install msprof-mcp==0.1.8 'mcp<2'        in an environment of its own
    python -m tests.agents.beside PATH/OF/msprof-mcp
    python -m tests.agents.score --only plain-late_rank-4 --texts FILE        npulens about the same capture

A token is counted as app/agents/budget.py counts it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from npulens.app.agents.budget import tokens
from npulens.collectors.planting.plant import plan, write
from tests.agents.score import called

CASE = "plain-late_rank-4"
#: Its tools that need no question of one's own, what they call their file, and that file.
TOOLS = (
    ("analyze_overlap", "trace_path", "trace_view.json"),
    ("analyze_kernel_details", "csv_path", "kernel_details.csv"),
    ("analyze_op_statistic", "csv_path", "op_statistic.csv"),
    ("analyze_communication", "json_path", "communication_matrix.json"),
)


async def asked(program: str, capture: Path) -> None:
    count = 0
    async with Client(StdioServerParameters(command=program)) as client:
        for path in sorted(capture.rglob("ASCEND_PROFILER_OUTPUT")):
            for tool, key, name in TOOLS:
                begun = time.perf_counter()
                said = await client.call_tool(tool, {key: str(path / name)})
                first = 1e3 * (time.perf_counter() - begun)
                begun = time.perf_counter()
                await client.call_tool(tool, {key: str(path / name)})
                warm = 1e3 * (time.perf_counter() - begun)
                text = said.content[0].text
                count += tokens(text)
                print(f"== {path.parent.name} {tool}: {tokens(text)} tokens, {first:.0f} ms, warm {warm:.0f} ms")
                print(text)
    print(f"{count} tokens together")


def main() -> None:
    task = called(CASE)
    with tempfile.TemporaryDirectory(prefix="npulens-beside-") as scratch:
        write(plan(task.names, task.seed, task.options), Path(scratch))
        anyio.run(asked, sys.argv[1], Path(scratch) / "capture")


if __name__ == "__main__":
    main()
