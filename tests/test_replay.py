"""`npulens replay`: which operator is meant, its call as data, what the capture shows beside it, and the script."""

from __future__ import annotations

import ast
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.device.kinds import Kind
from npulens.analysis.look.replay import Beside, Meant, of_run
from npulens.analysis.regression.change import Contribution
from npulens.analysis.run import Run
from npulens.analysis.work.replay import REFUSALS, Refused, mapped, recorded
from npulens.app import run_compare, run_replay
from npulens.app.cli import main
from npulens.app.text import i18n
from tests.hostile_names import NAMES
from tests.tablecase import connection
from tests.test_work_roofline import BF16, H100, kernel, operator

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"


def kind(**told: Any) -> Kind:
    empty = dict.fromkeys(Kind.__dataclass_fields__)
    return Kind(**{**empty, "name": "k", "memset": False, **told})


def ascend(op_type: str, inputs: str, types: str, outputs: str, given: str, formats: str | None = None) -> Kind:
    return kind(op_type=op_type, input_shapes=inputs, input_dtypes=types, input_formats=formats, output_shapes=outputs,
                output_dtypes=given)  # fmt: skip


def meant(spans: list[dict[str, Any]], name: str, shapes: str | None = None, **more: Any) -> Meant:
    con = connection({"spans": spans, "rank": {0: H100}, **more})
    views.install(con)
    return of_run(Run(con), name, shapes)


# ---- The call


def test_a_call_of_torch_goes_over_as_it_was() -> None:
    told = kind(
        op="aten::addmm", input_shapes="[[512],[8,256],[256,512],[],[]]",
        input_dtypes='["float","c10::Half","c10::BFloat16","Scalar","Scalar"]',
    )  # fmt: skip
    found = recorded(told, '["","","","1","0.5"]', "[[1],[256,1],[1,256],[],[]]")
    assert found.operator == "aten::addmm" and found.notes == ()
    assert found.inputs == (
        ("tensor", "float32", (512,), (1,)), ("tensor", "float16", (8, 256), (256, 1)),
        ("tensor", "bfloat16", (256, 512), (1, 256)), ("value", 1), ("value", 0.5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [("True", True), ("[1, 2]", (1, 2)), ("-100", -100), ("0.", 0.0), ("1e-05", 1e-5), ("inf", "inf"), ("none", "none"),
     ("[True, False]", (True, False)), ("", None)],
)  # fmt: skip
def test_plain_values(text: str, value: Any) -> None:
    told = kind(op="aten::f", input_shapes="[[2],[]]", input_dtypes='["float","Scalar"]')
    found = recorded(told, json.dumps(["", text]), None).inputs[1]
    assert found == (("nothing",) if value is None else ("value", value))


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "[1, [2]]", "[1, ...", "lambda: 0", "{'a': 1}", "'; import os; '", "(" * 5000, "9" * 20_000],
)
def test_a_value_that_is_none_is_refused(text: str) -> None:
    told = kind(op="aten::f", input_shapes="[[2],[]]", input_dtypes='["float","Scalar"]')
    with pytest.raises(Refused) as refused:
        recorded(told, json.dumps(["", text]), None)
    assert refused.value.reason == "odd_shapes"


def test_a_list_of_tensors_takes_its_type_from_the_others_and_says_so() -> None:
    told = kind(op="aten::_foreach_add_", input_shapes="[[[2,3],[4]],[5]]", input_dtypes='["TensorList","c10::Half"]')
    found = recorded(told, '["",""]', "[[[3,1],[1]],[1]]")
    assert found.inputs[0] == ("tensors", (("float16", (2, 3), (3, 1)), ("float16", (4,), (1,))))
    assert found.notes == ("list_types",)


def test_without_strides_tensors_lie_in_one_piece() -> None:
    told = kind(op="aten::relu", input_shapes="[[2,3,4]]", input_dtypes='["float"]')
    for strides in (None, "[[12,4]]", "[[12,4,-1]]", "{}", "[", '[["a","b","c"]]'):
        assert recorded(told, '[""]', strides).inputs == (("tensor", "float32", (2, 3, 4), (12, 4, 1)),)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (kind(op="aten::mm"), "no_shapes"), (kind(), "no_operator"), (kind(memset=True), "memset"),
        (kind(op="aten::mm", input_shapes='[["s0",4],[4,4]]', input_dtypes=BF16), "odd_shapes"),
        (kind(op="aten::mm", input_shapes="[[2,4],[4,4]]", input_dtypes='["float"]'), "odd_shapes"),
        (kind(op="aten::mm", input_shapes="[[2,4]]", input_dtypes='["Zork"]'), "no_types"),
        (kind(op="aten::cat", input_shapes="[[],[]]", input_dtypes='["TensorList","Scalar"]'), "list"),
        (kind(op="nccl:all_reduce", input_shapes="[[2]]", input_dtypes='["float"]'), "collective"),
        (kind(op="triton_poi_fused_add_0", input_shapes="[[2]]", input_dtypes='["float"]'), "generated"),
        (kind(op="Optimizer.step#Adam", input_shapes="[[2]]", input_dtypes='["float"]'), "odd_name"),
        (ascend("TransData", "2,3", "FLOAT", "3,2", "FLOAT"), "format"),
        (ascend("Conv2D", "2,3,4,4;4,3,3,3", "FLOAT;FLOAT", "2,4,2,2", "FLOAT"), "attributes"),
        (ascend("Zork", "2,3", "FLOAT", "3,2", "FLOAT"), "not_mapped"),
        (ascend("MatMulV2", "2,3;4,5", "FLOAT;FLOAT", "2,5", "FLOAT"), "do_not_fit"),
        (ascend("Add", "1,1,16,16;1,1,16,16", "FLOAT;FLOAT", "1,1,16,16", "FLOAT", "FRACTAL_NZ;FRACTAL_NZ"),
         "private_format"),
        (ascend("Transpose", "4,4", "FLOAT", "4,4", "FLOAT"), "attributes"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_again_says_why(told: Kind, why: str) -> None:
    with pytest.raises(Refused) as refused:
        recorded(told, None, None)
    assert refused.value.reason == why


def test_every_refusal_and_everything_beside_an_operator_has_its_words() -> None:
    told = {*REFUSALS, *mapped()[1].values()}
    assert all(i18n.known(f"replay.why_{name}") for name in told)
    assert {reason for reason in mapped()[1].values()} <= set(REFUSALS)


F = "float32"


@pytest.mark.parametrize(
    ("told", "operator_", "inputs"),
    [
        # a lies as it is, b transposed: 3 x 4 times 4 x 5, b in memory 5 x 4.
        (ascend("MatMulV2", "3,4;5,4", "DT_BF16;DT_BF16", "3,5", "DT_BF16"), "aten::mm",
         (("tensor", "bfloat16", (3, 4), (4, 1)), ("tensor", "bfloat16", (4, 5), (1, 4)))),
        (ascend("MatMulV3", "3,4;4,5;5", "FLOAT;FLOAT;FLOAT", "3,5", "FLOAT"), "aten::addmm",
         (("tensor", F, (5,), (1,)), ("tensor", F, (3, 4), (4, 1)), ("tensor", F, (4, 5), (5, 1)))),
        (ascend("Cast", "8", "FLOAT", "8", "FLOAT16"), "aten::_to_copy", (("tensor", F, (8,), (1,)), ("value", 5))),
        (ascend("Mul", "8,2;", "FLOAT16;FLOAT16", "8,2", "FLOAT16"), "aten::mul",
         (("tensor", "float16", (8, 2), (2, 1)), ("tensor", "float16", (), ()))),
        (ascend("Transpose", "4,1024,12", "FLOAT", "1024,4,12", "FLOAT"), "aten::clone",
         (("tensor", F, (1024, 4, 12), (12, 12288, 1)), ("value", 0))),
        (ascend("ReduceSum", "32,64,3025;2", "FLOAT;INT64", "64", "FLOAT"), "aten::sum",
         (("tensor", F, (32, 64, 3025), (193600, 3025, 1)), ("value", (0, 2)), ("value", False))),
        (ascend("ConcatD", "4,64;4,32", "FLOAT;FLOAT", "4,96", "FLOAT"), "aten::cat",
         (("tensors", ((F, (4, 64), (64, 1)), (F, (4, 32), (32, 1)))), ("value", 1))),
        (ascend("GatherV2", "100,8;4,7;1", "FLOAT;INT64;INT64", "4,7,8", "FLOAT"), "aten::embedding",
         (("tensor", F, (100, 8), (8, 1)), ("tensor", "int64", (4, 7), (7, 1)))),
    ],
)  # fmt: skip
def test_kernels_of_ascend_that_surely_are_an_operator(told: Kind, operator_: str, inputs: Any) -> None:
    found = recorded(told, None, None)
    assert (found.operator, found.inputs, found.mapped) == (operator_, inputs, True)


# ---- Which operator is meant

MM = operator(1, 0, "aten::mm", "[[4, 8], [8, 2]]", BF16, ["", ""])
WIDE = operator(11, 20, "aten::mm", "[[4, 8], [8, 6]]", BF16, ["", ""])


def test_names_that_mean_several_are_listed_longest_first() -> None:
    spans = [*MM, kernel(3, 10, 6, 2), *WIDE, kernel(13, 30, 9, 12)]
    found = meant(spans, "mm")
    assert found.replay is None and [(one.number, one.shapes) for one in found.choices] == [
        (1, "4,8;8,6"), (2, "4,8;8,2"),
    ]  # fmt: skip
    for name, shapes in (("aten::mm#2", None), ("mm", "4,8; 8,2"), ("mm", "[[4, 8], [8, 2]]"), ("mm", "2")):
        one = meant(spans, name, shapes).replay
        assert one is not None and one.choice.shapes == "4,8;8,2" and one.times.median_ns == 6_000
    assert meant(spans, "zork").choices == () and meant(spans, "zork").longest == ("mm",)
    assert len(meant(spans, "mm", "9,9").choices) == 2 and len(meant(spans, "mm#7").choices) == 2


def test_a_kernel_name_means_the_operator_that_launched_it() -> None:
    found = meant([*MM, kernel(3, 10, 6, 2, "sgemm"), kernel(4, 16, 1, 2, "reduce")], "reduce").replay
    assert found is not None and found.choice.operator == "aten::mm"
    assert (found.times.calls, found.times.median_ns, found.times.kernels) == (1, 7_000, 2.0)


def test_the_most_frequent_strides_count() -> None:
    spans: list[dict[str, Any]] = []
    for at, strides in enumerate(([[8, 1], [2, 1]], [[8, 1], [1, 8]], [[8, 1], [1, 8]])):
        host = operator(10 * at + 1, 20.0 * at, "aten::mm", "[[4, 8], [8, 2]]", BF16)
        host[0]["arg"] = {"args": json.dumps({"Concrete Inputs": ["", ""], "Input Strides": strides})}
        spans += [*host, kernel(10 * at + 3, 20 * at + 5, 2, 10 * at + 2)]
    found = meant(spans, "mm").replay
    assert found is not None and found.layouts == 2 and found.call is not None
    assert found.call.inputs[1] == ("tensor", "bfloat16", (8, 2), (1, 8)) and found.call.notes == ()


# ---- What the capture shows beside it


def beside(spans: list[dict[str, Any]], name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    found = meant(spans, "mm", **more).replay
    assert found is not None
    (one,) = [one for one in found.beside if one.name == name]
    return one.state, dict(one.values)


def calls(times: tuple[float, ...], before: str | None = None) -> list[dict[str, Any]]:
    """Calls of one product, 100 us apart; before each a kernel of another operator, where one is given."""
    spans: list[dict[str, Any]] = []
    for at, us in enumerate(times):
        begin = 100.0 * at
        if before is not None:
            spans += [*operator(1000 + 10 * at, begin, before, "[[4, 8], [4, 8], []]",
                                '["c10::BFloat16", "float", "Scalar"]'),
                      kernel(1002 + 10 * at, begin + 20, 3, 1001 + 10 * at, "copy_kernel")]  # fmt: skip
        host = operator(10 * at + 1, begin + 12, "aten::mm", "[[4, 8], [8, 2]]", BF16, ["", ""])
        spans += [*host, kernel(10 * at + 3, begin + 30, us, 10 * at + 2)]
    return spans


def test_a_cast_right_before_it() -> None:
    state, told = beside(calls((6, 6, 6, 6), "aten::copy_"), "conversion")
    assert state == "found" and told["conversion"] == "Cast"
    assert (told["calls"], told["of"], told["each_ns"]) == (4, 4, 3_000)
    assert beside(calls((6, 6, 6, 6), "aten::relu"), "conversion") == ("no", {})


def test_a_slow_first_call_and_slow_single_ones() -> None:
    assert beside(calls((9, 6, 6, 6)), "first") == ("found", {"first_ns": 9_000, "later_ns": 6_000})
    assert beside(calls((8.9, 6, 6, 6)), "first")[0] == "no"
    assert beside(calls((9, 6)), "first") == ("not_measured", {"calls": 2})
    assert beside(calls((6, 6, 12, 6)), "spread") == ("found", {"calls": 1, "of": 4, "usual_ns": 6_000})


def test_other_streams_at_the_same_time() -> None:
    spans = calls((8, 8, 8, 4, 4, 4))
    spans += [{"id": 900 + at, "kind": "kernel", "name": "other", "track": "s7", "at": 100 * at + 30, "for": 8}
              for at in range(3)]  # fmt: skip
    state, told = beside(spans, "contention")
    assert state == "found" and told == {"share": pytest.approx(24 / 36), "beside_ns": 8_000, "alone_ns": 4_000}
    assert beside(calls((8, 8, 8)), "contention") == ("no", {})


def test_a_clock_that_was_not_recorded_is_no_full_clock() -> None:
    assert beside(calls((6, 6, 6)), "clock") == ("not_measured", {})


# ---- The script


def script_of(spans: list[dict[str, Any]], name: str = "mm") -> str:
    found = meant(spans, name).replay
    assert found is not None
    return run_replay.script(found)


def held(text: str) -> dict[str, Any]:
    """The script's data, read without running it."""
    tree = ast.parse(text)
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }  # fmt: skip


def test_the_script_is_data_and_fixed_code() -> None:
    text = script_of(calls((9, 6, 6, 6)))
    data = held(text)
    assert data["OPERATOR"] == "aten::mm"
    assert data["INPUTS"] == [("tensor", "bfloat16", [4, 8], [8, 1]), ("tensor", "bfloat16", [8, 2], [2, 1])]
    assert {key: data["TRACE"][key] for key in ("calls", "min_ns", "median_ns", "max_ns", "backend", "flops")} == {
        "calls": 4, "min_ns": 6_000, "median_ns": 6_000, "max_ns": 9_000, "backend": "cuda", "flops": 128,
    }  # fmt: skip
    assert data["TRACE"]["reasons"] and len(text) < 2_500


def test_no_name_of_a_capture_becomes_code() -> None:
    """Whatever a kernel, a device or an operator is called, the code around the data stays the same."""
    found = meant([*MM, kernel(3, 10, 6, 2, "sgemm")], "mm").replay
    assert found is not None and found.call is not None
    fixed = _code(run_replay.script(found))
    for name in (*NAMES.values(), '"""\nimport os', "'''", "\\", "\\'", "\r\n# x", "\u2028x = 1", "{0}"):
        text = run_replay.script(replace(
            found, choice=replace(found.choice, kernel=name), device=name, run_id=name, backend=name,
            call=replace(found.call, operator=name, inputs=(("value", name),)),
            beside=(Beside("inside", "found", (("kernel", name), ("share", 0.5))),),
        ))  # fmt: skip
        assert text.isascii() and _code(text) == fixed
        assert held(text)["TRACE"]["device"] == name


def _code(text: str) -> list[str]:
    return [ast.dump(node) for node in ast.parse(text).body if not isinstance(node, ast.Assign)]


def test_hostile_operator_names_are_refused() -> None:
    for name in (*NAMES.values(), "aten::mm;import os", "aten::mm\n", "os.system::x", "aten::𝐦𝐦"):
        with pytest.raises(Refused):
            recorded(kind(op=name, input_shapes="[[2,2]]", input_dtypes='["float"]'), None, None)


# ---- The command


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("replay") / "store"
    ingest.load(SAMPLES / "cpu_train_step", home, label="train")
    return home


def run(store: Path, *words: str) -> Any:
    return CliRunner().invoke(main, ["replay", "train", *words, "--store", str(store)])


def test_the_command_lists_writes_and_prints(store: Path, tmp_path: Path) -> None:
    several = run(store, "mm")
    assert several.exit_code == 2 and "#1" in several.output and "512,8;8,256" in several.output
    target = tmp_path / "op.py"
    written = run(store, "mm#1", "-o", str(target))
    assert written.exit_code == 0 and str(target) in written.output
    data = held(target.read_text())
    assert data["INPUTS"] == [("tensor", "float32", [512, 8], [1, 512]), ("tensor", "float32", [8, 256], [256, 1])]
    printed = run(store, "mm#1", "-o", "-")
    assert target.read_text() in printed.output
    assert run(store, "mm#1", "-o", str(target)).exit_code == 0  # its own script may be written again
    chinese = run(store, "mm#1", "--lang", "zh")
    assert "采集中" in chinese.output and "未测得" in chinese.output


def test_json(store: Path) -> None:
    told = json.loads(run(store, "mm#1", "--json").output)
    assert told["call"]["operator"] == "aten::mm" and held(told["script"])["OPERATOR"] == "aten::mm"
    assert {"name", "state"} <= told["beside"][0].keys() and told["times"]["calls"] == 3
    several = json.loads(run(store, "mm", "--json").output)
    assert [one["number"] for one in several["choices"]] == list(range(1, len(several["choices"]) + 1))


def test_bad_input_is_one_sentence(store: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "train.py"
    theirs.write_text("import torch\n")
    for words in (("zork",), ("mm#1", "-o", str(theirs)), ("mm#1", "-o", str(tmp_path / "no" / "op.py"))):
        result = run(store, *words)
        said = [line for line in result.output.splitlines() if line.startswith("npulens: ")]
        assert result.exit_code == 2 and len(said) == 1 and "Traceback" not in result.output
    assert theirs.read_text() == "import torch\n"


def test_compare_names_the_script_of_each_changed_kernel(store: Path, tmp_path: Path) -> None:
    """Each command of the comparison means one operator or several, and writes a script where it means one."""
    for name in ("cpu_conv_unfused", "cpu_conv_folded"):
        ingest.load(SAMPLES / name, store, label=name)
    words = ["compare", "cpu_conv_unfused", "cpu_conv_folded", "--store", str(store)]
    told = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    commands = [one["replay"] for one in told["contributions"] if one["kind"] == "kernel" and one["delta_ns"]]
    text = CliRunner().invoke(main, words).output
    assert commands and all(command in text for command in commands)
    for at, command in enumerate(commands):
        program, *rest = shlex.split(command)
        assert (program, rest[-2:]) == ("npulens", ["-o", "op.py"])
        target = tmp_path / f"{at}.py"
        result = CliRunner().invoke(main, [*rest[:-1], str(target), "--store", str(store)])
        assert result.exit_code == 0 and held(target.read_text())["INPUTS"]
    assert all(told["head"].startswith(shlex.split(command)[2]) for command in commands)


def test_a_kernel_that_is_gone_is_replayed_from_base() -> None:
    gone = Contribution("kernel", "k'; rm -rf /", "4,8;8,2", "", 5, 0, 1, 0, "gone")
    assert run_compare.replayed(gone, ("b" * 24, "h" * 24)) == (
        f"npulens replay {'b' * 12} 'k'\"'\"'; rm -rf /' --shapes '4,8;8,2' -o op.py"
    )
    assert f" {'h' * 12} " in str(run_compare.replayed(replace(gone, state="time"), ("b" * 24, "h" * 24)))
    for none in (replace(gone, kind="gap"), replace(gone, what="a\nb"), replace(gone, factor=0.1)):
        assert run_compare.replayed(none, ("b", "h")) is None
