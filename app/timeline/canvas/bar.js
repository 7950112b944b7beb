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
    if (event.key === "Enter") { clearTimeout(tl.searching); if (tl.q !== field.value.trim() || !tl.hits.length) runSearch(tl, field.value, true); else stepHit(tl, event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { if (field.value) { field.value = ""; runSearch(tl, ""); } field.blur(); tl.canvas.focus(); }
  };
  tl.found = make("span", "found", find);
  tl.found.setAttribute("role", "status");
  tl.hitList = make("div", "menu hits", find);
  tl.hitList.hidden = true;
  tl.barParts = { bar, field, buttons: {}, by: {} };
  const add = (name, act) => { tl.barParts.buttons[name] = button(bar, name, "", "", act); };
  add("hit_prev", () => stepHit(tl, -1));
  add("hit_next", () => stepHit(tl, 1));
  const by = (tl.barParts.group = make("div", "by", bar));
  by.setAttribute("role", "group");
  for (const name of BY) tl.barParts.by[name] = button(by, "", "", "", () => tl.arrangeBy(name));
  add("fit", () => focusPicked(tl));
  add("steps", () => tl.show(...stepsWindow(tl)));
  add("whole", () => tl.show(0, tl.layout.to));
  for (const [name, fill] of [["tracks", trackMenu], ["arrows", arrowMenu], ["marks", markMenu], ["legend", legendMenu]]) add(name, () => menu(tl, name, fill));
  add("table", () => showVisible(tl));
  add("files", () => menu(tl, "files", fileMenu));
  add("commands", () => openPalette(tl));
  add("full", () => fullscreen(tl));
  add("help", () => toggleHelp(tl));
  tl.clock = make("span", "clock", bar);
  tl.menu = make("div", "menu", root);
  tl.menu.hidden = true;
}

function nameBar(tl) {
  const { bar, field, buttons, by, group } = tl.barParts;
  bar.setAttribute("aria-label", tl.say("toolbar"));
  field.placeholder = tl.say("search");
  field.setAttribute("aria-label", tl.say("search"));
  field.title = tl.say("about_search");
  for (const [name, one] of Object.entries(buttons)) {
    const text = { hit_prev: "‹", hit_next: "›", help: "?", commands: ":" }[name] ?? tl.say(`button_${name}`);
    if (one.textContent !== text) one.textContent = text;
    tell(one, text, tl.say(`about_${name}`));
  }
  group.setAttribute("aria-label", tl.say("by"));
  for (const [name, one] of Object.entries(by)) {
    one.textContent = tl.say(`by_${name}`);
    tell(one, one.textContent, tl.say(`about_by_${name}`));
    one.setAttribute("aria-pressed", String(tl.by === name));
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
  const find = make("input", "filter", box), only = make("div", "line kinds", box);
  find.type = "search";
  find.placeholder = tl.say("tracks_filter");
  find.setAttribute("aria-label", tl.say("tracks_filter"));
  find.onkeydown = (event) => event.stopPropagation();
  find.oninput = () => { const wanted = find.value.trim().toLowerCase(); for (const line of box.querySelectorAll(".line[data-name]")) line.hidden = !line.dataset.name.includes(wanted); };
  for (const kind of ["steps", ...GROUPS, "counters"]) {
    if (!tl.layout.tracks.some((track) => track.group === kind) && !tl.layout[kind]?.length) continue;
    const key = `all.${kind}`, one = button(only, "", kind === "steps" ? tl.say("steps") : kind === "gaps" ? tl.say("gaps") : tl.say(`group_${kind}`), "", () => { tl.toggle("hide", key); again(); });
    one.setAttribute("aria-pressed", String(!tl.hide.has(key)));
  }
  const top = make("div", "line", box);
  button(top, "", tl.say("show_all"), "", () => { tl.hide.clear(); tl.rearranged(); again(); });
  button(top, "", tl.say("unpin_all"), "", () => { tl.pin = []; tl.rearranged(); again(); });
  button(top, "", tl.say("own_order"), "", () => { tl.order = []; tl.rearranged(); again(); });
  button(top, "", tl.say("fold_all"), "", () => { for (const row of [...tl.flow]) if (row.type === "group") tl.fold.add(row.key); tl.rearranged(); again(); });
  button(top, "", tl.say("unfold_all"), "", () => { tl.fold.clear(); tl.rearranged(); again(); });
  if (tl.pathTrack) trackLine(tl, box, String(tl.pathTrack.id), tl.say("path"), "rankline", null, again);
  for (const rank of orderedRanks(tl)) {
    trackLine(tl, box, `r${rank.rank}`, `rank ${rank.rank}`, "rankline", { type: "rank", key: `r${rank.rank}`, rank: rank.rank }, again);
    const of = (text) => `rank ${rank.rank} ${text}`.toLowerCase();
    for (const track of orderedTracks(tl, rank.rank)) {
      const row = { type: "track", key: String(track.id), rank: rank.rank, track };
      trackLine(tl, box, row.key, labelOf(tl, track), "", row, again, of(labelOf(tl, track)));
    }
    for (const one of tl.countersOf.get(rank.rank) ?? []) trackLine(tl, box, `c${one.id}`, `${clean(one.counter)} ${clean(one.series)}`, "", null, again, of(`${one.counter} ${one.series}`));
  }
}

function trackLine(tl, box, key, text, name, row, again, spoken = text.toLowerCase()) {
  const line = make("div", `line ${name}`, box);
  line.dataset.name = spoken;
  const label = make("label", "", line), tick = make("input", "", label);
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

/** Causes that occur in this capture, the frequent first. */
function causesShown(tile) {
  const counted = new Map();
  for (const at of tile ? [...tile.s_name, ...tile.c_name] : []) counted.set(at, (counted.get(at) ?? 0) + 1);
  return new Set([...counted].sort((a, b) => b[1] - a[1]).map(([at]) => tile.names[at]));
}

function legendMenu(tl, box) {
  const line = (colour, text) => { const one = make("div", "line", box); make("i", "swatch", one).style.background = colour; make("span", "", one, text); };
  make("h4", "", box, tl.say("legend_kinds"));
  for (const [name, { colour, said }] of Object.entries(ROLES.roles)) if (name !== "residual") line(colour, said[tl.data.lang === "zh" ? 1 : 0]);
  line(ROLES.mark, tl.say("family_mark"));
  const shown = causesShown(tl.tiles.whole_capture);
  if (shown.size) make("h4", "", box, tl.say("legend_gaps"));
  for (const cause of shown) line(causeColour(cause), tl.cause(cause));
  if (tl.pathTrack) make("h4", "", box, tl.say("path"));
  for (const kind of tl.pathTrack ? Object.keys(tl.layout.path_kinds) : []) line(causeColour(kind), tl.cause(kind));
  make("div", "quiet", box, tl.say("legend_cells"));
}
