"""What redacting looks for: patterns of secrets, addresses and paths, and the keys that say what their value is."""

from __future__ import annotations

import re

#: What nobody is told by, and what traces are full of.
COMMON = frozenset(
    """
    root user users admin administrator ubuntu centos debian euler openeuler ma-user home work data model models train
    training test tests main host hosts localhost local node nodes worker master server rank device npu gpu cpu cuda
    ascend hccl torch python profiler kernel stream none null true false default public shared project code app apps src
    lib bin opt tmp mnt var share build batch loss step forward backward unknown nobody runner jenkins docker container
    dir path file email mac url secret serial
    """.split()  # noqa: SIM905
)
#: Where a path's public part begins: what follows names somebody else's published code.
PUBLIC = frozenset(
    ("site-packages", "dist-packages", "torch", "torch_npu", "triton", "tilelang", "torchair", "mindspore")
)
PYTHON = re.compile(r"python3(?:\.\d+)?$")
#: Directories that are the same on every machine.
SYSTEM = ("/usr/local/Ascend/", "/usr/local/lib/", "/usr/lib", "/usr/bin/", "/usr/include/", "/lib", "/bin/", "/sbin/",
           "/dev/", "/proc/", "/sys/")  # fmt: skip
CODE = re.compile(
    r"\.(?:py|pyx|pyi|c|cc|cpp|cxx|cu|cuh|h|hpp|hh|cce|asc|o|sh|js|ts|go|rs|java|so(?:\.\d+)*)$", re.IGNORECASE
)

LITERAL = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")(?:(\s*:\s*)(-?\d[\w.+-]*)?)?', re.DOTALL)
KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
#: What the keys of well-known services look like, wherever they stand.
TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
    r"hf_[A-Za-z0-9]{16,}|sk-[\w-]{20,}|xox[abposr]-[\w-]{10,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
BEARER = re.compile(r"\b((?:bearer|basic)\s+)(?=\S*\d)([\w+/=.~-]{8,})", re.IGNORECASE)
ASSIGNED = re.compile(
    r"""(?<![\w.-])(?P<key>-{0,2}[\w.-]*(?i:pass|pwd|secret|token|key|credential|cookie|auth|host|addr|node|user|log)"""
    r"""[\w.-]*)(?P<sep>["']?\s*(?:=|:\s)\s*|(?<=\w)\s+)(?P<value>"[^"]*"|'[^']*'|[^\s,;&'"()\[\]{}]+)"""
)
#: Assignments within the value of one: `env: A=b` is two, `a=a=a=...` is nonsense.
MOST_NESTED = 8
URL = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>`|]+")
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}(?!\w)")
IN = r"[^\s/\\\"'`()<>|:;,*?\[\]{}]"
PATH = re.compile(
    rf"(?:(?<![^\s\"'`=:(\[,;|{{@])|(?<=-[IL])|(?=/(?:home|Users)/))/(?:{IN}++(?: {IN}++){{0,4}}+/)*{IN}+"
)
WINDOWS = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z]:[\\/](?![\\/])|\\\\(?=\w))[^\s\"'<>|:*?()]+")
MAC = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5})(?![\w:-])")
IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
IPV4 = re.compile(r"(?<![A-Za-z0-9.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
#: The rest of a host's full name.
DOMAIN = r"(?:(?:\.[A-Za-z0-9-]+)*\.(?:com|cn|org|net|io|local|internal|lan|corp|intranet|localdomain|cluster|edu))?"

HOST_KEYS = frozenset(("host", "hostname", "host_name", "host_uid", "master_addr", "node_name", "nodename"))
USER_KEYS = frozenset(("user", "username", "user_name", "logname", "login"))
SERIAL_KEYS = frozenset(("serial", "serial_number", "serial_no", "sn", "uuid", "machine_id", "die_id"))
SECRET_WORDS = frozenset(("password", "passwd", "pwd", "passphrase", "secret", "credential", "credentials", "cookie",
                           "authorization", "apikey"))  # fmt: skip
SECRET_PAIRS = frozenset(f"{word} key" for word in ("api", "access", "private", "session", "auth", "account"))

#: RE2, for whole columns at once: what may change without any name known. What it does not match, stays.
SUSPECT = (
    r"[/\\@]|(?:\d{1,3}\.){3}\d|[0-9A-Fa-f]:[0-9A-Fa-f]{0,4}:|(?:[0-9A-Fa-f]{2}-){5}|(?:^|[^\w:])::[0-9A-Fa-f]|"
    r"AKIA|ASIA|gh[pousr]_|glpat-|hf_|sk-|xox|AIza|eyJ|-----BEGIN|_ascend_(?:pt|ms)|trace\.json|"
    r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|api_?key|(?:access|private|session|auth|account)_?key|credential|"
    r"cookie|authorization|bearer|basic |host_?name|host_?uid|[\"']host[\"']|master_addr|node_?name|[\"']user|"
    r"user_?name|logname|USER=|HOST=|[\"']login|serial|[\"']sn[\"']|uuid|machine_?id|die_?id)"
)
