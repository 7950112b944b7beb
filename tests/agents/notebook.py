"""A notebook with the timeline in a real JupyterLab, and a picture of it.

    python -m tests.agents.notebook [--jupyter /path/to/jupyter-lab] [-o docs/notebook.png]

The JupyterLab has to find npulens and anywidget. Its kernel opens the sample `late_rank` from a store of its own, and
the browser runs the two cells. The canvas has to draw, without an error of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from npulens import ingest

ROOT = Path(__file__).resolve().parents[2]
CELLS = (
    "import npulens\nrun = npulens.open('late_rank')\nrun.check().findings[0].words['en'].title",
    "run.timeline(window=(100_000_000, 250_000_000), height=420)",
)
_PATIENCE = 120  # seconds


@contextmanager
def lab(program: str, place: Path) -> Iterator[str]:
    """A JupyterLab over a folder with the notebook; the address of the notebook."""
    cells = [
        {"cell_type": "code", "execution_count": None, "id": f"cell-{number}", "metadata": {}, "outputs": [],
         "source": text} for number, text in enumerate(CELLS)
    ]  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (place / "late_rank.ipynb").write_text(json.dumps(whole), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(8)
    words = [
        program, "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={place}",
    ]  # fmt: skip
    environment = {**os.environ, "NPULENS_STORE": str(place / "store")}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(_PATIENCE):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={token}", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(1)
        yield f"http://127.0.0.1:{port}/lab/tree/late_rank.ipynb?token={token}"
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jupyter", default=shutil.which("jupyter-lab"))
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "notebook.png")
    options = parser.parse_args()
    if options.jupyter is None:
        raise SystemExit("there is no jupyter-lab here: pip install jupyterlab ipykernel, or name one with --jupyter")
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        ingest.load(ROOT / "sample_traces" / "late_rank", Path(scratch) / "store", label="late_rank")
        with lab(options.jupyter, Path(scratch)) as address:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 740})
            page.set_default_timeout(1e3 * _PATIENCE)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(address)
            page.locator(".jp-CodeCell").first.click()
            page.get_by_role("button", name="No", exact=True).click()  # news of Jupyter
            page.locator(".jp-CodeCell").first.click()
            page.wait_for_timeout(2_000)
            page.keyboard.press("Shift+Enter")
            page.locator(".jp-OutputArea-output").first.wait_for()
            page.keyboard.press("Shift+Enter")
            page.locator("canvas.canvas").wait_for()
            page.wait_for_timeout(5_000)
            page.screenshot(path=options.output)
            browser.close()
    if errors:
        raise SystemExit("\n".join(errors))
    print(options.output)


if __name__ == "__main__":
    main()
