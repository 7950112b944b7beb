// Draws what lies in one row. Spans are drawn as they are; what is too short for that comes as cells, and a cell is a
// bar as tall as the share of its time that was busy: no outline, no name, so that it cannot be taken for one span.

const TEXT_FROM = 26, SMALLEST_BAR = 2, FADED = 0.28;

/** As much of a text as fits, measured once per name. */
function fitted(tl, text, room) {
  let wide = tl.widths.get(text);
  if (wide === undefined) {
    if (tl.widths.size > 20000) tl.widths.clear();
    wide = tl.pen.measureText(text).width;
    tl.widths.set(text, wide);
  }
  if (wide <= room) return text;
  const letters = Math.floor((text.length * (room - 8)) / wide);
  return letters >= 2 ? `${text.slice(0, letters)}…` : "";
}

/** Colours of a tile's names, worked out once per tile: by kind for spans, by group for cells. */
function coloursOf(tile) {
  tile.hashes ??= tile.names.map(hash);
  return tile.hashes;
}

function paintTrack(tl, row, top, key) {
  const tile = tl.tiles.best(row.track.id, key), { pen, view } = tl, y = top + 1;
  if (!tile) { paintWaiting(tl, row, top); return; }
  const part = tile.parts.get(row.track.id), hashes = coloursOf(tile), scale = tl.plotWidth / view.length;
  const edges = { left: tl.left, right: tl.width, scale, from: view.from };
  paintCells(tl, row, y, tile, part.cells, hashes, edges);
  paintSpans(tl, row, y, tile, part.spans, hashes, edges);
  if (tile.from > view.from && tile.from > 0) veil(tl, top, row.h, tl.left, tl.xOf(tile.from));
  if (tile.to < Math.min(view.to, tl.layout.to)) veil(tl, top, row.h, tl.xOf(tile.to), tl.width);
}

function paintCells(tl, row, y, tile, cells, hashes, { left, right, scale, from }) {
  const { pen } = tl, { c_ts, c_lane, c_busy, c_name } = tile, wide = Math.max(tile.bucket * scale, 1), group = row.track.group;
  const family = derived(row.track) ? null : shadesOfGroup(group);
  const room = row.lane - 1;
  for (const i of cells) {
    const x = left + (c_ts[i] - from) * scale;
    if (x > right || x + wide < left) continue;
    const tall = Math.min(room, Math.max(SMALLEST_BAR, room * c_busy[i])), x0 = Math.max(left, Math.floor(x));
    pen.fillStyle = family ? family[hashes[c_name[i]] % family.length] : causeColour(tile.names[c_name[i]]);
    pen.fillRect(x0, y + c_lane[i] * row.lane + room - tall, Math.max(1, Math.min(right, Math.floor(x + wide)) - x0), tall);
  }
}

function paintSpans(tl, row, y, tile, spans, hashes, { left, right, scale, from }) {
  const { pen, theme } = tl, { s_ts, s_dur, s_lane, s_name, s_kind, s_id } = tile, room = Math.max(1, row.lane - 1);
  const crowd = new Crowd(tl, row, y);
  const gaps = derived(row.track), lit = litIn(tl, tile, row);
  pen.textBaseline = "middle";
  for (const i of spans) {
    const start = left + (s_ts[i] - from) * scale, end = start + s_dur[i] * scale;
    if (start > right || end < left - 1) continue;
    const x = Math.max(start, left), name = tile.names[s_name[i]];
    let wide = Math.min(end, right) - x;
    if (wide > 3) wide -= 1; // the neighbour begins with a hairline between
    else if (wide < 1) wide = 1;
    const family = gaps ? null : shadesOfSpan(tile.kinds[s_kind[i]], name), hit = !lit || lit(i);
    const colour = gaps ? causeColour(name) : family[hashes[s_name[i]] % family.length];
    if (end - start < 1) {
      crowd.add(s_lane[i], start, end - start, colour, hit);
      if (!(tl.picked && s_id[i] === tl.picked.id)) continue;
    }
    const top = y + s_lane[i] * row.lane;
    if (!hit) pen.globalAlpha = FADED;
    pen.fillStyle = colour;
    pen.fillRect(x, top, wide, room);
    if (wide > TEXT_FROM && room > 9) {
      const text = fitted(tl, gaps ? tl.cause(name) : called(name), wide - 8);
      if (text) { pen.fillStyle = inkOn(colour); pen.fillText(text, x + 4, top + room / 2 + 0.5); }
    }
    pen.globalAlpha = 1;
    if (tl.picked && s_id[i] === tl.picked.id && tl.picked.track === row.track.id) {
      pen.strokeStyle = theme.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x - (start < left ? -1 : 1), top - 0.5, Math.max(wide, 2) + 2, room + 1);
    }
  }
  crowd.flush();
}

/** Spans narrower than a pixel: together as tall as the share of the pixel that they fill, like a cell. */
class Crowd {
  constructor(tl, row, y) {
    Object.assign(this, { tl, row, y, at: [], share: [], widest: [], colour: [], lit: [] });
  }

  add(lane, start, wide, colour, lit) {
    const at = Math.floor(start);
    if (this.at[lane] !== at) { this.draw(lane); this.at[lane] = at; this.share[lane] = this.widest[lane] = 0; this.lit[lane] = false; }
    this.share[lane] += wide;
    this.lit[lane] ||= lit;
    if (wide >= this.widest[lane]) { this.widest[lane] = wide; this.colour[lane] = colour; }
  }

  draw(lane) {
    if (this.at[lane] === undefined || this.at[lane] < this.tl.left) return;
    const { pen } = this.tl, room = Math.max(1, this.row.lane - 1), tall = Math.min(room, Math.max(SMALLEST_BAR, room * this.share[lane]));
    pen.globalAlpha = this.lit[lane] ? 1 : FADED;
    pen.fillStyle = this.colour[lane];
    pen.fillRect(this.at[lane], this.y + lane * this.row.lane + room - tall, 1, tall);
    pen.globalAlpha = 1;
  }

  flush() { this.at.forEach((_, lane) => this.draw(lane)); }
}

function veil(tl, y, tall, x0, x1) {
  const from = Math.max(tl.left, x0), to = Math.min(tl.width, x1);
  if (to <= from) return;
  tl.pen.fillStyle = tl.theme.grid;
  tl.pen.fillRect(from, y + 1, to - from, tall - 2);
}

function paintWaiting(tl, row, top) {
  veil(tl, top, row.h, tl.left, tl.width);
}

function paintSteps(tl, row, top) {
  const { pen, theme } = tl;
  pen.textBaseline = "middle";
  for (const step of tl.stepsOf.get(row.rank) ?? []) {
    const x0 = tl.xOf(step.ts), x1 = tl.xOf(step.ts + step.dur);
    if (x1 < tl.left || x0 > tl.width) continue;
    const x = Math.max(x0, tl.left), wide = Math.max(1, Math.min(x1, tl.width) - x - 1);
    pen.fillStyle = step.step % 2 ? theme.line : theme.grid;
    pen.fillRect(x, top + 2, wide, row.h - 4);
    if (wide < TEXT_FROM) continue;
    pen.fillStyle = theme.ink;
    const text = fitted(tl, tl.say("step_label", { step: step.step, length: length(step.dur) }), wide - 8) ;
    pen.fillText(wide > 90 ? text : fitted(tl, String(step.step), wide - 8), x + 4, top + row.h / 2 + 0.5);
  }
}

/** A counter as an area: the line is the highest value of each pixel, the darker band reaches to the lowest. */
function paintCounter(tl, row, top, key) {
  const { pen, theme, view } = tl, held = tl.tiles.bestCounter(row.counter.id, key);
  if (!held) { paintWaiting(tl, row, top); return; }
  const { t, min, max, last } = held.series.get(row.counter.id), { counter } = row;
  const low = Math.min(0, counter.min), high = counter.max > low ? counter.max : low + 1;
  const base = top + row.h - 3, room = row.h - 7, tall = (value) => (room * (value - low)) / (high - low);
  for (let i = 0; i < t.length; i += 1) {
    const x0 = Math.max(tl.left, tl.xOf(t[i])), x1 = Math.min(tl.width, i + 1 < t.length ? tl.xOf(t[i + 1]) : tl.xOf(Math.min(tl.layout.to, view.to)));
    if (x1 <= tl.left || x0 >= tl.width) continue;
    const wide = Math.max(1, x1 - x0), peak = tall(max[i]), still = x1 - x0 > 2;
    pen.globalAlpha = 0.35;
    pen.fillStyle = roleColour("computing");
    pen.fillRect(x0, base - tall(still ? last[i] : max[i]), wide, tall(still ? last[i] : max[i]));
    pen.globalAlpha = 1;
    pen.fillStyle = theme.accent;
    if (still) pen.fillRect(x0, base - tall(last[i]) - 1, wide, 1.5);
    pen.fillRect(x0, base - peak - 1, still ? 1.5 : wide, Math.max(1.5, peak - tall(min[i])));
  }
}
