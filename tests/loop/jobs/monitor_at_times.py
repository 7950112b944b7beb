"""Two programs of a monitoring system take the processor at times; the fix runs them elsewhere."""

import subprocess
import sys

import torch

from tests.loop.jobs.steps import FIXED, model, run, train

MONITOR = """
import hashlib, time
while True:
    until = time.monotonic() + 0.25
    while time.monotonic() < until:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2_000)
    time.sleep(0.75)
"""

if __name__ == "__main__":
    monitors = [] if FIXED else [subprocess.Popen([sys.executable, "-c", MONITOR]) for _ in range(2)]
    try:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        run(lambda _: train(net, optimizer, torch.randn(512, 512)), steps=40)
    finally:
        for monitor in monitors:
            monitor.kill()
