// The drawer below the canvas: what is known of the selected span, and what was not recorded of it.

function pick(tl, span) {
  tl.picked = { ...span, links: [] };
  tl.area = null;
  tl.placeChanged();
  openDrawer(tl, "details");
  const path = span.path ? `path/${span.id}` : span.gap ? `gap/${span.rank}/${span.id}` : `span/${span.id}`, { picked } = tl;
  make("div", "quiet", tl.drawer.body, tl.say("reading"));
  tl.reading = picked;
  ask(tl, path).then((answer) => answer.json()).then((known) => {
    if (tl.reading === picked) tl.reading = null;
    if (tl.picked !== picked) return;
    if (span.path) { Object.assign(picked, { ts: known.ts, dur: known.dur, name: known.kind, rank: known.rank, track: tl.pathTrack?.id }); pathDetails(tl, known); }
    else if (span.gap) { Object.assign(picked, { id: known.id, ts: known.ts, dur: known.dur, name: known.cause, track: gapTrack(tl, known.rank) ?? picked.track }); tl.placeChanged(); gapDetails(tl, known); }
    else { Object.assign(picked, { ts: known.ts, dur: known.dur, track: known.track, rank: known.rank, lane: known.depth ?? picked.lane, name: clean(known.name), links: known.links ?? [] }); spanDetails(tl, known); }
    if (picked.wantsView) { picked.wantsView = false; bring(tl, picked); }
    if (picked.wantsRow) { picked.wantsRow = false; reveal(tl, String(picked.track), picked.lane); tl.rearranged(); }
    tl.touch();
  }).catch((error) => {
    if (error.status === 503 && tl.picked === picked) { setTimeout(() => { if (tl.picked === picked) pick(tl, picked); }, AGAIN_MS); return; }
    if (tl.reading === picked) tl.reading = null;
    if (error.status === 404 && span.gap && tl.picked === picked) { tl.clear(); return; }
    if (tl.picked === picked) { tl.drawer.body.replaceChildren(); make("div", "quiet", tl.drawer.body, tl.say("unreachable")); } });
}

/** Moves the view only as far as needed to show a span. */
function bring(tl, span) {
  reveal(tl, String(span.track), span.lane);
  const { from, to, length: size } = tl.view, end = span.ts + span.dur;
  if (span.dur > size || span.dur < size / 2000) {
    const air = Math.max(span.dur * 2, SHORTEST);
    tl.show(span.ts - air, end + air);
  } else if (span.ts < from || end > to) tl.show((span.ts + end) / 2 - size / 2, (span.ts + end) / 2 + size / 2);
  tl.rearranged();
}

/** Goes to the other end of a link, a search hit, a parent. */
function goTo(tl, end) {
  if (end.ts !== undefined && end.dur !== undefined && end.track !== undefined) bring(tl, end);
  pick(tl, { ...end, wantsView: end.ts === undefined });
}

function openDrawer(tl, kind) {
  const { drawer } = tl;
  drawer.kind = kind;
  drawer.box.hidden = false;
  drawer.body.replaceChildren();
  drawer.head.replaceChildren();
  const words = make("div", "words", drawer.head), tools = make("div", "tools", drawer.head);
  button(tools, "close", "✕", tl.say("close"), () => { tl.clear(); });
  tl.resize();
  return { words, tools, body: drawer.body };
}

function facts(parent, title, rows) {
  const kept = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!kept.length) return;
  const box = make("section", "", parent), list = make("dl", "", (make("h4", "", box, title), box));
  for (const [name, value] of kept) { make("dt", "", list, name); make("dd", "", list, clean(value)); }
}

function spanDetails(tl, known) {
  const { words, tools, body } = openDrawer(tl, "details"), track = tl.trackOf.get(known.track), name = clean(known.name);
  make("strong", "name", words, called(name) || "?").title = name;
  make("span", "quiet", words, `${length(known.dur)} · rank ${known.rank} · ${clean(track?.name ?? "")}`);
  if (tl.hits.length) tools.prepend(button(null, "", tl.say("hits_as_list"), "", () => showHits(tl)));
  if (tl.back) tools.prepend(button(null, "", tl.say("back_to_area"), "", () => { tl.area = tl.back; tl.picked = null; showArea(tl); tl.placeChanged(); }));
  tools.prepend(
    button(null, "", "‹", tl.say("previous"), () => nextSlice(tl, "prev")), button(null, "", "›", tl.say("next"), () => nextSlice(tl, "next")),
    button(null, "", tl.say("focus"), tl.say("help_fit"), () => focusPicked(tl)), button(null, "", tl.say("around"), tl.say("help_area"), () => areaOfPicked(tl)),
    button(null, "", tl.say("same_name"), tl.say("same_name_about"), () => { tl.search.value = `name="${name.replace(/[\\"]/g, "\\$&")}"`; runSearch(tl, tl.search.value); }),
    button(null, "", tl.say("copy"), tl.say("copy_about"), () => navigator.clipboard?.writeText(JSON.stringify(known, null, 1))),
  );
  const columns = make("div", "columns", body);
  facts(columns, tl.say("when"), [
    [tl.say("full_name"), called(name) === name ? null : name],
    [tl.say("start"), exact(known.ts)], [tl.say("duration"), exact(known.dur)], [tl.say("end"), exact(known.ts + known.dur)],
    [tl.say("step"), known.step], [tl.say("kind"), known.kind], [tl.say("process"), track?.process], [tl.say("depth"), known.depth], ["span_id", known.id],
  ]);
  facts(columns, tl.say("facts"), (known.facts ?? []).map(([key, value]) => [tl.fact(key), factValue(key, value)]));
  facts(columns, tl.say("pipes"), [...(known.pmu ?? [])].sort((a, b) => Number(!a[1]) - Number(!b[1])).map(([metric, value]) => [clean(metric), number(value)]));
  linkList(tl, columns, known);
  if (known.stack?.length) stackList(tl, columns, known.stack);
  if (known.args) { const box = make("section", "", columns); make("h4", "", box, tl.say("arguments")); make("pre", "", box, pretty(known.args)); }
  const lacking = known.not_recorded ?? [];
  if (lacking.length) {
    const box = make("section", "lacking", columns);
    make("h4", "", box, tl.say("not_recorded"));
    for (const [what, setting] of lacking) make("div", "", box, setting ? tl.say("record_with", { what: tl.fact(what), setting: clean(setting) }) : tl.fact(what));
  }
}

function factValue(key, value) {
  if (typeof value === "number" && key.endsWith("_ns")) return `${length(value)} (${exact(value)})`;
  if (typeof value === "number" && key.includes("bytes")) return number(value);
  return clean(String(value));
}

function pretty(args) {
  try { return JSON.stringify(JSON.parse(args), null, 1).split("\n").map(clean).join("\n"); } catch { return clean(args); }
}

function linkList(tl, parent, known) {
  const ends = [...(known.links ?? [])];
  if (!ends.length && !known.parent) return;
  const box = make("section", "", parent);
  make("h4", "", box, tl.say("links"));
  if (known.parent) button(box, "link", `↑ ${tl.say("parent")}`, tl.say("parent"), () => goTo(tl, { id: known.parent }));
  for (const end of ends) {
    const track = tl.trackOf.get(end.track), late = end.out ? end.ts - known.ts : known.ts - end.ts;
    const text = `${end.out ? "→" : "←"} ${called(clean(end.name))} · ${clean(track?.name ?? "")} · ${end.out ? "+" : "−"}${length(Math.abs(late))}`;
    button(box, "link", text, `${clean(end.route)} · ${tl.say("go_end", { rank: end.rank })}`, () => goTo(tl, end));
  }
}

function stackList(tl, parent, frames) {
  const box = make("section", "", parent), list = make("ol", "stack", (make("h4", "", box, tl.say("stack")), box));
  for (const frame of frames) make("li", "", list, clean(frame));
}

function gapDetails(tl, known) {
  const { words, body } = openDrawer(tl, "details"), columns = make("div", "columns", body);
  const swatch = make("i", "swatch", words);
  swatch.style.background = causeColour(known.cause);
  make("strong", "name", words, tl.say("gap_because", { cause: tl.cause(known.cause) }));
  make("span", "quiet", words, `${length(known.dur)} · rank ${known.rank}`);
  facts(columns, tl.say("when"), [[tl.say("start"), exact(known.ts)], [tl.say("duration"), exact(known.dur)], [tl.say("end"), exact(known.ts + known.dur)]]);
  if (known.line) facts(columns, tl.say("source"), [[tl.say("source_line"), known.line]]);
  if (known.host) {
    const box = make("section", "", columns);
    make("h4", "", box, tl.say("behind"));
    button(box, "link", `${clean(known.host.name)} · ${length(known.host.dur)}`, tl.say("go_there"), () => goTo(tl, { id: known.host.id }));
  }
}

/** A piece of the critical path: what it is, how much of the path it makes, and the span that it leads to. */
function pathDetails(tl, known) {
  const { words, tools, body } = openDrawer(tl, "details"), columns = make("div", "columns", body), { span } = known;
  tools.prepend(button(null, "", "‹", tl.say("previous"), () => nextSlice(tl, "prev")), button(null, "", "›", tl.say("next"), () => nextSlice(tl, "next")));
  make("i", "swatch", words).style.background = causeColour(known.kind);
  make("strong", "name", words, tl.say("path_piece", { kind: tl.cause(known.kind) }));
  make("span", "quiet", words, `${length(known.dur)} · ${known.rank === null ? tl.say("path_absent") : `rank ${known.rank}`}`);
  if (span) {
    const box = make("section", "", columns);
    make("h4", "", box, tl.say(known.kind === "peer" ? "path_waits" : "path_span"));
    button(box, "link", `${clean(span.name)} · ${length(span.dur)} · rank ${span.rank}`, tl.say("go_there"), () => goTo(tl, { id: span.id }));
  }
  facts(columns, tl.say("when"), [
    [tl.say("start"), exact(known.ts)], [tl.say("duration"), exact(known.dur)], [tl.say("end"), exact(known.ts + known.dur)],
    [tl.say("path_share"), share(known.dur, known.whole)], [tl.say("path_shift"), known.shift_ns ? exact(known.shift_ns) : null],
  ]);
}
