// The command palette: everything the keys, the buttons and the menus can do, and places to go to, found by typing.

const MOST_COMMANDS = 60;

function openPalette(tl) {
  if (!tl.layout) return;
  tl.menu.hidden = true;
  const { box } = tl.palette, every = commands(tl);
  box.replaceChildren();
  box.hidden = false;
  const card = make("div", "card palette", box), field = make("input", "", card), list = make("div", "options", card);
  field.type = "text";
  field.spellcheck = false;
  field.placeholder = tl.say("palette");
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-expanded", "true");
  field.setAttribute("aria-controls", (list.id = "npulens-commands"));
  for (const one of [field, box]) one.setAttribute("aria-label", tl.say("palette"));
  list.setAttribute("role", "listbox");
  let at = 0, shown = [];
  const mark = () => { [...list.children].forEach((one, n) => { one.classList.toggle("on", n === at); one.setAttribute("aria-selected", String(n === at)); }); list.children[at]?.scrollIntoView({ block: "nearest" }); };
  const run = (one) => { closePalette(tl); one.act(); tl.touch(); };
  const fill = () => {
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = every.filter((one) => wanted.every((word) => one.text.toLowerCase().includes(word))).slice(0, MOST_COMMANDS);
    if (field.value.trim()) shown.push({ text: tl.say("palette_search", { text: field.value.trim() }), keys: [], act: () => { tl.search.value = field.value; runSearch(tl, field.value, true); } });
    at = 0;
    list.replaceChildren();
    for (const one of shown) {
      const line = button(list, "line", one.text, "", () => run(one));
      line.setAttribute("role", "option");
      line.tabIndex = -1;
      for (const key of one.keys) make("kbd", "", line, key.startsWith("gesture_") ? tl.say(key) : key);
    }
    mark();
  };
  field.oninput = fill;
  field.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); at = (at + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % Math.max(1, shown.length); mark(); }
    if (event.key === "Enter" && shown[at]) { event.preventDefault(); run(shown[at]); }
    if (event.key === "Escape") { event.preventDefault(); closePalette(tl); }
  };
  fill();
  field.focus();
}

function closePalette(tl) {
  tl.palette.box.hidden = true;
  tl.canvas.focus({ preventScroll: true });
}

/** Every command: what it says, its keys, and what it does. */
function commands(tl) {
  const every = [];
  const add = (text, act, keys = []) => every.push({ text, act, keys });
  for (const [, lines] of HELP) {
    for (const [keys, sentence, acts] of lines) if (acts && sentence !== "help_palette") add(tl.say(sentence), () => Object.values(acts)[0](tl, {}), keys);
  }
  for (const name of BY) add(tl.say(`about_by_${name}`), () => tl.arrangeBy(name));
  const { buttons } = tl.barParts;
  for (const name of ["tracks", "arrows", "marks", "legend", "files"]) add(tl.say(`about_${name}`), () => buttons[name].click());
  add(tl.say("about_steps"), () => tl.show(...stepsWindow(tl)));
  if (tl.hits.length) add(tl.say("hits_as_list"), () => showHits(tl));
  for (const flag of tl.marks) add(tl.say("go_to", { what: flagText(flag) }), () => goToMoment(tl, flag.at));
  for (const [route] of tl.layout.routes) add(tl.say("palette_arrows", { route: clean(route) }), () => { if (!tl.routes.delete(route)) tl.routes.add(route); tl.rearranged(); });
  for (const { rank } of tl.layout.ranks) add(tl.say("go_to", { what: `rank ${rank}` }), () => toRank(tl, rank));
  const first = tl.layout.ranks.find(({ rank }) => tl.stepsOf.get(rank)?.length);
  for (const step of first ? tl.stepsOf.get(first.rank) : []) add(tl.say("go_to", { what: tl.say("step_label", { step: step.step, length: length(step.dur) }) }), () => tl.show(step.ts, step.ts + step.dur));
  for (const track of tl.layout.tracks) if (track.rank !== null) add(tl.say("go_to", { what: ranked(`rank ${track.rank}`, labelOf(tl, track)) }), () => { reveal(tl, String(track.id), 0); tl.rearranged(); });
  return every;
}

function toRank(tl, rank) {
  if (tl.by !== "ranks") tl.arrangeBy("ranks");
  tl.fold.delete(`r${rank}`);
  tl.rearranged();
  const row = tl.rowOf.get(`r${rank}`);
  if (row) tl.scrollTo(row.y);
}

/** The canvas alone on the screen, and back. */
function fullscreen(tl) {
  const { host } = tl, now = host.getRootNode().fullscreenElement ?? document.fullscreenElement;
  if (now) document.exitFullscreen();
  else host.requestFullscreen?.().catch(() => tl.flash(tl.say("no_fullscreen")));
}
