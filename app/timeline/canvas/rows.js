// Which rows there are, in which order and how tall. Three arrangements: the picture of all ranks with one lane each,
// rank by rank with all of its tracks, and lane by lane with the same track of every rank together.

const BY = ["picture", "ranks", "lanes"];
const LANE = 18, DENSE_LANE = 14, DENSE_FROM = 9, HEAD = 24, GROUP = 20, COUNTER = 38, STEPS_ROW = 19, FOLDED = 17, PATH_ROW = 27;
const MANY_COUNTERS = 6, MANY_RANKS = 16, RANKS_OPEN = 4;
const GROUPS = ["gaps", "stream", "comm", "host", "profiler", "other"];
const PICTURE = 280, HEADS = 360, MOST_DID = 64; // how high the picture is about, what lies above it, its lanes at most
const STICKY = 18;

/** What is folded before anybody folds anything. */
function foldedAtFirst(layout) {
  const folded = new Set();
  layout.ranks.forEach(({ rank }, at) => {
    folded.add(`r${rank}.profiler`).add(`r${rank}.other`);
    if (layout.tracks.some((track) => track.rank === rank && onDevice(track))) folded.add(`r${rank}.host`);
    if (layout.counters.filter((one) => one.rank === rank).length > MANY_COUNTERS) folded.add(`r${rank}.counters`);
    if (layout.ranks.length > MANY_RANKS && at >= RANKS_OPEN) folded.add(`r${rank}`);
  });
  if (layout.ranks.length > RANKS_OPEN) folded.add("l.steps");
  const device = layout.tracks.some(onDevice);
  for (const { key, group } of lanesOf(layout.tracks)) if (["profiler", "other"].includes(group) || (group === "host" && device)) folded.add(key);
  return folded;
}

function onDevice(track) { return track.group === "stream" || track.group === "comm"; }

/** The same track of every rank: of one group and name; the n-th of a name with the n-th. The key names the first. */
function lanesOf(tracks) {
  const lanes = new Map(), seen = new Map();
  for (const track of tracks) {
    if (track.group === "path") continue;
    const alike = `${track.group}/${track.name}`, mine = `${alike}/${track.rank}`, nth = seen.get(mine) ?? 0, lane = `${alike}/${nth}`;
    seen.set(mine, nth + 1);
    if (!lanes.has(lane)) lanes.set(lane, { key: `l${track.id}`, group: track.group, tracks: [] });
    lanes.get(lane).tracks.push(track);
  }
  return [...lanes.values()].sort((a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group));
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

/** Whether the reader wants to see a row of a kind. */
function wants(tl, key, kind) { return !tl.hide.has(key) && !tl.hide.has(`all.${kind}`) && !tl.pin.includes(key); }

function rankRows(tl, rank) {
  const key = `r${rank.rank}`, folded = tl.fold.has(key), tracks = orderedTracks(tl, rank.rank);
  const gaps = tracks.find((track) => track.group === "gaps");
  const label = `rank ${rank.rank}`, made = [{ type: "rank", key, rank: rank.rank, about: rank, folded, h: HEAD, label, track: folded ? gaps : null, lane: HEAD - 6 }];
  if (folded) return made;
  if ((tl.stepsOf.get(rank.rank) ?? []).length && wants(tl, `s${rank.rank}`, "steps")) made.push({ ...stepsRow(tl, rank.rank), under: label });
  const part = (group, own, rowOf) => {
    const name = `${key}.${group}`, shut = tl.fold.has(name), title = tl.say(`group_${group}`);
    made.push({ type: "group", key: name, rank: rank.rank, folded: shut, h: GROUP, label: title, count: own.length, under: label });
    if (!shut) made.push(...own.map((one) => ({ ...rowOf(one), under: `${label} · ${title}` })));
  };
  for (const group of GROUPS) {
    const own = tracks.filter((track) => track.group === group && wants(tl, String(track.id), group));
    if (group === "gaps") made.push(...own.map((track) => ({ ...trackRow(tl, track), under: label })));
    else if (own.length) part(group, own, (track) => trackRow(tl, track));
  }
  const counters = (tl.countersOf.get(rank.rank) ?? []).filter((one) => wants(tl, `c${one.id}`, "counters"));
  if (counters.length) part("counters", counters, counterRow);
  return made;
}

function stepsRow(tl, rank) { return { type: "steps", key: `s${rank}`, rank, h: STEPS_ROW, label: tl.say("steps") }; }

/** Lane by lane: a heading for each, and below it the track of every rank. */
function laneRows(tl) {
  const made = [], there = new Map(orderedRanks(tl).filter((one) => !tl.hide.has(`r${one.rank}`)).map((one, at) => [one.rank, at]));
  const part = (key, label, rows) => {
    if (!rows.length) return;
    const folded = tl.fold.has(key);
    made.push({ type: "group", key, rank: null, folded, h: GROUP, label, count: rows.length });
    if (!folded) made.push(...rows.map((row) => ({ ...row, label: `rank ${row.rank}`, under: label })));
  };
  part("l.steps", tl.say("steps"), [...there.keys()].filter((rank) => (tl.stepsOf.get(rank) ?? []).length && wants(tl, `s${rank}`, "steps")).map((rank) => stepsRow(tl, rank)));
  for (const { key, group, tracks } of lanesOf(tl.layout.tracks)) {
    const own = tracks.filter((track) => there.has(track.rank) && wants(tl, String(track.id), group)).sort((a, b) => there.get(a.rank) - there.get(b.rank));
    part(key, group === "gaps" ? tl.say("gaps") : clean(tracks[0].name) || tl.say(`group_${group}`), own.map((track) => trackRow(tl, track)));
  }
  const counters = new Map();
  for (const one of tl.layout.counters) {
    const label = `${clean(one.counter)} · ${clean(one.series)}`;
    if (!there.has(one.rank) || !wants(tl, `c${one.id}`, "counters")) continue;
    if (!counters.has(label)) counters.set(label, []);
    counters.get(label).push(one);
  }
  for (const [label, own] of counters) part(`lc${own[0].id}`, label, own.map(counterRow));
  return made;
}

/** The picture of the job: a lane a rank; of very many ranks a lane for several, until it is opened. */
function pictureRows(tl) {
  const ranks = orderedRanks(tl).map((one) => one.rank).filter((rank) => !tl.hide.has(`r${rank}`)).sort((a, b) => a - b);
  const size = Math.ceil(ranks.length / MOST_DID), groups = [];
  for (let at = 0; at < ranks.length; at += size) {
    const some = ranks.slice(at, at + size), key = `d${some[0]}`;
    if (size > 1 && tl.opened.has(key)) groups.push(...some.map((rank, n) => ({ key: n ? `d${rank}` : key, ranks: [rank, rank], of: key })));
    else groups.push({ key, ranks: [some[0], some.at(-1)], several: size > 1 });
  }
  const room = tl.data.picture || tl.data.height ? PICTURE : Math.max(PICTURE, window.innerHeight - HEADS);
  const tall = bounded(Math.floor(room / Math.max(1, groups.length)), 5, 40);
  const first = ranks.find((rank) => (tl.stepsOf.get(rank) ?? []).length);
  const steps = first === undefined ? [] : [stepsRow(tl, first)];
  return [...steps, ...groups.map(({ key, ranks: [low, high], several, of }, at) => ({
    type: "did", key, rank: low === high ? low : null, ranks: [low, high], several, of, h: tall, lane: tall,
    label: low === high ? `rank ${low}` : `rank ${low}–${high}`, named: tall >= 12 || at % Math.ceil(14 / tall) === 0,
    says: tall >= 12 || at === groups.length - 1, // lower ones would paint over what the one above says
  }))];
}

function pinnedRow(tl, key) {
  const track = tl.trackOf.get(Number(key)), counter = key[0] === "c" ? tl.counterOf.get(Number(key.slice(1))) : null;
  const row = track ? trackRow(tl, track) : counter ? counterRow(counter) : null;
  return row && Object.assign(row, { pinned: true });
}

/** Lays all rows out anew; called when anything but the window of time has changed. */
function arrange(tl) {
  tl.left = tl.by === "picture" ? PICTURE_GUTTER : GUTTER;
  tl.pinned = tl.pin.filter((key) => !tl.hide.has(key)).map((key) => pinnedRow(tl, key)).filter(Boolean);
  const path = tl.pathTrack, shown = path && wants(tl, String(path.id), "path") && tl.by !== "picture";
  const top = shown ? [Object.assign(trackRow(tl, path), { h: PATH_ROW, lane: PATH_ROW - 4 })] : [];
  const rows = { picture: pictureRows, lanes: laneRows }[tl.by];
  tl.flow = [...top, ...(rows ? rows(tl) : orderedRanks(tl).filter((rank) => !tl.hide.has(`r${rank.rank}`)).flatMap((rank) => rankRows(tl, rank)))];
  let y = 0;
  for (const row of tl.pinned) { row.y = y; y += row.h; }
  tl.pinnedHeight = y ? y + 3 : 0;
  y = 0;
  for (const row of tl.flow) { row.y = y; y += row.h; }
  tl.flowHeight = y;
  tl.rowOf = new Map([...tl.flow, ...tl.pinned].map((row) => [row.key, row]));
}

/** The heading of the topmost row that has scrolled away, with the row it stands for; null where it is on the canvas. */
function stickyOf(tl) {
  const at = tl.flow.findIndex((row) => row.y + row.h > tl.scroll + 4);
  if (at < 0 || !tl.flow[at].under) return null;
  const head = tl.flow.slice(0, at).findLast((row) => row.type === "group" || row.type === "rank");
  return head ? { text: tl.flow[at].under, head } : null;
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
  if (track) {
    if (tl.by === "picture") tl.by = "ranks";
    for (const name of [`r${track.rank}`, `r${track.rank}.${track.group}`, lanesOf(tl.layout.tracks).find((lane) => lane.tracks.includes(track))?.key]) tl.fold.delete(name);
    for (const name of [key, `r${track.rank}`, `all.${track.group}`]) tl.hide.delete(name);
  }
  arrange(tl);
  nameBar(tl);
  const row = tl.rowOf.get(key);
  if (!row || row.pinned) return;
  const at = row.y + (row.lane ?? 0) * (lane ?? 0), free = tl.height - TOP - tl.pinnedHeight;
  if (at < tl.scroll + STICKY + 4 || at + LANE > tl.scroll + free - 8) tl.scrollTo(at - free / 3);
}
