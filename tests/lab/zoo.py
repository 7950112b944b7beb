"""`python -m tests.lab.zoo [NAME ...]`: twenty public architectures as jobs of their own through the laboratory.

Each runs as somebody's script under `lab-hear`; what was captured is tried with the rewrites of graphs, numerics only.
Weights are random, statistics of BatchNorm are such as a trained network could have. Needs torchvision, timm and
transformers, which no test installs; nothing is downloaded. A model that is not installed is left out, and told.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.lab import subject as subjects
from npulens.collectors.lab.judging import CannotRun
from npulens.collectors.lab.trial import Laboratory, Options

ROOT = Path(__file__).resolve().parents[2]
REWRITES = ("fold", "sdpa", "merge_linears", "channels_last", "gelu", "norms", "rotary", "gated", "activation", "casts",
            "transposes")  # fmt: skip
CALLS = 4
_TEXT = {
    "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
}  # fmt: skip
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_GPT = {"vocab_size": 100, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
_T5 = {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}
_VISION = {key: value for key, value in _TEXT.items() if key != "vocab_size"} | {"image_size": 32, "patch_size": 8}
Made = tuple[Any, Callable[[int], dict[str, Any]]]


def _picture(side: int) -> Callable[[int], dict[str, Any]]:
    import torch

    return lambda batch: {"": torch.randn(batch, 3, side, side)}


def _torchvision(name: str, side: int) -> Made:
    models = importlib.import_module("torchvision").models
    more = {"init_weights": False} if name == "googlenet" else {}
    return models.get_model(name, weights=None, **more), _picture(side)


def _timm(name: str, side: int) -> Made:
    return importlib.import_module("timm").create_model(name, pretrained=False), _picture(side)


def _transformers(config: str, model: str, settings: dict[str, Any]) -> Made:
    import torch

    library = importlib.import_module("transformers")
    settings = {**settings, "attn_implementation": "eager"}
    made = getattr(library, model)(getattr(library, config)(**settings))
    if "image_size" in settings:
        return made, lambda batch: {"pixel_values": torch.randn(batch, 3, 32, 32)}

    def words(batch: int) -> dict[str, Any]:
        given = torch.randint(0, 90, (batch, 24))
        mask = torch.ones(batch, 24, dtype=torch.int64)
        mask[0, 18:] = 0  # as a batch of unlike lengths has it
        more = {"decoder_input_ids": given[:, :10]} if made.config.is_encoder_decoder else {}
        cache = {"use_cache": False} if hasattr(made.config, "use_cache") else {}
        return {"input_ids": given, "attention_mask": mask, **more, **cache}

    return made, words


ZOO: dict[str, tuple[str, Callable[[], Made]]] = {
    **{
        name: ("torchvision", lambda name=name, side=side: _torchvision(name, side))  # type: ignore[misc]
        for name, side in (
            ("resnet18", 64), ("mobilenet_v3_small", 64), ("densenet121", 64), ("googlenet", 96), ("vgg11_bn", 64),
            ("shufflenet_v2_x0_5", 64), ("vit_b_16", 224), ("swin_t", 64),
        )
    },
    **{
        name: ("timm", lambda name=name, side=side: _timm(name, side))  # type: ignore[misc]
        for name, side in (
            ("convnext_atto", 64), ("efficientnet_b0", 64), ("repvgg_a0", 64), ("deit_tiny_patch16_224", 224),
        )
    },
    **{
        name: ("transformers", lambda of=of: _transformers(*of))  # type: ignore[misc]
        for name, of in {
            "bert": ("BertConfig", "BertModel", _TEXT), "distilbert": (
                "DistilBertConfig", "DistilBertModel",
                {"vocab_size": 100, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96},
            ),
            "gpt2": ("GPT2Config", "GPT2LMHeadModel", _GPT), "llama": ("LlamaConfig", "LlamaForCausalLM", _GROUPED),
            "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", _GROUPED), "t5": (
                "T5Config", "T5ForConditionalGeneration", {**_T5, "decoder_start_token_id": 0},
            ),
            "clip": ("CLIPVisionConfig", "CLIPVisionModel", _VISION), "vit": ("ViTConfig", "ViTModel", _VISION),
        }.items()
    },
}  # fmt: skip


def run(name: str) -> None:
    """The job: a model with random weights that answers a few calls of two batch sizes."""
    import torch

    torch.manual_seed(7)
    model, batch = ZOO[name][1]()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    model.eval()
    with torch.no_grad():
        for call in range(CALLS):
            given = batch(2 if call % 2 else 3)
            model(given[""]) if "" in given else model(**given)


def through(name: str, place: Path) -> dict[str, Any]:
    """What the laboratory says of one of them: how it was captured, or why not, and each rewrite's verdict."""
    collectors = [sys.executable, "-m", "npulens.collectors"]
    job = [sys.executable, "-m", "tests.lab.zoo", "--run", name]
    heard = answer([*collectors, "lab-hear", "-o", str(place), "--", *job])
    if not heard.get("subjects"):
        return {"name": name, "engine": None, "why": heard.get("refused") or heard, "trials": []}
    subject = heard["subjects"][0]
    read = subjects.read(Path(subject["place"]))
    told = {"name": name, "engine": subject["engine"], "dynamic": read.about.dynamic, "why": None,
            "replay": subject["error_of_replay"], "trials": []}  # fmt: skip
    try:
        laboratory = Laboratory(read, open_backend("cpu"), Options(times=False))
    except CannotRun as error:
        return {**told, "why": str(error)}
    return {**told, "trials": [laboratory.tried(each).as_dict() for each in REWRITES]}


def answer(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=7200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-1500:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def row(found: dict[str, Any]) -> str:
    """One line of the table: what was right at how many places, and what was refused or could not be judged."""
    if found["engine"] is None:
        return f"| {found['name']} | not captured: {found['why']} | | | |"
    right = [_told(trial) for trial in found["trials"] if trial["verdict"] == "cannot_tell"]
    wrong = [f"{trial['rewrite']}: {trial['why']['values'].get('why', trial['why']['name'])}"
             for trial in found["trials"] if trial["verdict"] == "refused"]  # fmt: skip
    wrong += [] if found["why"] is None else [str(found["why"])]
    shapes = "any batch" if found["dynamic"] else "one shape"
    captured = f"{found['engine']}, {shapes}"
    return f"| {found['name']} | {captured} | {found['replay'] or 0:.0e} | {'; '.join(right)} | {'; '.join(wrong)} |"


def _told(trial: dict[str, Any]) -> str:
    left = ", ".join(f"{count} {name}" for name, count in trial["left"].items())
    error = f"{trial['errors']['of_rewrite']:.0e}"
    return f"{trial['rewrite']} {trial['changed']} ({error})" + (f", left {left}" if left else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", metavar="NAME", help="be the job")
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run)
        return 0
    counts: Counter[str] = Counter()
    print("| model | captured | error of replay | right at so many places (error) | refused as wrong |")
    print("|---|---|---|---|---|")
    for name in arguments.names or ZOO:
        if importlib.util.find_spec(ZOO[name][0]) is None:
            print(f"| {name} | {ZOO[name][0]} is not installed |", flush=True)
            continue
        with tempfile.TemporaryDirectory() as place:
            found = through(name, Path(place) / "subject")
        counts["captured" if found["engine"] else "not captured"] += 1
        counts["wrong"] += sum(trial["verdict"] == "refused" for trial in found["trials"])
        counts["judged"] += bool(found["trials"])
        print(row(found), flush=True)
    print(f"\n{counts['captured']} captured, {counts['not captured']} not; {counts['judged']} judged; "
          f"{counts['wrong']} rewrites refused as wrong")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
