"""CANN, the files of the devices, npu-smi and msprof."""

from __future__ import annotations

import re
from pathlib import Path

from npulens.collectors.doctor import compatibility
from npulens.collectors.doctor.check import FAIL, PASS, SKIP, WARN, Check
from npulens.collectors.doctor.facts import Facts

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
