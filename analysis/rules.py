"""The rule file: which kernels belong to one operator, and which rewrite of the laboratory a finding names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("rules.toml")


@dataclass(frozen=True)
class Rule:
    """One fix that a job can take: its rewrites, what to call instead, and which findings name it."""

    name: str
    rewrites: tuple[str, ...]
    operator: str | None  # of torch_npu
    cuda: str
    detectors: tuple[str, ...]


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text("utf-8"))


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule in the order of the file."""
    return tuple(
        Rule(
            each["name"], tuple(each["rewrites"]), each.get("operator"), each["cuda"], tuple(each.get("detectors", ()))
        )
        for each in _file()["rule"]
    )


def rule(name: str) -> Rule:
    """The rule of that name."""
    return next(each for each in rules() if each.name == name)


def in_chinese(operator: str) -> str:
    """How the file writes in Chinese what to call instead; as it is, where it is nothing but names."""
    return str(_file()["operators_in_chinese"].get(operator, operator))


def chained() -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """What passes through memory, and the sequences of kernels with their rule's name, as the file has them."""
    return str(_file()["memory_bound"]), tuple(_file()["chain"])


def rewrites_of(detector: str, values: Mapping[str, object] | None = None) -> list[str]:
    """The rewrites that a finding names: those of the rule that its kernels follow, else those of its detector."""
    followed = [each for each in rules() if each.name == (values or {}).get("rule")]
    named = [each for each in rules() if detector in each.detectors]
    return list(dict.fromkeys(name for each in (*followed, *named) for name in each.rewrites))
