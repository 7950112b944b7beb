"""A cluster analysis beside the rank directories it was made from: it says less than they do, and stays out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim

_FORMAT = "cluster_analysis"
#: Formats that no cluster analysis is made from.
_UNRELATED = {_FORMAT, "kineto", "mindspore", "opprof", "opprof_simulator"}

_Claims = dict[Path, dict[str, Claim]]


def part(claims: Mapping[Path, dict[str, Claim]]) -> tuple[_Claims, dict[Path, str]]:
    """The claims to load, and the files that are passed over, each with the reason."""
    ranks = any(set(of) - _UNRELATED for of in claims.values())
    if not ranks:
        return dict(claims), {}
    beside = {root for root, of in claims.items() if set(of) == {_FORMAT}}
    files = sorted({path for root in beside for path in claims[root][_FORMAT].files})
    kept = {root: of for root, of in claims.items() if root not in beside}
    return kept, dict.fromkeys(files, Message("cluster_analysis_rank_directories_it"))
