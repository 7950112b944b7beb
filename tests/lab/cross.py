"""`python -m tests.lab.cross [NAME ...]`: the laboratory's places beside those that PyTorch's own matchers find.

Attention: so many places as Inductor counts when it compiles the same module (`fuse_attention`). Convolution with
BatchNorm: so many normalisations as `torch.fx.experimental.optimization.fuse` takes out, where fx can trace the module.
A difference is told, not judged: each side has forms that the other leaves. The models are those of tests.lab.zoo.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from npulens.collectors.lab import graph
from npulens.collectors.lab import subject as subjects
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply
from tests.lab.zoo import ZOO, answer

_EVAL = Asked(False, False, False, "cpu", True)


def ours(name: str) -> dict[str, int | str]:
    """How many places the two rewrites change in the program that the laboratory captured."""
    with tempfile.TemporaryDirectory() as place:
        job = [sys.executable, "-m", "tests.lab.zoo", "--run", name]
        heard = answer([sys.executable, "-m", "npulens.collectors", "lab-hear", "-o", place, "--", *job])
        if not heard.get("subjects"):
            return {"sdpa": "not captured", "fold": "not captured"}
        program = subjects.read(Path(heard["subjects"][0]["place"])).program
        return {each: _changed(each, program) for each in ("sdpa", "fold")}


def _changed(name: str, program: Any) -> int | str:
    try:
        return rewrite.rewrite(name).apply(graph.copied(program), _EVAL).changed
    except DoesNotApply:
        return 0


def inductor(name: str) -> int:
    """What Inductor counts while it compiles the model for one batch."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor import config as inductor_config

    inductor_config.force_disable_caches = True  # what comes from its cache is not counted
    torch._dynamo.reset()
    counters.clear()
    model, given = _made(name)
    with torch.no_grad():
        compiled = torch.compile(model)
        _called(compiled, given)
    return int(counters["inductor"]["fuse_attention"])


def fx(name: str) -> int | str:
    """The normalisations that fx's own fusion takes out."""
    import torch
    from torch.fx.experimental.optimization import fuse

    model, given = _made(name)
    try:
        fused = fuse(model)
        with torch.no_grad():
            _called(fused, given)
    except (torch.fx.proxy.TraceError, TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
        return f"not traced: {str(error).splitlines()[0][:60]}"
    return _norms(model) - _norms(fused)


def _made(name: str) -> tuple[Any, dict[str, Any]]:
    import torch

    torch.manual_seed(7)
    model, batch = ZOO[name][1]()
    return model.eval(), batch(2)


def _called(model: Any, given: dict[str, Any]) -> Any:
    return model(given[""]) if "" in given else model(**given)


def _norms(model: Any) -> int:
    import torch

    return sum(isinstance(each, torch.nn.BatchNorm2d) for each in model.modules())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    warnings.simplefilter("ignore")
    print("| model | attention: laboratory | Inductor | BatchNorm folded: laboratory | torch.fx |")
    print("|---|---|---|---|---|")
    alike = 0
    names = [name for name in parser.parse_args().names or ZOO if importlib.util.find_spec(ZOO[name][0]) is not None]
    for name in names:
        found, attention, folded = ours(name), inductor(name), fx(name)
        alike += found["sdpa"] == attention and found["fold"] == folded
        print(f"| {name} | {found['sdpa']} | {attention} | {found['fold']} | {folded} |", flush=True)
    print(f"\n{alike} of {len(names)} alike")
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main())
