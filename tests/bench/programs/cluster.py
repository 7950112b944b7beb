"""A job of very many ranks, as torch_npu's database export: nodes of eight, simulated a few times and written often.

    python -m tests.bench.programs.cluster DIRECTORY RANKS STEPS

Every node is a copy of one of a few simulated ones, under its own host, rank and group names. In one of them a rank
computes slower than its peers, so that there is somebody to wait for. All ranks list a group of the whole job, as
real ones do.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from npulens.collectors.simulator import simulated
from npulens.collectors.simulator.job import Group, Job

NODE, TEAM = 8, 2
#: Nodes that are simulated; in the last of them one rank is slow.
KINDS = 3
SLOW_RANK, SLOWER = 5, 1.15


@dataclass(frozen=True)
class Mould:
    """One simulated node on disk."""

    job: Job
    ranks: tuple[Path, ...]


def write(directory: Path, ranks: int, steps: int) -> None:
    """All rank directories of a job."""
    moulds = [_mould(directory.with_name(f"mould-{kind}"), kind, steps) for kind in range(KINDS)]
    world = f"10.20.0.1%eth0_69999_default_group_{moulds[0].job.config.start_ns // 1_000_000}"
    for rank in range(ranks):
        node = rank // NODE
        # The slow one stands on one node in ten; the others take turns.
        mould = moulds[KINDS - 1 if node % 10 == 7 else node % (KINDS - 1)]
        _copy(mould, directory, rank, world, ranks)
    for kind in range(KINDS):
        shutil.rmtree(directory.with_name(f"mould-{kind}"))


def _mould(directory: Path, kind: int, steps: int) -> Mould:
    def perturb(cost: simulated.Cost, spent: int) -> int:
        return int(spent * SLOWER) if cost.rank == SLOW_RANK and cost.what == "kernel" else spent

    config = simulated.SimConfig(
        seed=kind, ranks=NODE, steps=steps, tensor_parallel=TEAM, perturb=perturb if kind == KINDS - 1 else None
    )
    job = simulated.simulate(config)
    mould = Mould(job, tuple(simulated.write_db(job, directory)))
    for rank, home in enumerate(mould.ranks):
        _without_counters(home, rank)
    return mould


def _without_counters(home: Path, rank: int) -> None:
    """As most jobs of this size are recorded: aic_metrics off, which is the profiler's default."""
    path = home / f"profiler_info_{rank}.json"
    info = json.loads(path.read_text())
    info["config"]["experimental_config"]["_aic_metrics"] = "ACL_AICORE_NONE"
    path.write_text(json.dumps(info))
    with sqlite3.connect(home / "ASCEND_PROFILER_OUTPUT" / f"ascend_pytorch_profiler_{rank}.db") as db:
        db.execute("DROP TABLE TASK_PMU_INFO")
    db.execute("VACUUM")
    db.close()


def _copy(mould: Mould, directory: Path, rank: int, world: str, ranks: int) -> None:
    """One rank directory under new names."""
    node, local = divmod(rank, NODE)
    source = mould.ranks[local]
    target = directory / source.name.replace("sim-node-0", f"sim-node-{node}")
    shutil.copytree(source, target)
    first, host = node * NODE, f"sim-node-{node}"
    named = {
        group: Group(
            group.name.replace("10.20.0.", f"10.20.{node}."), group.kind, tuple(first + r for r in group.ranks),
            group.stream,
        )
        for group in mould.job.groups_of(local)
    }  # fmt: skip
    told = {
        group.name: {"group_name": group.kind, "group_rank": group.ranks.index(rank), "global_ranks": list(group.ranks)}
        for group in named.values()
    }
    told[world] = {"group_name": "default_group", "group_rank": rank, "global_ranks": list(range(ranks))}
    output = target / "ASCEND_PROFILER_OUTPUT"
    main = (output / f"ascend_pytorch_profiler_{local}.db").rename(output / f"ascend_pytorch_profiler_{rank}.db")
    _metadata(target, local, rank, ranks, told)
    with sqlite3.connect(main) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("UPDATE RANK_DEVICE_MAP SET rankId = ?", [rank])
        db.execute("UPDATE HOST_INFO SET hostName = ?, hostUid = ?", [host, str(3517662419847701523 + node)])
        facts = json.loads((target / "profiler_metadata.json").read_text())
        for name, value in facts.items():
            db.execute("UPDATE META_DATA SET value = ? WHERE name = ?", [json.dumps(value), name])
        for old, new in named.items():
            db.execute("UPDATE STRING_IDS SET value = ? WHERE value = ?", [new.name, old.name])
    db.close()
    with sqlite3.connect(output / "analysis.db") as db:
        db.execute("PRAGMA synchronous = OFF")
        for old, new in named.items():
            for table in ("CommAnalyzerBandwidth", "CommAnalyzerMatrix", "CommAnalyzerTime"):
                db.execute(f"UPDATE {table} SET group_name = ? WHERE group_name = ?", [str(new.hash), str(old.hash)])
    db.close()


def _metadata(target: Path, local: int, rank: int, ranks: int, told: dict[str, dict[str, object]]) -> None:
    facts = json.loads((target / "profiler_metadata.json").read_text())
    facts["distributed_args"] |= {"world_size": ranks, "rank": rank, "data_parallel_size": ranks // TEAM}
    facts["parallel_group_info"] = told
    (target / "profiler_metadata.json").write_text(json.dumps(facts))
    info = json.loads((target / f"profiler_info_{local}.json").read_text()) | {"rank_id": rank}
    (target / f"profiler_info_{local}.json").unlink()
    (target / f"profiler_info_{rank}.json").write_text(json.dumps(info))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
