"""The driver of a job of two actors on a Ray cluster that runs already.

RECORDING="$(npulens collect --env --json -o DIR)" python ray_driver.py ADDRESS PORT
"""

from __future__ import annotations

import json
import os
import sys

import ray
from job import train

ray.init(address=sys.argv[1], runtime_env={"env_vars": json.loads(os.environ["RECORDING"])}, log_to_driver=False)


@ray.remote
class Worker:
    """One rank; the driver alone knows which."""

    def train(self, rank: int, world: int, port: str) -> str:
        """Says what became of it."""
        return train(rank, world, port)


workers = [Worker.remote() for _ in range(2)]
for said in ray.get([worker.train.remote(rank, 2, sys.argv[2]) for rank, worker in enumerate(workers)]):
    print(said, flush=True)
for worker in workers:
    worker.__ray_terminate__.remote()  # it ends as Python does, and so does its recording
