"""What a browser is watched for while hostile names are on its screen.

From the first moment every text that any part of a page shows is noted where it holds the word of a hostile name, in
shadow trees too; so a tooltip that was there for a moment is held to the rule as well.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hostile_names import BESIDE, HOST

INIT = """
(() => {
  window.showSaveFilePicker = undefined;  // downloads go the old way, which a test can watch
  window.__seen = new Set();
  window.__bad = new Set();
  let fired = undefined;
  Object.defineProperty(window, 'pwned', { get: () => fired, 
    set: (v) => { fired = v; window.__bad.add('a script ran'); } });
  const words = (text) => {
    for (const found of text.matchAll(/q\\d\\dx/g)) {
      const at = found.index;
      window.__seen.add(JSON.stringify([found[0], text.slice(Math.max(0, at - 9), at), text.slice(at + 4, at + 13)]));
    }
  };
  const BAD = 'iframe, object, embed, form, base, meta[http-equiv=refresh], math, .katex, [onerror], ' +
    '[onload], [onfocus], [ontoggle], [onclick], input[name=pw], details[ontoggle]';
  const look = (node) => {
    if (!node.isConnected) return;  // Plotly writes a text, then takes it apart
    if (node.nodeType === Node.TEXT_NODE) {
      if (!['SCRIPT', 'STYLE'].includes(node.parentNode?.nodeName)) words(node.data);
      else if (/pwned|evil/.test(node.data)) window.__bad.add(`${node.parentNode.nodeName}: ${node.data.slice(0, 80)}`);
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    if (node.matches(BAD)) window.__bad.add(node.outerHTML.slice(0, 160));
    const link = ['href', 'xlink:href', 'src', 'action'].map((name) => node.getAttribute(name)).find((one) => one);
    if (link && /evil|javascript:|^data:text/i.test(link)) window.__bad.add(node.outerHTML.slice(0, 160));
    if (/evil|pwned/.test(node.getAttribute('style') ?? '')) window.__bad.add(node.outerHTML.slice(0, 160));
    const inline = 'b, i, u, s, q, em, strong, code, del, h1, sub, sup, a, mark';
    if (node.matches(inline) && /^q\\d\\dx/.test(node.textContent) && !node.closest('svg'))
      window.__bad.add('markup: ' + node.outerHTML.slice(0, 160));
    for (const child of node.childNodes) look(child);
    if (node.shadowRoot) watch(node.shadowRoot);
  };
  const watch = (root) => {
    if (root.__watched) return;
    root.__watched = true;
    new MutationObserver((changes) => {
      for (const one of changes) {
        if (one.type === 'characterData') look(one.target);
        for (const node of one.addedNodes) look(node);
      }
    }).observe(root, { childList: true, subtree: true, characterData: true });
    for (const child of root.childNodes) look(child);
  };
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (how) { const root = attach.call(this, how); watch(root); return root; };
  watch(document);
})();
"""

_UNICODE = re.compile(r"\\u([0-9a-f]{4})")  # shapes and arguments are shown as the JSON that the capture wrote
_JSON = re.compile(r'\\(["\\/])')
_ESCAPED = re.compile(r'\\(?:u[0-9a-f]{4}|["\\/bfnrt])')


class Watch:
    """One page, and everything it did that it should not."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.wrong: list[str] = []
        self.seen: set[str] = set()
        page.add_init_script(INIT)
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: self.wrong.append(f"page error: {error}"))
        page.on("popup", lambda popup: self.wrong.append(f"popup: {popup.url}"))
        page.on("request", lambda request: self._asked(request.url))
        page.on("frameattached", lambda frame: self.wrong.append(f"frame: {frame.name}"))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")) or HOST in url.partition("?")[0]:
            self.wrong.append(f"request: {url}")

    def settle(self) -> None:
        """Until the script of the page has ended and nothing of it is on its way."""
        self.page.wait_for_timeout(120)
        self.page.wait_for_function(
            "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'", timeout=180_000
        )
        self.page.wait_for_timeout(120)

    def take(self) -> None:
        """What was seen and what went wrong since the page was opened; names that were changed are wrong too."""
        seen, bad = self.page.evaluate("[[...window.__seen], [...window.__bad]]")
        self.wrong += bad
        for said in seen:
            word, before, after = json.loads(said)
            self.seen.add(word)
            if not _verbatim(word, before, after):
                self.wrong.append(f"changed: {before}{word}{after}, wanted {sorted(BESIDE.get(word, ()))}")


def _verbatim(word: str, before: str, after: str) -> bool:
    unescaped = _JSON.sub(r"\1", before), _JSON.sub(r"\1", after)
    decoded = _UNICODE.sub(_char, before), _UNICODE.sub(_char, after)
    read = _ESCAPED.sub(_read, before), _ESCAPED.sub(_read, after)
    return any(
        _ends(_alike(told[0]), _alike(wanted[0])) and _ends(_alike(told[1])[::-1], _alike(wanted[1])[::-1])
        for told in ((before, after), unescaped, decoded, read)
        for wanted in BESIDE.get(word, ())
    )


def _char(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 16))


def _read(escaped: re.Match[str]) -> str:
    """What JSON means by it; a reader of captures keeps no NUL."""
    return str(json.loads(f'"{escaped[0]}"')).replace("\x00", "\ufffd")


def _ends(told: str, wanted: str) -> bool:
    """Whether the text beside the word is the name's own, as far as the text goes: names are cut and wrapped."""
    for one, other in zip(reversed(told), reversed(wanted), strict=False):
        if one == "\u2026":
            return True
        if one != other:
            return False
    return True


def _alike(text: str) -> str:
    """The canvas shows a space where the tables show that something was taken out; Markdown needs unseen spaces."""
    return re.sub(r"\\u[0-9a-f]{0,4}|\\[bfnrt](?![a-zA-Z])|[\ufffd\xa0\n\t]", " ", text.replace("\u200b", ""))
