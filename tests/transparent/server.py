"""An asyncio server with dynamic batches: the time of its requests, alone and recorded.

    python -m tests.transparent.server [RUNS]

Alone and recorded take turns. A request's time is from its arrival to its answer. Requests arrive at fixed moments,
whatever the server does, so one that is held up holds up those behind it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

REQUESTS = 120
JOB = f"""
import asyncio, json, time, torch
torch.manual_seed(7)
torch.set_num_threads(1)
layers = [layer for _ in range(6) for layer in (torch.nn.Linear(768, 768), torch.nn.GELU())]
model = torch.nn.Sequential(*layers).eval()
with torch.inference_mode():
    model(torch.zeros(1, 768))
def forward(batch):
    with torch.inference_mode():
        return model(torch.stack(batch)).sum(1).tolist()
async def serve(queue):
    while True:
        batch = [await queue.get()]
        while len(batch) < 8 and not queue.empty():
            batch.append(queue.get_nowait())
        answers = await asyncio.to_thread(forward, [x for x, _ in batch])
        for (_, future), answer in zip(batch, answers):
            future.set_result(answer)
async def request(queue, i, begin):
    await asyncio.sleep(max(0, begin + 0.02 * i - time.perf_counter()))
    arrived, future = begin + 0.02 * i, asyncio.get_running_loop().create_future()
    queue.put_nowait((torch.full((768,), i / {REQUESTS}), future))
    await future
    return time.perf_counter() - arrived
async def main():
    queue = asyncio.Queue()
    server = asyncio.create_task(serve(queue))
    begin = time.perf_counter() + 0.2
    found = await asyncio.gather(*(request(queue, i, begin) for i in range({REQUESTS})))
    server.cancel()
    print(json.dumps([round(each * 1e9) for each in found]))
asyncio.run(main())
"""


def p99(times_ns: list[int]) -> int:
    """The time that one of a hundred requests exceeds: the second longest of 120."""
    return sorted(times_ns)[-1 - len(times_ns) // 100]


def main(runs: int) -> None:
    alone, recorded, first = [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="server-") as place:
            script, out = Path(place) / "job.py", Path(place) / "out"
            script.write_text(JOB)
            job = [sys.executable, str(script)]
            collect = [sys.executable, "-m", "npulens.app.cli", "collect", "--no-load", "--backend", "cpu"]
            alone.append(_times(job))
            recorded.append(_times([*collect, "-o", str(out), "--", *job]))
            told = json.loads((out / "manifest.json").read_text())
            first.append(told["processes"][0]["first_start_ns"])
            assert told["status"] == "complete", told["reason"]
    heads = ("alone P99 ms", "recorded P99 ms", "longest alone", "recorded", "first start")
    print("run" + "".join(f"{head:>17}" for head in heads))
    for run, (before, after, start) in enumerate(zip(alone, recorded, first, strict=True), 1):
        figures = (p99(before), p99(after), max(before), max(after), start)
        print(f"{run:>3}" + "".join(f"{ns / 1e6:>17.1f}" for ns in figures))
    ratio = median(map(p99, recorded)) / median(map(p99, alone))
    print(f"P99 recorded against alone, medians of {runs} runs: {ratio:.2f}")


def _times(command: list[str]) -> list[int]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ), check=True)
    times: list[int] = json.loads(done.stdout)
    return times


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
