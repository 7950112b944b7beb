"""The timeline of a notebook in a real browser: its module draws what the functions of the kernel's side answer.

Jupyter's own part, a model that carries messages, is written out here. Everything else is what runs in a notebook.
"""

# ruff: noqa: F811 -- a fixture is asked for by its name
from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest
from test_browser import CHROMIUM, browser, playwright  # noqa: F401
from timeline_screen import HOOK
from timeline_served import SAMPLES, load

import npulens
from npulens.app.timeline import scripts
from npulens.app.timeline.asked import asked

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.filterwarnings("default"),
]
#: What a widget manager gives a module: state that both sides see, and messages with bytes.
MODEL = """async ([module, said]) => {
    const url = URL.createObjectURL(new Blob([module], { type: 'text/javascript' }));
    const state = { said, place: {} }, heard = [];
    window.model = {
        get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes: () => {},
        on: (_, act) => heard.push(act), off: () => {},
        send: async (message) => {
            const [status, text] = await window.kernel(message.path);
            const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
            for (const act of heard) act({ id: message.id, status }, [new DataView(bytes.buffer)]);
        },
    };
    const el = document.body.appendChild(document.createElement('div'));
    (await import(url)).default.render({ model: window.model, el });
}"""


def test_the_module_draws_what_the_kernel_answers(tmp_path: Path, browser: playwright.Browser) -> None:
    info = load(tmp_path, SAMPLES / "late_rank" / "capture")
    page = browser.new_page(viewport={"width": 1200, "height": 700}, reduced_motion="reduce")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    paths: list[str] = []

    def kernel(path: str) -> tuple[int, str]:
        paths.append(path)
        status, body = asked(tmp_path, info.run_id, path)
        return status, base64.b64encode(body).decode()

    page.expose_function("kernel", kernel)
    told = {"run": info.run_id, "lang": "en", "perfetto": None, "place": {"from": "100000000", "to": "150000000"},
            "height": 520, "guest": True, "style": scripts.css(), **scripts.words("en")}  # fmt: skip
    page.evaluate(MODEL, [scripts.notebook_js(), json.loads(json.dumps(told))])
    page.wait_for_function(f"{HOOK}?.settled", timeout=60_000)
    assert page.evaluate(f"{HOOK}.view") == [100_000_000, 150_000_000]
    assert page.evaluate(f"{HOOK}.marksDrawn()") > 50
    assert page.locator(".timeline").bounding_box()["height"] == 520  # type: ignore[index]
    page.keyboard.press("Home")  # a key outside the canvas is the notebook's
    assert page.evaluate(f"{HOOK}.view") == [100_000_000, 150_000_000]
    page.locator("canvas.canvas").focus()
    page.keyboard.press("Home")
    page.wait_for_function(f"{HOOK}.settled && {HOOK}.view[0] === 0", timeout=60_000)
    page.wait_for_function("window.model.get('place').from === '0'", timeout=10_000)
    assert {path.partition("?")[0] for path in paths} >= {"layout", "tile"} and errors == []
    page.close()


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = load(tmp_path, SAMPLES / "late_rank" / "capture")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "npulens.app.timeline.notebook", raising=False)
    with npulens.open(info.run_id, tmp_path) as run, pytest.raises(ModuleNotFoundError, match=r"npulens\[notebook\]"):
        run.timeline()


def test_the_widget_carries_it_all(tmp_path: Path) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    info = load(tmp_path, SAMPLES / "late_rank" / "capture")
    with npulens.open(info.run_id, tmp_path) as run:
        made = run.timeline((5, 5000), "zh")
    assert made.said["place"] == {"from": "5", "to": "5000"} and made.said["texts"]["button_marks"] == "标记"
