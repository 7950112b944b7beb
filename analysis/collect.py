"""A ready profiler configuration that would fill the holes of a capture.

For an NPU it is torch_npu.profiler's, with keywords that every torch_npu from 2.1 to 2.14 knows. Where msprof made the
capture it is a command of msprof; for everything else torch.profiler's. It keeps what the capture already has and adds
what is missing. It also names the ranks: those captured, the rank that others wait for, and of a small job all of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.analysis.capability import BY_NAME, OF_MSPROF, was_on
from npulens.analysis.device.family import by_msprof
from npulens.analysis.finding import Finding
from npulens.analysis.run import Run

Pair = tuple[str, str]

#: Up to so many ranks a job is small enough to profile every one of them.
SMALL_JOB = 16
#: Of a larger job, so many of the missing ranks, evenly spread, show whether ranks differ.
SPREAD = 8
#: Numbers of a finding that name a rank to look at next.
RANK_NUMBERS = ("late_rank", "peer_rank", "peer", "slow_rank")
#: Steps to record: five make a mean; twice as many where steps differ from each other.
STEPS, MORE_STEPS = 5, 10
_LEVELS = ("profiler_level=Level1", "profiler_level=Level2")
#: Settings of torch_npu.profiler that msprof has no option for.
_OF_PYTHON = ("gc_detect_threshold", "profile_memory", "with_stack")
_ACTIVITY = {"xpu": "XPU", "mtia": "MTIA"}  # CUDA otherwise: ROCm is CUDA to PyTorch
_SKIP = 10  # steps before, so that compiling and warming up are over


@dataclass(frozen=True)
class Recipe:
    """What to run next time."""

    tool: str  # 'torch_npu', 'msprof' or 'torch'
    activity: str  # of the device
    ranks: tuple[int, ...] | None  # None: every rank
    why: Pair  # the ranks, in a sentence
    steps: int
    settings: tuple[tuple[str, str, Pair], ...]  # name, value, what it records that is missing (or '')

    def as_dict(self, lang: str) -> dict[str, Any]:
        return {
            "tool": self.tool, "ranks": None if self.ranks is None else list(self.ranks), "steps": self.steps,
            "why": _in(lang, self.why), "code": self.code(lang),
        }  # fmt: skip

    @property
    def language(self) -> str:
        """Of the code."""
        return "bash" if self.tool == "msprof" else "python"

    def code(self, lang: str) -> str:
        """Python to paste around the training loop, or a command."""
        if self.tool == "msprof":
            return _msprof(self, lang)
        return _torch_npu(self, lang) if self.tool == "torch_npu" else _torch(self, lang)


def recipe(run: Run, about: Mapping[str, Any], missing: Sequence[str], findings: Sequence[Finding]) -> Recipe:
    """The configuration for what this capture lacks. `missing`: names of capabilities, and 'ranks'."""
    ranks, why = _ranks(run, findings)
    uneven = any(finding.cause in ("step_jitter", "slow_tail") for finding in findings)
    steps = MORE_STEPS if uneven else STEPS
    if not about["npu"]:
        activity = _ACTIVITY.get(str(about["backend"]), "CUDA")
        return Recipe("torch", activity, ranks, why, steps, tuple(for_any(missing)))
    lacking = [name for name in missing if not was_on(run, name)]
    settings = tuple(for_npu(about["level"], lacking))
    return Recipe("msprof" if run.get(by_msprof) else "torch_npu", "NPU", ranks, why, steps, settings)


def for_npu(made: str | None, missing: Sequence[str]) -> list[tuple[str, str, Pair]]:
    """The keywords of _ExperimentalConfig, then those of profile."""
    level = "Level2" if "copy_bytes" in missing or made == "Level2" else "Level1"
    lacking = [BY_NAME[name].means for name in missing if name in BY_NAME and BY_NAME[name].npu in _LEVELS]
    records = (", ".join(en for en, _ in lacking), "、".join(zh for _, zh in lacking))
    gc: Pair = ("garbage collections, all of them (ms)", "所有垃圾回收（单位 ms）")
    counters: Pair = ("hardware counters of kernels", "算子的硬件计数器")
    return [
        ("profiler_level", f"torch_npu.profiler.ProfilerLevel.{level}", records),
        ("aic_metrics", "torch_npu.profiler.AiCMetrics.PipeUtilization", _new("kernel_counters", missing, counters)),
        ("gc_detect_threshold", "0", _new("gc", missing, gc)),
        ("export_type", "torch_npu.profiler.ExportType.Text", ("", "")),
        *for_any(missing),
    ]


def for_any(missing: Sequence[str]) -> list[tuple[str, str, Pair]]:
    memory = "memory" if "memory" in missing else "memory_events"
    return [
        ("record_shapes", "True", ("", "")),
        ("profile_memory", "True", _new(memory, missing, ("the memory pools", "内存池"))),
        ("with_stack", "True", _new("python", missing, ("Python functions and call stacks", "Python 函数与调用栈"))),
    ]


def _new(name: str, missing: Sequence[str], text: Pair) -> Pair:
    return text if name in missing else ("", "")


def named_ranks(findings: Sequence[Finding]) -> list[int]:
    """Ranks that findings name, in the order of what they cost."""
    named: list[int] = []
    for finding in findings:
        for number in RANK_NUMBERS:
            value = finding.numbers.get(number)
            if isinstance(value, int) and not isinstance(value, bool) and value not in named:
                named.append(value)
    return named


def _ranks(run: Run, findings: Sequence[Finding]) -> tuple[tuple[int, ...] | None, Pair]:
    captured, missing = set(run.ranks), tuple(run.missing_ranks or ())
    wanted = [rank for rank in named_ranks(findings) if rank in missing]
    if run.world_size is None and (least := _ranks_of_groups(run)) > 1:
        return None, (f"every rank: groups of this job name {least} of them",
                      f"所有 rank：本任务的通信域提到了其中 {least} 个")  # fmt: skip
    if run.world_size is None:
        return None, ("every rank: the size of the job was not recorded", "所有 rank：任务规模未采集")
    if not missing:
        return None, ("every rank, as in this capture", "所有 rank，与本次采集相同")
    if run.world_size <= SMALL_JOB and not wanted:
        return None, (f"every rank: this capture lacks {len(missing)} of {run.world_size}",
                      f"所有 rank：{run.world_size} 个中有 {len(missing)} 个未采集")  # fmt: skip
    if wanted:
        listed = ", ".join(map(str, wanted))
        return tuple(sorted(captured | set(wanted))), (
            f"rank {listed}, which others wait for and which was not captured, and the ranks of this capture",
            f"rank {listed}（其他 rank 在等它，本次未采集），以及本次已采集的 rank",
        )  # fmt: skip
    spread = missing[:: max(1, len(missing) // SPREAD)][:SPREAD]
    return tuple(sorted(captured | set(spread))), (
        f"the ranks of this capture and {len(spread)} of the missing ones, evenly spread",
        f"本次已采集的 rank，以及均匀选取的 {len(spread)} 个未采集 rank",
    )  # fmt: skip


def _ranks_of_groups(run: Run) -> int:
    """How many ranks the groups of a job name: it has at least as many."""
    ((count,),) = run.con.execute(
        "SELECT count(DISTINCT rank) FROM (SELECT unnest(ranks) AS rank FROM parallel_group)"
    ).fetchall()
    return int(count)


def _torch_npu(recipe: Recipe, lang: str) -> str:
    inner = [_line(*setting, lang, 8) for setting in recipe.settings[:4]]
    outer = [_line(*setting, lang, 4) for setting in recipe.settings[4:]]
    return "\n".join([
        "import contextlib", "", "import torch.distributed as dist", "import torch_npu", "", *_who(recipe, lang),
        "profiler = torch_npu.profiler.profile(",
        "    activities=[torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU],",
        f"    schedule=torch_npu.profiler.schedule({_schedule(recipe)}),",
        '    on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./npulens_capture"),',
        *outer,
        "    experimental_config=torch_npu.profiler._ExperimentalConfig(", *inner, "    ),",
        *_loop(recipe, lang),
    ])  # fmt: skip


def _torch(recipe: Recipe, lang: str) -> str:
    return "\n".join([
        "import contextlib", "", "import torch", "import torch.distributed as dist", "", *_who(recipe, lang),
        "profiler = torch.profiler.profile(",
        f"    activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.{recipe.activity}],",
        f"    schedule=torch.profiler.schedule({_schedule(recipe)}),",
        '    on_trace_ready=torch.profiler.tensorboard_trace_handler("./npulens_capture", use_gzip=True),',
        *(_line(*setting, lang, 4) for setting in recipe.settings),
        *_loop(recipe, lang),
    ])  # fmt: skip


def _msprof(recipe: Recipe, lang: str) -> str:
    """msprof has no keywords of Python: what it never records stands above, for torch_npu.profiler."""
    more = [
        "# " + _in(lang, (
            f"{en}: {name}={value} of torch_npu.profiler, not msprof",
            f"{zh}：用 torch_npu.profiler 的 {name}={value} 采集，msprof 不采集",
        ))
        for name, value, (en, zh) in recipe.settings if name in _OF_PYTHON and en
    ]  # fmt: skip
    commands = [text.split() for text in OF_MSPROF.values() if text.startswith("msprof")]
    options = " ".join(dict.fromkeys(option for _, *options in commands for option in options))
    yours = _in(lang, ("your program", "你的程序"))
    return "\n".join([*more, f"msprof {options} --output=./npulens_capture python train.py  # {yours}", ""])


def _schedule(recipe: Recipe) -> str:
    return f"skip_first={_SKIP}, wait=0, warmup=1, active={recipe.steps}, repeat=1"


def _who(recipe: Recipe, lang: str) -> list[str]:
    rank = "rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0"
    chosen = "None" if recipe.ranks is None else "{" + ", ".join(map(str, recipe.ranks)) + "}"
    return [rank, f"RANKS = {chosen}  # {_in(lang, recipe.why)}"]


def _loop(recipe: Recipe, lang: str) -> list[str]:
    total = _SKIP + 1 + recipe.steps
    enough = _in(lang, (f"at least {total} steps", f"至少 {total} 步"))
    yours = _in(lang, ("your step", "你的训练步"))
    return [
        ") if RANKS is None or rank in RANKS else contextlib.nullcontext()",
        "with profiler as prof:",
        f"    for batch in loader:  # {enough}",
        f"        train_step(batch)  # {yours}",
        "        if prof is not None:",
        "            prof.step()",
        "",
    ]


def _line(name: str, value: str, records: Pair, lang: str, indent: int) -> str:
    """A setting; above it, what it records that this capture lacks."""
    space, text = " " * indent, _in(lang, records)
    new = _in(lang, ("new: ", "新增："))
    above = textwrap.wrap(new + text, 88, initial_indent=f"{space}# ", subsequent_indent=f"{space}# ") if text else []
    return "\n".join([*above, f"{space}{name}={value},"])


def _in(lang: str, text: Pair) -> str:
    return text[1 if lang == "zh" else 0]
