"""Operators that only one kind of device has, and what does the same work elsewhere."""

from __future__ import annotations

from dataclasses import replace

from npulens.collectors.replay.schema import Argument, Chosen, choose

#: Operator of one kind of device -> the form in which every device does its work.
_ON_CPU = {
    "aten::_scaled_dot_product_flash_attention": "attention",
    "aten::_scaled_dot_product_efficient_attention": "attention",
    "aten::_scaled_dot_product_cudnn_attention": "attention",
    "aten::_scaled_dot_product_fused_attention_overrideable": "attention",
    "aten::cudnn_convolution": "convolution", "aten::miopen_convolution": "convolution",
    "aten::miopen_depthwise_convolution": "convolution", "aten::mkldnn_convolution": "convolution",
    "aten::cudnn_convolution_transpose": "transposed", "aten::miopen_convolution_transpose": "transposed",
}  # fmt: skip


def instead(chosen: Chosen, device: str) -> Chosen:
    """The same call in the form that the device has; itself where it has it, or nobody knows another."""
    import torch

    form = _ON_CPU.get(chosen.name)
    full = f"{chosen.name}.{chosen.overload}" if chosen.overload else chosen.name
    key = {"cpu": "CPU", "cuda": "CUDA", "npu": "PrivateUse1"}.get(device)
    if form is None or key is None or torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
        return chosen
    return _attention(chosen) if form == "attention" else _convolution(chosen, form == "transposed")


def _attention(chosen: Chosen) -> Chosen:
    known = {one.name: one for one in chosen.arguments}
    mask = known.get("attn_bias", Argument("attn_mask", "Optional[Tensor]", ("nothing",), False, False))
    order = [known["query"], known["key"], known["value"], replace(mask, name="attn_mask")]
    order.append(known.get("dropout_p", _value("dropout_p", "float", 0.0)))
    order.append(known.get("is_causal", _value("is_causal", "bool", False)))
    if "scale" in known:
        order.append(known["scale"])
    return _renamed("aten::scaled_dot_product_attention", order)


def _convolution(chosen: Chosen, transposed: bool) -> Chosen:
    known = {one.name: one for one in chosen.arguments}
    none = Argument("bias", "Optional[Tensor]", ("nothing",), False, False)
    spatial = len(known["weight"].recorded[2]) - 2
    order = [
        replace(known["self"], name="input"), known["weight"], known.get("bias", none), known["stride"],
        known["padding"], known["dilation"], _value("transposed", "bool", transposed),
        known.get("output_padding", _value("output_padding", "List[int]", [0] * spatial)), known["groups"],
    ]  # fmt: skip
    return _renamed("aten::convolution", order)


def _value(name: str, kind: str, value: object) -> Argument:
    return Argument(name, kind, ("value", value), False, False)


def _renamed(name: str, arguments: list[Argument]) -> Chosen:
    found = choose(name, [one.recorded for one in arguments])
    return found
