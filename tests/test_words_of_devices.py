"""Advice speaks the language of the device: no sentence said on one family names a switch of another.

Every sentence of every detector is asked, for each family, with its parts for that family; and every answer of a
check over real captures of both shared sets.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npulens.analysis.detectors.unfused import rules
from npulens.analysis.device.family import family
from npulens.analysis.discovery import detectors
from npulens.analysis.engine import check
from npulens.analysis.finding import Words
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE, RECORDED, filled, on_device, per
from npulens.analysis.settings import DEFAULT
from npulens.ingest.store import runs
from tests import real_captures
from tests.tablecase import connection

#: What only one family has. An Ascend job may say torch.compile, a CUDA job may not say torchair.
OWN = {
    "npu": re.compile(
        r"TASK_QUEUE|torch_npu|torch\.npu|NpuFused|aclnn|aclrt|HCCL|torchair|NPUGraph|ASCEND_|Ascend|昇腾|CPU_AFFINITY_CONF|"
        r"_NPU_|MindSpeed|DVPP|profiler_level|HF32|gc_detect|npu-smi|allow_internal"
    ),
    "cuda": re.compile(r"CUDA|PYTORCH_CUDA|cudnn|NCCL|DALI|TF32|tensor cores?|numactl"),
    "rocm": re.compile(r"HIP|ROCm|RCCL|PYTORCH_HIP|rocAL"),
    "cpu": re.compile(r"OMP_NUM_THREADS"),
}
#: What a job on a CPU has none of: another device to give work to, memory that repairs itself, torch_npu's sampling.
NOT_ON_A_CPU = re.compile(r"\bECC\b|often, on the device|decode on the device|host_sys|放到设备上|在设备上解码")
#: What CUDA's own words are allowed on ROCm: PyTorch calls ROCm CUDA.
SHARED = {("cuda", "rocm"): re.compile(r"numactl|tensor cores?")}
#: PyTorch reads it on ROCm as well, and calls the activity of a ROCm device so.
ALSO_ROCM = re.compile(r"PYTORCH_NO_CUDA_MEMORY_CACHING|activities=\[CPU, CUDA\]")
#: Only judged where AI cores are: their sentences are never said elsewhere.
ASCEND_ONLY = {"aicpu", "frequency_drop", "pipe_stall"}
#: Said of HCCL's tasks or of a variable of CANN that an Ascend capture holds, and of nothing else.
ASCEND_SENTENCES = {
    ("retransmission", "sent"), ("retransmission", "again"), ("slow_link", "found"), ("environment", "queue"),
    ("environment", "aclnn"), ("environment", "host_cache"), ("environment", "log"),
}  # fmt: skip


def foreign(text: str, device: str) -> list[str]:
    found = []
    if device == "rocm":
        text = ALSO_ROCM.sub("", text)
    for of, pattern in OWN.items():
        if of != device:
            allowed = SHARED.get((of, device))
            found += [m[0] for m in pattern.finditer(text) if allowed is None or not allowed.fullmatch(m[0])]
    return found


SAID = [
    pytest.param(detector.name, words, device, id=f"{detector.name} {key} {lang} on {device}")
    for detector in detectors(DEFAULT)
    for lang, texts in detector.text.items()
    for key, words in texts.items()
    for device in OWN
    if device == "npu" or detector.name not in ASCEND_ONLY and (detector.name, key) not in ASCEND_SENTENCES
]


#: A part that depends on a number, not on a family.
_NUMBERED = re.compile(r"\[\[(?!(?:npu|cuda|rocm|cpu)[|a-z]*:)(.*?)\]\]")


@pytest.mark.parametrize(("name", "words", "device"), SAID)
def test_no_sentence_names_a_switch_of_another_family(name: str, words: Words, device: str) -> None:
    for template in (words.title, words.advice):
        text = on_device(_NUMBERED.sub(r"\1", template), device)  # whatever is known of the numbers
        assert device != "cpu" or not NOT_ON_A_CPU.search(text), text
        assert not foreign(re.sub(r"{\w+}", "", text), device), text
        assert "[[" not in text and "]]" not in text


def test_fusions_name_what_the_device_has() -> None:
    for rule in rules()[1]:
        assert not foreign(rule.cuda, "cuda") and not foreign(rule.cuda, "rocm")
        assert not foreign(rule.operator, "npu")


@pytest.mark.parametrize(("backend", "formats", "told"), [
    ("npu", ["kineto"], "npu"), ("cuda", ["kineto"], "cuda"), ("rocm", ["kineto"], "rocm"),
    (None, ["torch_npu_text"], "npu"), (None, ["kineto"], ""), ("mtia", ["kineto"], "mtia"),
])  # fmt: skip
def test_the_family_of_a_run(backend: str | None, formats: list[str], told: str) -> None:
    case = {"rank": {0: {"backend": backend, "formats": formats}}, "spans": []}
    assert family(Run(connection(case))) == told


def test_a_part_is_said_on_its_families_only() -> None:
    words = Words("set [[npu: A]][[cuda: B]][[rocm: C]]=1", "do it[[cuda|rocm:  (numactl)]][[ of {n}]]")
    said = {device: filled(words, {"device": device, "n": None}) for device in ("npu", "cuda", "rocm", "")}
    assert [one.title for one in said.values()] == ["set A=1", "set B=1", "set C=1", "set =1"]
    assert [one.advice for one in said.values()] == ["do it", "do it (numactl)", "do it (numactl)", "do it"]


def test_nothing_is_said_of_steps_where_none_were_marked_or_it_happened_once() -> None:
    words = Words("idles {idle_ns} of each step", "x")
    numbers = {"idle_ns": 5_000_000}
    assert filled(words, {**numbers, "per": "step"}).title == "idles 5.00 ms of each step"
    assert filled(words, {**numbers, "per": RECORDED}).title == "idles 5.00 ms of the recorded time"
    assert filled(words, {**numbers, "per": ONCE}).title == "idles 5.00 ms once"
    for detector in detectors(DEFAULT):
        if "steps" not in detector.needs:
            for texts in detector.text.values():
                for one in texts.values():
                    for what in (RECORDED, ONCE):
                        assert not re.search(r"(?:each|every) step\b(?! of)|每步", per(one.title, what)), one.title


ROOT = Path(__file__).resolve().parents[2] / "shared"
CAPTURES = [
    "traces_2/AMD-AGI+TraceLens/tests/traces/h100", "traces_2/AMD-AGI+TraceLens/tests/traces/inference",
    "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/text", "traces_2/luatil+torch-profile",
    "traces_2/harryjmoss+particle_transformer@hist-10083161", "traces_2/facebookresearch+HolisticTraceAnalysis",
    "traces_2/pytorch+torchrec@hist", "traces_2/pytorch-labs+segment-anything-fast", "traces/AMD-AGI+TraceLens",
    "traces/Ascend+msinsight/test/data/pytorch", "traces/Ascend+msprof-analyze", "traces/pytorch+kineto@hist-769c3eb7",
    "traces/facebookresearch+HolisticTraceAnalysis",
]  # fmt: skip


@pytest.mark.parametrize("capture", [pytest.param(ROOT / one, id=one[-40:]) for one in CAPTURES])
def test_what_is_said_of_real_captures_is_in_their_devices_words(capture: Path) -> None:
    if not capture.exists():
        pytest.skip(f"{capture} is not there")
    store, report = real_captures.loaded(capture)
    for loaded in report.runs:
        if loaded.run_id is None:
            continue
        con = runs.open_run(store, loaded.run_id)
        said = check(con)
        device = family(Run(con))
        for lang in ("en", "zh"):
            answer = said.as_dict(lang)
            texts = [text for one in answer["findings"] for text in (one["title"], one["advice"])]
            texts += [text for one in answer["outcomes"] for text in (one["reason"], one["collect_with"]) if text]
            names = {str(value) for one in answer["findings"] for value in one["numbers"].values()}
            for text in texts:
                for name in sorted(names, key=len, reverse=True):  # the trace's own names are what they are
                    text = text.replace(name, "") if len(name) > 3 else text
                assert not foreign(text, device), text
                assert not re.search(r"\b0 of them|0 ns of each|, \?|for \?|Enqueue ->", text), text
                assert "[[" not in text, text
