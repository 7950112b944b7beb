// Where the reader is, as the words of a link, and back. A link restores exactly this window and selection.

const REST_MS = 600;
const WORDS = ["from", "to", "span", "area", "by", "pin", "hide", "order", "fold", "mark", "flow", "q", "y", "rank"];
const LONGEST_AREA = 3000; // characters
const NOTHING = "-"; // nothing is folded; without the word the usual rows are

function placeOfTimeline(tl) {
  const { view, picked, area } = tl, list = (items) => [...items].join(",");
  const sameFold = tl.foldAtFirst.size === tl.fold.size && [...tl.fold].every((key) => tl.foldAtFirst.has(key));
  return {
    from: String(Math.round(view.goal[0])), to: String(Math.max(Math.round(view.goal[1]), Math.round(view.goal[0]) + SHORTEST)),
    span: picked ? (picked.path ? `path.${picked.id}` : picked.gap ? `gap.${picked.rank}.${picked.id}` : String(picked.id)) : "",
    area: area ? areaWords(tl, area) : "", by: tl.by === tl.byAtFirst && !(picked && tl.by === "picture") ? "" : tl.by,
    pin: list(tl.pin), hide: list(tl.hide), order: list(tl.order), fold: sameFold ? "" : list(tl.fold) || NOTHING,
    mark: spelledFlags(tl.marks), flow: list(tl.routes), q: tl.q, y: tl.scroll || picked ? String(Math.round(tl.scroll)) : "",
  };
}

/** An area as the words of a link; without tracks it means all that have a row. */
function areaWords(tl, { from, to, tracks }) {
  const all = tracksShown(tl), said = [from, to, ...tracks].join(",");
  return said.length > LONGEST_AREA || (tracks.length === all.length && all.every((id) => tracks.includes(id))) ? `${from},${to}` : said;
}

function tracksShown(tl) {
  const ranks = new Set(tl.data.ranks ?? []), every = tracksOfRows(tl, [...tl.pinned, ...tl.flow]);
  return ranks.size ? every.filter((id) => ranks.has(tl.trackOf.get(id)?.rank)) : every;
}

/** A place as one text, to tell places apart. */
function spelled(place) {
  return WORDS.map((word) => place?.[word] ?? "").join("|");
}

/** Tells the page where we are, once the picture has rested; only the link changes, nothing is drawn again. */
function tellPlace(tl) {
  clearTimeout(tl.telling);
  tl.telling = setTimeout(() => {
    if (tl.view.moving || tl.drag) { tellPlace(tl); return; }
    const place = placeOfTimeline(tl), said = spelled(place);
    if (said === tl.said) return;
    tl.said = said;
    tl.known.add(said);
    tl.component.setStateValue("place", place);
  }, REST_MS);
}

const numbers = (text) => String(text ?? "").split(",").filter((one) => /^-?\d{1,16}$/.test(one)).map(Number);
const words = (text) => String(text ?? "").split(",").filter((one) => /^(?:(?:[rscl]|lc)?-?\d+(?:\.[a-z]+)?|(?:all|l)\.[a-z]+)$/.test(one));

function gapTrack(tl, rank) {
  return (tl.tracksOf.get(rank) ?? []).find((track) => track.group === "gaps")?.id;
}

/** The steps of all ranks, or without steps everything that was recorded. */
function stepsWindow(tl) {
  const { steps, tracks, to } = tl.layout, parts = steps.length ? steps.map((step) => [step.ts, step.ts + step.dur]) : tracks.filter((track) => track.spans).map((track) => [track.from, track.to]);
  const from = parts.reduce((least, [start]) => Math.min(least, start), to), end = parts.reduce((most, [, stop]) => Math.max(most, stop), 0);
  return end > from ? [Math.max(0, from), Math.min(to, end)] : [0, to];
}

/** Takes the place a link names. What it does not name stays as it is at first. */
function takePlace(tl, place) {
  const [from] = numbers(place.from), [to] = numbers(place.to);
  tl.by = BY.includes(place.by) ? place.by : tl.byAtFirst === "picture" && place.span ? "ranks" : tl.byAtFirst;
  tl.pin = words(place.pin);
  tl.hide = new Set(words(place.hide));
  tl.order = words(place.order);
  tl.fold = place.fold ? new Set(words(place.fold)) : new Set(tl.foldAtFirst);
  tl.marks = readFlags(place.mark);
  tl.routes = new Set(String(place.flow ?? "").split(",").filter((route) => tl.layout.routes.some(([name]) => name === route)));
  const [rank] = numbers(place.rank);
  if (rank !== undefined) { tl.fold.delete(`r${rank}`); }
  arrange(tl);
  nameBar(tl);
  const there = from !== undefined && to !== undefined && tl.view.exactly(from, to);
  if (!there) tl.view.set(...stepsWindow(tl));
  const wanted = String(place.span ?? ""), gap = /^gap\.(\d+)\.(@?\d+)$/.exec(wanted), path = /^path\.(\d+)$/.exec(wanted);
  const [start, end, ...tracks] = numbers(place.area);
  const wants = { wantsView: !there, wantsRow: place.y === undefined };
  if (gap) pick(tl, { ...wants, gap: true, rank: Number(gap[1]), id: gap[2].startsWith("@") ? gap[2] : Number(gap[2]), track: gapTrack(tl, Number(gap[1])), lane: 0, ts: from ?? 0, dur: 0, name: "" });
  else if (path) pick(tl, { ...wants, gap: true, path: true, rank: null, id: Number(path[1]), track: tl.pathTrack?.id, lane: 0, ts: from ?? 0, dur: 0, name: "" });
  else if (/^\d{1,16}$/.test(wanted)) pick(tl, { ...wants, id: Number(wanted), ts: from ?? 0, dur: 0, name: "" });
  else if (end !== undefined) selectArea(tl, start, end, tracks.length ? tracks : tracksShown(tl));
  tl.resize();
  const [y] = numbers(place.y);
  if (y !== undefined) tl.scrollTo(y);
  else if (rank !== undefined && tl.rowOf.get(`r${rank}`)) tl.scrollTo(tl.rowOf.get(`r${rank}`).y);
  if (place.q) { tl.search.value = place.q; runSearch(tl, place.q); }
}
