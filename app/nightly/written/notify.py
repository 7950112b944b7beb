"""Telling people. What cannot be delivered is tried again and then said; it never makes a night fail.

A URL of a service holds its secrets, so none is ever shown. A receiver is called by its service and a number.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.app.nightly.config import Notify
from npulens.app.nightly.night import Night, Said
from npulens.app.nightly.written import as_markdown
from npulens.app.text.i18n import say

#: More receivers: one URL a line, or with spaces between them.
VARIABLE = "NPULENS_NOTIFY"
_NAMED = re.compile(r"\$\{(\w+)\}")
_TYPES = {
    "regressed": "failure", "open": "failure", "broken": "warning", "likely": "warning", "machine": "warning",
    "improved": "success", "fixed": "success", "learning": "info", "quiet": "info",
}  # fmt: skip


@dataclass(frozen=True)
class Delivery:
    """What became of one message."""

    receiver: str  # the service and its place in the list: never the URL
    delivered: bool
    tries: int
    reason: Said | None = None


def wanted(settings: Notify, night: Night) -> bool:
    """Whether this night is one to tell of."""
    if settings.when == "always":
        return True
    quiet = night.outcome in ("quiet", "learning")
    return night.outcome in ("regressed", "open") or (settings.when == "changed" and not quiet)


def tell(settings: Notify, night: Night, lang: str, report: Path) -> list[Delivery]:
    """Sends the night to every receiver."""
    urls = [*_filled(settings.urls), *os.environ.get(VARIABLE, "").split()]
    if not urls or not wanted(settings, night):
        return []
    try:
        import apprise
    except ImportError:
        return [Delivery("apprise", False, 0, Said("no_apprise", {}))]
    title, body = as_markdown.message(night, lang)
    attach = [str(report)] if settings.attach and report is not None and report.is_file() else None
    return [_send(apprise, number, url, (title, body, _TYPES[night.outcome], attach), settings)
            for number, url in enumerate(urls, 1)]  # fmt: skip


def receivers(settings: Notify) -> list[tuple[str, Said | None]]:
    """Everybody who is to be told, and why one cannot be; nothing is sent."""
    urls = [*_filled(settings.urls), *os.environ.get(VARIABLE, "").split()]
    if not urls:
        return []
    try:
        import apprise
    except ImportError:
        return [("apprise", Said("no_apprise", {}))]
    found = [(number, url, apprise.Apprise.instantiate(url, suppress_exceptions=True))
             for number, url in enumerate(urls, 1)]  # fmt: skip
    return [
        (f"{number} ({_kind(url) if service is None else service.service_name})",
         Said("bad_url", {}) if service is None else None)
        for number, url, service in found
    ]  # fmt: skip


def failed(settings: Notify, title: str, why: str) -> None:
    """Tells everybody that a night did not begin, as far as they can be told at all."""
    urls = [*_filled(settings.urls), *os.environ.get(VARIABLE, "").split()]
    if not urls:
        return
    try:
        import apprise
    except ImportError:
        return
    channel = apprise.Apprise()
    with _hushed():
        for url in urls:
            channel.add(url)
        channel.notify(body=why, title=title, notify_type="failure")


def _kind(url: str) -> str:
    """The kind of service that a URL names: the URL itself holds its secrets."""
    kind = url.partition("://")[0]
    return kind if kind.isalnum() and len(kind) <= 20 and "://" in url else "?"


def _filled(urls: tuple[str, ...]) -> list[str]:
    """URLs with ${NAME} replaced by the variable of that name, so that a file need not hold secrets."""
    return [_NAMED.sub(lambda found: os.environ.get(found[1], ""), url) for url in urls]


def _send(
    apprise: Any, number: int, url: str, what: tuple[str, str, str, list[str] | None], settings: Notify
) -> Delivery:
    service = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if service is None:
        return Delivery(f"{number} ({_kind(url)})", False, 0, Said("bad_url", {}))
    receiver = f"{number} ({service.service_name})"
    channel = apprise.Apprise()
    channel.add(service)
    title, body, kind, attach = what
    held = attach if service.attachment_support else None
    for turn in range(1, settings.tries + 1):
        with _hushed():
            if channel.notify(body=body, title=title, notify_type=kind, body_format="markdown", attach=held):
                return Delivery(receiver, True, turn)
        if turn < settings.tries:
            time.sleep(settings.wait * turn)
    return Delivery(receiver, False, settings.tries, Said("undelivered", {"tries": settings.tries}))


@contextmanager
def _hushed() -> Iterator[None]:
    """What apprise logs of a failure may hold the URL."""
    logger = logging.getLogger("apprise")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def sentence(delivery: Delivery, lang: str) -> str:
    """What became of a message, for the terminal."""
    values: dict[str, object] = {"receiver": delivery.receiver, "tries": delivery.tries}
    if delivery.delivered:
        return say(lang, "nightly.delivered", values)
    why = say(lang, f"nightly.{delivery.reason.key}", delivery.reason.values) if delivery.reason else ""
    return say(lang, "nightly.not_delivered", {**values, "why": why})
