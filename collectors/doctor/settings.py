"""The user and the shell: what they set that a profiler minds, or that changes what is measured."""

from __future__ import annotations

from npulens.collectors.doctor.check import PASS, SKIP, WARN, Check
from npulens.collectors.doctor.facts import Facts

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
