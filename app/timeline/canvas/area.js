// What lies in a selected area, seen in four ways: summed by name, one by one, as a flame graph, and what each rank did.

const AREA_TABS = { names: areaNames, slices: areaSlices, flame: areaFlame, states: areaStates };

function selectArea(tl, from, to, tracks) {
  tl.picked = tl.back = null;
  const start = Math.max(0, Math.floor(from));
  tl.area = { from: start, to: Math.max(start + 1, Math.ceil(Math.min(to, tl.layout.to))), tracks };
  tl.placeChanged();
  showArea(tl);
}

/** The area in the way that was chosen last. */
function showArea(tl) {
  const { area } = tl, { words, tools, body } = openDrawer(tl, "area"), of = `from=${area.from}&to=${area.to}`, wanted = tl.areaTab ?? "names";
  make("strong", "name", words, tl.say("area_title", { length: length(area.to - area.from), n: area.tracks.length }));
  make("span", "quiet", words, `${exact(area.from)} – ${exact(area.to)}`);
  if (!area.tracks.length) { make("div", "quiet", body, tl.say("area_empty")); tl.touch(); return; }
  const tabs = make("div", "tabs", body), page = make("div", "", body);
  tabs.setAttribute("role", "tablist");
  for (const name of Object.keys(AREA_TABS)) {
    const one = button(tabs, "tab", tl.say(`area_${name}`), "", () => { tl.areaTab = name; showArea(tl); });
    one.setAttribute("role", "tab");
    one.setAttribute("aria-selected", String(name === wanted));
  }
  tools.prepend(button(null, "", tl.say("focus"), tl.say("help_fit"), () => focusPicked(tl)), copyTable(tl, page));
  make("div", "quiet", page, tl.say("reading"));
  tl.reading = area;
  const tracks = `${of}&tracks=${area.tracks.join(",")}`;
  const path = { names: `summary?${tracks}`, slices: `slices?${tracks}`, flame: `flame?${tracks}`, states: `states?${of}&ranks=${ranksOf(tl, area).join(",")}` }[wanted];
  ask(tl, path).then((answer) => answer.json()).then((said) => [said, null], (error) => [null, error]).then(([said, error]) => {
    if (tl.reading === area) tl.reading = null;
    if (tl.area !== area || !page.isConnected) return;
    page.replaceChildren();
    if (said) AREA_TABS[wanted](tl, area, said, page);
    else make("div", "quiet", page, tl.say({ 413: "area_many", 503: "gaps_working" }[error.status] ?? "unreachable"));
  });
  tl.touch();
}

function ranksOf(tl, area) { return [...new Set(area.tracks.map((id) => tl.trackOf.get(id)?.rank).filter((rank) => rank !== null && rank !== undefined))]; }

function trackName(tl, id) {
  const track = tl.trackOf.get(id);
  return track ? ranked(track.rank, derived(track) ? labelOf(tl, track) : clean(track.name)) : String(id);
}

/** Says that nothing ran, where that is so. */
function nothing(tl, page, rows) {
  if (!rows.length) make("div", "quiet", page, tl.say("area_nothing"));
  return !rows.length;
}

function areaNames(tl, area, sums, page) {
  const whole = area.to - area.from, idle = (row) => tl.trackOf.get(row.track)?.group === "gaps";
  if (nothing(tl, page, sums.rows)) return;
  const time = (key) => [(row) => length(row[key]), (row) => row[key], true];
  table(tl, page, tl.say("area_about"), [
    [tl.say("col_name"), (row) => (idle(row) ? tl.cause(row.name) : called(clean(row.name))), (row) => clean(row.name).toLowerCase(), false, (row) => clean(row.name)],
    [tl.say("col_track"), (row) => trackName(tl, row.track), (row) => trackName(tl, row.track)],
    [tl.say("col_kind"), (row) => clean(row.kind ?? ""), (row) => row.kind],
    [tl.say("col_count"), (row) => row.count.toLocaleString("en-US"), (row) => row.count, true],
    [tl.say("col_total"), ...time("total_ns")], [tl.say("col_share"), (row) => share(row.total_ns, whole), (row) => row.total_ns, true],
    [tl.say("col_self"), ...time("self_ns")], [tl.say("col_mean"), ...time("mean_ns")],
    [tl.say("col_min"), ...time("min_ns")], [tl.say("col_max"), ...time("max_ns")],
  ], sums.rows);
  if (sums.cut) make("div", "quiet", page, tl.say("area_cut", { n: sums.rows.length }));
  if (sums.busy?.length) {
    const line = make("div", "busy", page);
    for (const one of sums.busy) make("span", "chip", line, tl.say("busy", { track: trackName(tl, one.track), share: share(one.busy_ns, whole), length: length(one.busy_ns) }));
  }
}

function areaSlices(tl, area, { slices, cut }, page) {
  if (nothing(tl, page, slices)) return;
  sliceTable(tl, page, slices, (row) => { tl.back = area; goTo(tl, row); });
  if (cut) make("div", "quiet", page, tl.say("area_longest", { n: slices.length }));
}

function areaStates(tl, area, { states }, page) {
  const whole = area.to - area.from;
  if (!states.length) { make("div", "quiet", page, tl.say("states_none")); return; }
  table(tl, page, tl.say("states_about"), [
    [tl.say("col_state"), (row) => tl.role(row.role), (row) => tl.role(row.role)],
    [tl.say("col_rank"), (row) => `rank ${row.rank}`, (row) => row.rank],
    [tl.say("col_total"), (row) => length(row.ns), (row) => row.ns, true, (row) => exact(row.ns)],
    [tl.say("col_share"), (row) => share(row.ns, whole), (row) => row.ns, true],
  ], states.sort((a, b) => a.rank - b.rank || b.ns - a.ns));
  make("div", "quiet", page, tl.say("states_hosts"));
}

const FRAME_TALL = 18, DEEPEST = 60;

/** Spans of one name below each other as one frame; a click on a frame spreads it, on the top one goes back. */
function areaFlame(tl, area, { frames, spans, left_out }, page) {
  if (nothing(tl, page, frames)) return;
  const below = new Map();
  frames.forEach((frame, at) => { if (!below.has(frame.parent)) below.set(frame.parent, []); below.get(frame.parent).push(at); });
  const about = make("div", "quiet", page, ""), picture = make("div", "flame", page);
  picture.setAttribute("role", "tree");
  const paint = (top) => {
    picture.replaceChildren();
    const whole = top < 0 ? frames.reduce((sum, one) => (one.parent < 0 ? sum + one.total_ns : sum), 0) : frames[top].total_ns;
    let deepest = 0;
    const place = (at, x, depth) => {
      const { name, kind, total_ns: ns } = frames[at], wide = ns / whole, said = called(clean(name)) || "?";
      if (wide < 0.001 || depth > DEEPEST) return;
      deepest = Math.max(deepest, depth);
      const one = button(picture, "frame", wide > 0.02 ? said : "", `${clean(name)}: ${length(ns)}, ${share(ns, whole)}, ${tl.say("flame_self", { self: length(frames[at].self_ns), n: frames[at].count.toLocaleString("en-US") })}`, () => paint(at === top ? frames[at].parent : at));
      const colour = spanColour(kind, name);
      Object.assign(one.style, { left: `${x * 100}%`, width: `${wide * 100}%`, top: `${depth * FRAME_TALL}px`, background: colour, color: inkOn(colour) });
      one.setAttribute("role", "treeitem");
      one.setAttribute("aria-level", String(depth + 1));
      let from = x;
      for (const child of below.get(at) ?? []) { place(child, from, depth + 1); from += frames[child].total_ns / whole; }
    };
    if (top < 0) { let from = 0; for (const at of below.get(-1) ?? []) { place(at, from, 0); from += frames[at].total_ns / whole; } } else place(top, 0, 0);
    picture.style.height = `${(deepest + 1) * FRAME_TALL}px`;
    about.textContent = tl.say(left_out ? "flame_about_cut" : "flame_about", { n: spans.toLocaleString("en-US"), total: length(whole), thin: left_out.toLocaleString("en-US") });
  };
  paint(-1);
}
