// The overlay behind "?": drawn from the list the keyboard itself uses.

function toggleHelp(tl) {
  tl.help.hidden = !tl.help.hidden;
  if (tl.help.hidden) { tl.canvas.focus({ preventScroll: true }); return; }
  tl.help.replaceChildren();
  const card = make("div", "card", tl.help), head = make("div", "cardhead", card);
  make("strong", "", head, tl.say("help_title"));
  const close = button(head, "close", "✕", tl.say("close"), () => toggleHelp(tl));
  const columns = make("div", "columns", card);
  for (const [part, lines] of HELP) {
    const box = make("section", "", columns), list = make("dl", "keys", (make("h4", "", box, tl.say(`help_${part}`)), box));
    for (const [keys, sentence] of lines) {
      const name = make("dt", "", list);
      for (const key of keys) make("kbd", "", name, key.startsWith("gesture_") ? tl.say(key) : key);
      make("dd", "", list, tl.say(sentence));
    }
  }
  close.focus();
}
