"""Compatibility: what the wheels' yaml is read as, how the dispatcher's order is followed, and what is said of it."""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.compat import answers
from npulens.analysis.compat.answers import Answer, Compatibility, Seen, compatibility
from npulens.analysis.compat.registry import Registry, Release, UnknownRelease, registry
from npulens.app import run_compat
from npulens.app.cli import main
from npulens.app.report import compat_as_html
from npulens.app.text import compatible
from npulens.ingest.store import runs as stores
from tests.lab import registry as wheels

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT.parent / "shared/npu/torch_npu-2.13.0_op_registry.json"

NATIVE = """
- func: plain(Tensor self) -> Tensor
- func: own(Tensor self) -> Tensor
  dispatch:
    CPU: a
    CUDA: b
- func: made(Tensor self) -> Tensor
  dispatch:
    CompositeExplicitAutograd: a
  autogen: made.out
- func: both(Tensor self) -> Tensor
  dispatch:
    CPU, MPS: a
    CompositeExplicitAutograd: b
- func: lead(Tensor self) -> Tensor
  structured_delegate: lead.out
- func: lead.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU: a
- func: lead_(Tensor(a!) self) -> Tensor(a!)
  structured_delegate: lead.out
  dispatch:
    SparseCPU: a
- func: nested(Tensor self) -> Tensor
  dispatch: {}
- func: thin(Tensor self) -> Tensor
  dispatch:
    SparseCPU, SparseCUDA: a
- func: implicit(Tensor self) -> Tensor
  autogen: implicit.out
"""
STATES = {
    "plain": "i", "own": "f", "made": "e", "made.out": "e", "both": "m", "lead": "d", "lead.out": "f", "lead_": "d",
    "nested": "n", "thin": "n", "implicit": "i",
}  # fmt: skip
REGISTERED = """
supported:
- own
- func: lead.out
  op_api: true
- thin
custom:
- func: npu_plus(Tensor self) -> Tensor
- dispatch:
    CompositeExplicitAutograd: npu_made
  func: npu_made(int[] size) -> Tensor
"""
LIBRARY = (
    b"\0CAUTION: The operator aten::lead.out is currently not supported on the NPU backend. Now this operator will "
    b"fallback to run on the CPU.\0CAUTION: The operator aten::own is not support x, Please update\0"
)


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, Path]:
    """Wheels with nothing in them but what is read."""
    npu, torch = tmp_path / "torch_npu-2.9.0.post3-cp311-cp311-any.whl", tmp_path / "torch-2.9.0-cp311-none-any.whl"
    with zipfile.ZipFile(npu, "w") as archive:
        for name, text in (
            (wheels.REGISTERED, REGISTERED), (wheels.LIBRARY, LIBRARY),
            ("torch_npu-2.9.0.post3.dist-info/METADATA", "Name: torch-npu\nRequires-Dist: torch==2.9.0\nX: y\n"),
        ):  # fmt: skip
            archive.writestr(zipfile.ZipInfo(name, (2025, 3, 4, 5, 6, 8)), text)
    with zipfile.ZipFile(torch, "w") as archive:
        archive.writestr(zipfile.ZipInfo(wheels.NATIVE, (2024, 1, 2, 0, 0, 0)), NATIVE)
    return npu, torch


def test_what_the_wheels_say_becomes_a_letter_an_overload(packed: tuple[Path, Path]) -> None:
    npu, (torch, sparse) = wheels.registered(packed[0]), wheels.native(packed[1])
    assert (npu.torch, npu.wheel.packed, torch.wheel.packed, npu.switch) == ("2.9.0", "2025-03-04", "2024-01-02", False)
    assert torch.states == STATES
    assert torch.delegates == {"made.out": "made", "lead": "lead.out", "lead_": "lead.out"}
    assert (npu.own, npu.composite, npu.warns) == (["npu_made", "npu_plus"], ["npu_made"], ["lead.out"])
    told = {"release": "2.9.0.post3", "npu": vars(npu) | {"wheel": vars(npu.wheel)},
            "torch": vars(torch) | {"wheel": vars(torch.wheel), "sparse": sparse}}  # fmt: skip
    found = tomllib.loads(wheels.written([told, told]))
    assert {name: word for word, names in found["torch"].items() for name in names.split()} == {
        name: 2 * letter for name, letter in {**STATES, "own": "k", "lead.out": "w"}.items()
    }  # thin has a kernel for sparse tensors alone
    assert {name: word for word, names in found["own"].items() for name in names.split()} == {
        "npu_plus": "kk", "npu_made": "ee"
    }  # fmt: skip
    assert found["leads"]["pairs"].split() == ["lead>lead.out", "lead_>lead.out", "made.out>made"]


def test_the_file_has_the_kernels_that_another_program_counted() -> None:
    """The registry of 2.13.0 was once asked of the imported wheel; it lists torch's and torch_npu's own together."""
    if not FACTS.exists():
        pytest.skip("the facts (../shared/npu) are not here")
    known, facts = registry(), json.loads(FACTS.read_text("utf-8"))
    at = known.place(facts["torch_npu"])
    live = {name.removeprefix("aten::") for name in facts["npu"]}
    mine = {name for name, word in known.torch.items() if word[at] in "kw"}
    own = {name for name, word in known.own.items() if word[at] != "."}
    assert len(live) == 1496 and live == mine | own


def _known() -> Registry:
    """Two releases by hand: in the second ``relu`` has lost its kernel, and ``late`` is new."""
    releases = tuple(
        Release(name, torch, False, "n.whl", "0", "2025-01-01", "t.whl", "1", "2024-01-01")
        for name, torch in (("2.7.1", "2.7.1"), ("2.9.1", "2.9.1"))
    )
    torch = {
        "conv": "ii", "mm": "kk", "relu": "kf", "relu.other": "kk", "softmax": "ee", "sure": "ww", "alone": "ff",
        "pair": "dd", "pair.out": "fk", "both": "mm", "late": ".k", "view": "ii", "conv_for_cpu": "ff", "loop": "ii",
        "only": "nn", "mixed": "kk", "mixed.x": "ff", "mixed.out": "ff", "gone": "i.",
    }  # fmt: skip
    overloads: dict[str, tuple[str, ...]] = {}
    for name in (*torch, "npu_conv"):
        overloads[name.partition(".")[0]] = (*overloads.get(name.partition(".")[0], ()), name)
    return Registry(releases, torch, {"npu_conv": "kk"}, {"pair": "pair.out"}, overloads)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    made = _known()
    for where in (answers, run_compat, compatible):
        monkeypatch.setattr(where, "registry", lambda: made)
    yield made


SEEN = (
    Seen("aten::conv", 3, ("float",), ("aten::mm", "aten::view"), "layer.0"), Seen("aten::mm", 1),
    Seen("aten::view", 2), Seen("aten::relu", 4), Seen("aten::softmax", 1, parts=("aten::alone", "aten::mm")),
    Seen("aten::sure", 1), Seen("aten::alone", 0), Seen("aten::pair", 1, parts=("aten::anything",)),
    Seen("aten::both", 1, parts=("aten::mm",)), Seen("aten::late", 1), Seen("torchvision::nms", 1),
    Seen("aten::loop", 1, parts=("aten::loop", "aten::conv_for_cpu")), Seen("npu::npu_conv", 1),
    Seen("aten::only", 2), Seen("aten::flip", 1, parts=()), Seen("aten::gone", 1, parts=("aten::late",)),
)  # fmt: skip


def _by_name(found: Compatibility) -> dict[str, Answer]:
    return {answer.name.partition("::")[2]: answer for answer in found.answers}


def test_the_dispatchers_order_is_followed(known: Registry) -> None:
    """Worked out by hand from the letters of ``_known`` for both releases."""
    first, second = (_by_name(compatibility(SEEN, release, True)) for release in ("2.7.1", "torch_npu==2.9.1"))
    assert {name: answer.status for name, answer in first.items()} == {
        "conv": "composite", "mm": "kernel", "view": "composite", "relu": "kernel", "softmax": "part_on_host",
        "sure": "sometimes", "pair": "part_on_host", "both": "unknown", "late": "absent", "nms": "unknown",
        "loop": "unknown", "npu_conv": "kernel", "flip": "absent", "gone": "unknown", "only": "fails",
    }  # fmt: skip
    assert (first["conv"].through, first["view"].through) == (("aten::mm",), ())
    assert (first["softmax"].through, first["pair"].through) == (("aten::alone",), ("aten::pair.out",))
    assert (first["both"].why, first["nms"].why, first["loop"].why, first["gone"].why) == (
        "unseen", "library", "elsewhere", "other_torch",
    )  # fmt: skip
    assert (first["pair"].later, first["late"].later, first["flip"].later) == ("2.9.1", "2.9.1", None)
    assert (second["relu"].status, second["relu"].earlier, second["relu"].forms) == ("host", "2.7.1", ("relu.other",))
    assert (second["pair"].status, second["pair"].through) == ("composite", ("aten::pair.out",))
    assert (second["late"].status, second["gone"].status) == ("kernel", "absent")


def test_the_worst_comes_first_and_what_only_others_call_is_no_row(known: Registry) -> None:
    found = compatibility(SEEN, "2.9.1", True).answers
    order = [answers.STATUSES.index(answer.status) for answer in found]
    assert order == sorted(order) and "aten::alone" not in {answer.name for answer in found}


def test_a_name_without_its_overload_is_told_only_where_all_agree(known: Registry) -> None:
    """``mixed`` has one with a kernel, one without and one that takes its result; ``relu`` of 2.7.1 has two kernels."""
    seen = [Seen("aten::mixed", 1), Seen("aten::relu", 1), Seen("aten::mixed.x", 1)]
    found = {answer.name: answer for answer in compatibility(seen, "2.7.1", False).answers}
    assert (found["aten::mixed"].status, found["aten::mixed"].why) == ("unknown", "overload")
    assert (found["aten::relu"].status, found["aten::mixed.x"].status) == ("kernel", "host")


@pytest.mark.parametrize(("name", "letters"), [
    ("linear", "iii"), ("batch_norm", "kii"), ("_batch_norm_impl_index", "kii"), ("native_batch_norm", "kkk"),
    ("gelu", "kkd"), ("gelu.out", "ffk"), ("scaled_dot_product_attention", "kkk"), ("linalg_eig", "fff"),
    ("_scaled_dot_product_flash_attention", "fnn"), ("_fused_rms_norm", "..i"), ("logit", "www"),
    ("npu_swiglu", "kkk"), ("npu_add_rms_norm_v2", "..k"),
])  # fmt: skip
def test_entries_that_were_looked_up_by_hand_in_the_wheels(name: str, letters: str) -> None:
    """Of 2.1.0.post13, 2.7.1 and 2.13.0, as docs/compatibility.md tells."""
    places = [registry().place(release) for release in ("2.1.0.post13", "2.7.1", "2.13.0")]
    assert "".join(registry().word(name)[at] for at in places) == letters


@pytest.mark.parametrize(("asked", "release"), [
    ("torch_npu-2.7.1", "2.7.1"), ("torch-npu==2.7.1.post11", "2.7.1.post11"), ("v2.13.0", "2.13.0"),
    (" 2.1.0.post13 ", "2.1.0.post13"),
])  # fmt: skip
def test_a_release_may_be_written_in_any_way(asked: str, release: str) -> None:
    assert registry().releases[registry().place(asked)].torch_npu == release


@pytest.mark.parametrize(("asked", "near"), [
    ("2.7.1.post4", "2.7.1.post11"), ("3.0", None), ("", None), ("torch 2.7.1", None), ("2.7.1\n; rm", None),
])  # fmt: skip
def test_a_release_that_nobody_read_is_told_with_its_neighbour(asked: str, near: str | None) -> None:
    with pytest.raises(UnknownRelease) as caught:
        registry().place(asked)
    assert caught.value.near == near


def test_every_answer_has_its_words_in_both_languages(known: Registry) -> None:
    for release in ("2.7.1", "2.9.1"):
        found = compatibility(SEEN, release, True)
        for answer in found.answers:
            english, chinese = (compatible.why(answer, found, lang) for lang in ("en", "zh"))
            assert english and chinese and english != chinese and "{" not in english + chinese
            assert bool(compatible.advice(answer, found, "en")) == bool(compatible.advice(answer, found, "zh"))
    found = compatibility(SEEN, "2.9.1", True)
    assert "2 of 15 operators run on the host, entirely or in part (calls: 5)" in compatible.headline(found, "en")


def test_an_alternative_is_named_only_where_the_release_has_it() -> None:
    seen = [Seen("aten::_scaled_dot_product_flash_attention", 1), Seen("torchvision::nms", 1)]
    for release in registry().releases:
        found = _by_name(compatibility(seen, release.torch_npu, True))
        assert found["_scaled_dot_product_flash_attention"].instead == ("npu_fusion_attention",)
        assert found["nms"].instead == ("npu_nms_v4", "npu_nms_with_mask")
    told = tomllib.loads((ROOT / "analysis/compat/alternatives.toml").read_text("utf-8"))["instead"]
    assert {own for each in told.values() for own in each} <= registry().own.keys() | {"npu_quant_matmul"}


def _source(module: str) -> run_compat.Source:
    return run_compat.Source("subject", module, module, "2.13.0", "cpu", True, SEEN)


def test_what_the_answer_does_not_say_is_of_its_source() -> None:
    """Operators of the gradients are told of only where some were seen."""
    for gradients, kind, more in ((True, "subject", 2), (False, "subject", 1), (True, "run", 1)):
        source = run_compat.Source(kind, "m", "m", "2.13.0", "cpu", gradients, SEEN)
        told = list(run_compat.limits(source, "en"))
        assert len(told) == 1 + more and ("gradients" in told[-1]) == (gradients and kind == "subject")


def test_a_report_takes_names_as_text(known: Registry) -> None:
    hostile = '<script>x</script>"'
    source = run_compat.Source("subject", hostile, hostile, "2.13.0", hostile, True, (
        Seen(f"lib::{hostile}", 1, (hostile,), (), hostile), *SEEN,
    ))  # fmt: skip
    asked = run_compat.against(source, ["2.7.1", "2.9.1"])
    page = compat_as_html.write(lambda lang: run_compat.what_of(source, lang), asked.found,
                                lambda lang: list(run_compat.limits(source, lang)))  # fmt: skip
    assert "<script" not in page and page.count("&lt;script&gt;") > 4 and 'lang="zh"' in page
    told = run_compat.data(asked)
    assert json.loads(json.dumps(told)) == told or told["source"]["name"] == hostile
    assert [each["torch_npu"] for each in told["releases"]] == ["2.7.1", "2.9.1"]
    for lang in ("en", "zh"):
        assert any(hostile in line for line in run_compat.lines(asked, True, lang))


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    store = tmp_path_factory.mktemp("store")
    ingest.load(ROOT / "sample_traces/cpu_train_step", store)
    return store, stores.runs(store)[0].run_id


def _asked(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["lab", *words])
    return done.exit_code, done.stdout, done.stderr


def test_a_run_is_asked_by_name(sampled: tuple[Path, str]) -> None:
    """The sample was recorded on a CPU: linear layers, ReLU and an optimiser step."""
    store, run = sampled
    code, out, _ = _asked(run, "--compat", "2.7.1,2.13.0", "--compat", "2.7.1", "--store", str(store), "--json")
    told = json.loads(out)
    assert code == 0 and [each["torch_npu"] for each in told["releases"]] == ["2.7.1", "2.13.0"]
    found = {each["name"]: each for each in told["releases"][0]["operators"]}
    assert found["aten::linear"]["status"] == "composite" and "aten::addmm" in found["aten::linear"]["through"]
    assert "aten::addmm" not in found and found["aten::mm"]["status"] == "kernel"


def test_what_cannot_be_answered_is_one_sentence(sampled: tuple[Path, str], tmp_path: Path) -> None:
    store = ["--store", str(sampled[0])]
    for words in (["--compat", "2.7.1"], [sampled[1], "--compat", "9.9"], ["nobody", "--compat", "2.7.1"],
                  [str(tmp_path), "--compat", "2.7.1"]):  # fmt: skip
        code, out, err = _asked(*words, *store)
        assert code == 2 and "Traceback" not in out + err and err.strip()
    code, out, _ = _asked("--compat", "list", "--json")
    told = {each["torch_npu"]: each for each in json.loads(out)["releases"]}
    assert code == 0 and (told["2.13.0"]["kernels"], told["2.13.0"]["own"]) == (1077, 419)


def compatibility_page() -> None:
    from npulens.app import context
    from npulens.app.pages.compatibility import page

    page.render(context.current())


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_answers_for_the_chosen_release(
    sampled: tuple[Path, str], lang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPULENS_STORE", str(sampled[0]))
    shown = AppTest.from_function(compatibility_page, default_timeout=120)
    shown.query_params["lang"], shown.query_params["run"] = lang, sampled[1]
    shown.run()
    assert not shown.exception and shown.selectbox[0].value == registry().releases[-1].torch_npu
    shown.selectbox[0].set_value("2.7.1").run()
    assert not shown.exception and any("2.7.1" in each.value for each in shown.caption)
    names = list(shown.dataframe[0].value["name"])
    assert "aten::linear" in names and "aten::addmm" not in names


NODES: list[dict[str, Any]] = [
    {"id": 1, "ctrl_deps": 1, "attrs": [{"name": "op_schema", "value": ""}]},
    {"id": 4, "ctrl_deps": 3, "attrs": [{"name": "op_schema", "value": "aten::mm.x(Tensor self) -> Tensor"}],
     "inputs": {"types": ["Tensor(float)", "Tensor(nullptr (uninitialized))"]}},
    {"id": 3, "ctrl_deps": 2, "attrs": []},
    {"id": 2, "ctrl_deps": 1, "attrs": [{"name": "op_schema", "value": "aten::linear(Tensor input) -> Tensor"}],
     "inputs": {"types": ["GenericList[Tensor(c10::Half),Tensor(float)]"]}},
    {"id": 5, "ctrl_deps": 1, "attrs": [{"name": "op_schema", "value": "aten::mm.x(Tensor self) -> Tensor"}]},
]  # fmt: skip


def test_a_written_trace_is_a_tree_of_overloads() -> None:
    pytest.importorskip("torch")
    from npulens.collectors.lab import compat

    found = compat.tree(NODES)
    assert {name: (each.calls, each.outermost, each.parts) for name, each in found.items()} == {
        "aten::mm.x": (2, 1, {}), "aten::linear": (1, 1, {"aten::mm.x": 1}),
    }  # fmt: skip
    assert (found["aten::mm.x"].dtypes, found["aten::linear"].dtypes) == ({"float"}, {"c10::Half", "float"})


@pytest.mark.torch
def test_operators_of_a_module_are_those_that_torch_dispatches() -> None:
    """Against torch's own dispatch mode, which sees every operator below autograd of one call."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    from npulens.collectors.lab import compat, subject

    class Net(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into by mypy
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.line = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 2)

        def forward(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
            return (self.line(torch.relu(self.conv(tensors[0])).mean((2, 3))),)

    class Names(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.add(func.name())
            return func(*args, **(kwargs or {}))

    names: set[str] = set()
    net, batch = Net(), (torch.randn(2, 3, 8, 8),)
    about = subject.About("Net", "module", True, True, "cpu", 1, ("float32",), (), 1, 0, 0, False, None)
    under = subject.Subject(Path("."), about, net, (batch,), (None,))
    found = {each["name"]: each for each in compat.operators(under, True)}
    with Names():
        net(batch)[0].sum()
    assert names - {"aten::sum", "aten::detach"} <= found.keys()  # the mode makes the second for itself
    assert found["aten::conv2d"]["outermost"] == 1 and "aten::convolution" in found["aten::conv2d"]["parts"]
    assert {"aten::convolution_backward", "aten::threshold_backward", "aten::mm"} <= found.keys()
    assert "aten::cos" not in found and "aten::ones_like" not in found  # what only the laboratory asks for
