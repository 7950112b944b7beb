// The search field: what the server understood of it, the hits, and which spans on the canvas are among them.

/** Asks what a text finds: hits, how long they are together, or a place to go to. */
async function runSearch(tl, text, jump) {
  const typed = text.trim();
  Object.assign(tl, { q: typed, hits: [], hitAt: -1 });
  if (!typed) tl.wanted = null;
  tl.hitList.hidden = true;
  tl.found.textContent = "";
  tl.placeChanged();
  tl.touch();
  if (!typed) return;
  const reading = (tl.reading = { search: typed });
  const answer = await ask(tl, `search?q=${encodeURIComponent(typed)}&limit=1000`).then((one) => one.json(), () => null);
  if (tl.reading === reading) tl.reading = null;
  if (tl.q !== typed) return;
  tl.wanted = answer?.wanted ?? null;
  if (!answer) tl.found.textContent = tl.say("unreachable");
  else if (answer.not_understood !== undefined) tl.found.textContent = tl.say("not_understood", { part: clean(answer.not_understood) });
  else if (answer.place) { tl.found.textContent = tl.say("press_enter"); if (jump) goToPlace(tl, answer.place); }
  else foundHits(tl, answer, jump);
  tl.touch();
}

function goToPlace(tl, [from, to]) {
  const half = Math.min(tl.view.length, tl.layout.to / 10) / 2; // close enough that the moment can be in the middle
  tl.show(to === null ? from - half : from, to === null ? from + half : to);
  tl.search.blur();
  tl.canvas.focus({ preventScroll: true });
}

function foundHits(tl, answer, jump) {
  tl.hits = answer.hits;
  tl.hitTotal = answer.total;
  tl.found.textContent = tl.say(answer.total ? "found" : "found_none", { n: answer.total.toLocaleString("en-US"), total: length(answer.total_ns) });
  tl.hitList.replaceChildren();
  if (answer.hits.length) button(tl.hitList, "link all", tl.say("hits_as_list"), "", () => showHits(tl));
  answer.hits.slice(0, 100).forEach((one, at) => {
    button(tl.hitList, "link", `${called(clean(one.name))} · ${length(one.dur)} · rank ${one.rank} · ${clean(tl.trackOf.get(one.track)?.name ?? "")}`, exact(one.ts), () => toHit(tl, at));
  });
  tl.hitList.hidden = !answer.hits.length || !tl.search.matches(":focus");
  if (jump) stepHit(tl, 1);
}

function toHit(tl, at) {
  tl.hitAt = at;
  goTo(tl, tl.hits[at]);
  tl.hitList.hidden = true;
}

function stepHit(tl, by) {
  if (!tl.hits.length) return;
  const middle = (tl.view.from + tl.view.to) / 2;
  if (tl.hitAt < 0) { const next = tl.hits.findIndex((one) => one.ts >= middle); tl.hitAt = by > 0 ? (next < 0 ? 0 : next) - 1 : next < 0 ? 0 : next; }
  toHit(tl, (tl.hitAt + by + tl.hits.length) % tl.hits.length);
}

/** The hits as a table in the drawer; a click goes to one, and the details lead back here. */
function showHits(tl) {
  tl.hitList.hidden = true;
  const { words, tools, body } = openDrawer(tl, "hits"), rows = tl.hits.map((hit, at) => ({ ...hit, at }));
  make("strong", "name", words, tl.say("hits_title", { n: tl.hitTotal.toLocaleString("en-US") }));
  make("span", "quiet", words, tl.q);
  tools.prepend(copyTable(tl, body));
  sliceTable(tl, body, rows, (row) => toHit(tl, row.at));
  if (tl.hitTotal > rows.length) make("div", "quiet", body, tl.say("area_cut", { n: rows.length }));
}

/** Spans one by one, in a table whose rows can be gone to. */
function sliceTable(tl, body, rows, chosen) {
  const where = (row) => ranked(row.rank, clean(tl.trackOf.get(row.track)?.name ?? ""));
  table(tl, body, tl.say("table_about"), [
    [tl.say("col_name"), (row) => called(clean(row.name)), (row) => clean(row.name).toLowerCase(), false, (row) => clean(row.name)],
    [tl.say("col_track"), where, where],
    [tl.say("start"), (row) => exact(row.ts), (row) => row.ts, true],
    [tl.say("duration"), (row) => length(row.dur), (row) => row.dur, true, (row) => exact(row.dur)],
  ], rows, chosen);
}

function like({ pieces, whole, absent }, text) {
  const low = text.toLowerCase();
  let at = 0, fits = true;
  pieces.forEach((piece, n) => {
    if (!fits) return;
    const last = n === pieces.length - 1, found = whole && last ? Math.max(at, low.length - piece.length) : low.indexOf(piece, at);
    fits = found >= at && low.startsWith(piece, found) && !(whole && !n && found !== 0) && !(whole && last && found + piece.length !== low.length);
    at = found + piece.length;
  });
  return fits !== absent;
}

function likeOne(texts, text) {
  const some = texts.filter((one) => !one.absent);
  return (!some.length || some.some((one) => like(one, text))) && texts.every((one) => !one.absent || like(one, text));
}

const within = (ranges, value) => !ranges.length || ranges.some(([low, high]) => value >= low && value <= high);

/** Whether the n-th span of a tile is among the hits; null where nothing is searched for. */
function litIn(tl, tile, row) {
  const { wanted } = tl;
  if (!wanted || derived(row.track)) return null;
  const track = row.track;
  if (!within(wanted.ranks, track.rank) || !likeOne(wanted.tracks, `${track.name} ${track.process ?? ""} ${track.kind ?? ""}`)) return () => false;
  if (tile.matched !== wanted) {
    tile.matched = wanted;
    tile.matches = tile.names.map((name) => wanted.names.every((one) => like(one, name)));
    tile.kindMatches = tile.kinds.map((kind) => likeOne(wanted.kinds, kind));
  }
  const { matches, kindMatches, s_name, s_kind, s_ts, s_dur } = tile, least = wanted.least ?? 0, most = wanted.most ?? Infinity;
  const steps = wanted.steps.length ? (tl.stepsOf.get(track.rank) ?? []).filter((one) => within(wanted.steps, one.step)) : null;
  return (i) => matches[s_name[i]] && kindMatches[s_kind[i]] && s_dur[i] >= least && s_dur[i] <= most
    && (!steps || steps.some((one) => s_ts[i] >= one.ts && s_ts[i] < one.ts + one.dur));
}
