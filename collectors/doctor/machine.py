"""Which backend is used, who else is at work, clocks, memory and disk."""

from __future__ import annotations

import csv
import os

from npulens.collectors.backends.probe import BACKENDS
from npulens.collectors.doctor.check import FAIL, PASS, WARN, Check
from npulens.collectors.doctor.facts import Facts
from npulens.collectors.telemetry import npu_smi

_LOAD = 0.5  # share of the cores that others may use before a benchmark on the host is no longer believable
_CLOCK, _BUSY = 0.97, 50.0  # below this share of its rating, at work for more than so many percent: held back
_MEMORY = 0.1
_DISK = 5 << 30  # one short recording with its raw data, which torch_npu wants twenty times over


def backend(facts: Facts) -> Check:
    """The first backend that is there, and why none before it is."""
    tried = [facts.backends[name] for name in BACKENDS if name in facts.backends]
    passed = [f"{each.name}: {each.reason}" for each in tried if not each.available]
    used = next((each for each in tried if each.available), None)
    if used is None:
        return Check("backend", FAIL, "none", {"reasons": passed})
    before = passed[: tried.index(used)]
    seen = {"name": used.name, "device": used.device, "count": used.count, "reasons": before}
    return Check("backend", PASS, "uses", seen)


def processes(facts: Facts) -> Check:
    """Whoever shares a device or the cores makes every measurement noisy."""
    ours = {os.getpid(), os.getppid()}
    found = [(each.pid, each.name) for each in facts.smi.info.processes if each.pid not in ours]
    for row in csv.reader(facts.gpu_processes.text.splitlines() if facts.gpu_processes.answered else []):
        if row and row[0].strip().isdigit() and int(row[0]) not in ours:
            found.append((int(row[0]), row[1].strip()))
    if found:
        seen = {"processes": [f"{pid} {name}" for pid, name in found]}
        return Check(
            "processes",
            WARN,
            "others",
            seen,
            ("ps -o pid,user,etime,args -p " + ",".join(str(pid) for pid, _ in found),),
        )
    load = {"load": None if facts.load is None else round(facts.load, 2), "cores": facts.cores}
    if facts.load is not None and facts.load > _LOAD * facts.cores:
        return Check("processes", WARN, "load", load, ("top -b -n 1 | head -20",))
    return Check("processes", PASS, "alone", load)


def clocks(facts: Facts) -> Check:
    """A device that is busy and slower than its rating is held back. An idle one may be as slow as it likes."""
    slow, chips = [], 0
    for card, blocks in facts.smi.common.items():
        for chip, block in blocks.items():
            now, rated = npu_smi.value(block, "Aicore curFreq(MHZ)"), npu_smi.value(block, "Aicore Freq(MHZ)")
            busy = npu_smi.value(block, "Aicore Usage Rate(%)") or 0.0
            chips += now is not None
            if now is not None and rated and now < _CLOCK * rated and busy > _BUSY:
                slow.append(f"{card}.{chip}: {now:.0f} / {rated:.0f} MHz")
    if slow:
        return Check(
            "clocks", WARN, "held_back", {"chips": slow}, ("npu-smi info -t power -i 0", "npu-smi info -t temp -i 0")
        )
    if facts.governor not in (None, "performance"):
        command = "sudo cpupower frequency-set -g performance"
        return Check("clocks", WARN, "governor", {"governor": facts.governor}, (command,))
    return Check("clocks", PASS, "free", {"chips": chips, "governor": facts.governor})


def memory(facts: Facts) -> Check:
    """Enough of it is free, on the host and on every device."""
    full = [
        f"{chip.npu}.{chip.chip}: {chip.memory_used_mb} / {chip.memory_total_mb} MB"
        for chip in facts.smi.info.chips
        if chip.memory_total_mb and chip.memory_used_mb and chip.memory_used_mb > 0.5 * chip.memory_total_mb
    ]
    if full:
        return Check("memory", WARN, "device", {"chips": full}, ("npu-smi info",))
    if facts.memory is None:
        return Check("memory", PASS, "unknown")
    available, total = facts.memory
    seen = {"available_gib": round(available / 2**30, 1), "total_gib": round(total / 2**30, 1)}
    if available < _MEMORY * total:
        return Check("memory", WARN, "host", seen, ("ps aux --sort=-rss | head",))
    return Check("memory", PASS, "free", seen)


def disk(facts: Facts) -> Check:
    """A recording writes its raw data before anything is made smaller."""
    seen = {"free_gib": round(facts.disk_free / 2**30, 1)}
    if facts.disk_free < _DISK:
        return Check("disk", WARN, "full", seen, ("df -h .",))
    return Check("disk", PASS, "free", seen)
