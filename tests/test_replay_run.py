"""What a replay script runs: the overload, the numbers, the check against float64, the verdict, the script itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.replay.filled import filled, result_bytes, sizes
from npulens.collectors.replay.instead import instead
from npulens.collectors.replay.run import _verdict, main, prepared
from npulens.collectors.replay.schema import CannotReplay, choose
from tests.replay.check import calls_of, ran, recorded, same, scripts

torch = pytest.importorskip("torch")

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
ROOT = SAMPLES.parent
NOTHING = ("nothing",)


def t(shape: tuple[int, ...], kind: str = "float32", strides: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    lies = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    return ("tensor", kind, list(shape), list(lies if strides is None else strides))


def v(value: Any) -> tuple[Any, ...]:
    return ("value", value)


def many(*tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    return ("tensors", [one[1:] for one in tensors])


@pytest.mark.parametrize(
    ("name", "inputs", "overload", "written"),
    [
        ("aten::addmm", [t((3,)), t((2, 4)), t((4, 3)), v(1), v(1)], "", []),
        ("aten::add", [t((2, 3)), t((3,)), v(1)], "Tensor", []),
        ("aten::add", [t((2, 3)), v(2), v(1)], "Scalar", []),
        ("aten::add", [t((2, 3)), t((2, 3)), v(1), t((2, 3))], "out", ["out"]),
        ("aten::add_", [t((2, 3)), t((2, 3)), v(2)], "Tensor", ["self"]),
        ("aten::div", [t((2, 3)), t((2, 3)), v("floor")], "Tensor_mode", []),
        ("aten::cat", [many(t((2, 3)), t((4, 3))), v(0)], "", []),
        ("aten::sum", [t((2, 3), "bfloat16"), v((0,)), v(True), NOTHING], "dim_IntList", []),
        ("aten::sum", [t((2, 3)), NOTHING], "", []),
        ("aten::pow", [t((2, 3)), v(2)], "Tensor_Scalar", []),
        ("aten::where", [t((2, 3), "bool"), t((2, 3)), t((2, 3))], "self", []),
        ("aten::masked_fill_", [t((2, 3)), t((2, 3), "bool"), v("-inf")], "Scalar", ["self"]),
        ("aten::_foreach_add_", [many(t((2, 3)), t((4,))), v(1.0)], "Scalar", ["self"]),
        ("aten::arange", [v(2), v(9), NOTHING, NOTHING, NOTHING, NOTHING], "start", []),
        ("aten::native_layer_norm", [t((2, 8)), v((8,)), NOTHING, NOTHING, v(1e-5)], "", []),
        ("aten::convolution", [t((1, 3, 8, 8)), t((4, 3, 3, 3)), NOTHING, v((1, 1)), v((1, 1)), v((1, 1)), v(False),
                               v((0, 0)), v(1)], "", []),
    ],
)  # fmt: skip
def test_the_overload_that_was_called(name: str, inputs: list[Any], overload: str, written: list[str]) -> None:
    chosen = choose(name, inputs)
    assert (chosen.overload, [one.name for one in chosen.arguments if one.written]) == (overload, written)
    filled(chosen, 0).call()()  # and it can be called


def test_an_older_and_a_newer_torch_than_this_one() -> None:
    newer = [t((2, 4)), t((4, 3)), NOTHING, NOTHING]  # arguments that this torch does not know were left out
    assert choose("aten::mm", newer).overload == ""
    older = choose("aten::gelu", [t((2, 4))])
    assert older.defaults == ("approximate",)


@pytest.mark.parametrize(
    ("name", "inputs", "word"),
    [
        ("aten::nope", [t((2, 2))], "has no operator"), ("os::system", [v("ls")], "has no operator"),
        ("aten::mm; import os", [], "is no operator"), ("aten::mm\n", [], "is no operator"), ("", [], "is no operator"),
        ("aten::_𝐦𝐦", [], "is no operator"), ("prim::Print", [t((2,))], "does not run alone"),
        ("c10d::allreduce_", [many(t((2,)))], "does not run alone"),
        ("aten::from_file", [v("x")], "does not run alone"),
        ("aten::mm", [t((2, 2))], "no overload"), ("aten::mm", [t((2, 2)), v("rm -rf /")], "no overload"),
        ("aten::gather", [t((2, 2)), NOTHING, t((2, 2), "int64"), NOTHING], "dim of aten::gather was not recorded"),
        ("vllm::moe_forward", [t((2, 2))], "vllm, which is not here"),
        ("aten::relu", [t((2, 2), "float3")], "no type"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_one_sentence(name: str, inputs: list[Any], word: str, capsys: Any) -> None:
    with pytest.raises(CannotReplay, match=word):
        prepared(name, inputs, "cpu")
    assert main(name, inputs, {}, ["--device", "cpu", "--once"]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and said.err.isascii() and not said.out


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("aten::mm", [t((1 << 40, 4)), t((4, 2))]), ("aten::zeros", [v((10**12,)), *[NOTHING] * 4]),
        ("aten::mul", [t((1 << 20, 1)), t((1, 1 << 22))]), ("aten::arange", [v(10**13), *[NOTHING] * 4]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_it_is_made(name: str, inputs: list[Any], capsys: Any) -> None:
    assert main(name, inputs, {}, ["--device", "cpu", "--once"]) == 2
    assert "GB are free" in capsys.readouterr().err


def test_bytes_before_anything_is_drawn() -> None:
    # 3 x 4 of 2 bytes that begin every 10 values: the last lies at 2 * 10 + 3.
    assert sizes([t((3, 4), "float16", (10, 1)), many(t((2,), "int64")), v(1), t((5, 0))]) == 48 + 16
    assert result_bytes(choose("aten::mul", [t((100, 1)), t((1, 50))])) == 100 * 50 * 4


# ---- The numbers


def held(name: str, *inputs: Any) -> dict[str, Any]:
    """The arguments of a call as the operator sees them."""
    chosen = choose(name, inputs)
    found = filled(chosen, 0)
    seen = [[each.view for each in one] if isinstance(one, list) else getattr(one, "view", one) for one in found.held]
    return dict(zip((one.name for one in chosen.arguments), seen, strict=True))


def test_tensors_lie_in_memory_as_they_were() -> None:
    told = held("aten::addmm", t((3,)), t((2, 4), strides=(0, 1)), t((4, 3), strides=(1, 4)), v(1), v(1))
    assert (told["mat1"].shape, told["mat1"].stride()) == ((2, 4), (0, 1)) and torch.equal(*told["mat1"])
    assert told["mat2"].stride() == (1, 4) and not told["mat2"].is_contiguous()
    assert held("aten::relu", t((0, 3)))["self"].numel() == 0 and held("aten::relu", t(()))["self"].dim() == 0


@pytest.mark.parametrize(
    ("name", "inputs", "argument", "below"),
    [
        ("aten::embedding", [t((7, 4)), t((500,), "int64"), v(-1), v(False), v(False)], "indices", 7),
        ("aten::gather", [t((3, 5)), v(1), t((3, 400), "int64"), v(False)], "index", 5),
        ("aten::gather", [t((3, 5)), v(-2), t((400, 5), "int64"), v(False)], "index", 3),
        ("aten::nll_loss_forward", [t((300, 10)), t((300,), "int64"), NOTHING, v(1), v(-100)], "target", 10),
        ("aten::embedding_dense_backward", [t((300, 4)), t((300,), "int64"), v(9), v(-1), v(False)], "indices", 9),
        ("aten::index_select", [t((3, 5)), v(0), t((300,), "int32")], "index", 3),
    ],
)  # fmt: skip
def test_places_lie_in_range_and_use_it(name: str, inputs: list[Any], argument: str, below: int) -> None:
    places = held(name, *inputs)[argument]
    assert int(places.min()) == 0 and int(places.max()) == below - 1


def test_numbers_that_the_operator_can_take() -> None:
    assert float(held("aten::log", t((1000,)))["self"].min()) > 0
    norm = held("aten::native_batch_norm", t((2, 8, 4)), t((8,)), t((8,)), t((8,)), t((8,)), v(False), v(0.1), v(1e-5))
    assert float(norm["running_var"].min()) > 0 and float(norm["running_mean"].min()) < 0
    assert float(held("aten::div", t((1000,)), t((1000,)))["other"].min()) > 0
    assert int(held("aten::floor_divide", t((99,), "int64"), t((99,), "int64"))["other"].min()) >= 1
    assert set(held("aten::where", t((99,), "bool"), t((99,)), t((99,)))["condition"].tolist()) == {True, False}
    assert float(held("aten::bernoulli", t((99,)), NOTHING)["self"].max()) < 1


def test_the_same_seed_gives_the_same_numbers() -> None:
    chosen = choose("aten::mm", [t((4, 4)), t((4, 4))])
    one, two, other = (filled(chosen, seed).held[0].view for seed in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_a_form_that_every_device_has() -> None:
    """Heads of the inner form come third; the other form sees the same memory with heads second."""
    inputs = [t((2, 16, 3, 8)), t((2, 16, 3, 8)), t((2, 16, 3, 8)), NOTHING, NOTHING, v(16), v(16), v(0.0), v(True),
              v(False), v(0.5), NOTHING, NOTHING, NOTHING, NOTHING]  # fmt: skip
    flash = choose("aten::_flash_attention_forward", inputs)
    other = instead(flash, "cpu")
    assert other.name == "aten::scaled_dot_product_attention"
    assert other.arguments[0].recorded == ("tensor", "float32", [2, 3, 16, 8], [384, 8, 24, 1])
    assert {one.name: one.recorded[1] for one in other.arguments if one.recorded[0] == "value"} == {
        "dropout_p": 0.0, "is_causal": True, "scale": 0.5,
    }  # fmt: skip
    assert instead(choose("aten::mm", [t((2, 2)), t((2, 2))]), "cpu").name == "aten::mm"


# ---- Right or wrong


@pytest.fixture(scope="module")
def broken() -> Iterator[None]:
    """An operator that is wrong in float32 only, one that is off by rounding, one that gives a NaN."""
    library = torch.library.Library("replaytest", "DEF")
    for name, wrong in (("wrong", 1e-3), ("rounded", 1e-7), ("nan", float("nan"))):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, lambda x, by=wrong: x * (1 + by) if x.dtype == torch.float32 else x.clone(), "CPU")
    library.define("fails(Tensor x) -> Tensor")
    yield
    library._destroy()


@pytest.mark.parametrize(("name", "status", "ok"), [("wrong", 1, False), ("rounded", 0, True), ("nan", 1, False)])
def test_a_wrong_result_is_told(broken: None, name: str, status: int, ok: bool, capsys: Any) -> None:
    assert main(f"replaytest::{name}", [t((64,))], {}, ["--device", "cpu", "--once", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["numerics"]["ok"] is ok


@pytest.mark.parametrize(
    ("name", "inputs", "word"),
    [
        ("aten::dropout", [t((8, 8)), v(0.5), v(True)], "random"),
        ("aten::empty_like", [t((8, 8)), *[NOTHING] * 5], "not defined"),
        ("aten::mm", [t((8, 8)), t((8, 8))], "TFLOP"),
    ],
)
def test_what_cannot_be_compared_says_why(name: str, inputs: list[Any], word: str, capsys: Any) -> None:
    assert main(name, inputs, {"flops": 10**12}, ["--device", "cpu", "--once", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["numerics"]
    assert told["ok"] is None and word in told["why"]


def test_an_operator_that_writes_starts_anew_each_time(capsys: Any) -> None:
    call = prepared("aten::mul_", [t((64,)), v(2.0)], "cpu")
    before = call.held[0].view.clone()
    call.keep()
    call.call()()
    assert torch.equal(call.held[0].view, 2 * before)
    call.restore()
    assert torch.equal(call.held[0].view, before)
    # Doubled again and again it would be infinite after a thousand calls.
    assert main("aten::mul_", [t((64,)), v(2.0)], {}, ["--device", "cpu", "--seconds", "0.05", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["numerics"]["ok"] is True and told["series"]["hot"]["clock"] == "host"


# ---- The verdict


def series(low: int, median: int, high: int, disturbed: int = 0) -> dict[str, Any]:
    return {"low_ns": low, "median_ns": median, "high_ns": high, "calls": 100, "disturbed": disturbed}


@pytest.mark.parametrize(
    ("hot", "cold", "said"),
    [
        (series(950, 960, 970), series(1200, 1200, 1200), "as_slow_alone"),
        (series(880, 890, 905), None, "as_slow_alone"),
        (series(500, 510, 520), series(900, 920, 940), "cold_cache"),
        (series(500, 510, 520), series(600, 620, 640), "slower_in_the_job"),
        (series(500, 510, 520), None, "slower_in_the_job"),
        (series(500, 510, 520), series(900, 920, 940, 80), "slower_in_the_job"),
        (series(1150, 1200, 1300), None, "slower_alone"),
        (series(500, 510, 520, 80), series(900, 920, 940), "not_measured"),
    ],
)
def test_alone_beside_the_job(hot: dict[str, Any], cold: dict[str, Any] | None, said: str) -> None:
    told = {"series": {"hot": hot} | ({} if cold is None else {"cold": cold}), "device": "cuda", "device_name": "H100",
            "trace": {"median_ns": 1000, "backend": "cuda", "device": "H100"}}  # fmt: skip
    assert _verdict(told)["said"] == said
    assert _verdict(told).get("cold") in (None, cold is not None and not cold["disturbed"])
    assert _verdict({**told, "device_name": "A100"})["said"] == "other_device"
    assert _verdict({**told, "device_name": "H100-NVL"})["said"] == said
    assert _verdict({**told, "device": "cpu"})["said"] == "other_device"
    assert _verdict({**told, "trace": {"median_ns": None}})["said"] == "not_measured"


# ---- Scripts, run


def test_scripts_of_a_capture_run_with_its_shapes(tmp_path: Path) -> None:
    """What torch records of the replay is what the capture's own file holds, strides and values as well."""
    capture = SAMPLES / "cpu_train_step"
    written = scripts(capture, tmp_path / "store", tmp_path, 8)
    assert len(written) == 8
    known = calls_of(capture)
    seen = list(recorded([one.path for one in written]))
    assert [same(one, known, None) for one in seen] == ["equal"] * 8
    seen[0]["Input Strides"][0] = [1, 99]  # and another layout would be told
    assert same(seen[0], known, None) != "equal"
    answer = ran(written[0].path, ["--device", "cpu", "--once"])
    assert (answer["status"], answer["numerics"]["ok"]) == (0, True)


def test_a_script_runs_from_the_one_file_of_the_collectors(tmp_path: Path) -> None:
    """Where npulens is not installed: PYTHONPATH=npulens-collect.pyz."""
    from npulens.collectors import zipapp

    packed = tmp_path / zipapp.NAME
    zipapp.make(packed)
    (script,) = scripts(SAMPLES / "cpu_train_step", tmp_path / "store", tmp_path, 1)
    code = (
        "import sys, runpy; sys.path.insert(0, sys.argv[1]); sys.argv = sys.argv[2:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(packed), str(script.path), "--device", "cpu", "--once"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "results right" in done.stdout, done.stderr
