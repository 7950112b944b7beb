"""Which rule a request falls under. A path that none of these names is refused where a team is served.

Rules are written as the paths of routes. So a test can ask of every route whether there is a rule for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from re import Pattern

from starlette.routing import compile_path


class Who(Enum):
    """Who a path is for."""

    OPEN = "open"  # whoever reaches the server
    SIGNED_IN = "signed in"  # whoever the provider knows; what they see of a project is asked where it is opened
    TOKEN = "token"  # a token of one's own, or a ticket
    WATCH = "watch"  # who collects metrics
    CLOSED = "closed"  # nobody


@dataclass(frozen=True)
class Rule:
    """Paths like this one, and who they are for."""

    path: str
    who: Who


RULES = (
    Rule("/_stcore/health", Who.OPEN),
    Rule("/auth/login", Who.OPEN),
    Rule("/auth/logout", Who.OPEN),
    Rule("/oauth2callback", Who.OPEN),
    Rule("/sign-in", Who.OPEN),
    Rule("/metrics", Who.WATCH),
    Rule("/api/upload/capture/{name:path}", Who.TOKEN),
    Rule("/api/mcp", Who.TOKEN),
    Rule("/api/upload/file", Who.SIGNED_IN),
    Rule("/api/upload/done", Who.SIGNED_IN),
    Rule("/api/timeline/{run_id}/{question:path}", Who.SIGNED_IN),
    Rule("/api/{path:path}", Who.CLOSED),
    Rule("/perfetto/window/{token}/{run_id}/export", Who.SIGNED_IN),
    Rule("/perfetto", Who.SIGNED_IN),
    Rule("/perfetto/{path:path}", Who.SIGNED_IN),
    Rule("/_stcore/stream", Who.SIGNED_IN),
    Rule("/_stcore/host-config", Who.SIGNED_IN),
    Rule("/_stcore/bidi-components/{path:path}", Who.SIGNED_IN),
    # Streamlit's own upload keeps files in memory, its metrics and its agents know no project.
    Rule("/_stcore/{path:path}", Who.CLOSED),
    Rule("/media/{file_id:path}", Who.SIGNED_IN),
    Rule("/component/{path:path}", Who.SIGNED_IN),
)
#: The page itself and the files it is made of: whatever path a browser asks for that nothing above names.
PAGE = Rule("/{path:path}", Who.SIGNED_IN)


@cache
def _patterns() -> tuple[tuple[Pattern[str], Rule], ...]:
    return tuple((compile_path(rule.path)[0], rule) for rule in RULES)


def of(path: str, method: str) -> Rule | None:
    """The first rule for a path below the server's own; None: refused."""
    for pattern, rule in _patterns():
        if pattern.match(path):
            return rule
    return PAGE if method in ("GET", "HEAD") else None
