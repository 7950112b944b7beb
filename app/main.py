"""`streamlit run app/main.py` starts everything: the dashboard and, on the same port, its own HTTP routes.

Streamlit finds the app by reading this file's syntax tree, so `app = st.App(...)` has to stand here literally, at
module level. The page itself is drawn by dashboard.py, which runs once per visitor and interaction.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

# Streamlit puts this file's directory first on sys.path; nothing is imported from there.
sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]
if find_spec("npulens") is None:
    sys.exit("npulens is not installed in this Python: run `make run`, or `pip install -e .` in the checkout")

import streamlit as st  # noqa: E402
from streamlit import config  # noqa: E402
from streamlit.runtime.pages_manager import PagesManager  # noqa: E402

from npulens.app.team import server  # noqa: E402

# A directory called pages means an older kind of app until the first st.navigation: a link to a page would fail.
PagesManager.uses_pages_directory = False

# Streamlit 1.67 sends only the name of a message over 10 kB that it believes the browser still holds. The browser
# forgets those after two more scripts, and then the page is dead until it is loaded again ("Cached ForwardMsg MISS").
# It was seen in drops on a busy machine, where the page is drawn several times in a row. No message is as large as
# this.
config.set_option("global.minCachedMessageSize", 1 << 40)

app = st.App(
    "dashboard.py", routes=server.routes(), middleware=server.middleware(), lifespan=server.lifespan,
    secrets=server.secrets(),
)  # fmt: skip
