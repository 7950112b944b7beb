// Which rows there are, in which order and how tall: ranks, their steps, gaps, groups of tracks, counters.

const LANE = 18, DENSE_LANE = 14, DENSE_FROM = 9, HEAD = 24, GROUP = 20, COUNTER = 38, STEPS_ROW = 19, FOLDED = 17, PATH_ROW = 27;
const MANY_COUNTERS = 6, MANY_RANKS = 16, RANKS_OPEN = 4;
const GROUPS = ["gaps", "stream", "comm", "host", "profiler", "other"];

/** What is folded before anybody folds anything. */
function foldedAtFirst(layout) {
  const folded = new Set();
  layout.ranks.forEach(({ rank }, at) => {
    folded.add(`r${rank}.profiler`).add(`r${rank}.other`);
    if (layout.counters.filter((one) => one.rank === rank).length > MANY_COUNTERS) folded.add(`r${rank}.counters`);
    if (layout.ranks.length > MANY_RANKS && at >= RANKS_OPEN) folded.add(`r${rank}`);
  });
  return folded;
}

/** Ranks in the order the reader gave them, else as the layout has them. */
function orderedRanks(tl) {
  const place = new Map(tl.order.map((key, at) => [key, at]));
  const seat = (key) => place.get(key) ?? Infinity;
  return tl.layout.ranks.map((one, at) => [one, at])
    .sort((a, b) => seat(`r${a[0].rank}`) - seat(`r${b[0].rank}`) || a[1] - b[1]).map(([one]) => one);
}

function orderedTracks(tl, rank) {
  const place = new Map(tl.order.map((key, at) => [key, at]));
  const seat = (track) => place.get(String(track.id)) ?? Infinity;
  const own = (tl.tracksOf.get(rank) ?? []).map((track, at) => [track, at]);
  const group = (track) => GROUPS.indexOf(track.group);
  own.sort((a, b) => group(a[0]) - group(b[0]) || (seat(a[0]) < seat(b[0]) ? -1 : seat(a[0]) > seat(b[0]) ? 1 : a[1] - b[1]));
  return own.map(([track]) => track);
}

/** Whether a track is worked out rather than recorded: why a device idled, or the critical path. */
function derived(track) { return track.group === "gaps" || track.group === "path"; }

/** What a track is called, in words or as recorded. */
function labelOf(tl, track) {
  if (track.group === "path") return tl.say("path");
  return track.group === "gaps" ? tl.say("gaps") : nameOf(tl, track);
}

/** A track's or row's name with its rank in front, where it has one. */
function ranked(rank, text) { return rank === null || rank === undefined ? text : `${rank} · ${text}`; }

/** A track's name; with its process where a rank has two tracks of one name. */
function nameOf(tl, track) {
  const name = clean(track.name) || "?", process = clean(track.process ?? "");
  const alike = (tl.tracksOf.get(track.rank) ?? []).some((one) => one !== track && one.group === track.group && one.name === track.name);
  return alike && process ? `${name} · ${process}` : name;
}

function trackRow(tl, track) {
  const key = String(track.id), folded = tl.fold.has(key), lanes = Math.max(1, track.lanes);
  const lane = folded ? FOLDED / lanes : lanes >= DENSE_FROM ? DENSE_LANE : LANE;
  return {
    type: "track", key, track, rank: track.rank, lane, folded, h: (folded ? FOLDED : lanes * lane) + 3,
    label: track.group === "gaps" && tl.layout.causes_state === "working" ? tl.say("gaps_working") : labelOf(tl, track),
  };
}

function counterRow(counter) {
  return { type: "counter", key: `c${counter.id}`, counter, rank: counter.rank, h: COUNTER, label: clean(counter.counter), sub: clean(counter.series) };
}

function rankRows(tl, rank) {
  const key = `r${rank.rank}`, folded = tl.fold.has(key), tracks = orderedTracks(tl, rank.rank);
  const shown = (one) => !tl.hide.has(one) && !tl.pin.includes(one);
  const gaps = tracks.find((track) => track.group === "gaps");
  const made = [{ type: "rank", key, rank: rank.rank, about: rank, folded, h: HEAD, label: `rank ${rank.rank}`, track: folded ? gaps : null, lane: HEAD - 6 }];
  if (folded) return made;
  if ((tl.stepsOf.get(rank.rank) ?? []).length && shown(`s${rank.rank}`)) {
    made.push({ type: "steps", key: `s${rank.rank}`, rank: rank.rank, h: STEPS_ROW, label: tl.say("steps") });
  }
  for (const group of GROUPS) {
    const own = tracks.filter((track) => track.group === group && shown(String(track.id)));
    if (!own.length) continue;
    const name = `${key}.${group}`, shut = tl.fold.has(name);
    if (group !== "gaps") made.push({ type: "group", key: name, rank: rank.rank, folded: shut, h: GROUP, label: tl.say(`group_${group}`), count: own.length });
    if (group === "gaps" || !shut) made.push(...own.map((track) => trackRow(tl, track)));
  }
  const counters = (tl.countersOf.get(rank.rank) ?? []).filter((one) => shown(`c${one.id}`));
  if (counters.length) {
    const name = `${key}.counters`, shut = tl.fold.has(name);
    made.push({ type: "group", key: name, rank: rank.rank, folded: shut, h: GROUP, label: tl.say("group_counters"), count: counters.length });
    if (!shut) made.push(...counters.map(counterRow));
  }
  return made;
}

function pinnedRow(tl, key) {
  const track = tl.trackOf.get(Number(key)), counter = key[0] === "c" ? tl.counterOf.get(Number(key.slice(1))) : null;
  const row = track ? trackRow(tl, track) : counter ? counterRow(counter) : null;
  return row && Object.assign(row, { pinned: true });
}

/** Lays all rows out anew; called when anything but the window of time has changed. */
function arrange(tl) {
  tl.pinned = tl.pin.filter((key) => !tl.hide.has(key)).map((key) => pinnedRow(tl, key)).filter(Boolean);
  const path = tl.pathTrack, shown = path && !tl.hide.has(String(path.id)) && !tl.pin.includes(String(path.id));
  const top = shown ? [Object.assign(trackRow(tl, path), { h: PATH_ROW, lane: PATH_ROW - 4 })] : [];
  tl.flow = [...top, ...orderedRanks(tl).filter((rank) => !tl.hide.has(`r${rank.rank}`)).flatMap((rank) => rankRows(tl, rank))];
  let y = 0;
  for (const row of tl.pinned) { row.y = y; y += row.h; }
  tl.pinnedHeight = y ? y + 3 : 0;
  y = 0;
  for (const row of tl.flow) { row.y = y; y += row.h; }
  tl.flowHeight = y;
  tl.rowOf = new Map([...tl.flow, ...tl.pinned].map((row) => [row.key, row]));
}

/** Where a row stands on the canvas. */
function topOf(tl, row) {
  return TOP + (row.pinned ? row.y : tl.pinnedHeight + row.y - tl.scroll);
}

/** Rows on the canvas, and `beyond` pixels above and below. */
function rowsNear(tl, beyond) {
  const low = TOP + tl.pinnedHeight - beyond, high = tl.height + beyond;
  return [...tl.pinned, ...tl.flow.filter((row) => { const y = topOf(tl, row); return y + row.h > low && y < high; })];
}

function rowAt(tl, y) {
  if (y < TOP) return null;
  const inPinned = y < TOP + tl.pinnedHeight;
  return (inPinned ? tl.pinned : tl.flow).find((row) => { const at = topOf(tl, row); return y >= at && y < at + row.h; }) ?? null;
}

/** Scrolls as little as needed to bring a row onto the canvas, unfolding what hides it. */
function reveal(tl, key, lane) {
  const track = tl.trackOf.get(Number(key));
  if (track) for (const name of [`r${track.rank}`, `r${track.rank}.${track.group}`]) tl.fold.delete(name);
  if (track) { tl.hide.delete(key); tl.hide.delete(`r${track.rank}`); }
  arrange(tl);
  const row = tl.rowOf.get(key);
  if (!row || row.pinned) return;
  const at = row.y + (row.lane ?? 0) * (lane ?? 0), free = tl.height - TOP - tl.pinnedHeight;
  if (at < tl.scroll + 4 || at + LANE > tl.scroll + free - 8) tl.scrollTo(at - free / 3);
}
