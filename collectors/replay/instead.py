"""Operators that only one kind of device has, and what does the same work elsewhere.

The first result of the other form is that of the operator; further ones, as the sums that a backward pass needs, may be
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec

from npulens.collectors.replay.schema import Argument, CannotReplay, Chosen, Recorded, choose

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "npu": "PrivateUse1"}
_NO_TENSOR = Argument("attn_mask", "Optional[Tensor]", ("nothing",), False, False)


def instead(chosen: Chosen, device: str) -> Chosen:
    """The same call in the form that the device has; itself where it has it, or nobody knows another."""
    import torch

    form = _FORMS.get(chosen.name)
    full = f"{chosen.name}.{chosen.overload}" if chosen.overload else chosen.name
    key = _KEYS.get(device)
    if device == "cpu" and any(one.name == "half_to_float" for one in chosen.arguments):
        return _off(chosen, "half_to_float")
    if form is None or key is None or torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
        return chosen
    return form(chosen, {one.name: one for one in chosen.arguments})


def elsewhere(operator: str, inputs: Sequence[Recorded]) -> tuple[str, Sequence[Recorded]]:
    """The call as torch alone has it, where the library of its operator is not here."""
    npu = operator == "npu::npu_rms_norm" and len(inputs) == 3 and inputs[1][0] == "tensor"
    if not npu or find_spec("torch_npu") is not None:
        return operator, inputs
    return "aten::rms_norm", [inputs[0], ("value", list(inputs[1][2])), inputs[1], inputs[2]]


def _off(chosen: Chosen, name: str) -> Chosen:
    """A switch that this device does not have."""
    return replace(chosen, arguments=tuple(
        replace(one, recorded=("value", False)) if one.name == name else one for one in chosen.arguments
    ))  # fmt: skip


def _attention(chosen: Chosen, known: Mapping[str, Argument]) -> Chosen:
    tensors = [known["query"], known["key"], known["value"]]
    mask = known.get("attn_bias", _NO_TENSOR)
    return _scaled(tensors, mask, known)


def _flash(chosen: Chosen, known: Mapping[str, Argument]) -> Chosen:
    """The inner form, whose heads come third. Sequences packed one after another have no other form."""
    if known["query"].recorded[0] == "tensor" and len(known["query"].recorded[2]) != 4:
        raise CannotReplay(f"{chosen.name} of packed sequences has no form on this device")
    if any(known.get(name, _NO_TENSOR).recorded[0] == "tensor" for name in ("cum_seq_q", "cu_seqlens_q")):
        raise CannotReplay(f"{chosen.name} of packed sequences has no form on this device")
    return _scaled([_heads_first(known[name]) for name in ("query", "key", "value")], _NO_TENSOR, known)


def _heads_first(one: Argument) -> Argument:
    _, kind, shape, strides = one.recorded
    order = (0, 2, 1, 3)
    return replace(one, recorded=("tensor", kind, [shape[at] for at in order], [strides[at] for at in order]))


def _scaled(tensors: list[Argument], mask: Argument, known: Mapping[str, Argument]) -> Chosen:
    order = [*tensors, replace(mask, name="attn_mask")]
    order.append(known.get("dropout_p", _value("dropout_p", "float", 0.0)))
    order.append(known.get("is_causal", _value("is_causal", "bool", False)))
    if "scale" in known:
        order.append(known["scale"])
    return _renamed("aten::scaled_dot_product_attention", order)


def _convolution(chosen: Chosen, known: Mapping[str, Argument]) -> Chosen:
    transposed = chosen.name.endswith("_transpose")
    spatial = len(known["weight"].recorded[2]) - 2
    order = [
        known["self"], known["weight"], known.get("bias", replace(_NO_TENSOR, name="bias")), known["stride"],
        known["padding"], known["dilation"], _value("transposed", "bool", transposed),
        known.get("output_padding", _value("output_padding", "List[int]", [0] * spatial)), known["groups"],
    ]  # fmt: skip
    return _renamed("aten::convolution", order)


def _batch_norm(chosen: Chosen, known: Mapping[str, Argument]) -> Chosen:
    return _renamed("aten::native_batch_norm", list(chosen.arguments))


def _rms_norm(chosen: Chosen, known: Mapping[str, Argument]) -> Chosen:
    """torch_npu's: the sides that are normalised are those of the weight."""
    weight = known["gamma"]
    sides = _value("normalized_shape", "List[int]", list(weight.recorded[2]))
    return _renamed("aten::rms_norm", [known["self"], sides, weight, known["epsilon"]])


def _value(name: str, kind: str, value: object) -> Argument:
    return Argument(name, kind, ("value", value), False, False)


def _renamed(name: str, arguments: list[Argument]) -> Chosen:
    found = choose(name, [one.recorded for one in arguments])
    names = {one.name: before.name for one, before in zip(_all(found), arguments)}
    return replace(found, was={name: was for name, was in names.items() if was != name})


def _all(found: Chosen) -> list[Argument]:
    """Its arguments by place, as far as they were given."""
    given = {one.name: one for one in found.arguments}
    return [given.get(one.name, replace(_NO_TENSOR, name=one.name)) for one in found.operator._schema.arguments]


_FORMS: Mapping[str, Callable[[Chosen, Mapping[str, Argument]], Chosen]] = {
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_scaled_dot_product_fused_attention_overrideable": _attention,
    "aten::_flash_attention_forward": _flash, "aten::_efficient_attention_forward": _flash,
    "aten::cudnn_convolution": _convolution, "aten::miopen_convolution": _convolution,
    "aten::miopen_depthwise_convolution": _convolution, "aten::mkldnn_convolution": _convolution,
    "aten::cudnn_convolution_transpose": _convolution, "aten::miopen_convolution_transpose": _convolution,
    "aten::cudnn_batch_norm": _batch_norm, "aten::miopen_batch_norm": _batch_norm,
    "npu::npu_rms_norm": _rms_norm,
}  # fmt: skip
