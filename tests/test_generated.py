"""A kernel of somebody's function: what may become one, whether it is right, which choices are kept, where it runs."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npulens.app.commands import compile as verb
from npulens.app.text.i18n import known

# torch warns of its own parts while it compiles.
pytestmark = pytest.mark.filterwarnings("ignore")
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch  # noqa: E402

from npulens.collectors import kernels  # noqa: E402
from npulens.collectors.backends.backend import open_backend  # noqa: E402
from npulens.collectors.generated import command, inductor, saved, tuning  # noqa: E402
from npulens.collectors.generated import function as functions  # noqa: E402
from npulens.collectors.generated.function import NoFunction  # noqa: E402
from npulens.collectors.generated.inductor import Choices, Made  # noqa: E402
from npulens.collectors.generated.tuning import Truths  # noqa: E402
from npulens.collectors.lab.judging import CannotRun  # noqa: E402
from npulens.collectors.workloads.workload import NotHere  # noqa: E402


def lacking() -> str:
    """Why Inductor makes no kernel for this processor; nothing where it can."""
    try:
        inductor.needs("cpu")
    except NotHere as error:
        return str(error)
    return ""


needs_compiler = pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")

SOURCE = """
import torch

def layer(x, weight, bias, *, zork): return x

def small(x, weight, times=2.0):
    return torch.relu(x @ weight) * times

def branches(x, weight):
    y = x + 1
    if y.sum() > 0:
        return y
    return y * 2

def draws(x, weight): return torch.nn.functional.dropout(x, 0.5, training=True)

def writes(x, weight): return x.add_(1)

def fails(x, weight): return x @ torch.ones(3, 3)

def text(x, weight): return "x"

def infinite(x, weight): return x / 0

number = 7

def inputs():
    return torch.arange(24.0).reshape(4, 6) / 8 - 1.5, torch.arange(30.0).reshape(6, 5) / 16 - 1
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("functions") / "mine.py"
    place.write_text(SOURCE)
    return place


@pytest.fixture(scope="module")
def kept(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel that was made and kept, and beside it what was answered."""
    place = tmp_path_factory.mktemp("kept")
    found = functions.read(path, "small")
    told = {"backend": "cpu", "machine": saved.machine(open_backend("cpu")), "shapes": {"x": [4, 6], "weight": [6, 5]},
            "dtype": "float32", "environment": {}, "made_at": ""}  # fmt: skip
    arguments = SimpleNamespace(tune=False, output=place / "kernel")
    answer = command._made(found, open_backend("cpu"), arguments, told)  # type: ignore[arg-type]
    (place / "answer.json").write_text(json.dumps(answer))
    return place / "kernel"


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("layer", (), "takes zork by keyword"),
        ("number", (), "number is no plain function"),
        ("zork", (), "zork is not in the file.*branches, draws, fails"),
        ("small", ("x=4x6",), "needs an input for weight"),
        ("small", ("x=4x6", "y=2"), "no parameter 'y'; it has: times, weight, x"),
        ("small", ("x=4by6",), "say NAME=64x64"),
        ("small", ("x=4x6:int3",), "types: float32"),
        ("small", ("x=99999x99999", "weight=1"), r"more than 2\^31 elements"),
    ],
)
def test_what_cannot_be_asked_for_is_said(path: Path, name: str, given: tuple[str, ...], why: str) -> None:
    with pytest.raises(NoFunction, match=why):
        functions.read(path, name, given)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def f(x): return x", r"has no function inputs\(\).*--input x=64x64"),
        ("def f(x): return x\ndef inputs(): return 1, 2", "returns 2 values and f takes 1"),
        ("def f(x): return x\ndef inputs(): return {'y': 1}", "has no parameter 'y'"),
        ("def f(x): return x\ndef inputs(): return 1", "gets no tensor"),
        ("def f(x): return x\ndef inputs(): return 1 / 0", "fails: ZeroDivisionError: division by zero"),
        ("def f(x) return x", "cannot be run: SyntaxError"),
        ("import zork", "cannot be run: ModuleNotFoundError: No module named 'zork'"),
        ("raise SystemExit(3)", "cannot be run: SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, source: str, why: str) -> None:
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(NoFunction, match=why):
        functions.read(tmp_path / "mine.py", "f")


def test_names_of_functions() -> None:
    assert functions.named("a/b.py:f") == (Path("a/b.py"), "f")
    ours, name = functions.named("mla_prolog")
    assert (ours, name) == (Path(kernels.__file__).parent / "mla_prolog.py", "mla_prolog")
    for text in ("b.py", "b.py:", ":f", "b.py:f g", "mla"):
        with pytest.raises(NoFunction, match="names no function: say FILE.py:NAME"):
            functions.named(text)
    with pytest.raises(NoFunction, match="there is no file"):
        functions.module(Path("zork.py"))


def test_inputs_of_shapes_are_the_same_every_time(path: Path) -> None:
    one, two = (functions.read(path, "small", ["x=4x6:bf16", "weight=6x5:bf16"]) for _ in range(2))
    assert [each.dtype for each in one.batch()] == [torch.bfloat16, torch.bfloat16]
    assert all(torch.equal(a, b) for a, b in zip(one.batch(), two.batch(), strict=True))
    assert one.names() == ("x", "weight") and one.values["times"] == 2.0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("draws", "draws random numbers"), ("writes", "writes into its input x"), ("fails", "fails does not run: mat1"),
        ("text", "text does not run"), ("infinite", "infinite gives for its inputs is not finite"),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_judged_is_refused(path: Path, name: str, why: str) -> None:
    with pytest.raises(CannotRun, match=why):
        Truths(functions.read(path, name), False)


def test_a_branch_on_a_value_is_named_by_its_line(path: Path) -> None:
    line = SOURCE.splitlines().index("    if y.sum() > 0:") + 1
    with pytest.raises(
        inductor.NotOneGraph, match=rf"mine.py:{line}: branches is not one graph: .*\(if y.sum\(\) > 0:\)"
    ):
        inductor.made(functions.read(path, "branches"), Choices())


def test_what_runs_as_it_is_written_is_counted_without_views(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def f(x, w, b): return torch.relu(torch.addmm(b, x.t().reshape(3, 4), w.view(4, 5)).transpose(0, 1) + 1)\n"
        "def inputs(): return torch.ones(3, 4), torch.ones(20), torch.ones(5)\n"
    )
    found = functions.read(tmp_path / "mine.py", "f")
    assert inductor.before(found) == ["clone", "addmm", "add", "relu"]  # reshape of a transposition copies
    assert inductor.products(found) == 3 * 4 * 5


PYTHON = """
one = async_compile.cpp_pybinding(['float*'], r'''
void kernel(float* x) { one(x); }
''')

two = async_compile.triton('two', '''
@triton.jit
def two(x): pass
''')
def call(args):
    # Original ATen: [aten.add]
    one(buf0)
    two.run(buf1, 4, stream=stream0)
    extern_kernels.mm(buf0, buf1, out=buf2)
    one(buf3)
"""
WRAPPED = """
extern "C"  void  cpp_fused_0(const float* x)
{
    x[0];
}
void entry() {
    cpp_fused_0((const float*)(x));
}
"""


def test_kernels_in_what_inductor_writes() -> None:
    assert inductor.kernels_of(PYTHON) == {
        "one": "void kernel(float* x) { one(x); }", "two": "@triton.jit\ndef two(x): pass",
    }  # fmt: skip
    assert inductor.launches(PYTHON) == 3
    assert list(inductor.kernels_of(WRAPPED)) == ["cpp_fused_0"]
    assert inductor.launches(WRAPPED) == 1


def test_the_digest_is_of_the_code_and_not_of_its_comments() -> None:
    made = Made(print, Choices(), PYTHON, 3, 1, 0.0)
    other = dataclasses.replace(made, code=PYTHON.replace("[aten.add]", "[aten.mul]"))
    wrong = dataclasses.replace(made, code=PYTHON.replace("buf3", "buf2"))
    assert made.digest() == other.digest() != wrong.digest()


def test_rounding_is_allowed_and_a_small_mistake_is_not(path: Path) -> None:
    found = functions.read(path, "small")
    truths = Truths(found, False)
    assert truths.errors(lambda x, w, t: torch.relu((x.double() @ w.double()).float()) * t).ok
    wrong = truths.errors(lambda x, w, t: torch.relu(x @ w) * t * (1 + 1e-4))
    assert not wrong.ok and wrong.where == "captured" and "1e-04" in str(wrong.why).replace("0.0001", "1e-04")
    assert not truths.errors(lambda x, w, t: torch.relu(x @ w).double() * t).ok
    assert not truths.errors(lambda x, w, t: (x @ w) * t).ok


def test_candidates_are_the_defaults_then_single_choices_then_others(path: Path) -> None:
    every = list(tuning.space(functions.read(path, "small"), "cpu", 4))
    assert every[0] == Choices() and len(set(map(repr, every))) == len(every)
    few = tuning.drawn(every, 6)
    assert few[0] == Choices() and len(few) == 6
    assert [len(each.told()) == 1 for each in few[1:3]] == [True, True] and len({repr(each) for each in few}) == 6
    assert few == tuning.drawn(every, 6) != tuning.drawn(every, 6, seed=1)
    device = list(tuning.space(functions.read(path, "small"), "cuda:0", 4))
    assert {name for each in device for name in each.options} == {
        "max_autotune", "coordinate_descent_tuning", "triton.native_matmul", "triton.persistent_reductions",
        "epilogue_fusion",
    }  # fmt: skip
    assert {each.products for each in every} == {"library", "loops"}


def test_the_slower_half_goes_until_one_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of known lengths: every fourth is disturbed, and that must not matter."""
    lengths, calls = {0: 400, 1: 100, 2: 300, 3: 200, 4: 500}, dict.fromkeys(range(5), 0)
    left = {place: Made(print, Choices({"place": place}), "", 1, 0, 0.0) for place in lengths}
    monkeypatch.setattr(tuning, "_load", lambda function, call: call)

    def bite(backend: Any, load: Any, clock: str) -> list[int]:
        calls[load] += 1
        return [lengths[load], lengths[load], lengths[load], 90_000]

    monkeypatch.setattr(tuning, "bite", bite)
    made = {place: dataclasses.replace(each, call=place) for place, each in left.items()}  # type: ignore[arg-type]
    best, levels = tuning.halved(functions.read(path, "small"), open_backend("cpu"), made)
    assert best == 1
    assert levels == {0: [400], 1: [100, 100], 2: [300], 3: [200, 200], 4: [500]}
    assert calls == {0: 3, 1: 3 + 6, 2: 3, 3: 3 + 6, 4: 3}


@needs_compiler
def test_a_kernel_is_right_counted_and_kept(kept: Path) -> None:
    answer = json.loads((kept.parent / "answer.json").read_text())
    assert (answer["status"], answer["operators"]) == ("complete", ["mm", "relu", "mul"])
    assert (answer["generated"], answer["library"]) == (1, 1)
    assert answer["errors"]["ok"] and answer["errors"]["of_rewrite"] < 1e-6
    assert "#pragma omp" in (kept / "kernel_0.cpp").read_text() or "void" in (kept / "kernel_0.cpp").read_text()
    kernel = saved.read(kept, open_backend("cpu"))
    x, weight = kernel.function.batch()
    wanted = torch.relu(x.double() @ weight.double()) * 2
    found = kernel.made().call(x, weight, 2.0)
    assert float((found.double() - wanted).norm() / wanted.norm()) < 1e-6


@needs_compiler
def test_a_matrix_product_as_loops_is_one_kernel(path: Path) -> None:
    found = functions.read(path, "small")
    made = inductor.made(found, Choices({}, inductor.LOOPS))
    assert (made.generated, made.library) == (1, 0)
    assert Truths(found, False).errors(made.call).ok


@needs_compiler
def test_a_kept_kernel_is_measured_like_a_workload(kept: Path) -> None:
    work = saved.AsWorkload(kept)
    shape = work.SHAPES["small"]
    assert shape == {"x_0": 4, "x_1": 6, "weight_0": 6, "weight_1": 5} and work.DTYPES == ("float32",)
    truth = work.build("reference", shape, "float64", "cpu").step()
    assert truth.dtype == torch.float64
    for variant in work.VARIANTS:
        found = work.build(variant, shape, "float32", "cpu").step()
        assert found.dtype == torch.float32 and float((found - truth).norm() / truth.norm()) < 1e-6
    with pytest.raises(ValueError, match="compiled for its own shapes only"):
        work.build("kept", {**shape, "x_0": 5}, "float32", "cpu")


@needs_compiler
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"torch": "2.0.0"}, "was made with torch 2.0.0 and here it is 2"),
        ({"device": "Zork 9"}, "was made with device Zork 9"),
        ({"triton": "3.9.0"}, "was made with triton 3.9.0 and here it is None"),
    ],
)
def test_elsewhere_a_kept_kernel_is_refused(kept: Path, tmp_path: Path, change: dict[str, str], why: str) -> None:
    place = Path(shutil.copytree(kept, tmp_path / "kernel"))
    told = json.loads((place / saved.NAME).read_text())
    (place / saved.NAME).write_text(json.dumps({**told, "machine": {**told["machine"], **change}}))
    with pytest.raises(saved.NoKernel, match=why):
        saved.read(place, open_backend("cpu"))


@needs_compiler
def test_a_kept_kernel_that_was_changed_is_refused(kept: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(kept, tmp_path / "kernel"))
    told = (place / saved.NAME).read_text()
    (place / saved.NAME).write_text(json.dumps({**json.loads(told), "code_sha256": "0" * 64}))
    with pytest.raises(saved.NoKernel, match="writes other code now than was judged"):
        saved.read(place, open_backend("cpu")).made()
    (place / saved.NAME).write_text(told)
    (place / saved.SOURCE).write_text(SOURCE.replace("relu", "tanh"))
    with pytest.raises(saved.NoKernel, match="has changed since it was judged"):
        saved.read(place, open_backend("cpu"))
    shutil.copy(kept / saved.SOURCE, place / saved.SOURCE)
    (place / saved.GIVEN).write_bytes(b"PK\x03\x04 no tensors")
    with pytest.raises(saved.NoKernel, match="cannot be read"):
        saved.read(place, open_backend("cpu"))
    for text in ("", "[]", '{"format": 99}', '{"format": 1}'):
        (place / saved.NAME).write_text(text)
        with pytest.raises(saved.NoKernel, match="holds no kernel|of another release"):
            saved.about(place)


def test_without_a_compiler_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotHere, match="no compiler is there: install g\\+\\+"):
        inductor.needs("cpu")
    with pytest.raises(NotHere, match="not for an Apple GPU"):
        inductor.needs("mps")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotHere, match="pip install triton"):
        inductor.needs("cuda:0")


ANSWER: dict[str, Any] = {
    "function": "f", "backend": "cpu", "machine": {"device": "Zork 9"}, "operators": ["mm", "relu"], "generated": 1,
    "library": 0, "status": "complete", "reason": None, "error_of_original": 1e-7, "directory": "kernel",
    "errors": {"of_rewrite": 2e-7, "allowed": 3e-6},
    "tuning": {
        "space": 72, "kept": "winner", "winner": {"cpp.simdlen": 256},
        "tries": [
            {"choices": {}, "why": None, "generated": 1, "library": 1, "errors": {"of_rewrite": 2e-7}, "rounds": [900]},
            {"choices": {"cpp.simdlen": 256}, "why": None, "generated": 1, "library": 0,
             "errors": {"of_rewrite": 2e-7}, "rounds": [1500, 1400]},
            {"choices": {"cpp.threads": 1}, "why": "it does not compile: zork", "generated": None, "library": None,
             "errors": None, "rounds": []},
        ],
        "against": {
            "written": {"said": "faster", "why": None, "ratio": 0.5, "low": 0.4, "high": 0.6, "pairs": 10,
                        "pairs_needed": None},
            "defaults": {"said": "cannot_tell", "why": "more_pairs", "ratio": 0.99, "low": 0.9, "high": 1.1,
                         "pairs": 10, "pairs_needed": 77},
        },
    },
}  # fmt: skip


def test_the_answer_in_both_languages() -> None:
    english, chinese = ("\n".join(verb.lines(ANSWER, lang)) for lang in ("en", "zh"))
    assert "runs 2 kernels: mm, relu" in english and "one generated kernel" in english
    assert "3 of 72" in english and "1 of them do not compile" in english
    rows = [line for line in english.splitlines() if line.startswith(("the defaults", "cpp."))]
    assert [row.split("  ")[0] for row in rows] == ["cpp.simdlen=256", "the defaults", "cpp.threads=1"]
    assert "0.500 [0.400, 0.600]" in english and "about 77 pairs would tell" in english
    assert "Kept: cpp.simdlen=256" in english and "保留：cpp.simdlen=256" in chinese
    for text in ("zork", "0.990", "npulens bench kernel"):
        assert text in english and text in chinese
    wrong = "\n".join(verb.lines({**ANSWER, "status": "failed", "reason": "it is wrong: zork"}, "zh"))
    assert "zork" in wrong and "npulens bench" not in wrong
    assert known("generated.kept_defaults")
