"""The jobs of the seeds run by themselves, and a fix changes how long they take, never what they compute."""

from __future__ import annotations

import importlib.util
import json
import math
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npulens.analysis.discovery import detectors
from npulens.analysis.settings import Settings
from npulens.collectors.lab.rewrites import rewrite

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch  # noqa: E402

from npulens.collectors.jobs import _llama, job, ladder, overlap, recommender, serving, shapes, yolo  # noqa: E402


def test_a_job_runs_by_itself_and_says_what_came_out() -> None:
    command = [sys.executable, "-m", "npulens.collectors.jobs.lstm", "--steps", "2", "--plant", "gate_by_gate"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert (said["job"], said["plant"], said["fixed"], said["steps"]) == ("lstm", "gate_by_gate", False, 2)
    assert said["step_ns"] > 0


@pytest.mark.parametrize(
    ("options", "why"),
    [(["--fixed"], "--plant"), (["--steps", "0"], "one step at least"), (["--device", "tpu"], "cannot be used")],
)
def test_bad_options_are_one_sentence(options: list[str], why: str) -> None:
    with pytest.raises(SystemExit) as refused:
        job.asked("lstm", job.parser("lstm", "", job.plants("lstm"), 3).parse_args(options))
    assert refused.value.code == 2 or why in str(refused.value)


def test_what_the_jobs_plant_are_detectors_and_rewrites_that_there_are() -> None:
    known = {each.name for each in detectors(Settings())}
    for name in job.names():
        for plant, about in job.plants(name).items():
            assert set(about.shows) <= known, (name, plant)
            assert set(about.rewrites) <= set(rewrite.names()), (name, plant)
    with pytest.raises(ValueError, match="there is no job"):
        job.plants("nothing")


def test_a_line_of_the_log_becomes_the_same_numbers_either_way() -> None:
    line = "1\t" + "\t".join(["0.5"] * 13) + "\t" + "\t".join(["00000001,0000000a"] * 8)
    label, numbers, bags = recommender.parsed(line)
    assert (label, numbers, bags) == (1.0, [0.5] * 13, [[1, 10]] * 8)
    labels, _, categories, begins = recommender.together([(label, numbers, bags)] * 2)
    assert labels.tolist() == [[1.0], [1.0]] and begins.tolist() == list(range(0, 32, 2))
    assert categories[:4].tolist() == [1, 10, 5001, 5010]
    torch.manual_seed(0)
    model = recommender.Recommender()
    given = (torch.randn(2, 13), categories, begins)
    at_once = model(*given)
    model.by_sample = True
    assert torch.allclose(model(*given), at_once, atol=1e-6)


def test_boxes_are_suppressed_alike_and_rightly() -> None:
    # The second overlaps the first by 81/119; the third touches neither.
    each = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    assert float(yolo.overlap(each[0], each[1:2])) == pytest.approx(81 / 119)
    assert yolo.kept_one_by_one(each) == yolo.kept_at_once(each) == [0, 2]


def test_traffic_is_open_and_seeded() -> None:
    one, again, other = (serving.traffic(seed, 200, 20.0) for seed in (1, 1, 2))
    assert one == again and one != other
    moments = [each.asked_ns for each in one]
    assert moments == sorted(moments) and 6 < moments[-1] / 1e9 < 15  # 200 questions at 20 a second
    assert len({each.text for each in one}) < 0.6 * len(one) and len({len(each.text.split()) for each in one}) > 10
    assert max(len(each.text.split()) + each.answer for each in one) <= serving.SIZES.longest


def test_a_cache_and_a_batch_change_no_word() -> None:
    torch.manual_seed(0)
    sizes = _llama.Sizes(words=64, width=32, layers=2, heads=4, groups=2, hidden=48, longest=16)
    model = _llama.Llama(sizes).eval()
    texts = [[3, 9, 4, 11], [7, 2]]
    with torch.no_grad():
        cache = _llama.Cache.of(sizes, 2, "cpu")
        for row, text in enumerate(texts):
            first = _asked(model, cache, [text], [0], [row])
            assert torch.allclose(first, _alone(model, sizes, text), atol=1e-5)
        together = _asked(model, cache, [[5], [6]], [4, 2], [0, 1])
        for row, text in enumerate(([3, 9, 4, 11, 5], [7, 2, 6])):
            assert torch.allclose(together[row], _alone(model, sizes, text)[0], atol=1e-5)
        by_hand = _llama.Llama(sizes, by_hand=True).eval()
        by_hand.load_state_dict(model.state_dict())
        assert torch.allclose(_alone(by_hand, sizes, texts[0]), _alone(model, sizes, texts[0]), atol=1e-5)


def _alone(model: Any, sizes: _llama.Sizes, text: list[int]) -> torch.Tensor:
    return _asked(model, _llama.Cache.of(sizes, 1, "cpu"), [text], [0], [0])


def _asked(model: Any, cache: _llama.Cache, words: list[list[int]], begins: list[int], rows: list[int]) -> torch.Tensor:
    places = torch.tensor(begins)[:, None] + torch.arange(len(words[0]))
    found: torch.Tensor = model(torch.tensor(words), places, cache.keys, cache.values, torch.tensor(rows))
    return found


def test_no_two_shapes_are_alike_and_few_are_compiled() -> None:
    given = shapes.heights(0, 12)
    assert len(set(given)) == 12 and len({(shapes.filled(rows), width) for rows, width in given}) <= 8
    assert [shapes.filled(rows) for rows in (1, 8, 9, 64, 65)] == [1, 8, 16, 64, 128]


@pytest.mark.parametrize(
    ("name", "plant"),
    [("yolo", "turns_around"), ("latent_attention", "norms_by_hand"), ("lstm", "gate_by_gate")],
)  # fmt: skip
def test_a_fix_changes_no_result(name: str, plant: str) -> None:
    told = []
    for more in ([], ["--fixed"]):
        command = [sys.executable, "-m", f"npulens.collectors.jobs.{name}", "--steps", "2", "--plant", plant, *more]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        told.append(json.loads(done.stdout.splitlines()[-1])["result"])
    assert math.isclose(told[0], told[1], rel_tol=1e-4)


def test_what_a_link_hides_is_told_by_its_buckets() -> None:
    second = 1_000_000_000
    # Ten bytes a second. Ready at 0 s, 0.5 s, 4 s: on the link 0 to 1, 1 to 2, 4 to 6; nothing is computed after 4 s.
    ready = [(0, 10), (second // 2, 10), (4 * second, 20)]
    assert overlap.predicted_ns(ready, 10.0, 2) == 2 * second
    assert overlap.predicted_ns([(4 * second, 40)], 10.0, 2) == 4 * second  # one bucket: all of it is seen
    assert overlap.predicted_ns([(4 * second, 40)], 10.0, 4) == 6 * second  # three quarters there, three back


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux makes a connection slower")
def test_a_link_is_the_connections_made_since_and_the_kernel_knows_their_limit() -> None:
    def limit(one: socket.socket) -> int:
        return one.getsockopt(socket.SOL_SOCKET, overlap._SO_MAX_PACING_RATE)

    with socket.create_server(("127.0.0.1", 0)) as server:
        before = overlap._connections()
        with socket.create_connection(server.getsockname()) as own:
            link, free = overlap.Link(before), limit(server)
            link.bandwidth(50e6)
            assert (limit(own), limit(server)) == (50_000_000, free)
            link.bandwidth(None)
            assert limit(own) == free
            link.close()
            assert limit(own) == free  # it is still there


def test_an_overflow_costs_the_accuracy_unless_a_scaler_looks() -> None:
    given = ladder.data(0)
    reached = {}
    for fixed in (False, True):
        told = job.Asked("ladder", "overflows", fixed, 60, 0, "cpu")
        line = ladder.lines(told)[-1]
        training = ladder.Training(line, given, told)
        for _ in range(told.steps):
            training.step()
        reached[fixed] = training.accuracy()
        assert training.skipped > 0 if fixed else training.skipped == 0
        finite = all(bool(torch.isfinite(each).all()) for each in training.model.parameters())
        assert finite is fixed
    assert reached[False] < 0.3 < 0.8 < reached[True]


def test_no_line_of_the_ladder_is_without_its_accuracy() -> None:
    line = {"line": "float32", "accuracy": 0.75, "ratio": None, "low": None, "high": None, "step_ns": 2_000_000,
            "peak_bytes": 2048, "skipped": 0, "scale": None, "joules_a_sample": None}  # fmt: skip
    other = {**line, "line": "float16", "ratio": 1.5, "low": 1.25, "high": 1.75, "scale": 65536.0}
    _, _, first, second = ladder.text([line, other]).splitlines()
    assert first == "| float32 | 75.0% | 1 | 2.00 | 2 | 0 | - | not measured |"
    assert second == "| float16 | 75.0% | 1.50 [1.25, 1.75] | 2.00 | 2 | 0 | 65536 | not measured |"
