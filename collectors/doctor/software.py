"""Python, torch, torch_npu and triton: whether they are there, start, and belong together."""

from __future__ import annotations

import re

from npulens.collectors.doctor import compatibility
from npulens.collectors.doctor.check import FAIL, PASS, SKIP, WARN, Check
from npulens.collectors.doctor.facts import Facts, missing_library

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
