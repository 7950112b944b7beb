"""What a rewrite is predicted to take, the ledger of predictions, and what fits into a chip's buffer."""

from __future__ import annotations

import json
import math
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from npulens.analysis.device import buffer  # noqa: E402
from npulens.app import run_buffer, run_ledger  # noqa: E402
from npulens.collectors.backends.backend import open_backend  # noqa: E402
from npulens.collectors.lab import calibration, calls, chains, graph, ledger, theory  # noqa: E402
from npulens.collectors.lab.calibration import Calibration, Point, Rates  # noqa: E402
from npulens.collectors.lab.rewrites import rewrite  # noqa: E402
from npulens.collectors.lab.rewrites.rewrite import Asked  # noqa: E402
from tests.lab import ledger as bench  # noqa: E402
from tests.lab import wrong  # noqa: E402

EVAL = Asked(False, False, False, "cpu", True)


# What is heard.


def heard(function: Any, *given: Any) -> list[calls.Call]:
    return calls.heard(lambda batch: function(*batch), given)


def test_operations_and_bytes_are_those_of_the_shapes() -> None:
    x, weight, bias = torch.rand(4, 8), torch.rand(5, 8), torch.rand(5)
    (linear,) = heard(nn.functional.linear, x, weight, bias)
    assert (linear.name, linear.kind, linear.launches) == ("linear", "matmul", 1)
    assert linear.flops == 2 * 4 * 8 * 5
    assert linear.moved == 4 * (4 * 8 + 5 * 8 + 5 + 4 * 5)
    (relu,) = heard(torch.relu, x)
    assert (relu.kind, relu.launches, relu.flops, relu.moved) == ("elementwise", 1, 0, 2 * 4 * 4 * 8)


def test_a_convolution_counts_each_product_of_its_window() -> None:
    picture, weight = torch.rand(2, 3, 6, 6), torch.rand(7, 3, 3, 3)
    (found,) = heard(lambda x, w: nn.functional.conv2d(x, w, padding=1), picture, weight)
    assert found.kind == "convolution" and found.flops == 2 * (2 * 7 * 6 * 6) * (3 * 3 * 3)


def test_attention_counts_both_of_its_products() -> None:
    query, key, value = torch.rand(1, 2, 5, 8), torch.rand(1, 2, 7, 8), torch.rand(1, 2, 7, 8)
    (found,) = heard(nn.functional.scaled_dot_product_attention, query, key, value)
    assert found.kind == "attention" and found.flops == 2 * (2 * 5 * 7) * (8 + 8)


def test_a_view_launches_and_moves_nothing_and_what_is_expanded_lies_there_once() -> None:
    (view,) = heard(lambda x: x.transpose(0, 1), torch.rand(4, 8))
    assert (view.kind, view.launches, view.moved) == (calls.VIEW, 0, 0)
    assert calls.touched(torch.rand(3, 1).expand(3, 100)) == 12


def test_two_calls_are_the_same_only_with_the_same_shapes_strides_types_and_arguments() -> None:
    x = torch.rand(4, 4)
    made = [
        heard(lambda y, dim=dim: torch.softmax(y, dim), one)[0]
        for one, dim in ((x, 0), (x, 1), (torch.rand(4, 5), 1), (x.t(), 1), (x.bfloat16(), 1))
    ]
    assert len({call.key for call in made}) == len(made)
    assert heard(lambda y: torch.softmax(y, 1), torch.rand(4, 4))[0].key == made[1].key


def test_the_calls_that_are_timed_are_those_that_are_heard(tmp_path: Path) -> None:
    module, batch = wrong.models()["convolutions"]
    found = wrong.captured(module, batch, tmp_path)
    clock = calls.Clock(open_backend("cpu"))
    for model, given in ((found.program, found.batches[0]), (lambda batches: (module(*batches),), batch)):
        stamps = calls.timed(model, given, clock)
        assert len(stamps) == len(calls.heard(model, given)) > 8
        assert all(first <= last <= then for (first, last), (then, _) in zip(stamps, stamps[1:], strict=False))


def test_graphs_and_modules_are_heard_alike(tmp_path: Path) -> None:
    module, batch = wrong.models()["convolutions"]
    found = wrong.captured(module, batch, tmp_path)
    as_graph = [call.name for call in calls.heard(found.program, found.batches[0]) if call.launches]
    as_module = [call.name for call in calls.heard(lambda given: (module(*given),), batch) if call.launches]
    assert as_graph == as_module == [
        "conv2d", "batch_norm", "relu", "conv2d", "batch_norm", "silu", "add", "mean", "linear",
    ]  # fmt: skip


def test_a_call_is_made_again_with_numbers_of_its_own_and_its_own_indices() -> None:
    indices, table = torch.tensor([3, 1]), torch.rand(4, 2).t().contiguous().t()
    (call,) = heard(lambda i, t: nn.functional.embedding(i, t), indices, table)
    made = call.again()()
    assert made.shape == (2, 2) and bool((made >= 0.1).all()) and bool((made <= 1.1).all())


def test_indices_that_are_written_to_later_are_those_of_the_call() -> None:
    def looks_up_then_adds(indices: Any, table: Any) -> Any:
        found = nn.functional.embedding(indices, table)
        indices.add_(100)
        return found

    made = heard(looks_up_then_adds, torch.tensor([3, 1]), torch.rand(4, 2))
    assert made[0].again()().shape == (2, 2)


# What classes cost.


def points(rates: Rates, group: str = "elementwise") -> list[Point]:
    sizes = [(0, 10), (100, 50), (5_000, 1_000), (20_000, 90_000), (7, 3_000)]
    return [Point(group, flops, moved, rates.start + rates.flop * flops + rates.byte * moved) for flops, moved in sizes]


@pytest.mark.parametrize("rates", [Rates(1500.0, 0.02, 0.1), Rates(900.0, 0.0, 0.25), Rates(0.0, 0.0, 0.5)])
def test_the_three_numbers_of_a_class_are_found_again(rates: Rates) -> None:
    found = calibration.fitted(points(rates))
    assert found.start == pytest.approx(rates.start, rel=1e-6, abs=1e-6)
    assert found.flop == pytest.approx(rates.flop, rel=1e-6, abs=1e-9)
    assert found.byte == pytest.approx(rates.byte, rel=1e-6, abs=1e-9)
    assert calibration.left_out(points(rates)) < 1e-6


def test_no_number_of_a_class_is_below_zero_and_what_does_not_fit_is_an_error() -> None:
    odd = [Point("x", 0, size, ns) for size, ns in ((10, 100.0), (20, 50.0), (40, 400.0), (80, 60.0))]
    found = calibration.fitted(odd)
    assert min(found.start, found.flop, found.byte) >= 0
    assert calibration.left_out(odd) > 0.3
    assert calibration.left_out(odd[:2]) == 1.0  # nothing is known of what two points say


def test_other_types_and_channels_last_have_no_price_by_class() -> None:
    classes = Calibration(points(Rates(100.0, 0.0, 1.0)), "")
    x = torch.rand(2, 3, 4, 4)
    (plain,), (short,) = heard(torch.relu, x), heard(torch.relu, x.bfloat16())
    (last,) = heard(torch.relu, x.contiguous(memory_format=torch.channels_last))
    assert classes(plain) == pytest.approx(100.0 + 2 * 4 * x.numel())
    assert classes(short) is None and classes(last) is None
    assert classes(heard(lambda y: torch.fft.fft(y), x)[0]) is None


def test_the_grid_covers_every_class_that_has_prices() -> None:
    groups = set()
    for operator, shapes in calibration.grid():
        batch = tuple(torch.rand(shape) for shape in shapes)
        if sum(each.numel() for each in batch) < 100_000:
            groups |= {calibration.group(call) for call in heard(operator, *batch)}
    wanted = set(calls.CLASSES) - {"matmul", "convolution"} | {"matmul_small", "convolution", "convolution_thin"}
    assert groups >= wanted | set(calibration.OWN_CLASS) | {calls.VIEW}


def test_a_calibration_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    backend, made = open_backend("cpu"), []
    monkeypatch.setattr(calibration, "grid", lambda: iter([(torch.relu, ((4, 4),)), (torch.tanh, ((4, 4),))]))

    def price(call: calls.Call) -> float:
        made.append(call.name)
        return 250.0

    first = calibration.of(backend, price)
    assert made == ["relu", "tanh"] and calibration.of(backend, price).points == first.points and len(made) == 2
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text(kept.read_text()[:40])
    assert calibration.of(backend, price).points == first.points and len(made) == 4


# What is predicted.


def of_class(name: str, kind: str, moved: int, key: str = "") -> calls.Call:
    return calls.Call(name, kind, key or f"{name} {moved}", 1, 0, moved, (), False, lambda: lambda: None)


CONV, NORM = of_class("conv2d", "convolution", 1000), of_class("batch_norm", "norm", 400)
BIASED = of_class("conv2d", "convolution", 1000, "conv2d with a bias")


def seen(whole_ns: float, alone: dict[str, float], hollow_after_ns: float = 100.0) -> theory._Seen:
    """100 ns without its calls, 800 for a convolution and 200 for a norm within the run."""
    within = {CONV.key: 800.0, NORM.key: 200.0}
    return theory._Seen(1.0, [CONV, NORM], within, alone, whole_ns, 100.0, hollow_after_ns)


def guess(after: list[calls.Call], price: float | None, hollow_ns: float = 100.0) -> theory.Guess:
    """Every price is the same, and the way is known to be off by a fifth."""
    way = theory.Way(lambda call: price, lambda call: 0.2, lambda call: theory.LEAST_STRAY)
    return theory._guess([seen(1100.0, {}, hollow_ns)], [after], [way])[0]


def test_what_goes_is_worth_what_it_takes_and_what_comes_is_corrected_by_its_like() -> None:
    """The class says 400 for either convolution, and the one of the original takes 800: so will the other."""
    found = guess([BIASED], 400.0, 80.0)
    assert found.mid == pytest.approx((1100 - 800 - 200 + 800 - 20) / 1100)
    parts = (800 * theory.LEAST_STRAY, 200 * theory.STRAY + 20 / 4, 1100 * theory.RUN)
    reach = theory.WIDTH * math.hypot(*parts) / 1100
    assert (found.mid - found.low, found.high - found.mid) == pytest.approx((reach, reach))
    assert found.claimed


def test_what_is_made_alone_takes_more_within_the_run_as_its_like_does() -> None:
    """The original's convolution takes 800 within and 500 alone. The new one takes 600 alone: 960 or 900."""
    one = seen(1100.0, {CONV.key: 500.0, NORM.key: 150.0, BIASED.key: 600.0})
    found = theory._guess([one], [[BIASED, NORM]], [theory._alone(one)])[0]
    assert found.mid == pytest.approx((1100 - 800 + 930) / 1100)
    reach = theory.WIDTH * math.hypot(30 + 930 * theory.STRAY, 130 * theory.STRAY, 1100 * theory.RUN) / 1100
    assert found.high - found.mid == pytest.approx(reach)


def test_what_is_made_alone_and_has_no_like_takes_as_much_more_as_calls_do_here() -> None:
    """By amount 300 more for the convolution, 50 for the norm: 175, give or take 125. By share: 1.55 times as much."""
    soft = of_class("softmax", "softmax", 400)
    one = seen(1100.0, {CONV.key: 500.0, NORM.key: 150.0, soft.key: 225.0})
    found = theory._guess([one], [[CONV, NORM, soft]], [theory._alone(one)])[0]
    by_share = 225 * math.exp(0.8 * math.log(800 / 500) + 0.2 * math.log(200 / 150))
    assert found.mid == pytest.approx((1100 + (by_share + 400) / 2) / 1100)
    assert found.high - found.mid >= theory.WIDTH * 125 / 1100 * 0.999


def test_a_call_of_several_kernels_takes_more_for_each_of_them() -> None:
    """The norm of the original takes 50 more for one kernel, and a third more: 200 for four kernels, or 50 of 150."""
    whole = calls.Call("rms_norm", "norm", "rms_norm", 4, 0, 400, (), False, lambda: lambda: None)
    one = seen(1100.0, {CONV.key: 500.0, NORM.key: 150.0, whole.key: 150.0})
    found = theory._guess([one], [[CONV, whole]], [theory._alone(one)])[0]
    assert found.mid == pytest.approx((1100 - 200 + (350 + 200) / 2) / 1100)


def test_which_of_several_like_calls_goes_is_not_known() -> None:
    """Norms of 150 and 250 within the run: either may be the one that goes."""
    two = theory._Seen(1.0, [CONV, NORM, NORM], {CONV.key: 800.0, NORM.key: 200.0}, {}, 1300.0, 100.0, 100.0,
                       apart={NORM.key: 50.0})  # fmt: skip
    found = theory._guess([two], [[CONV, NORM]], [theory.Way(lambda _: None, lambda _: 0.0, lambda _: 0.0)])[0]
    assert found.mid == pytest.approx(1100 / 1300)
    assert found.high - found.mid == pytest.approx(
        theory.WIDTH * math.hypot(50 + 200 * theory.STRAY, 1300 * theory.RUN) / 1300
    )


def test_another_call_of_a_kind_that_is_there_already_takes_what_that_takes() -> None:
    one = seen(1100.0, {CONV.key: 500.0, NORM.key: 150.0})
    found = theory._guess([one], [[CONV, CONV, NORM]], [theory._alone(one)])[0]
    assert found.mid == pytest.approx((1100 + 800) / 1100)


def test_what_python_takes_from_call_to_call_goes_with_the_call() -> None:
    one = seen(1600.0, {})  # 500 are neither calls nor weights that are found: 250 a call
    assert (one.left_ns, one.between_ns) == (500.0, 250.0)
    found = theory._guess([one], [[CONV]], [theory.Way(lambda _: None, lambda _: 0.0, lambda _: 0.0)])[0]
    assert found.mid == pytest.approx((1600 - 200 - 250) / 1600)
    reach = theory.WIDTH * math.hypot(200 * theory.STRAY + 250 / 2, 1600 * theory.RUN) / 1600
    assert found.mid - found.low == pytest.approx(reach)


def test_a_shot_is_a_multiple_of_the_run_beside_it() -> None:
    """The machine is twice as fast in the second half; the call is a tenth of the run all the while."""
    runs = [1000.0, 1000.0, 500.0, 500.0]
    middle, off = theory._middle([100.0, 100.0, 50.0, 50.0], runs)
    assert (middle, off) == (pytest.approx(0.1), pytest.approx(0.0))
    # 0.08, 0.10, 0.11 and 0.12 of a run: the middle half is 0.01 wide, and four shots halve that.
    assert theory._middle([80.0, 100.0, 55.0, 60.0], runs) == (pytest.approx(0.11), pytest.approx(0.01 / 0.11 / 2))


def test_the_same_calls_take_the_same_and_nothing_is_claimed() -> None:
    found = guess([NORM, CONV], 400.0)
    reach = theory.WIDTH * theory.RUN
    assert (found.low, found.mid, found.high) == pytest.approx((1 - reach, 1.0, 1 + reach)) and not found.claimed


def test_what_is_unlike_anything_in_the_original_is_uncertain() -> None:
    """The class says 400 of what takes 800 and 200: by its share of time too low, and the norm too high."""
    soft = of_class("softmax", "softmax", 400)
    found = guess([CONV, soft], 400.0)
    usual = 0.8 * math.log(2) + 0.2 * math.log(0.5)
    apart = 0.8 * (math.log(2) - usual) + 0.2 * (usual - math.log(0.5))
    assert found.mid == pytest.approx((1100 - 200 + 400 * math.exp(usual)) / 1100)
    assert found.high - found.mid >= theory.WIDTH * 400 * math.exp(usual) * apart / 1100 and not found.claimed


@pytest.mark.parametrize(
    ("low", "mid", "high", "claimed"),
    [(0.8, 0.9, 0.98, True), (0.8, 0.95, 1.01, False), (1.1, 1.2, 1.3, True), (0.992, 0.995, 0.998, False)],
)
def test_a_gain_is_claimed_only_beyond_its_error_and_beyond_one_percent(
    low: float, mid: float, high: float, claimed: bool
) -> None:
    assert theory.Guess(low, mid, high).claimed is claimed


def test_folding_takes_the_launches_of_batchnorm_away_and_no_operation(tmp_path: Path) -> None:
    found = wrong.captured(bench.Tower(8).eval(), (torch.randn(1, 3, 8, 8),), tmp_path)
    classes = Calibration([
        *points(Rates(1000.0, 0.01, 0.1), "convolution"), *points(Rates(1000.0, 0.01, 0.1), "convolution_thin"),
    ], "")  # fmt: skip
    made = theory.Theory(found, open_backend("cpu"), classes, 2)
    model = rewrite.rewrite("fold").apply(graph.copied(found.program), EVAL).model
    said = theory.predicted(made, "fold", model)
    assert said["before"]["launches"] - said["after"]["launches"] == 4  # a tower has four of them
    assert said["before"]["flops"] == said["after"]["flops"] > 0
    assert (said["gone"], said["new"]) == (8, 4)
    assert said["guess"]["low"] <= said["guess"]["mid"] <= said["guess"]["high"]
    assert said["by_class"] is not None and said["clock"] == "cpu"
    json.dumps(said)
    assert theory.predicted(made, "compile", model)["why"] == {"name": "theory_compiled", "values": {}}


def test_a_program_without_its_calls_finds_its_weights_and_computes_nothing(tmp_path: Path) -> None:
    found = wrong.captured(bench.Tower(8).eval(), (torch.randn(1, 3, 8, 8),), tmp_path)
    hollow = theory._hollow(found.program)
    kinds = [node.op for node in hollow.graph.nodes]
    assert kinds.count("get_attr") == sum(node.op == "get_attr" for node in found.program.graph.nodes) > 0
    assert "call_function" not in kinds
    assert hollow(found.batches[0])[0] is found.batches[0][0]


def test_nothing_is_predicted_where_gradients_are_taken(tmp_path: Path) -> None:
    module, batch = wrong.models()["gated"]
    found = wrong.captured(module, batch, tmp_path, gradients=True)
    said = theory.predicted(theory.Theory(found, open_backend("cpu")), "sdpa", found.program)
    assert said["guess"] is None and said["why"]["name"] == "theory_gradients" and not said["claimed"]


# The ledger.


def line(mid: float, ratio: float, claimed: bool = True) -> dict[str, Any]:
    told = {"low": mid - 0.01, "mid": mid, "high": mid + 0.01, "claimed": claimed}
    return {
        "format": 1, "subject": "0" * 16, "module": "Net", "rewrite": "fold", "verdict": "faster", "machine": "m",
        "torch": "2", "predicted": told, "claimed": claimed, "by_class": told, "ratio": ratio,
        "low": ratio, "high": ratio,
    }  # fmt: skip


def test_sign_and_nearness_are_counted_of_what_was_claimed() -> None:
    lines = [
        line(0.80, 0.82),  # right, near in both
        line(0.80, 0.90),  # right, near in time, half of the gain
        line(0.50, 0.70),  # right, 40 % off in time
        line(0.90, 1.05),  # wrong sign, near in time
        line(0.70, 1.60, claimed=False),
        {**line(1.0, 1.0), "predicted": None, "claimed": False, "by_class": None},
    ]
    assert ledger.score(lines) == ledger.Score(6, 5, 4, right_sign=3, near_time=3, near_gain=1, against=1, apart=3)
    assert ledger.score(lines, "by_class") == ledger.Score(6, 5, 4, 3, 3, 1, 1, 3)
    # Gains of 0.15 to 0.25 are near to 0.2: the second interval reaches them, the third reaches 1.
    wide = [{**line(0.80, 0.90), "low": 0.84, "high": 0.96}, {**line(0.90, 1.05), "low": 0.99, "high": 1.11}]
    assert ledger.score(wide) == ledger.Score(2, 2, 2, right_sign=1, near_time=2, near_gain=0, against=0, apart=1)


def test_a_trial_becomes_a_line_of_the_clock_that_was_predicted() -> None:
    about = {"made_at": "now", "module": "Net", "device": "cpu", "environment": {"versions": {"torch": "2.13"}}}
    speed = {"clock": "host", "ratio": 0.9, "low": 0.8, "high": 1.0, "by_clock": {"cpu": [0.7, 0.6, 0.8]}}
    said = {"guess": {"low": 0.6, "mid": 0.7, "high": 0.8}, "clock": "cpu", "claimed": True, "why": None}
    found = ledger.entry("ab", about, {"rewrite": "fold", "verdict": "faster", "speed": speed, "predicted": said})
    assert found is not None and (found["ratio"], found["low"], found["high"]) == (0.7, 0.6, 0.8)
    assert found["torch"] == "2.13" and found["claimed"]
    assert ledger.entry("ab", about, {"rewrite": "fold", "verdict": "refused", "speed": None}) is None


def _adds(where: str, number: int) -> None:
    for each in range(50):
        ledger.add({**line(0.8, 0.8), "subject": f"{number}-{each}", "filler": "x" * 20_000}, Path(where))


def test_trials_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    where = tmp_path / "deep" / "ledger.jsonl"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.starmap(_adds, [(str(where), number) for number in range(4)])
    lines, lost = ledger.read(where)
    assert lost == 0 and {each["subject"] for each in lines} == {f"{a}-{b}" for a in range(4) for b in range(50)}


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    where = tmp_path / "ledger.jsonl"
    ledger.add(line(0.8, 0.8), where)
    with open(where, "a") as file:
        file.write('{"format": 1, "subj')
    ledger.add(line(0.9, 0.9), where)
    where.write_text(where.read_text() + '[1]\n{"format": 99}\n')
    lines, lost = ledger.read(where)
    assert [each["ratio"] for each in lines] == [0.8, 0.9] and lost == 3


def test_a_ledger_that_cannot_be_written_stops_no_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    ledger.add(line(0.8, 0.8), tmp_path / "file" / "ledger.jsonl")
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_ledger_is_told_with_its_scores(tmp_path: Path, lang: str) -> None:
    where = tmp_path / "ledger.jsonl"
    assert str(where) in "\n".join(run_ledger.lines(ledger.told(where), lang))
    ledger.add(line(0.8, 0.82), where)
    ledger.add({**line(0.8, 0.82), "predicted": None, "claimed": False, "module": "\x1b[31mred"}, where)
    said = "\n".join(run_ledger.lines(ledger.told(where), lang))
    assert "0.800 [0.790, 0.810]" in said and "0.820 [0.820, 0.820]" in said and "\x1b" not in said


# What fits into a buffer.


def chain(width: int, **more: Any) -> dict[str, Any]:
    """bias, LayerNorm and GELU in 16 bits: what comes and goes twice, one between, and a row in float32."""
    return {"width": width, "rows": 4096, "live": (2, 2, 2, 2, 2, 4), "fixed": (2 * width,), "by_row": 1, **more}


def test_a_chain_fits_is_split_or_cannot_be_done() -> None:
    size = 196608
    row = 14 * 8192  # 14 bytes an element
    assert buffer.fit(chain(8192), size) == buffer.Fit("fits", 1, 1, row + 2 * 8192)
    assert buffer.fit(chain(1024), size).rows == (size - 2048) // (14 * 1024) == 13
    assert 16 * 16384 > size >= 16 * 8192
    assert buffer.fit(chain(16384), size) == buffer.Fit("split", 2, 0, 16 * 8192)
    free = buffer.fit(chain(1_000_000, by_row=0), size)  # an element needs no other one of its row
    assert free.said == "fits" and free.parts > 1
    assert buffer.fit(chain(64, live=(4,) * 40), 1000).said == "cannot"  # forty blocks of 32 bytes are more
    assert buffer.fit(chain(16, rows=3), size).rows == 3


def test_every_tensor_begins_at_a_block() -> None:
    assert buffer.fit(chain(1, rows=1, fixed=()), 196608).tile_bytes == 6 * 32


def test_the_chips_are_those_whose_files_tell() -> None:
    sizes = {chip.name: chip.buffer_bytes for chip in buffer.chips()}
    assert sizes["Ascend910B3"] == 192 * 1024 and sizes["Ascend310P3"] == 256 * 1024 and len(sizes) > 20
    assert all(".ini" in chip.source for chip in buffer.chips())
    assert buffer.chip("910B3") == buffer.chip("Ascend910B3") is not None and buffer.chip("H100") is None


class Chained(nn.Module):
    """A residual around a product: what is added at the end needs what came before the product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(8), nn.Linear(8, 8)
        self.bias = nn.Parameter(torch.rand(8))

    def forward(self, x: Any) -> Any:
        y = torch.tanh(x + self.bias)
        return y + nn.functional.gelu(self.norm(self.layer(y)))


def test_chains_have_nothing_of_the_outside_between_them(tmp_path: Path) -> None:
    found = wrong.captured(Chained(), (torch.rand(4, 8),), tmp_path)
    made = {each.operators: each for each in chains.chains(found.program, found.batches[0])}
    assert set(made) == {("add", "tanh"), ("layer_norm", "gelu", "add")}
    first = made["add", "tanh"]
    assert (first.rows, first.width, first.by_row, first.fixed) == (4, 8, 0, (32,))
    # x + bias -> one, tanh(one) -> two: x, bias, one, and one, two pass through memory; fused x, bias and two.
    assert (first.moved, first.fused) == (4 * (32 + 8 + 32 + 32 + 32), 4 * (32 + 8 + 32))
    assert sorted(first.live) == [4, 4, 4]  # x twice and the sum; or the sum and the result twice
    assert made["layer_norm", "gelu", "add"].by_row == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_chips_are_told_with_their_source_and_that_nobody_verified_it(lang: str) -> None:
    told = {**chain(16384), "operators": ["add", "layer_norm", "gelu"], "moved": 3000, "fused": 1000}
    fit = buffer.fit(told, 196608)
    chip = {"chip": "Ascend910B3", "buffer_bytes": 196608, "source": "a file", "fits": [vars(fit)]}
    said = "\n".join(run_buffer.lines({"chains": [told], "chips": [chip]}, lang))
    assert "a file" in said and "4,096 x 16,384" in said and ("2" in said)
    assert ("Not verified" if lang == "en" else "未在芯片上验证") in said


def test_the_subjects_of_the_ledger_are_made_alike_every_time() -> None:
    (one, given), (two, _) = bench.made("tower_16"), bench.made("tower_16")
    assert all(bool((a == b).all()) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert math.prod(given[""].shape) == 2 * 3 * 32 * 32
