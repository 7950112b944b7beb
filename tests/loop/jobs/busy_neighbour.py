"""A thread of the job keeps the processor busy at times; the fix is the job without it."""

import hashlib
import threading
import time

import torch

from tests.loop.jobs.steps import FIXED, model, run, train


def busy() -> None:
    while True:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 60_000)
        time.sleep(0.15)


if __name__ == "__main__":
    if not FIXED:
        for _ in range(2):
            threading.Thread(target=busy, daemon=True).start()
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    run(lambda _: train(net, optimizer, torch.randn(512, 512)))
