"""The file of a team: where its server is reached, who signs people in, which projects there are and whose they are.

A project is a store of its own. Whatever is given the directory of one project cannot see another. Without a file there
is one project, the store as it always was, and nobody signs in.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store.place import default_dir, located

#: The environment variable that names the file to the server's process.
VARIABLE = "NPULENS_TEAM"
#: The project of a server without a team.
ALONE = ""


class Role(IntEnum):
    """What somebody is in a project; each may do what the ones before may."""

    READER = 1
    BRINGER = 2
    OWNER = 3


@dataclass(frozen=True)
class Project:
    """A store and the people it belongs to."""

    name: str
    title: str
    store: Path
    #: A name, `group:` and a group's name, or `*` for whoever can sign in.
    members: Mapping[str, Role] = field(default_factory=dict)
    keep_days: int | None = None
    quota: int | None = None


@dataclass(frozen=True)
class SignIn:
    """Who says who somebody is (OpenID Connect), and which of the claims are a name and groups."""

    provider: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = "email"
    groups: str = "groups"
    hours: float = 12.0
    scope: str = "openid email profile"


@dataclass(frozen=True)
class Team:
    """The whole file."""

    home: Path
    projects: Mapping[str, Project]
    url: str = ""
    sign_in: SignIn | None = None
    hosts: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    port: int = 8501
    metrics_from: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    metrics_token: str | None = field(default=None, repr=False)
    audit_days: int = 400
    graceful_s: int = 30
    idle_s: int = 60

    @property
    def origin(self) -> str:
        """What browsers call the server: scheme, name and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    @property
    def base(self) -> str:
        """The path below which everything lies."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def names(self) -> frozenset[str]:
        """The hosts that it answers under."""
        return frozenset(name.lower() for name in (urlsplit(self.url).hostname or "", *self.hosts) if name)


def current() -> Team:
    """The team of this process; its file is read again when it has changed."""
    file = os.environ.get(VARIABLE)
    if not file:
        place = default_dir()
        return Team(place, {ALONE: Project(ALONE, "", place)})
    try:
        found = _read(Path(file), os.stat(file).st_mtime_ns)
    except (OSError, IngestError):
        if file not in _last:
            return read(Path(file))
        return _last[file]
    _last[file] = found
    return found


#: The last of a file that could be read: somebody may be in the middle of writing it.
_last: dict[str, Team] = {}


@lru_cache(4)
def _read(file: Path, changed: int) -> Team:
    return read(file)


def read(file: Path) -> Team:
    """The team that a file describes, or one sentence about what is wrong with it."""
    try:
        said = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise IngestError("team", Message("team_cannot_be_read", {"error": error.strerror}), str(file)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise IngestError("team", Message("team_is_no_toml", {"error": error}), str(file)) from error
    return _Said(file, said).team()


_MOST_PORT, _MOST_HOURS, _MOST_DAYS, _MOST_SECONDS = 65_535, 24 * 31, 36_500, 3_600
_SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TOP = ("url", "home", "sign_in", "server", "project")
_SIGN_IN = ("provider", "client_id", "client_secret_file", "name", "groups", "hours", "scope")
_SERVER = (
    "address", "port", "hosts", "metrics_from", "metrics_token_file", "audit_days", "graceful_s", "idle_s",
)  # fmt: skip
_PROJECT = ("title", "store", "owner", "bringer", "reader", "keep_days", "quota")


class _Said:
    """What a file says, taken out piece by piece; each refusal names its key."""

    def __init__(self, file: Path, said: dict[str, Any]) -> None:
        self.file, self.said = file, said

    def team(self) -> Team:
        self._only(self.said, _TOP, "")
        url = self._text(self.said, "url", "")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise self._wrong("url", "http(s)://NAME")
        home = self._path(self._text(self.said, "home", "", str(self.file.parent)))
        server = self._table("server")
        self._only(server, _SERVER, "server.")
        token = self._text(server, "metrics_token_file", "server.", "")
        return Team(
            home=home, projects=self._projects(home), url=url.rstrip("/"), sign_in=self._sign_in(),
            hosts=self._texts(server, "hosts", "server."),
            address=self._text(server, "address", "server.", "127.0.0.1"),
            port=self._number(server, "port", "server.", 8501, _MOST_PORT),
            metrics_from=self._networks(server), metrics_token=self._secret(token) if token else None,
            audit_days=self._number(server, "audit_days", "server.", 400, _MOST_DAYS),
            graceful_s=self._number(server, "graceful_s", "server.", 30, _MOST_SECONDS),
            idle_s=self._number(server, "idle_s", "server.", 60, _MOST_SECONDS),
        )  # fmt: skip

    def _sign_in(self) -> SignIn:
        said = self._table("sign_in")
        self._only(said, _SIGN_IN, "sign_in.")
        return SignIn(
            provider=self._text(said, "provider", "sign_in."), client_id=self._text(said, "client_id", "sign_in."),
            client_secret=self._secret(self._text(said, "client_secret_file", "sign_in.")),
            name=self._text(said, "name", "sign_in.", "email"), groups=self._text(said, "groups", "sign_in.", "groups"),
            hours=self._number(said, "hours", "sign_in.", 12, _MOST_HOURS),
            scope=self._text(said, "scope", "sign_in.", "openid email profile"),
        )  # fmt: skip

    def _projects(self, home: Path) -> dict[str, Project]:
        found = {}
        for name, said in self._table("project").items():
            key = f"project.{name}."
            if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name) or not isinstance(said, dict):
                raise self._wrong(f"project.{name}", "[project.name]")
            self._only(said, _PROJECT, key)
            members = {
                who: role for role in Role for who in self._texts(said, role.name.lower(), key)
            }  # the larger role counts  # fmt: skip
            found[name] = Project(
                name, self._text(said, "title", key, name),
                self._path(self._text(said, "store", key, str(home / "projects" / name))), members,
                self._number(said, "keep_days", key, 0, _MOST_DAYS) or None, self._size(said, key),
            )  # fmt: skip
        if not found:
            raise self._lacks("[project.NAME]")
        stores = [project.store.absolute() for project in found.values()]
        if len(set(stores)) < len(stores):
            raise self._wrong("store", "one for each project")
        return found

    def _table(self, key: str) -> dict[str, Any]:
        said = self.said.get(key, {})
        if not isinstance(said, dict):
            raise self._wrong(key, f"[{key}]")
        return said

    def _text(self, said: dict[str, Any], key: str, where: str, usual: str | None = None) -> str:
        found = said.get(key, usual)
        if found is None:
            raise self._lacks(where + key)
        if not isinstance(found, str) or not found.isprintable():
            raise self._wrong(where + key, '"..."')
        return found

    def _texts(self, said: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
        found = said.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
            raise self._wrong(where + key, '["...", "..."]')
        return tuple(found)

    def _number(self, said: dict[str, Any], key: str, where: str, usual: int, most: int) -> int:
        found = said.get(key, usual)
        if not isinstance(found, int) or isinstance(found, bool) or not (0 < found <= most or found == usual):
            raise self._wrong(where + key, f"1 ... {most:,}")
        return found

    def _networks(self, server: dict[str, Any]) -> tuple[str, ...]:
        found = self._texts(server, "metrics_from", "server.") or Team.metrics_from
        try:
            return tuple(str(ipaddress.ip_network(one)) for one in found)
        except ValueError as error:
            raise self._wrong("server.metrics_from", '["10.0.0.0/8"]') from error

    def _size(self, said: dict[str, Any], where: str) -> int | None:
        text = self._text(said, "quota", where, "")
        if not text:
            return None
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(kB|MB|GB|TB)", text)
        if found is None:
            raise self._wrong(f"{where}quota", '"200 GB"')
        return int(float(found[1]) * _SIZES[found[2]])

    def _path(self, text: str) -> Path:
        return located(text) if "://" in text else (self.file.absolute().parent / text)

    def _secret(self, name: str) -> str:
        file = self._path(name)
        try:
            found = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise IngestError("team", Message("team_secret_cannot_be_read", {"error": error}), str(file)) from error
        if not found:
            raise IngestError("team", Message("team_secret_is_empty"), str(file))
        return found

    def _only(self, said: dict[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in said.keys() - set(known):
            values = {"key": f"{where}{key}", "known": ", ".join(known)}
            raise IngestError("team", Message("team_has_unknown_key", values), str(self.file))

    def _wrong(self, key: str, wanted: str) -> IngestError:
        return IngestError("team", Message("team_key_is_wrong", {"key": key, "wanted": wanted}), str(self.file))

    def _lacks(self, key: str) -> IngestError:
        return IngestError("team", Message("team_lacks_key", {"key": key}), str(self.file))
