// What lies under the pointer, and how that is said in the tooltip.

/** The span, gap, cell, step, counter value or arrow end at a point; null where nothing lies. */
function hit(tl, x, y) {
  const end = (tl.ends ?? []).find((one) => Math.hypot(one.x - x, one.y - y) < 10);
  if (end) return { type: "end", link: end.link };
  const row = rowAt(tl, y);
  if (!row || x < tl.left) return row ? { type: "row", row } : null;
  const at = tl.nsOf(x);
  if (row.type === "steps") {
    const step = (tl.stepsOf.get(row.rank) ?? []).find((one) => at >= one.ts && at < one.ts + one.dur);
    return step ? { type: "step", step, row } : null;
  }
  if (row.type === "counter") return counterHit(tl, row, at);
  if (row.type === "did") { const found = didAt(tl, row, at); return { type: "did", row, ...(found ?? { shares: [] }) }; }
  return row.track ? trackHit(tl, row, at, Math.floor((y - topOf(tl, row) - 1) / row.lane)) : null;
}

function trackHit(tl, row, at, lane) {
  const tile = tl.tiles.best(row.track.id, tl.tiles.window.key);
  if (!tile) return null;
  const part = tile.parts.get(row.track.id), pixel = tl.view.length / tl.plotWidth, slack = pixel * 1.5;
  const crowd = crowdAt(tl, tile, part, row, at, lane, pixel);
  if (crowd) return { type: "cell", row, cell: crowd };
  let best = -1;
  for (const i of part.spans) {
    if (tile.s_lane[i] !== lane || at < tile.s_ts[i] - slack || at > tile.s_ts[i] + tile.s_dur[i] + slack) continue;
    const inside = at >= tile.s_ts[i] && at < tile.s_ts[i] + tile.s_dur[i];
    if (best < 0 || inside) best = i;
    if (inside) break;
  }
  if (best >= 0) return { type: "span", row, span: spanOf(tile, best, row) };
  const cell = part.cells.find((i) => tile.c_lane[i] === lane && at >= tile.c_ts[i] && at < tile.c_ts[i] + tile.bucket);
  return cell === undefined ? null : { type: "cell", row, cell: cellOf(tile, cell, row) };
}

/** Several spans within one pixel are no more one event than a cell is; null where there is at most one. */
function crowdAt(tl, tile, part, row, at, lane, pixel) {
  const column = Math.floor(tl.xOf(at)), from = tl.nsOf(column), to = from + pixel;
  const cell = { ts: Math.floor(from), dur: Math.max(1, Math.ceil(pixel)), lane, n: 0, busy: 0, longest: -1, name: "", track: row.track.id, gap: derived(row.track), path: row.track.group === "path" };
  for (const i of part.spans) {
    const start = tile.s_ts[i], wide = tile.s_dur[i];
    if (tile.s_lane[i] !== lane || start >= to || start + wide < from) continue;
    if (wide >= pixel) return null;
    if (start < from) continue;
    cell.n += 1;
    cell.busy += wide / pixel;
    if (wide > cell.longest) { cell.longest = wide; cell.name = tile.names[tile.s_name[i]]; }
  }
  return cell.n > 1 ? { ...cell, busy: Math.min(1, cell.busy) } : null;
}

function spanOf(tile, i, row) {
  return { id: tile.s_id[i], ts: tile.s_ts[i], dur: tile.s_dur[i], lane: tile.s_lane[i], name: tile.names[tile.s_name[i]], kind: tile.kinds[tile.s_kind[i]] ?? "", track: row.track.id, gap: derived(row.track), path: row.track.group === "path", rank: row.rank };
}

function cellOf(tile, i, row) {
  return { ts: tile.c_ts[i], dur: tile.bucket, lane: tile.c_lane[i], n: tile.c_n[i], busy: tile.c_busy[i], longest: tile.c_longest[i], name: tile.names[tile.c_name[i]], track: row.track.id, gap: derived(row.track), path: row.track.group === "path" };
}

function counterHit(tl, row, at) {
  const held = tl.tiles.bestCounter(row.counter.id, tl.tiles.window.key), series = held?.series.get(row.counter.id);
  if (!series) return null;
  let i = series.t.findLastIndex((one) => one <= at);
  return i < 0 ? null : { type: "value", row, ts: series.t[i], min: series.min[i], max: series.max[i], last: series.last[i] };
}

/** A cell in words: how many, how busy, the longest. Never the name alone, as if it were one span. */
function cellText(tl, cell) {
  return tl.say("cell", { n: cell.n.toLocaleString("en-US"), busy: share(cell.busy, 1), longest: length(cell.longest), name: cell.gap ? tl.cause(cell.name) : called(cell.name) });
}

function tipLines(tl, found) {
  const { row } = found, where = !row ? "" : row.rank === null ? row.label : `rank ${row.rank} · ${row.label}`;
  switch (found.type) {
    case "span": return [found.span.gap ? tl.cause(found.span.name) : called(found.span.name), !found.span.gap && called(found.span.name) !== found.span.name ? found.span.name : "", `${length(found.span.dur)}  (${exact(found.span.dur)})`, tl.say("at", { time: exact(found.span.ts) }), where];
    case "cell": return [cellText(tl, found.cell), tl.say("cell_zoom"), where];
    case "step": return [tl.say("step_label", { step: found.step.step, length: length(found.step.dur) }), tl.say("at", { time: exact(found.step.ts) })];
    case "did": return [row.label, ...found.shares.slice(0, 6).map(([role, part]) => `${tl.role(role)} ${share(part, 1)}`), found.from === undefined ? "" : tl.say("at", { time: exact(found.from) }), tl.say(row.several ? "did_open" : "did_tracks")];
    case "value": return [`${row.label}: ${number(found.last)} ${row.sub}`, found.min === found.max ? "" : tl.say("range", { min: number(found.min), max: number(found.max) }), tl.say("at", { time: exact(found.ts) })];
    case "end": return [clean(found.link.name), tl.say("go_end", { rank: found.link.rank })];
    default: return rowTip(tl, row);
  }
}

function rowTip(tl, row) {
  if (row.track && row.type === "track") return [row.label, clean(row.track.process ?? ""), tl.say("spans", { n: row.track.spans.toLocaleString("en-US") })];
  if (row.counter) return [row.label, row.sub];
  return [row.label];
}

function showTip(tl, found, x, y) {
  if (!found) { tl.tip.hidden = true; return; }
  tl.tip.replaceChildren();
  tipLines(tl, found).filter(Boolean).forEach((line, at) => make("div", at ? "more" : "first", tl.tip, line));
  tl.tip.hidden = false;
  const wide = tl.tip.offsetWidth, tall = tl.tip.offsetHeight;
  tl.tip.style.left = `${x + 16 + wide > tl.width ? Math.max(4, x - wide - 12) : x + 16}px`;
  tl.tip.style.top = `${y + 18 + tall > tl.height ? Math.max(4, y - tall - 10) : y + 18}px`;
}
