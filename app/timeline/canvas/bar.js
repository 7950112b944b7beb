// The bar above the canvas: search, buttons, and the menus for tracks, marks, colours and files.

function buildBar(tl, root) {
  const bar = make("div", "bar", root);
  bar.setAttribute("role", "toolbar");
  const find = make("div", "find", bar), field = (tl.search = make("input", "", find));
  field.type = "search";
  field.spellcheck = false;
  field.oninput = () => { clearTimeout(tl.searching); tl.searching = setTimeout(() => runSearch(tl, field.value), 220); };
  field.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key === "Enter") { clearTimeout(tl.searching); if (tl.q !== field.value.trim()) runSearch(tl, field.value, true); else stepHit(tl, event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { if (field.value) { field.value = ""; runSearch(tl, ""); } field.blur(); tl.canvas.focus(); }
  };
  tl.found = make("span", "found", find);
  tl.found.setAttribute("role", "status");
  tl.hitList = make("div", "menu hits", find);
  tl.hitList.hidden = true;
  tl.barParts = { bar, field, buttons: {} };
  const add = (name, act) => { tl.barParts.buttons[name] = button(bar, name, "", "", act); };
  add("hit_prev", () => stepHit(tl, -1));
  add("hit_next", () => stepHit(tl, 1));
  add("fit", () => focusPicked(tl));
  add("whole", () => tl.show(0, tl.layout.to));
  add("tracks", () => menu(tl, "tracks", trackMenu));
  add("marks", () => menu(tl, "marks", markMenu));
  add("legend", () => menu(tl, "legend", legendMenu));
  add("table", () => showVisible(tl));
  add("files", () => menu(tl, "files", fileMenu));
  add("help", () => toggleHelp(tl));
  tl.clock = make("span", "clock", bar);
  tl.menu = make("div", "menu", root);
  tl.menu.hidden = true;
}

function nameBar(tl) {
  const { bar, field, buttons } = tl.barParts;
  bar.setAttribute("aria-label", tl.say("toolbar"));
  field.placeholder = tl.say("search");
  field.setAttribute("aria-label", tl.say("search"));
  for (const [name, one] of Object.entries(buttons)) {
    const text = { hit_prev: "‹", hit_next: "›", help: "?" }[name] ?? tl.say(`button_${name}`);
    if (one.textContent !== text) one.textContent = text;
    one.title = tl.say(`about_${name}`);
    one.setAttribute("aria-label", one.title);
  }
}

function menu(tl, name, fill) {
  if (!tl.menu.hidden && tl.menu.dataset.name === name) { tl.menu.hidden = true; return; }
  tl.menu.replaceChildren();
  tl.menu.dataset.name = name;
  tl.menu.hidden = false;
  const { buttons, bar } = tl.barParts, at = buttons[name].offsetLeft;
  fill(tl, tl.menu);
  tl.menu.style.left = `${Math.max(0, Math.min(at, bar.clientWidth - tl.menu.offsetWidth - 4))}px`;
}

function trackMenu(tl, box) {
  const again = () => { box.replaceChildren(); trackMenu(tl, box); };
  const top = make("div", "line", box);
  button(top, "", tl.say("show_all"), "", () => { tl.hide.clear(); tl.rearranged(); again(); });
  button(top, "", tl.say("unpin_all"), "", () => { tl.pin = []; tl.rearranged(); again(); });
  button(top, "", tl.say("own_order"), "", () => { tl.order = []; tl.rearranged(); again(); });
  button(top, "", tl.say("fold_all"), "", () => { for (const row of [...tl.flow]) if (row.type === "group") tl.fold.add(row.key); tl.rearranged(); again(); });
  button(top, "", tl.say("unfold_all"), "", () => { tl.fold.clear(); tl.rearranged(); again(); });
  if (tl.pathTrack) trackLine(tl, box, String(tl.pathTrack.id), tl.say("path"), "rankline", null, again);
  for (const rank of orderedRanks(tl)) {
    trackLine(tl, box, `r${rank.rank}`, `rank ${rank.rank}`, "rankline", { type: "rank", key: `r${rank.rank}`, rank: rank.rank }, again);
    for (const track of orderedTracks(tl, rank.rank)) {
      const row = { type: "track", key: String(track.id), rank: rank.rank, track };
      trackLine(tl, box, row.key, labelOf(tl, track), "", row, again);
    }
    for (const one of tl.countersOf.get(rank.rank) ?? []) trackLine(tl, box, `c${one.id}`, `${clean(one.counter)} ${clean(one.series)}`, "", null, again);
  }
}

function trackLine(tl, box, key, text, name, row, again) {
  const line = make("div", `line ${name}`, box), label = make("label", "", line), tick = make("input", "", label);
  tick.type = "checkbox";
  tick.checked = !tl.hide.has(key);
  tick.onchange = () => { tl.toggle("hide", key); };
  make("span", "", label, text);
  if (key[0] !== "r") button(line, tl.pin.includes(key) ? "on" : "", "◆", tl.say("pin", { name: text }), () => { tl.toggle("pin", key); again(); });
  if (!row) return;
  button(line, "", "↑", tl.say("up", { name: text }), () => { shift(tl, row, -1); again(); });
  button(line, "", "↓", tl.say("down", { name: text }), () => { shift(tl, row, 1); again(); });
}

/** The rows a row can change places with. */
function peersOf(tl, row) {
  if (row.type === "rank") return orderedRanks(tl).map((rank) => ({ type: "rank", key: `r${rank.rank}`, rank: rank.rank }));
  return orderedTracks(tl, row.rank).filter((track) => track.group === row.track.group).map((track) => ({ type: "track", key: String(track.id), rank: row.rank, track }));
}

function shift(tl, row, by) {
  const peers = peersOf(tl, row), at = peers.findIndex((one) => one.key === row.key);
  if (at + by < 0 || at + by >= peers.length) return;
  tl.reorder(row, by < 0 ? peers[at - 1] : peers[at + 2] ?? null);
}

function markMenu(tl, box) {
  const again = () => { box.replaceChildren(); markMenu(tl, box); tl.touch(); };
  if (!tl.marks.length) make("div", "quiet", box, tl.say("no_marks"));
  for (const at of tl.marks) {
    const line = make("div", "line", box);
    button(line, "link", exact(at), tl.say("go_there"), () => { const half = tl.view.length / 2; tl.show(at - half, at + half); });
    button(line, "", "✕", tl.say("drop_mark"), () => { tl.marks = tl.marks.filter((one) => one !== at); tl.placeChanged(); again(); });
  }
}

/** Causes that occur in this capture, the frequent first. */
function causesShown(tile) {
  const counted = new Map();
  for (const at of tile ? [...tile.s_name, ...tile.c_name] : []) counted.set(at, (counted.get(at) ?? 0) + 1);
  return new Set([...counted].sort((a, b) => b[1] - a[1]).map(([at]) => tile.names[at]));
}

function legendMenu(tl, box) {
  const line = (colour, text) => { const one = make("div", "line", box); make("i", "swatch", one).style.background = colour; make("span", "", one, text); };
  make("h4", "", box, tl.say("legend_kinds"));
  for (const family of ["compute", "comm", "copy", "unknown", "wait", "host", "python", "runtime", "mark"]) line(FAMILIES[family][0], tl.say(`family_${family}`));
  const shown = causesShown(tl.tiles.whole_capture);
  if (shown.size) make("h4", "", box, tl.say("legend_gaps"));
  for (const cause of shown) line(causeColour(cause), tl.cause(cause));
  if (tl.pathTrack) make("h4", "", box, tl.say("path"));
  for (const kind of tl.pathTrack ? Object.keys(tl.layout.path_kinds) : []) line(causeColour(kind), tl.cause(kind));
  make("div", "quiet", box, tl.say("legend_cells"));
}

/** The hits of a search: how many, how long together, the first of them as a list. */
async function runSearch(tl, text, jump) {
  const wanted = text.trim();
  tl.q = wanted;
  tl.wanted = wanted.toLowerCase();
  tl.hits = [];
  tl.hitAt = -1;
  tl.hitList.hidden = true;
  tl.found.textContent = "";
  tl.placeChanged();
  tl.touch();
  if (!wanted) return;
  const reading = (tl.reading = { search: wanted });
  const answer = await ask(tl, `search?q=${encodeURIComponent(wanted)}&limit=200`).then((one) => one.json(), () => null);
  if (tl.reading === reading) tl.reading = null;
  if (tl.q !== wanted) return;
  if (!answer) { tl.found.textContent = tl.say("unreachable"); return; }
  tl.hits = answer.hits;
  tl.found.textContent = tl.say(answer.total ? "found" : "found_none", { n: answer.total.toLocaleString("en-US"), total: length(answer.total_ns) });
  tl.hitList.replaceChildren();
  answer.hits.forEach((one, at) => {
    const track = tl.trackOf.get(one.track);
    button(tl.hitList, "link", `${clean(one.name)} · ${length(one.dur)} · rank ${one.rank} · ${clean(track?.name ?? "")}`, exact(one.ts), () => { tl.hitAt = at; goTo(tl, one); markHit(tl); });
  });
  tl.hitList.hidden = !answer.hits.length || !tl.search.matches(":focus");
  if (jump) stepHit(tl, 1);
}

function stepHit(tl, by) {
  if (!tl.hits.length) return;
  const middle = (tl.view.from + tl.view.to) / 2;
  if (tl.hitAt < 0) { const next = tl.hits.findIndex((one) => one.ts >= middle); tl.hitAt = by > 0 ? (next < 0 ? 0 : next) - 1 : next < 0 ? 0 : next; }
  tl.hitAt = (tl.hitAt + by + tl.hits.length) % tl.hits.length;
  goTo(tl, tl.hits[tl.hitAt]);
  markHit(tl);
}

function markHit(tl) {
  [...tl.hitList.children].forEach((one, at) => one.classList.toggle("on", at === tl.hitAt));
  tl.hitList.hidden = true;
}
