"""Text without the people, machines and places in it: host names, user names, paths, addresses, secrets.

What stays is what a trace is read for. That is names of kernels, operators and Python functions, shapes, and the file
and line of a frame. Which places are the same stays too. The same text always becomes the same word (host-01, <dir-3>).
Two texts never become the same one, so what groups by a name still does. The words are counted in order of appearance.
A number says nothing about what it stands for, so there is no salt to keep and no table to lose. Doing it again gives
the same bytes.

A bare name can only be known from elsewhere (`redact_run` asks the capture). Words of every day are never taken for
one. A user called `train` is replaced in paths and by key, not wherever that word stands.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from npulens.ingest.store import redact_rules as rules

#: Literals whose answer is remembered.
_MOST_KEPT = 100_000


class Redactor:
    """One mapping; whatever goes through it becomes the same word again."""

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = (), kept: Iterable[str] = ()) -> None:
        """``kept``: words that operators are called by, which are never taken for a name where they stand alone."""
        self._words: dict[str, dict[str, str]] = {}
        self._kept: dict[tuple[str, str], str] = {}
        self._hosts: dict[str, str] = {}
        self._users: dict[str, str] = {}
        for host in hosts:
            self.host(host)
        for user in users:
            self.user(user)
        #: The names that are replaced wherever they stand, hosts in any case.
        self.names = tuple(sorted({*_telling(self._hosts, ()), *_telling(self._users, kept)}))
        alone = [*(f"(?i:{name})" for name in _telling(self._hosts, ())), *_telling(self._users, kept)]
        self._bare = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(alone)}){rules.DOMAIN}(?![A-Za-z0-9])") if alone else None
        self._suspect = re.compile("|".join([rules.SUSPECT, *alone]))

    def text(self, value: str) -> str:
        """A text, or JSON with texts in it; numbers and everything else of JSON stay as written."""
        if value[:1] in ("{", "[") and value[-1:] in ("}", "]") and '"' in value:
            return self._json(value)
        return self._plain(value)

    def value(self, value: Any, key: str = "") -> Any:
        """Anything that JSON can say; what a key says of its value is heeded."""
        if isinstance(value, str):
            return self._valued(key, value)
        if isinstance(value, dict):
            return {self._plain(str(name)): self.value(inner, str(name)) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner, key) for inner in value]
        return self._word("secret", str(value)) if _secret(key, str(value)) and isinstance(value, int) else value

    def host(self, value: str) -> str:
        """The word for a host; a full name and its first part are one host."""
        full = value.strip().lower()
        short = full.split(".")[0]
        if not short or short == "localhost" or _address(value):
            return self._plain(value)
        if short not in self._hosts:
            self._hosts[short] = self._word("host", short, "{}-{:02d}")
        self._hosts[full] = self._hosts[short]
        return self._hosts[short]

    def user(self, value: str) -> str:
        """The word for a user."""
        name = value.strip()
        if not name or name == "root":
            return value
        self._users[name] = self._word("user", name, "{}-{:02d}")
        return self._users[name]

    def _word(self, kind: str, value: str, shape: str = "<{}-{}>") -> str:
        known = self._words.setdefault(kind, {})
        return known.setdefault(value, shape.format(kind, len(known) + 1))

    def _home(self, folder: str) -> str:
        """~ for the first, ~2 for the next: files of the same name in two homes are two."""
        number = self._word("home", folder, "{1}")
        return "~" if number == "1" else f"~{number}"

    def _json(self, value: str) -> str:
        """Every string literal of it; one that does not change stays as it was written."""
        key = ""

        def put(found: re.Match[str]) -> str:
            nonlocal key
            literal, colon, number = found.groups()
            inner = _unquoted(literal) if "\\" in literal else literal[1:-1]
            said = self._once(inner, key if colon is None else "")
            if colon is not None:
                key = inner
            text = literal if said == inner else json.dumps(said, ensure_ascii=False)
            if number is not None and _secret(key, number):
                number = json.dumps(self._word("secret", number))
            return text + (colon or "") + (number or "")

        return rules.LITERAL.sub(put, value)

    def _once(self, value: str, key: str) -> str:
        """A literal of JSON: arguments say the same again and again."""
        said = self._kept.get((key, value))
        if said is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            said = self._kept[key, value] = self._valued(key, value)
        return said

    def _valued(self, key: str, value: str) -> str:
        """A value of which a key says what it is."""
        name = _snake(key)
        if _secret(key, value):
            return self._word("secret", value)
        if name in rules.HOST_KEYS and _is_name(value):
            return self.host(value)
        if name in rules.USER_KEYS and _is_name(value):
            return self.user(value)
        if name in rules.SERIAL_KEYS and value:
            return self._word("serial", value)
        return self.text(value)

    def _plain(self, value: str) -> str:
        if not self._suspect.search(value):
            return value
        for pattern, put in self._rules():
            value = pattern.sub(put, value)
        return self._bare.sub(self._named, value) if self._bare else value

    def _rules(self) -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]:
        """In this order: what holds a path or an address comes before them."""
        return (
            (rules.KEY_BLOCK, lambda found: self._word("secret", found[0])),
            (rules.TOKEN, lambda found: self._word("secret", found[0])),
            (rules.BEARER, lambda found: found[1] + self._word("secret", found[2])),
            (rules.ASSIGNED, self._assigned),
            (rules.URL, lambda found: self._word("url", found[0])),
            (rules.EMAIL, lambda found: self._word("email", found[0])),
            (rules.WINDOWS, lambda found: self._path(found[0].replace("\\", "/").removeprefix(found[0][:2]))),
            (rules.PATH, lambda found: self._path(found[0])),
            (rules.MAC, lambda found: self._word("mac", found[0].lower())),
            (rules.IPV6, self._ip),
            (rules.IPV4, self._ip),
        )

    def _assigned(self, found: re.Match[str]) -> str:
        """KEY=value, key: value, --key value."""
        key, sep, value = found.group("key", "sep", "value")
        bare, name = value.strip("\"'"), _snake(key)
        said = None
        if not sep.isspace() or key.startswith("--"):
            if _secret(key, bare):
                said = self._word("secret", bare)
            elif "=" in sep and _is_name(bare) and name in rules.HOST_KEYS | rules.USER_KEYS:
                said = self.host(bare) if name in rules.HOST_KEYS else self.user(bare)
        if said is None and value.count("=") + value.count(":") <= rules.MOST_NESTED:
            said = rules.ASSIGNED.sub(self._assigned, value)
        return key + sep + (value if said is None else said)

    def _named(self, found: re.Match[str]) -> str:
        return self._users.get(found[1]) or self._hosts.get(found[1].lower()) or found[0]

    def _ip(self, found: re.Match[str]) -> str:
        address = _address(found[0])
        return self._word("ip", str(address), "{}-{:02d}") if address else found[0]

    def _path(self, path: str) -> str:
        """~ and a number for where it lies; the file of code keeps its name, published code its whole place."""
        path, dots = path.rstrip("."), path[len(path.rstrip(".")):]
        if path.startswith(rules.SYSTEM):
            return path + dots
        parts = [part for part in path.split("/") if part]
        if len(parts) == 1 and len(parts[0]) <= 2:  # a unit: 12 MB /s
            return path + dots
        at = next((i for i, part in enumerate(parts) if _public(parts, i, part)), None)
        if at is None:
            at = len(parts) - 1 if parts and rules.CODE.search(parts[-1]) else len(parts)
        home = _home(parts[:at])
        folder, tail = "/".join(parts[:at]), parts[at:]
        begin = [self._home("/".join(parts[:home]))] if home else []
        if at and at != home:
            begin.append(self._word("dir", folder))
        return "/".join([*begin, *tail]) + dots


def _telling(names: Iterable[str], kept: Iterable[str]) -> list[str]:
    """Names that may be replaced wherever they stand as a word, as patterns, the longest first."""
    words = set(kept)
    found = (
        name for name in names
        if len(name) >= 3 and name.lower() not in rules.COMMON and name not in words
        and not (name.isdecimal() and len(name) < 6)
    )  # fmt: skip
    return [re.escape(name) for name in sorted(found, key=lambda name: (-len(name), name))]


def _public(parts: list[str], i: int, part: str) -> bool:
    """Whether published code begins here: a package, or lib of lib/python3.11."""
    return part in rules.PUBLIC or (part == "lib" and i + 1 < len(parts) and bool(rules.PYTHON.match(parts[i + 1])))


def _home(parts: list[str]) -> int:
    """How many parts of a path are a home directory: /home/ann, /data/users/ann, /root."""
    if parts[:1] == ["root"]:
        return 1
    found = next((i for i, part in enumerate(parts[:3]) if part.lower() in ("home", "users")), None)
    return 0 if found is None or found + 1 >= len(parts) else found + 2


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address that says something about a network; the machine's own does not."""
    try:
        found = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return None if found.is_loopback or found.is_unspecified else found


def _unquoted(literal: str) -> str:
    """What a string literal of JSON says; what is none, as it is."""
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        return literal[1:-1]


def _is_name(text: str) -> bool:
    return bool(re.fullmatch(r"[^\s/\\:=,;{}\[\]\"'<>]{1,255}", text)) and not text.replace(".", "").isdecimal()


@lru_cache(4096)
def _snake(key: str) -> str:
    """hostName, HOST-NAME and host_name are one key."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()).strip("_")


def _secret(key: str, value: str) -> bool:
    """Whether a key says that its value is a secret. Language models are full of tokens that are none."""
    words = _snake(key).split("_")
    if not key or not value or value.startswith(("<", "/")):  # ours already; PWD is a directory
        return False
    if words[-1] == "token":
        looks = re.fullmatch(r"[\w+/=.~-]{8,}", value) and not value.isdecimal()
        return bool(looks) and (len(value) >= 16 or any(c.isdigit() for c in value))
    return not rules.SECRET_WORDS.isdisjoint(words) or " ".join(words[-2:]) in rules.SECRET_PAIRS
