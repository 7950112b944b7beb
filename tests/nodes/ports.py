"""A port of this machine that nobody uses just now, below those that outgoing connections get."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Another one at each call, most likely also in another process."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
