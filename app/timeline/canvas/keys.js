// The keyboard. The help overlay is drawn from the same list, so that it cannot promise a key that does nothing.

const ZOOM = 0.62, PAN = 0.18;

/** [keys as drawn, key of the sentence, keys as the browser names them, what they do]; no keys: a gesture. */
const HELP = [
  ["move", [
    [["W", "S"], "help_zoom", { w: (tl) => zoomKey(tl, ZOOM), s: (tl) => zoomKey(tl, 1 / ZOOM), "+": (tl) => zoomKey(tl, ZOOM), "=": (tl) => zoomKey(tl, ZOOM), "-": (tl) => zoomKey(tl, 1 / ZOOM) }],
    [["A", "D", "←", "→"], "help_pan", { a: (tl) => panKey(tl, -PAN), d: (tl) => panKey(tl, PAN), arrowleft: (tl) => panKey(tl, -PAN), arrowright: (tl) => panKey(tl, PAN) }],
    [["↑", "↓", "PgUp", "PgDn"], "help_scroll", { arrowup: (tl) => tl.scrollTo(tl.scroll - 60), arrowdown: (tl) => tl.scrollTo(tl.scroll + 60), pageup: (tl) => tl.scrollTo(tl.scroll - tl.height * 0.8), pagedown: (tl) => tl.scrollTo(tl.scroll + tl.height * 0.8) }],
    [["Home", "0"], "help_home", { home: (tl) => tl.show(0, tl.layout.to), 0: (tl) => tl.show(0, tl.layout.to) }],
    [["1"], "help_steps", { 1: (tl) => tl.show(...stepsWindow(tl)) }],
    [["gesture_ctrl_wheel"], "help_wheel_zoom"],
    [["gesture_wheel"], "help_wheel"],
    [["gesture_shift_drag"], "help_drag_pan"],
    [["gesture_alt_drag"], "help_box"],
    [["gesture_overview"], "help_overview"],
  ]],
  ["select", [
    [["gesture_click"], "help_click"],
    [["gesture_drag"], "help_drag"],
    [["gesture_lane"], "help_lane"],
    [["F"], "help_fit", { f: (tl, event) => (event.shiftKey ? fullscreen(tl) : focusPicked(tl)) }],
    [["R"], "help_area", { r: areaOfPicked }],
    [[".", ","], "help_next", { ".": (tl) => nextSlice(tl, "next"), ",": (tl) => nextSlice(tl, "prev") }],
    [["Esc"], "help_clear", { escape: (tl) => tl.escape() }],
  ]],
  ["find", [
    [["/"], "help_search", { "/": (tl) => tl.search.focus() }],
    [["N", "⇧N"], "help_hits", { n: (tl, event) => stepHit(tl, event.shiftKey ? -1 : 1) }],
    [[":", "Ctrl+⇧P"], "help_palette", { ":": openPalette, "：": openPalette }],
    [["M"], "help_mark", { m: markHere }],
    [["]", "["], "help_marks", { "]": (tl) => stepFlag(tl, 1), "[": (tl) => stepFlag(tl, -1) }],
    [["T"], "help_table", { t: (tl) => showVisible(tl) }],
  ]],
  ["arrange", [
    [["P"], "help_pin", { p: (tl) => onRow(tl, "pin") }],
    [["H"], "help_hide", { h: (tl) => onRow(tl, "hide") }],
    [["C"], "help_fold", { c: (tl) => onRow(tl, "fold") }],
    [["V"], "help_by", { v: (tl) => tl.arrangeBy(BY[(BY.indexOf(tl.by) + 1) % BY.length]) }],
    [["⇧F"], "help_full", { "⇧f": fullscreen }],
    [["gesture_gutter"], "help_order"],
    [["Q"], "help_drawer", { q: (tl) => tl.toggleDrawer() }],
    [["?"], "help_help", { "?": (tl) => toggleHelp(tl) }],
  ]],
];

const KEYS = new Map(HELP.flatMap(([, lines]) => lines.flatMap(([, , keys]) => Object.entries(keys ?? {}))));

/** Parts of the page outside the timeline that use letters and arrows themselves. */
const OTHERS = "[role='combobox'], [role='listbox'], [role='dialog'], [role='menu'], [data-testid='stDataFrame']";

/** Keys work as long as nobody is writing; what is taken here does not reach Streamlit's own shortcuts. */
function keyed(tl, event) {
  if (!tl.host.isConnected || event.defaultPrevented) return;
  const target = event.composedPath()[0], inside = event.composedPath().includes(tl.host);
  const writing = target instanceof Element && target.matches("input, textarea, select, [contenteditable='true'], [contenteditable='']");
  if (tl.data.guest && !inside) return; // in a notebook all other keys belong to the notebook
  if (writing || (!inside && target instanceof Element && target.closest(OTHERS))) return;
  if (inside && target instanceof Element && target.closest(".drawer, .bar, .menu") && ["arrowup", "arrowdown", "pageup", "pagedown", "home"].includes(event.key.toLowerCase())) return;
  if (!inside && target instanceof Element && target.closest("[role='radiogroup'], .picker") && event.key.startsWith("Arrow")) return;
  const palette = (event.ctrlKey || event.metaKey) && event.shiftKey && !event.altKey && event.key.toLowerCase() === "p";
  if (((event.ctrlKey || event.metaKey || event.altKey) && !palette) || !tl.layout) return;
  const act = palette ? openPalette : KEYS.get(event.key.toLowerCase());
  if (!act) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  tl.tip.hidden = true;
  act(tl, event);
  tl.touch();
}

function zoomKey(tl, factor) {
  const { pointer, view } = tl, inside = pointer && pointer.x > tl.left && pointer.x < tl.width;
  const share = inside ? (pointer.x - tl.left) / tl.plotWidth : 0.5, [from, to] = view.goal;
  view.glide(...view.zoomed(factor, from + (to - from) * share));
  tl.viewChanged();
}

function panKey(tl, part) {
  const [from, to] = tl.view.goal;
  tl.view.glide(...tl.view.panned((to - from) * part));
  tl.viewChanged();
}

/** First the selected span or area with some air around it, then, pressed again, the whole capture. */
function focusPicked(tl) {
  const what = tl.picked ? [tl.picked.ts, tl.picked.ts + Math.max(tl.picked.dur, 1)] : tl.area ? [tl.area.from, tl.area.to] : null;
  if (!what) { tl.show(0, tl.layout.to); return; }
  const air = Math.max((what[1] - what[0]) * 0.3, SHORTEST / 4), wanted = tl.view.fit(what[0] - air, what[1] + air);
  const there = Math.abs(tl.view.goal[0] - wanted[0]) < tl.view.length * 0.01 && Math.abs(tl.view.goal[1] - wanted[1]) < tl.view.length * 0.01;
  if (there) tl.show(0, tl.layout.to);
  else tl.show(...wanted);
}

function tracksOfRank(tl, rank) {
  return (tl.tracksOf.get(rank) ?? []).filter((track) => !tl.hide.has(String(track.id)) && !tl.hide.has(`all.${track.group}`)).map((track) => track.id);
}

/** What else ran on this rank while the selected span did. */
function areaOfPicked(tl) {
  if (tl.picked) selectArea(tl, tl.picked.ts, tl.picked.ts + Math.max(1, tl.picked.dur), tracksOfRank(tl, tl.picked.rank));
}

async function nextSlice(tl, dir) {
  const { picked } = tl;
  if (!picked) { pickFirst(tl); return; }
  tl.reading = picked;
  const answer = await ask(tl, `near?track=${picked.track}&lane=${picked.lane ?? 0}&ts=${picked.ts}&dir=${dir}`).then((one) => one.json(), () => null);
  if (tl.reading === picked) tl.reading = null;
  if (!answer || answer.id === null || tl.picked !== picked) return;
  const next = { ...answer, track: picked.track, lane: picked.lane, rank: picked.rank, gap: picked.gap, path: picked.path };
  bring(tl, next);
  pick(tl, next);
}

/** Without a selection the first span on the canvas is taken. */
function pickFirst(tl) {
  const found = visibleMarks(tl, 1)[0];
  if (found?.span) pick(tl, found.span);
}

function onRow(tl, what) {
  const row = (tl.pointer && rowAt(tl, tl.pointer.y)) ?? (tl.picked && tl.rowOf.get(String(tl.picked.track)));
  if (row && (row.type === "track" || row.type === "counter" || what === "fold" || (what === "hide" && row.type !== "group"))) tl.toggle(what, row.key);
}
