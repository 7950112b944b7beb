"""Jobs, as people write them. What each prints is what it saw; under a recording it has to see the same.

Twenty of them ask whether a job is harmed. The others ask what a step is where it is hard to tell.
"""

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
class Step:
    """What a recorded step has to be: who ends it, and how often something begins within each.

    Without a name any operator will do: slices of time hold what there was.
    """

    by: str
    name: str = ""
    times: int = 0


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
    step: Step | None = None  # None: nothing is recorded, or it is not about steps


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
""", step=Step("optimizer", "aten::mse_loss", 1)),
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
""", step=Step("forward", "aten::relu", 1)),
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
""", step=Step("optimizer", "aten::relu", 4)),
    Job("GAN with five steps of the critic", """
import torch
from torch import nn
torch.manual_seed(7)
torch.set_num_threads(1)
maker, critic = nn.Linear(8, 16), nn.Linear(16, 1)
first, second = torch.optim.Adam(critic.parameters(), 1e-3), torch.optim.Adam(maker.parameters(), 1e-3)
for _ in range(9):
    for _ in range(5):
        first.zero_grad()
        loss = critic(maker(torch.randn(4, 8)).detach()).mean() - critic(torch.randn(4, 16)).mean()
        loss.backward()
        first.step()
    second.zero_grad()
    (-critic(maker(torch.randn(4, 8))).mean()).backward()
    second.step()
print("critic %.6f" % loss.item())
""", step=Step("optimizer", "Optimizer.step#Adam.step", 6)),
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
""", step=Step("forward", "aten::embedding", 1)),
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
""", step=Step("forward", "aten::linear", 1)),
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
""", traces=2, step=Step("optimizer", "Optimizer.step#SGD.step", 1)),
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
""", ranks=2, traces=2, step=Step("optimizer", "Optimizer.step#SGD.step", 1)),
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
""", step=Step("optimizer", "Optimizer.step#SGD.step", 1)),
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

_NET = """
import sys, os, time, torch
from torch import nn
torch.manual_seed(7)
torch.set_num_threads(1)
def net(): return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
x = torch.randn(16, 32)
"""
#: Long enough for slices of time that nobody asked for, on two busy cores.
_WORKS = _NET + """
def work(until=time.monotonic() + 14):
    while time.monotonic() < until:
        torch.mm(x, x.T).relu().sum().item()
"""
STEPS = (
    Job("trainer: accumulation of two, clipping, a scheduler, an evaluation", _NET + """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
for i in range(24):
    loss = model(x).square().mean() / 2
    loss.backward()
    if i % 2:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
with torch.no_grad():
    print("loss %.6f" % model.eval()(x).square().mean())
""", step=Step("optimizer", "aten::relu", 2)),
    Job("two stages, four micro-batches", _NET + """
stages = [net(), net()]
optimizer = torch.optim.SGD([p for stage in stages for p in stage.parameters()], 0.1)
for _ in range(8):
    held = [stages[1](stages[0](x)) for _ in range(4)]
    for each in held:
        each.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("loss %.6f" % held[-1].mean())
""", step=Step("optimizer", "aten::relu", 8)),
    Job("torch.compile of the whole step", _NET + """
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
@torch.compile
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
for _ in range(9):
    loss = step(x)
print("loss %.6f" % loss.item())
""", step=Step("optimizer")),
    Job("an update by hand after two forwards of one module", _NET + """
model = net()
for _ in range(12):
    (model(x) - model(-x)).square().mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None
print("%.6f" % model(x).sum().item())
""", step=Step("backward", "aten::relu", 2)),
    Job("no module: gradients by torch.autograd.grad", _NET + """
w = torch.randn(32, 32, requires_grad=True)
for _ in range(12):
    (gradient,) = torch.autograd.grad((x @ w).relu().square().mean(), [w])
    with torch.no_grad():
        w -= 0.01 * gradient
print("%.6f" % w.sum().item())
""", step=Step("backward", "aten::relu", 1)),
    Job("a scheduler whose optimiser never steps", _NET + """
import warnings
warnings.simplefilter("ignore")
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
for _ in range(9):
    for _ in range(4):
        model(x).square().mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= optimizer.param_groups[0]["lr"] * p.grad
            p.grad = None
    scheduler.step()
print("%.6f" % model(x).sum().item())
""", step=Step("scheduler", "aten::relu", 4)),
    Job("thread pool of four", _NET + """
from concurrent.futures import ThreadPoolExecutor
model = net().eval()
def serve(i):
    with torch.inference_mode():
        return model(x * i).sum().item()
with ThreadPoolExecutor(4) as pool:
    print("%.3f" % sum(pool.map(serve, range(400))))
""", step=Step("forward")),
    Job("a thread for each request", _NET + """
import threading
model, answers = net().eval(), []
def serve(i):
    with torch.inference_mode():
        answers.append(model(x * i).sum().item())
for i in range(20):
    thread = threading.Thread(target=serve, args=(i,))
    thread.start()
    thread.join()
print("%.4f" % sum(answers), threading.active_count())
""", step=Step("forward", "aten::relu", 1)),
    Job("functions in a loop, no module", _WORKS + """
work()
print("done")
""", step=Step("time")),
    Job("thread pool of four, no module", _WORKS + """
import threading
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: work(), range(4)))
print("done", [each.name for each in threading.enumerate()])
""", step=Step("time")),
    Job("pre-fork server, no module", _WORKS + """
pids = []
for worker in range(2):
    pid = os.fork()
    if pid == 0:
        work(time.monotonic() + 25)
        sys.exit(worker)
    pids.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
""", traces=2, step=Step("time")),
    Job("functions for a while, then a training", _WORKS + """
work(time.monotonic() + 9)
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(300):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
print("%.6f" % model(x).sum().item())
""", step=Step("optimizer", "aten::relu", 1)),
    Job("computes without torch", _NET + """
until = time.monotonic() + 9
while time.monotonic() < until:
    sum(range(1000))
print("done")
""", traces=0),
)  # fmt: skip
