"""Twenty jobs, as people write them. What each prints is what it saw; under a recording it has to see the same."""

from __future__ import annotations

import signal
from dataclasses import dataclass

_SMALL = """
import sys, os, time, signal, torch
from torch import nn
torch.manual_seed(7)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step(n=1):
    for _ in range(n):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 64)), torch.randint(10, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return "loss %.6f" % loss.item()
"""


@dataclass(frozen=True)
class Job:
    """One job; ``signals`` are sent, one after the other, each after a line that begins with "ready"."""

    name: str
    source: str
    signals: tuple[int, ...] = ()
    stdin: bytes = b""
    ranks: int = 1  # started by torchrun where there are several
    traces: int | None = 1  # that a recording must leave; None: any number
    full: bool = False  # recorded onto a disk that is full at once


JOBS = (
    Job("transformer with a loader of two workers", """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    torch.manual_seed(7)
    torch.set_num_threads(1)
    data = DataLoader(TensorDataset(torch.randn(64, 12, 32), torch.randn(64, 12, 32)), batch_size=8, num_workers=2)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True), 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for x, y in data:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print("loss %.6f" % loss.item())
"""),
    Job("asyncio server with dynamic batches", """
import asyncio, torch
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
def forward(batch):
    with torch.inference_mode():
        return model(torch.stack(batch)).sum(1).tolist()
async def serve(queue):
    while True:
        batch = [await queue.get()]
        while len(batch) < 4 and not queue.empty():
            batch.append(queue.get_nowait())
        answers = await asyncio.to_thread(forward, [x for x, _ in batch])
        for (_, future), answer in zip(batch, answers):
            future.set_result(answer)
async def main():
    queue = asyncio.Queue()
    server = asyncio.create_task(serve(queue))
    total = 0.0
    for i in range(400):
        future = asyncio.get_running_loop().create_future()
        queue.put_nowait((torch.full((64,), i / 400), future))
        total += await future
    server.cancel()
    print("served 400, %.4f" % total)
asyncio.run(main())
"""),
    Job("sanity check, accumulation of four, bfloat16, validation", _SMALL + """
with torch.no_grad():
    for _ in range(2):
        model(torch.randn(8, 64))
for i in range(32):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(8, 64)).float().pow(2).mean() / 4
    loss.backward()
    if i % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
with torch.no_grad():
    print("validation %.6f" % model.eval()(torch.randn(8, 64)).mean().item())
"""),
    Job("GAN with five steps of the critic", """
import torch
from torch import nn
torch.manual_seed(7)
torch.set_num_threads(1)
maker, critic = nn.Linear(8, 16), nn.Linear(16, 1)
first, second = torch.optim.Adam(critic.parameters(), 1e-3), torch.optim.Adam(maker.parameters(), 1e-3)
for _ in range(6):
    for _ in range(5):
        first.zero_grad()
        loss = critic(maker(torch.randn(4, 8)).detach()).mean() - critic(torch.randn(4, 16)).mean()
        loss.backward()
        first.step()
    second.zero_grad()
    (-critic(maker(torch.randn(4, 8))).mean()).backward()
    second.step()
print("critic %.6f" % loss.item())
"""),
    Job("decoding, a token at a time", """
import torch
torch.manual_seed(7)
torch.set_num_threads(1)
class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.head = torch.nn.Embedding(50, 32), torch.nn.GRUCell(32, 32), torch.nn.Linear(32, 50)
    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.head(state).argmax(1), state
model, token, state, said = Small().eval(), torch.tensor([1]), torch.zeros(1, 32), []
with torch.inference_mode():
    for _ in range(24):
        token, state = model(token, state)
        said.append(int(token))
print(said)
"""),
    Job("server whose every second forward raises", """
import torch
torch.manual_seed(7)
torch.set_num_threads(1)
class Picky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = torch.nn.Linear(8, 8), 0
    def forward(self, x):
        self.calls += 1
        if self.calls % 2 == 0:
            raise ValueError("not this one")
        return self.inner(x)
model, served, refused = Picky().eval(), 0, 0
with torch.no_grad():
    for _ in range(40):
        try:
            model(torch.randn(2, 8))
            served += 1
        except ValueError:
            refused += 1
print(served, refused)
"""),
    Job("mp.spawn of two", """
import torch
import torch.multiprocessing as mp
def work(rank, queue):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(8):
        loss = model(torch.randn(4, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    queue.put("rank %d loss %.6f" % (rank, loss.item()))
if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(queue,), nprocs=2)
    print(sorted(queue.get() for _ in range(2)))
""", traces=2),
    Job("torchrun of two, DDP over gloo", """
import torch, torch.distributed as dist
torch.manual_seed(7)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    loss = model(torch.randn(4, 16)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print("loss %.6f" % loss.item(), flush=True)
dist.barrier()
dist.destroy_process_group()
""", ranks=2, traces=2),
    Job("a torch.profiler of its own, three traces", _SMALL + """
import json
seen = []
def keep(profile):
    path = "own_%d.json" % len(seen)
    profile.export_chrome_trace(path)
    seen.append(sum(each.get("name") == "aten::addmm" for each in json.load(open(path))["traceEvents"]))
step(3)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], on_trace_ready=keep,
                            schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=3)) as profile:
    for _ in range(16):
        step()
        profile.step()
print(seen)
""", traces=None),
    Job("raises at its third step", _SMALL + """
step(2)
step()
print("before", flush=True)
raise RuntimeError("at step three")
""", traces=None),
    Job("forks while it is recorded; the child ends as usual", _SMALL + """
step(4)
child = os.fork()
if child == 0:
    print("child", step(3))
    sys.exit(5)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(step(4))
"""),
    Job("no step at all", "import torch; print(torch.ones(3).sum().item())\n", traces=0),
    Job("TERM with a handler that ends it", _SMALL + """
def ends(number, frame):
    print("told to end", number)
    sys.exit(9)
signal.signal(signal.SIGTERM, ends)
step(4)
print("ready", flush=True)
while True:
    step()
    time.sleep(0.01)
""", signals=(signal.SIGTERM,), traces=None),
    Job("HUP, USR1, USR2 and INT with handlers", _SMALL + """
heard = []
for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, lambda number, frame: heard.append(number))
for wanted in range(1, 5):
    print("ready", wanted, flush=True)
    while len(heard) < wanted:
        step()
        time.sleep(0.01)
time.sleep(0.3)
print([signal.Signals(number).name for number in heard])
""", signals=(signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)),
    Job("TERM without a handler", _SMALL + """
step(3)
print("ready", flush=True)
time.sleep(60)
""", signals=(signal.SIGTERM,), traces=None),
    Job("ends with status 7", _SMALL + "print(step(8))\nsys.exit(7)\n"),
    Job("bytes through a pipe, stdin to stdout", _SMALL + """
step(8)
told = sys.stdin.buffer.read()
sys.stdout.buffer.write(bytes(range(256)) * 1000 + told[::-1])
sys.stdout.buffer.write(b'{"status": "complete", "error": {}}' + str(sys.stdout.isatty()).encode())
""", stdin=b"{\"status\": 1}\n" * 999),
    Job("the disk of the recording is full", _SMALL + "print(step(12))\n", traces=0, full=True),
    Job("os._exit amid the recording", _SMALL + "print(step(4), flush=True)\nos._exit(3)\n", traces=0),
    Job("pre-fork server: model in the parent, two workers, a daemon that stays behind", _SMALL + """
pids = []
for worker in range(2):
    pid = os.fork()
    if pid == 0:
        torch.manual_seed(worker)
        with open("worker_%d" % worker, "w") as file:
            file.write(step(8))
        sys.exit(worker)
    pids.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
print([open("worker_%d" % worker).read() for worker in range(2)], flush=True)
if os.fork() == 0:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0), os.dup2(null, 1), os.dup2(null, 2)
    time.sleep(4)
    os._exit(0)
""", traces=2),
)  # fmt: skip
