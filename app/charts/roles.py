"""The one table of what time is spent on: names and colours of every chart, the canvas, the reports and all legends.

A role keeps its colour in both themes. Every colour is at least 3:1 against the light and the dark page. A line of the
page's colour parts neighbours. Any two roles stay apart for every kind of colour vision; a test computes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

#: What the pages lie on, as in .streamlit/config.toml and report.css.
PAPER = {"light": "#ffffff", "dark": "#12161c"}
DARK_TEXT, LIGHT_TEXT = "#15202b", "#ffffff"


@dataclass(frozen=True)
class Role:
    """One kind of time: its name in English and Chinese, and its colour."""

    said: tuple[str, str]
    colour: str


ROLES: Mapping[str, Role] = {
    "computing": Role(("Computing", "计算"), "#146fd0"),
    "transferring": Role(("Transferring", "传输"), "#e57405"),
    "waiting": Role(("Waiting", "等待"), "#f94a68"),
    "copying": Role(("Copying", "拷贝"), "#a24192"),
    "host": Role(("Host", "主机侧"), "#12a777"),
    "idle": Role(("Idle", "空闲"), "#87949f"),
    "unknown": Role(("Unknown work", "未知任务"), "#865c3a"),
    "residual": Role(("Unexplained", "未解释"), "#cc2c08"),
}
#: Steps, ranges and annotations are marks beside the time, no kind of it.
MARK = "#66717d"

#: Kinds of spans, as the timeline has them.
OF_KIND = {
    "kernel": "computing", "memset": "computing", "device_other": "computing", "comm_op": "transferring",
    "comm_task": "transferring", "memcpy": "copying", "unknown": "unknown", "wait": "waiting", "cpu_op": "host",
    "host_other": "host", "python": "host", "runtime": "host", "enqueue": "host", "dequeue": "host", "gc": "host",
}  # fmt: skip
#: Groups of tracks, where many spans are one cell.
OF_GROUP = {"stream": "computing", "comm": "transferring", "host": "host"}

#: Whose time a piece of idle time or of the critical path is, and which shade of that role it has.
OF_CAUSE: Mapping[str, tuple[str, int]] = {
    "host_late": ("host", 0), "sync_stall": ("host", 1), "launch_overhead": ("host", 2), "dataloader": ("host", 3),
    "gc": ("host", 4), "compile": ("host", 5), "memory_alloc": ("host", 1), "profiler_overhead": ("host", 2),
    "first_use": ("host", 3), "shape_churn": ("host", 4), "copy_exposed": ("copying", 0), "late_rank": ("waiting", 0),
    "pipeline_bubble": ("waiting", 1), "dependency": ("waiting", 2), "comm_exposed": ("transferring", 0),
    "calling": ("host", 1), "backlog": ("unknown", 1), "unknown": ("idle", 0),
    "idle_unexplained": ("idle", 0), "unknown_work": ("unknown", 0),
    # pieces of the critical path
    "kernel": ("computing", 0), "comm": ("transferring", 0), "copy": ("copying", 0), "host": ("host", 0),
    "launch": ("host", 1), "queue": ("host", 2), "sync": ("host", 3), "peer": ("waiting", 0),
    "unexplained": ("idle", 0),
}  # fmt: skip

#: Texts of legends that name a role by what was measured of it.
OF_TEXT = {
    "breakdown.computing": "computing", "breakdown.communication": "transferring", "breakdown.copy": "copying",
    "breakdown.unknown": "unknown", "breakdown.idle": "idle", "breakdown.residual": "residual",
    "ranks.state_computing": "computing", "ranks.state_moving": "transferring", "ranks.state_waiting": "waiting",
    "ranks.state_idle": "idle", "communication.part_moving": "transferring", "communication.part_waiting": "waiting",
    "communication.part_neither": "idle", "copies.exposed": "copying", "copies.busy": "copying",
    "efficiency.part_communication": "transferring", "efficiency.part_copies": "copying",
    "efficiency.part_unknown": "unknown", "efficiency.part_idle": "idle", "counters.behind_computing": "computing",
    "counters.behind_communication": "transferring",
}  # fmt: skip

#: Towards white (above 0) or black: how shades of a role differ, so that neighbours of one role do.
_SHADES = (0.0, 0.18, -0.18, 0.26, -0.3, 0.1)


def colour(role: str) -> str:
    """The colour of a role."""
    return ROLES[role].colour


def of_cause(cause: str) -> str:
    """The colour of a cause of idle time, or of a kind of piece of the critical path."""
    role, shade = OF_CAUSE.get(cause, ("idle", 0))
    return shades(role)[shade]


def said(role: str, lang: str) -> str:
    """What a role is called."""
    return ROLES[role].said[lang == "zh"]


def shades(role: str) -> tuple[str, ...]:
    """The role's colour first, then its shades."""
    return tuple(_mixed(colour(role), share) for share in _SHADES)


def faded(role: str, share: float) -> str:
    """The role's colour as a film over what lies behind it."""
    return f"rgba({','.join(str(part) for part in _parts(colour(role)))},{share:g})"


def text_on(colour_: str) -> str:
    """Black or white, whichever reads better on a colour."""
    return max((DARK_TEXT, LIGHT_TEXT), key=lambda text: contrast(text, colour_))


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' luminance as WCAG 2 defines it: 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def script() -> str:
    """The table as JavaScript for the canvas: `ROLES` with colours, shades and names, and what has which role."""
    table = {
        "roles": {name: {"colour": role.colour, "shades": shades(name), "said": role.said}
                  for name, role in ROLES.items()},
        "mark": MARK, "of_kind": OF_KIND, "of_group": OF_GROUP,
        "of_cause": {cause: of_cause(cause) for cause in OF_CAUSE},
    }  # fmt: skip
    return f"const ROLES = {json.dumps(table, ensure_ascii=True)};"


def css() -> str:
    """The table as CSS classes of a report's drawings: `p-<role>` fills, `on-<role>` is text upon it."""
    return "\n".join(
        f".p-{name} {{ fill: {role.colour}; }} svg text.on-{name} {{ fill: {text_on(role.colour)}; }}"
        for name, role in ROLES.items()
    )


def _parts(colour_: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour_[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def _mixed(colour_: str, share: float) -> str:
    towards = 255 if share > 0 else 0
    return "#" + "".join(f"{round(part + (towards - part) * abs(share)):02x}" for part in _parts(colour_))


def _luminance(colour_: str) -> float:
    linear = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in _parts(colour_)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
