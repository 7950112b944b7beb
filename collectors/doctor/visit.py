"""Runs every check on the same facts, in the order in which problems should be fixed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.collectors.doctor import compatibility, machine
from npulens.collectors.doctor.check import FAIL, PASS, SKIP, WARN, Check
from npulens.collectors.doctor.facts import Facts, gather, missing_library

# Python, torch, torch_npu and triton: whether they are there, start, and belong together.
_CPU_WHEELS = "--index-url https://download.pytorch.org/whl/cpu"


def python(facts: Facts) -> Check:
    """The collectors run on 3.9 and newer."""
    version = ".".join(map(str, facts.python))
    return Check("python", PASS if facts.python >= (3, 9) else FAIL, "is", {"version": version})


def torch(facts: Facts) -> Check:
    """Nothing is recorded or measured without it; what was recorded elsewhere is looked at without it."""
    cpu = facts.backends["cpu"]
    if cpu.available:
        return Check("torch", PASS, "starts", {"version": (cpu.versions or {}).get("torch")})
    if "torch" not in facts.packages:
        return Check("torch", FAIL, "missing", {}, (f"pip install torch {_CPU_WHEELS}",))
    seen = {"version": facts.packages["torch"], "reason": cpu.reason}
    return Check("torch", FAIL, "broken", seen, ("TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c 'import torch'",))


def torch_npu(facts: Facts) -> Check:
    """Whether it can be imported. A failed import spoils its process and, through autoload, every ``import torch``."""
    npu, version = facts.backends["npu"], facts.packages.get("torch-npu")
    if npu.versions is not None:
        return Check("torch_npu", PASS, "starts", {"version": npu.versions.get("torch_npu")})
    if version is None:
        if not facts.ascend:
            return Check("torch_npu", SKIP, "no_npu")
        has = compatibility.base(facts.packages.get("torch", ""))
        return Check(
            "torch_npu", FAIL, "missing", {}, (f"pip install torch-npu=={has}" if has else "pip install torch-npu",)
        )
    seen = {"version": version, "reason": npu.reason, "library": missing_library(npu.reason or "")}
    if seen["library"]:
        return Check("torch_npu", FAIL, "library", seen, (facts.setup,))
    see = "TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c 'import torch, torch_npu'"
    return Check("torch_npu", FAIL, "broken", seen, (see,))


def versions(facts: Facts) -> Check:
    """torch_npu's number is that of its torch; each was released for one CANN and some Pythons."""
    torch_npu, torch = facts.packages.get("torch-npu"), facts.packages.get("torch")
    if torch_npu is None:
        return Check("versions", SKIP, "no_torch_npu")
    wants = compatibility.base(torch_npu)
    seen = {"torch_npu": torch_npu, "torch": torch, "cann": facts.cann_version, "date": compatibility.DATE,
            "wants_torch": wants, "wants_cann": compatibility.CANN.get(torch_npu)}  # fmt: skip
    if torch is None or compatibility.base(torch) != wants:
        return Check("versions", FAIL, "torch", seen, (f"pip install torch=={wants} {_CPU_WHEELS}",))
    first, last = compatibility.PYTHON.get(".".join(wants.split(".")[:2]), (0, 99))
    if not first <= facts.python[1] <= last:
        return Check("versions", WARN, "python", {**seen, "first": f"3.{first}", "last": f"3.{last}"})
    if seen["wants_cann"] is None:
        return Check("versions", PASS, "unlisted", seen)
    if facts.cann_version is None:
        return Check("versions", SKIP, "cann_unknown", seen, (facts.setup,))
    if not facts.cann_version.upper().startswith(str(seen["wants_cann"])):
        return Check("versions", WARN, "cann", seen)
    return Check("versions", PASS, "match", seen)


def profiler(facts: Facts) -> Check:
    """Which settings of a recording this release's profiler does not have. They are left out, and `collect` says so."""
    torch_npu = facts.packages.get("torch-npu")
    if torch_npu is None:
        return Check("profiler", SKIP, "no_torch_npu")
    missing = compatibility.lacking(torch_npu)
    seen = {"torch_npu": torch_npu, "missing": list(missing or ()), "oldest": compatibility.OLDEST,
            "date": compatibility.DATE}  # fmt: skip
    if missing is None:
        return Check("profiler", PASS, "unlisted", seen)
    if not missing:
        return Check("profiler", PASS, "all", seen)
    if all(" " in setting for setting in missing):  # one value of a setting, which hardly anybody asks for
        return Check("profiler", PASS, "lacks", seen)
    return Check("profiler", WARN, "lacks", seen, ("npulens collect --help",))


def torch_build(facts: Facts) -> Check:
    """torch_npu refuses to start beside a torch that is built for another accelerator."""
    if "torch-npu" not in facts.packages:
        return Check("torch_build", SKIP, "no_torch_npu")
    cpu = facts.backends["cpu"]
    told = dict(cpu.versions or {})
    tagged = re.search(r"\+(cu\d+|rocm[\d.]+)", facts.packages.get("torch", ""))
    built = told.get("cuda") or told.get("hip") or (tagged[1] if tagged else None)
    if built is None:
        return Check("torch_build", PASS, "cpu") if told else Check("torch_build", SKIP, "torch_unknown")
    wants = compatibility.base(facts.packages.get("torch", ""))
    command = f"pip install --force-reinstall torch=={wants} {_CPU_WHEELS}"
    return Check("torch_build", FAIL, "cuda", {"built": built}, (command,))


def triton(facts: Facts) -> Check:
    """Two distributions bring a package of that name: whichever was installed last has overwritten the other."""
    plain, ascend = facts.packages.get("triton"), facts.packages.get("triton-ascend")
    seen = {"triton": plain, "triton_ascend": ascend, "numpy": facts.packages.get("numpy")}
    again = f"pip install --force-reinstall --no-deps triton-ascend=={ascend}"
    if plain and ascend:
        return Check("triton", FAIL, "both", seen, ("pip uninstall -y triton triton-ascend", again))
    if ascend and "pybind11" not in facts.packages:
        return Check("triton", FAIL, "pybind11", seen, ("pip install pybind11",))
    if ascend and ascend.startswith("3.2") and _at_least(facts.packages.get("numpy"), (2, 4)):
        return Check("triton", WARN, "numpy", seen, ("pip install 'numpy<2.4'",))
    if plain and facts.ascend:
        return Check("triton", WARN, "plain", seen, ("pip uninstall -y triton", "pip install triton-ascend"))
    return Check("triton", PASS, "one", seen) if plain or ascend else Check("triton", SKIP, "none")


def _at_least(version: str | None, wanted: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= wanted


# CANN, the files of the devices, npu-smi and msprof.
_DEVICE = re.compile(r"/dev/davinci\d+")
_MANAGER = "/dev/davinci_manager"


def cann(facts: Facts) -> Check:
    """CANN is known to this shell, and it is no stand-in."""
    if facts.cann_library == "stub" or facts.backends["npu"].stub:
        return Check("cann", FAIL, "stub", {"home": _text(facts.cann_home)}, (facts.setup,))
    if not facts.ascend:
        return Check("cann", SKIP, "no_npu")
    seen = {"home": _text(facts.cann_home), "version": facts.cann_version, "library": facts.cann_library}
    if facts.cann_home is None and facts.cann_setup:
        return Check("cann", FAIL, "not_sourced", seen, (facts.setup,))
    if facts.cann_home is None:
        wants = compatibility.CANN.get(facts.packages.get("torch-npu", ""), "")
        return Check("cann", FAIL, "missing", {**seen, "wants": wants}, (facts.setup,))
    if not facts.cann_home.is_dir():
        return Check("cann", FAIL, "gone", seen, (facts.setup,))
    if facts.cann_library != "real":
        return Check("cann", FAIL, "library", seen, (facts.setup,))
    return Check("cann", PASS, "is", seen)


def devices(facts: Facts) -> Check:
    """Every device that this user can see may also be opened."""
    if not facts.ascend:
        return Check("devices", SKIP, "no_npu")
    found = [node for node in facts.nodes if _DEVICE.fullmatch(node.path)]
    if not found:
        return _no_device(facts)
    closed = [node for node in facts.nodes if not node.usable]
    if closed:
        group = next((node.group for node in closed if node.group), None) or "HwHiAiUser"
        seen = {"closed": [node.path for node in closed], "group": group}
        return Check("devices", FAIL, "denied", seen, (f"sudo usermod -aG {group} $USER", "newgrp " + group))
    if not any(node.path == _MANAGER for node in facts.nodes):
        return Check("devices", FAIL, "manager", {}, (f"docker run --device={_MANAGER} --device=/dev/hisi_hdc ...",))
    return Check("devices", PASS, "open", {"count": len(found)})


def _no_device(facts: Facts) -> Check:
    if facts.container:
        command = (
            f"docker run --device=/dev/davinci0 --device={_MANAGER} --device=/dev/devmm_svm --device=/dev/hisi_hdc "
            "-v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro "
            "-v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro ..."
        )
        return Check("devices", FAIL, "not_passed", {"container": facts.container}, (command,))
    return Check("devices", FAIL, "none", {}, ("lspci -d 19e5:", "ls -l /dev/davinci*"))


def npu_smi(facts: Facts) -> Check:
    """The driver answers, and says that every chip is well."""
    asked, told = facts.smi.asked, facts.smi.info
    if not facts.ascend:
        return Check("npu_smi", SKIP, "no_npu")
    if asked.status is None:
        return Check("npu_smi", WARN, "silent", {"reason": asked.text}, ("/usr/local/bin/npu-smi info",))
    if not told.chips:
        reason = (told.complaints or (asked.text.strip().splitlines()[-1:] or ["no word"])[0:1])[-1]
        said = "occupied" if "-8020" in asked.text else "denied" if "-8005" in asked.text else "failed"
        todo = {"occupied": "docker ps", "denied": "ls -l /dev/davinci*; id", "failed": "npu-smi info"}[said]
        return Check("npu_smi", FAIL, said, {"reason": reason}, (todo,))
    ill = [chip for chip in told.chips if chip.health != "OK"]
    if ill:
        seen = {"chips": [f"{chip.npu}.{chip.chip}" for chip in ill], "health": [chip.health for chip in ill]}
        return Check(
            "npu_smi", WARN, "ill", seen, tuple(f"npu-smi info -t health -i {npu}" for npu in {c.npu for c in ill})
        )
    names = sorted({chip.name for chip in told.chips})
    return Check("npu_smi", PASS, "well", {"count": len(told.chips), "names": names, "driver": told.driver})


def msprof(facts: Facts) -> Check:
    """torch_npu's profiler lets msprof read what the device wrote; without it the kernels are missing in silence."""
    if not facts.ascend:
        return Check("msprof", SKIP, "no_npu")
    if facts.msprof:
        return Check("msprof", PASS, "is", {"path": facts.msprof})
    return Check("msprof", FAIL, "missing", {}, (facts.setup, "msprof --help"))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


# The user and the shell: what they set that a profiler minds, or that changes what is measured.
#: Variables that make a job slower or start a second profiler, with the value that does it.
_COSTLY = {
    "ASCEND_LAUNCH_BLOCKING": "1", "CUDA_LAUNCH_BLOCKING": "1", "TASK_QUEUE_ENABLE": "0", "PROFILING_MODE": "true",
    "KINETO_USE_DAEMON": "1", "TORCH_SHOW_CPP_STACKTRACES": "1", "NPU_ASD_ENABLE": "1", "TRITON_INTERPRET": "1",
}  # fmt: skip
_STDOUT, _LEVEL = "ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_GLOBAL_LOG_LEVEL"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def umask(facts: Facts) -> Check:
    """torch_npu's manual: 0027 or stricter, since msprof refuses files that others may write or read."""
    seen = {"umask": f"{facts.umask:04o}"}
    if not facts.ascend:
        return Check("umask", SKIP, "no_npu")
    if facts.umask & 0o027 != 0o027:
        return Check("umask", WARN, "open", seen, ("umask 0027",))
    return Check("umask", PASS, "is", seen)


def user(facts: Facts) -> Check:
    """torch_npu's manual advises against profiling as root."""
    if not facts.ascend:
        return Check("user", SKIP, "no_npu")
    if facts.root:
        return Check("user", WARN, "root", {}, ("sudo usermod -aG HwHiAiUser USER", "su - USER"))
    return Check("user", PASS, "is")


def log_level(facts: Facts) -> Check:
    """CANN logs more the lower the number: 3, its default, is errors only."""
    if not facts.ascend:
        return Check("log_level", SKIP, "no_npu")
    level = facts.variables.get(_LEVEL, "")
    if level in ("0", "1", "2"):
        seen = {"level": level, "name": LEVELS[int(level)]}
        return Check("log_level", WARN, "verbose", seen, (f"export {_LEVEL}=3",))
    if facts.variables.get(_STDOUT) == "1":
        return Check("log_level", WARN, "stdout", {}, (f"export {_STDOUT}=0",))
    return Check("log_level", PASS, "quiet", {"level": level or "3"})


def variables(facts: Facts) -> Check:
    """Settings for debugging that were forgotten."""
    found = {name: value for name, value in _COSTLY.items() if facts.variables.get(name, "").lower() == value}
    if found:
        seen = {"variables": [f"{name}={value}" for name, value in found.items()]}
        return Check("variables", WARN, "costly", seen, tuple(f"unset {name}" for name in found))
    return Check("variables", PASS, "none")


CHECKS: tuple[Callable[[Facts], Check], ...] = (
    machine.backend, python, torch, torch_npu, versions, profiler, torch_build,
    cann, devices, npu_smi, msprof, user, umask, log_level,
    variables, triton, machine.processes, machine.clocks, machine.memory, machine.disk,
)  # fmt: skip


def visit(place: Path) -> dict[str, Any]:
    """What every check found, as JSON tells it; ``place`` is where recordings would go."""
    return report(gather(place))


def report(facts: Facts) -> dict[str, Any]:
    """The same for facts that somebody has gathered."""
    found = [check(facts) for check in CHECKS]
    return {
        "status": "unusable" if any(check.status == FAIL for check in found) else "usable",
        "backend": next((name for name, each in facts.backends.items() if each.available), None),
        "checks": [asdict(check) for check in found],
        "compatibility": {"date": compatibility.DATE, "source": compatibility.SOURCE},
    }
