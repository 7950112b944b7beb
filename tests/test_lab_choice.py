"""Choosing a plan: the search finds the known best, padding and types are refused where wrong, gates decide."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens.analysis.device import bounding
from npulens.analysis.device.abilities import Model
from npulens.app import cli, run_choice
from npulens.app.text.i18n import LANGUAGES, known
from npulens.collectors.lab import engines, graph, judging, subject
from npulens.collectors.lab.choice import buckets
from npulens.collectors.lab.choice.halving import halved

pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from npulens.collectors.backends.backend import open_backend  # noqa: E402
from npulens.collectors.lab.choice import choosing, offers, plan, precision, shapes  # noqa: E402
from npulens.collectors.lab.choice.plan import Part  # noqa: E402
from npulens.collectors.lab.flat import Flat, taken_apart  # noqa: E402
from npulens.collectors.lab.gates import gate  # noqa: E402


def captured(
    module: nn.Module, batches: Sequence[Sequence[Any]], place: Path, calls: Sequence[int] | None = None
) -> subject.Subject:
    """A subject as the laboratory writes and reads it, with so many calls of each batch's shape."""
    module.eval()
    program = engines.capture(Flat(module, taken_apart(batches[0], {})), batches)
    counts = calls or [1] * len(batches)
    kinds = tuple(subject.Shape(shapes.shape_of(batch), n) for batch, n in zip(batches, counts, strict=True))
    about = subject.About(
        type(module).__name__, program.engine, False, False, "cpu", 1, (), kinds, sum(counts), 0, 0, program.dynamic,
        None,
    )  # fmt: skip
    subject.write(place, about, program.save, batches, [None] * len(batches))
    return subject.read(place)


# The search, on costs that are known.


class Machine:
    """Arms with a true level each, and noise that is the same in every run of the test."""

    def __init__(self, levels: Mapping[str, float], noise: float, seed: int) -> None:
        self.levels, self._noise, self._numbers = levels, noise, random.Random(seed)

    def measure(self, arms: Sequence[str], rounds: int) -> dict[str, list[float]]:
        return {arm: [self.levels[arm] + self._numbers.gauss(0, self._noise) for _ in range(rounds)] for arm in arms}


@pytest.mark.parametrize("seed", range(20))
def test_halving_finds_the_best_where_single_tries_do_not(seed: int) -> None:
    levels = {f"plan {place}": -0.03 * place for place in range(16)}
    machine = Machine(levels, 0.04, seed)
    found = halved(list(levels), machine.measure)
    assert found.ranking[0] in ("plan 15", "plan 14")  # 3 percent apart, measured 24 times and more
    assert sorted(found.ranking) == sorted(levels)
    assert found.rounds[found.ranking[0]] > found.rounds[found.ranking[-1]]


def test_single_tries_are_wrong_and_claim_too_much() -> None:
    """What the search is for: the same machine, one try each."""
    levels = {f"plan {place}": -0.03 * place for place in range(16)}
    wrong = claimed = 0.0
    for seed in range(200):
        once = {arm: ratios[0] for arm, ratios in Machine(levels, 0.2, seed).measure(list(levels), 1).items()}
        best = min(once, key=lambda arm: once[arm])
        wrong += best not in ("plan 15", "plan 14")
        claimed += once[best] - levels[best]
    assert wrong > 60 and claimed / 200 < -0.15


def test_halving_ends_when_time_is_up_and_takes_what_was_known() -> None:
    machine = Machine({"a": 0.0, "b": -0.5, "c": 0.5}, 0.0, 1)
    found = halved(["a", "b", "c"], machine.measure, 2, lambda: True, {"a": [0.0, 0.0]})
    assert found.ranking == ("b", "a", "c") and found.turns == ((3, 2),)
    assert found.rounds == {"a": 4, "b": 2, "c": 2}
    assert halved([], machine.measure).ranking == ()


def test_plans_are_put_together_from_parts_that_go_together() -> None:
    parts = {
        Part("compiler", "compile"): -0.3, Part("compiler", "freeze"): -0.4, Part("graph", "fold"): -0.1,
        Part("graph", "sdpa"): 0.1, Part("threads", "1"): -0.05,
    }  # fmt: skip
    found = plan.combined(parts, 100)
    assert found[0] == (Part("graph", "fold"), Part("compiler", "freeze"), Part("threads", "1"))
    assert all(len({part.name for part in each if part.kind == "compiler"}) <= 1 for each in found)
    # 4 sets of rewrites, 3 of compilers, 2 of threads, less the plan of nothing and the 5 of one part.
    assert len(found) == 4 * 3 * 2 - 6 and len(set(found)) == len(found)
    assert plan.combined(parts, 3) == found[:3]


# Sizes and padding.


@pytest.mark.parametrize("seed", range(30))
def test_edges_waste_the_least_of_all_that_could_be_chosen(seed: int) -> None:
    numbers = random.Random(seed)
    counts = {numbers.randrange(1, 200): numbers.randrange(1, 50) for _ in range(numbers.randrange(1, 9))}
    for most in range(1, 5):
        sizes = sorted(counts)
        ways = [(*cut, sizes[-1]) for n in range(min(most, len(sizes)))
                for cut in itertools.combinations(sizes[:-1], n)]  # fmt: skip
        work = {way: sum(n * min(at for at in way if at >= size) for size, n in counts.items()) for way in ways}
        found = buckets.edges(counts, most)
        assert found in work and work[found] == min(work.values())
        real = sum(size * n for size, n in counts.items())
        assert buckets.padded(counts, found) == pytest.approx(work[found] / real - 1)


class Masked(nn.Module):
    """Attention over positions; the mask says 1 for those that count, or 1 for those that do not."""

    def __init__(self, hides: bool) -> None:
        super().__init__()
        self.words, self.out, self.hides = nn.Embedding(20, 8), nn.Linear(8, 4), hides

    def forward(self, words: Any, mask: Any) -> Any:
        x = self.words(words)
        hidden = mask if self.hides else mask == 0
        scores = (x @ x.mT).masked_fill(hidden[:, None, :], float("-inf"))
        return self.out(torch.softmax(scores, -1) @ x)


class Mixing(nn.Module):
    """The mean over all positions, and no mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(20, 8), nn.Linear(8, 4)

    def forward(self, words: Any) -> Any:
        return self.out(self.words(words).mean(1))


def texts(*sizes: int, mask: int | None) -> list[tuple[Any, ...]]:
    numbers = torch.Generator().manual_seed(4)
    made: list[tuple[Any, ...]] = []
    for size in sizes:
        words = torch.randint(0, 20, (3, size), generator=numbers)
        counts = torch.ones(3, size, dtype=torch.bool)
        counts[0, -2:] = False
        made.append((words,) if mask is None else (words, counts if mask else ~counts))
    return made


def offered(found: subject.Subject) -> offers.Shaped:
    truths = judging.truths(found)
    return offers.shaped(found, lambda make: judging.judged(make, truths, False, None))


@pytest.mark.parametrize("hides", [False, True])
def test_padding_is_right_behind_a_mask_whatever_the_mask_says(hides: bool, tmp_path: Path) -> None:
    torch.manual_seed(2)
    batches = texts(4, 9, 6, mask=0 if hides else 1)
    found = captured(Masked(hides), batches, tmp_path, [50, 3, 20])
    assert found.about.dynamic
    told = offered(found)
    (axis,) = told.told["axes"]
    assert axis["places"] == [[0, 1], [1, 1]] and axis["sizes"] == [(4, 50), (6, 20), (9, 3)]
    assert axis["fills"] == (0.0, 1.0 if hides else 0.0)  # an id, and what hides
    assert list(told.ways) == ["static", "padded-1", "padded-2"]
    assert told.told["ways"]["padded-2"]["edges"] == [[4, 9]] and told.told["ways"]["padded-2"]["graphs"] == 2
    for name, way in told.ways.items():
        model = way(found.program, lambda one, _: one)
        for batch in batches:
            torch.testing.assert_close(model(batch)[0], found.program(batch)[0], rtol=1e-5, atol=1e-6)
        assert len(model.graphs) == {"static": 3, "padded-1": 1, "padded-2": 2}[name]
        other = texts(5, mask=0 if hides else 1)[0]  # a shape that nobody heard runs as before
        torch.testing.assert_close(model(other)[0], found.program(other)[0], rtol=0, atol=0)


def test_padding_is_refused_where_positions_are_mixed_without_a_mask(tmp_path: Path) -> None:
    torch.manual_seed(2)
    told = offered(captured(Mixing(), texts(4, 9, mask=None), tmp_path))
    (axis,) = told.told["axes"]
    assert axis["fills"] is None and "the error of a result" in axis["refused"]
    assert list(told.ways) == ["static"]


def test_rare_shapes_get_batches_of_kept_numbers(tmp_path: Path) -> None:
    batches = texts(4, 9, mask=1)
    found = captured(Masked(False), batches, tmp_path)
    more = (*found.about.shapes, subject.Shape(((3, 11), (3, 11)), 5))
    wide = shapes.widened(subject.Subject(found.place, subject.about(found.place), found.program, found.batches,
                                          found.outputs))  # fmt: skip
    assert [shapes.shape_of(batch) for batch in wide.batches] == [shapes.shape_of(batch) for batch in batches]
    about = subject.About(**{**vars(found.about), "shapes": more})
    wide = shapes.widened(subject.Subject(found.place, about, found.program, found.batches, found.outputs))
    assert shapes.shape_of(wide.batches[-1]) == ((3, 11), (3, 11)) and len(wide.outputs) == 3
    assert int(wide.batches[-1][0].max()) < 20 and wide.batches[-1][1].dtype == torch.bool


# Types module by module.


class Overflowing(nn.Module):
    """One layer gives numbers that float16 has not."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.big, self.after = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
        with torch.no_grad():
            self.big.weight.mul_(1e6)

    def forward(self, x: Any) -> Any:
        return self.after(torch.tanh(self.big(torch.relu(self.before(x))) * 1e-6))


def precisions(found: subject.Subject) -> precision.Precisions:
    truths = [truth for truth in judging.truths(found) if truth.where != "redrawn"]
    return precision.Precisions(found.program, found.batches[0], truths, open_backend("cpu"))


def test_a_module_that_overflows_stays_in_its_type(tmp_path: Path) -> None:
    torch.manual_seed(0)
    found = captured(Overflowing(), [(torch.randn(8, 16),)], tmp_path)
    there = precisions(found)
    assert precision.units(found.program) == ["before", "", "big", "after"]
    # As if every module gained the same: only what each does to the result decides.
    items = [precision.Item(unit, "float16", 1.0, there.error({unit: "float16"})) for unit in
             precision.units(found.program)]  # fmt: skip
    lost = {item.unit for item in items if item.error is None}
    assert lost == {"big", ""}  # the product and what scales it down
    chosen = precision.chosen(items, lambda types: (there.error(types) or 1.0) <= 2e-3)
    assert chosen == {"before": "float16", "after": "float16"}
    error = there.error(chosen)
    assert error is not None and 1e-5 < error < 2e-3
    assert there.error(dict.fromkeys(precision.units(found.program), "float16")) is None


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.two(self.one(x)), x


def test_a_program_in_types_computes_what_its_modules_would(tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, x = Two(), torch.randn(5, 8)
    found = captured(module, [(x,)], tmp_path)
    made = precision.in_types(found.program, {"one": "bfloat16"}, (x,))
    one, two = module.one, module.two
    short = nn.functional.linear(x.bfloat16(), one.weight.bfloat16(), one.bias.bfloat16())
    with torch.no_grad():
        got = made.program((x,))
        assert torch.equal(got[0], two(short.float())) and torch.equal(got[1], x)
        assert torch.equal(found.program((x,))[0], module(x)[0])  # the program is as it was
    assert got[0].dtype == torch.float32 and made.left == {}
    assert next(found.program.parameters()).data_ptr() == next(made.program.parameters()).data_ptr()


class Written(nn.Module):
    """A module writes into what others read before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.act, self.two = nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.one(x)
        before = self.two(y)
        self.act(y)
        return before + self.two(y) + y


@pytest.mark.parametrize("units", [["act"], ["two"], ["act", "two"], ["one", "act"], ["one", "act", "two", ""]])
def test_what_is_written_in_place_stays_written(units: list[str], tmp_path: Path) -> None:
    torch.manual_seed(1)
    found = captured(Written(), [(torch.randn(5, 8),)], tmp_path)
    error = precisions(found).error(dict.fromkeys(units, "bfloat16"))
    assert error is not None and error < 1.6e-2  # a lost write would be an error of the order of one


class Large(nn.Module):
    """A mask of numbers that float16 has not."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.one(x)
        return torch.softmax(y.masked_fill(y > 1.0, -1e30), -1)


def test_an_operator_that_does_not_run_in_a_type_stays_in_its_own(tmp_path: Path) -> None:
    torch.manual_seed(1)
    found = captured(Large(), [(torch.randn(5, 8) * 3,)], tmp_path)
    made = precision.in_types(found.program, {"": "float16", "one": "float16"}, found.batches[0])
    assert made.left == {"": 1}
    with torch.no_grad():
        torch.testing.assert_close(made.program(found.batches[0])[0], found.program(found.batches[0])[0], rtol=2e-2,
                                   atol=2e-3)  # fmt: skip


def test_modules_are_chosen_by_gain_for_error_within_what_is_allowed() -> None:
    items = [
        precision.Item("cheap", "float16", 9.0, 1e-4), precision.Item("cheap", "bfloat16", 9.0, 1e-3),
        precision.Item("dear", "bfloat16", 5.0, 9e-3), precision.Item("small", "bfloat16", 1.0, 2e-3),
        precision.Item("loss", "bfloat16", -3.0, 1e-6),
    ]  # fmt: skip
    of = {(item.unit, item.dtype): item.error or 0.0 for item in items}

    def within(budget: float) -> dict[str, str]:
        return precision.chosen(items, lambda types: sum(of[each] for each in types.items()) <= budget)

    assert within(1.0) == {"cheap": "float16", "dear": "bfloat16", "small": "bfloat16"}
    assert within(3e-3) == {"cheap": "float16", "small": "bfloat16"}
    assert within(1e-6) == {}


# What bounds it.


def test_a_chip_bounds_a_program_by_its_facts() -> None:
    model = Model("X", re.compile("X"), None, "npu", {"flops": {"fp16": 1e12}, "memory_bytes_per_s": 1e9}, "a source")
    work = [bounding.Work(4_000_000_000, 1_000), bounding.Work(0, 2_000_000)]
    # 4e9 operations at 1e12 a second; 2e6 bytes of float32 are 1e6 of float16, at 1e9 a second.
    assert bounding.bounded(work, "fp32", model) == bounding.Bound("X", "fp16", 5_000_000, 4_000_000, "a source")
    assert bounding.bounded(work, "int8", model) is None
    shorter = {**model.facts, "flops": {"fp32": 1e12, "fp16": 9e12}}
    own = bounding.bounded(work, "fp32", Model("X", model.name, None, "npu", shorter, "a source"))
    assert own == bounding.Bound("X", "fp32", 6_000_000, 4_000_000, "a source")
    assert bounding.chip("910B3") == bounding.chip("Ascend910B3") is not None
    assert bounding.chip("no such chip") is None and all("memory_bytes_per_s" in one.facts for one in bounding.chips())


# Gates.


def answered(inputs: Any, logits: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (inputs,), (logits,)


def shipped(name: str) -> Any:
    return importlib.import_module(f"npulens.collectors.lab.gates.{name}")


def test_top1_and_tokens_count_rows_that_the_original_decides() -> None:
    x = torch.zeros(4, 1)
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.5, 0.5]])  # the last one is a tie
    other = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 2.0], [0.0, 1.0]])
    assert shipped("top1").score(lambda _: (other,), [answered(x, logits)]) == pytest.approx(2 / 3)
    with pytest.raises(gate.NotForThis):
        shipped("tokens").score(lambda _: (other,), [answered(x, logits)])
    assert shipped("tokens").score(lambda _: (other[None],), [answered(x, logits[None])]) == pytest.approx(2 / 3)


def test_retrieval_counts_rows_whose_partner_is_the_nearest() -> None:
    one = torch.eye(3)
    two = torch.tensor([[1.0, 0.1, 0.0], [0.9, 0.5, 0.0], [0.0, 0.0, 2.0]])
    # Of the second row the nearest is its own: cosine 0.49 against 0.10 and 0.
    assert shipped("retrieval").score(lambda _: (one, two), [answered(one, one)]) == 1.0
    assert shipped("retrieval").score(lambda _: (one, two[[1, 0, 2]]), [answered(one, one)]) == pytest.approx(1 / 3)


def test_perplexity_is_that_of_the_next_tokens_that_count() -> None:
    text, mask = torch.tensor([[0, 1, 2, 0]]), torch.tensor([[1, 1, 1, 0]])
    logits = torch.zeros(1, 4, 3)
    logits[0, 0, 1] = math.log(2.0)  # the second token has 2 of 4
    batches = [((text, mask), (logits,))]
    expected = -math.exp(-(math.log(0.5) + math.log(1 / 3)) / 2)
    assert shipped("perplexity").score(lambda _: (logits,), batches) == pytest.approx(expected)
    assert shipped("perplexity").at_least(-10.0) == pytest.approx(-10.1)


def test_a_gate_of_ones_own_is_one_file_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = "def score(program, batches):\n    return {}\nat_least = {}\n"

    def program(tensors: Any) -> tuple[Any, ...]:
        return (tensors[0] * 2,)

    batches = [(torch.ones(3),)]
    path.write_text(text.format("float(program(batches[0][0])[0].sum() / batches[0][1][0].sum())", "0.9"))
    found = gate.opened(str(path), program, batches)
    assert (found.original, found.at_least) == (1.0, 0.9)
    assert found.scored(program).ok and not found.scored(lambda tensors: (tensors[0],)).ok
    for content, said in (
        (text.format("1 / 0", "0.9"), "the gate mine fails: division by zero"),
        (text.format("0.5", "0.9"), "the original itself reaches 0.5, and 0.9 is asked for"),
        (text.format("0.5", "'x'"), "at_least is no number"), ("def score(", "cannot be read"),
        ("at_least = 1\n", "has no score"),
    ):  # fmt: skip
        path.write_text(content)
        with pytest.raises(ValueError, match=said):
            gate.opened(str(path), program, batches)
    with pytest.raises(ValueError, match="there is no gate 'other'; there are digits, perplexity"):
        gate.opened("other", program, batches)


# All of it.

WRONG = '''"""Nothing is computed, which is fast."""
from npulens.collectors.lab.rewrites.rewrite import Rewritten


def apply(program, asked):
    return Rewritten(lambda tensors: tuple(one * 0.5 for one in program(tensors)), 1)
'''
PLAIN = WRONG.replace("one * 0.5", "one * 1.0")
GATE = "def score(program, batches):\n    return float(program(batches[0][0])[0].isfinite().all())\nat_least = 1.0\n"


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A choice with so little time that no compiler is reached."""
    place = tmp_path_factory.mktemp("choice")
    own = []
    for name, text in (("wrong", WRONG), ("plain", PLAIN)):
        own.append(place / f"{name}.py")
        own[-1].write_text(text)
    (place / "mine.py").write_text(GATE)
    torch.manual_seed(3)
    found = captured(Masked(False), texts(4, 9, mask=1), place / "subject", [3, 1])
    settings = choosing.Settings(0.5, 2, 0.02, None, tuple(own), (str(place / "mine.py"),))
    told = choosing.Chooser(found, open_backend("cpu"), settings).chosen()
    about = {"module": "Masked", "subject": str(place), "calls": 4, "backend": "cpu", "device": "a processor",
             "status": "complete", "reason": None, "dtype": "float32"}  # fmt: skip
    told["chips"] = list(run_choice._on_chips({**about, **told}, run_choice._models(["all"], "en")))
    answer: dict[str, Any] = json.loads(json.dumps({**about, **told}))
    return answer


def test_a_wrong_plan_is_refused_before_it_is_timed(answer: dict[str, Any]) -> None:
    of = {tuple(part["name"] for part in arm["plan"]): arm for arm in answer["plans"]}
    assert of["wrong",]["said"] in ("refused", "not_reached")
    for names, arm in of.items():
        if "wrong" in names or arm["said"] != "tried":
            assert arm["ratio"] is None and arm["first_ns"] is None
        else:
            assert arm["errors"]["ok"] and arm["rounds"] and [each["ok"] for each in arm["gates"]] == [True]
    assert answer["winner"] is None or answer["winner"]["errors"]["ok"]
    assert {each["name"] for each in answer["left_out"]} >= {"fold", "channels_last"}


def test_operators_are_told_beside_roofs_only_where_those_are_known(answer: dict[str, Any]) -> None:
    assert {"linear", "matmul", "softmax", "embedding"} <= {one["operator"] for one in answer["bounds"]}
    (linear,) = [one for one in answer["bounds"] if one["operator"] == "linear"]
    assert linear["flops"] == 2 * 3 * 4 * 8 * 4  # rows of 3 texts of 4, 8 numbers to 4
    assert all(one["bound"] is None and one["of_roof"] is None for one in answer["bounds"])
    assert sum(one["share"] for one in answer["bounds"]) == pytest.approx(1.0)


@pytest.mark.parametrize("lang", sorted(LANGUAGES))
def test_the_answer_is_told_in_both_languages(lang: str, answer: dict[str, Any]) -> None:
    text = "\n".join(run_choice.lines(answer, lang))
    assert "Masked" in text and "softmax" in text
    assert "{" not in text and "Ascend910B3" in text and "padded-" not in text.partition("softmax")[2]
    failed = {**answer, "status": "failed", "reason": "it does not run"}
    assert "it does not run" in "\n".join(run_choice.lines(failed, lang))


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--time", "x"], "x is no time"), (["--time=-3s"], "-3s is no time"), (["--chip", "nosuch"], "of nosuch are not"),
     (["--gate", "nosuch"], "there is no gate 'nosuch'")],
)  # fmt: skip
def test_bad_options_are_told_in_one_sentence(options: list[str], said: str, tmp_path: Path) -> None:
    captured(Two(), [(torch.randn(5, 8),)], tmp_path / "subject")
    told = CliRunner().invoke(cli.main, ["lab", str(tmp_path / "subject"), "--choose", *options])
    assert told.exit_code == 2 and said in told.output and "Traceback" not in told.output


def test_every_reason_has_words() -> None:
    for name in ("one_shape", "captured_for_one", "autocast", "gate"):
        assert known(f"choice.why_{name}")
    for name in ("no_graph", "gradients", "short_training", "short_already", "fails", "wrong", "loses_dropout"):
        assert known(f"lab.why_{name}")


def test_threads_are_put_back_and_a_plan_changes_nothing_of_the_program(tmp_path: Path) -> None:
    found = captured(Two(), [(torch.randn(5, 8),)], tmp_path)
    asked = plan.Asked(False, False, False, "cpu", True)
    before = torch.get_num_threads()
    made = plan.made((Part("threads", "1"),), found.program, asked, plan.Ways({}, {}, {}))
    seen = []
    made.model.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    made(found.batches[0])
    assert seen == [1] and torch.get_num_threads() == before
    assert not graph.is_graph(made) and graph.is_graph(found.program)
