"""Public models with random weights, forward and backward, for the comparison with torch's counter.

Needs torchvision, timm and transformers, which no test installs: models are built from their own configurations, and
nothing is downloaded. Attention runs as products of matrices, because torch's counter has no formula for the fused
kernel of a CPU. A model that is not installed is left out, and told.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.work.counter import Compared, compared


@dataclass(frozen=True)
class Subject:
    """A model and what it is called with."""

    name: str
    library: str
    build: Callable[[Any], tuple[Any, Callable[[Any], Any]]]  # its library -> the model, and how it is called


def _vision(name: str, side: int) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    def build(torchvision: Any) -> tuple[Any, Callable[[Any], Any]]:
        return torchvision.models.get_model(name, weights=None), _picture(side)

    return build


def _timm(name: str, side: int) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    def build(timm: Any) -> tuple[Any, Callable[[Any], Any]]:
        return timm.create_model(name, pretrained=False), _picture(side)

    return build


def _picture(side: int) -> Callable[[Any], Any]:
    import torch

    picture = torch.randn(2, 3, side, side)
    return lambda model: model(picture)


def _text(config: str, model: str, settings: dict[str, int]) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    def build(transformers: Any) -> tuple[Any, Callable[[Any], Any]]:
        import torch

        made = getattr(transformers, model)(getattr(transformers, config)(**settings))
        words = torch.randint(0, 90, (2, 24))
        if made.config.is_encoder_decoder:
            return made, lambda one: one(input_ids=words, decoder_input_ids=words[:, :10])[0]
        return made, lambda one: one(words)[0]

    return build


_SMALL = {
    "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
}  # fmt: skip
_LLAMA = {**_SMALL, "num_key_value_heads": 2}
_GPT = {"vocab_size": 100, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
_T5 = {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}

SUBJECTS = (
    Subject("resnet50", "torchvision", _vision("resnet50", 64)),
    Subject("densenet121", "torchvision", _vision("densenet121", 64)),
    Subject("vgg11", "torchvision", _vision("vgg11", 64)),
    Subject("mobilenet_v3_small", "torchvision", _vision("mobilenet_v3_small", 64)),
    Subject("vit_b_16", "torchvision", _vision("vit_b_16", 224)),
    Subject("swin_t", "torchvision", _vision("swin_t", 64)),
    Subject("convnext_tiny", "torchvision", _vision("convnext_tiny", 64)),
    Subject("efficientnet_b0", "timm", _timm("efficientnet_b0", 64)),
    Subject("mixer_s16_224", "timm", _timm("mixer_s16_224", 224)),
    Subject("deit_tiny_patch16_224", "timm", _timm("deit_tiny_patch16_224", 224)),
    Subject("bert", "transformers", _text("BertConfig", "BertModel", _SMALL)),
    Subject("gpt2", "transformers", _text("GPT2Config", "GPT2LMHeadModel", _GPT)),
    Subject("llama", "transformers", _text("LlamaConfig", "LlamaForCausalLM", _LLAMA)),
    Subject("mistral", "transformers", _text("MistralConfig", "MistralForCausalLM", _LLAMA)),
    Subject("t5", "transformers", _text("T5Config", "T5ForConditionalGeneration", _T5)),
)


def measured() -> Iterator[tuple[Subject, bool, Compared | str]]:
    """Each model, forward and then with backward; or why it was left out."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    for one in SUBJECTS:
        try:
            library = importlib.import_module(one.library)
        except (ImportError, RuntimeError) as error:  # torchvision built for another torch
            yield one, False, str(error)
            continue
        model, call = one.build(library)

        def forward(model: Any = model, call: Callable[[Any], Any] = call) -> None:
            with torch.no_grad():
                call(model)

        def backward(model: Any = model, call: Callable[[Any], Any] = call) -> None:
            call(model).sum().backward()

        with sdpa_kernel(SDPBackend.MATH):
            yield one, False, compared(forward)
            yield one, True, compared(backward)
