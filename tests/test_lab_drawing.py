"""What a rewrite replaced, as data from real programs; and what is to be pasted does what the rewrite does."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.lab import drawing, graph
from npulens.collectors.lab.pasting import pasted
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.rewrites.rewrite import Asked

pytestmark = pytest.mark.torch
if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from npulens.collectors.lab.flat import Flat, taken_apart  # noqa: E402

ASKED = Asked(training=False, gradients=False, dynamic=False, device="cpu", graph=True)


class Net(nn.Module):  # type: ignore[misc]  # mypy does not look into torch
    """Two convolutions with BatchNorm, then an attention that is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)
        )
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        rows = self.stem(x).flatten(2).transpose(1, 2)
        scores = self.query(rows) @ self.key(rows).transpose(-2, -1)
        return torch.softmax(scores / 8**0.5, -1) @ rows


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(5)
    made = Net().train()
    for _ in range(3):
        made(torch.randn(4, 3, 10, 10))  # BatchNorm with statistics of its own
    return made.eval()


@pytest.fixture(scope="module")
def program(net: Any) -> Any:
    batch = torch.randn(2, 3, 10, 10)
    flat = Flat(net, taken_apart((batch,), {}))
    return graph.clean(torch.export.export(flat, ((batch,),)).module())


def changes(program: Any, name: str) -> Any:
    return drawing.changes(program, rewrite.rewrite(name).apply(graph.copied(program), ASKED).model)


def test_a_folded_norm_is_gone_and_its_convolution_is_changed(program: Any) -> None:
    told = changes(program, "fold")
    assert told["gone"] == ["batch_norm", "batch_norm_1"]
    states = {(each["op"], each["module"]): each["state"] for each in told["nodes"]}
    assert states[("conv2d", "stem.0")] == states[("conv2d", "stem.3")] == "changed"
    assert states[("relu", "stem.2")] == "rewired"
    assert all(source["file"] == Path(__file__).name for source in told["sources"])
    assert "-    batch_norm = torch.ops.aten.batch_norm" in told["difference"]


def test_an_attention_is_gone_with_the_lines_of_the_job_it_comes_from(program: Any) -> None:
    told = changes(program, "sdpa")
    held = {each["name"]: each for each in drawing.drawn(program)["nodes"]}
    assert sorted(held[name]["op"] for name in told["gone"]) == ["div", "matmul", "matmul", "softmax"]
    assert "scaled_dot_product_attention" in [each["op"] for each in told["nodes"] if each["state"] == "new"]
    text = Path(__file__).read_text().splitlines()
    for source in told["sources"]:
        assert text[source["line"] - 1].strip() == source["code"]
    assert {op for source in told["sources"] for op in source["ops"]} == {"div", "matmul", "softmax"}


def test_what_leaves_every_operator_leaves_the_drawing_empty(program: Any) -> None:
    told = changes(program, "channels_last")
    assert (told["gone"], told["nodes"], told["difference"]) == ([], [], None)


def test_what_is_pasted_for_folding_computes_what_the_module_did(net: Any, program: Any) -> None:
    text = pasted(rewrite.rewrite("fold"), "fold", drawing.drawn(program), changes(program, "fold"))
    assert text is not None
    model = graph.copied(net)
    exec(compile(text, "paste", "exec"), {"model": model, "torch": torch})
    batch = torch.randn(2, 3, 10, 10)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert any(isinstance(module, nn.BatchNorm2d) for module in net.modules())
    torch.testing.assert_close(model(batch), net(batch), rtol=1e-4, atol=1e-5)


def test_what_is_pasted_for_attention_has_the_scale_of_the_job(program: Any) -> None:
    text = pasted(rewrite.rewrite("sdpa"), "sdpa", drawing.drawn(program), changes(program, "sdpa"))
    assert text is not None
    scale = float(text.partition("scale=")[2].partition(",")[0])
    assert scale == pytest.approx(8**-0.5)


def test_a_rewrite_of_ones_own_may_say_what_to_paste(program: Any, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text('PASTE = "model = mine(model)"\n\ndef apply(program, asked):\n    return None\n')
    found = rewrite.rewrite("mine", [own])
    assert pasted(found, "mine", drawing.drawn(program), None) == "model = mine(model)"


def test_of_a_program_that_is_too_long_what_is_near_is_kept(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "NODES", 6)
    told = drawing.drawn(program, {"softmax"})
    names = [each["name"] for each in told["nodes"]]
    assert len(names) == 6 and "softmax" in names and told["left_out"] == told["count"] - 6
    (place,) = [each for each in told["nodes"] if each["name"] == "softmax"]
    assert set(place["inputs"]) <= set(names)


def test_the_files_beside_a_subject_say_the_same_and_go_with_the_next_trial(program: Any, tmp_path: Path) -> None:
    made = rewrite.rewrite("fold").apply(graph.copied(program), ASKED)
    drawing.write(tmp_path, rewrite.rewrite("fold"), "fold", program, made.model)
    said = json.loads((tmp_path / "drawn" / "fold.json").read_text())
    assert said["changes"]["gone"] == ["batch_norm", "batch_norm_1"] and "fuse_conv_bn_eval" in said["paste"]
    assert "conv2d" in (tmp_path / "drawn" / "fold.py").read_text()
    drawing.forget(tmp_path, "fold")
    assert [path.name for path in (tmp_path / "drawn").iterdir()] == ["original.json"]
