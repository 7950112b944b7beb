// Data of the window: asked for when the picture rests a moment, drawn from what is already here until it comes.
//
// A window of time is asked for under one name only: its edges lie on a grid and its resolution is a power of two,
// both decided by the length of the view. So the picture at rest depends on the view alone, never on how one got
// there, and a link that is opened elsewhere shows the same pixels.

const SPARE = 0.25; // of the view, on both sides
const PAUSE_MS = 30, LONGEST_PAUSE_MS = 200;
const KEPT = 24; // answers
const NEAR = 500; // pixels above and below the canvas that are fetched along

/** The window under which a view is asked for. */
function askedWindow(view, width, limit) {
  const size = view.length;
  const level = Math.max(0, Math.round(Math.log2(size / width)));
  const grid = 2 ** Math.max(0, Math.ceil(Math.log2(size / 8)));
  const from = Math.max(0, Math.floor((view.from - SPARE * size) / grid) * grid);
  const to = Math.min(limit, Math.ceil((view.to + SPARE * size) / grid) * grid);
  const px = Math.max(1, Math.round(Math.max(to - from, 1) / 2 ** level));
  return { from, to: Math.max(to, from + 1), px, perPixel: 2 ** level, key: `${from}-${to}-${px}` };
}

const READERS = { f64: Float64Array, i32: Int32Array, u32: Uint32Array, f32: Float32Array, u16: Uint16Array, u8: Uint8Array };

/** A binary answer: its header, and its columns as arrays over it. */
function decoded(buffer) {
  const head = new Uint8Array(buffer, 0, 4);
  if (String.fromCharCode(...head) !== "NPT1") throw new Error("not a tile");
  const size = new DataView(buffer).getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  const columns = {};
  for (const [name, [offset, type]] of Object.entries(header.columns)) {
    columns[name] = new READERS[type](buffer, 8 + size + offset, name[0] === "s" ? header.n_spans : header.n_cells);
  }
  return { header, columns };
}

/** The answer of the tile route, its marks sorted by track. */
function decodeTile(buffer, asked, tracks) {
  const { header, columns } = decoded(buffer);
  const tile = { key: asked.key, from: header.from, to: header.to, bucket: header.bucket_ns, names: header.names.map(clean), kinds: header.kinds ?? [], n: header.n_spans + header.n_cells, parts: new Map(), ...columns };
  for (const id of tracks) tile.parts.set(id, { spans: [], cells: [] });
  for (let i = 0; i < header.n_spans; i += 1) tile.parts.get(tile.s_track[i])?.spans.push(i);
  for (let i = 0; i < header.n_cells; i += 1) tile.parts.get(tile.c_track[i])?.cells.push(i);
  return tile;
}

class Tiles {
  constructor(tl) {
    this.tl = tl;
    this.kept = [];
    this.counters = [];
    this.flight = null;
    this.timer = this.since = null;
    this.asked = 0;
    this.seen = 0;
    this.failed = false;
  }

  get window() { return askedWindow(this.tl.view, this.tl.plotWidth, this.tl.layout.to); }

  /** The answer to draw a track from: the one asked for this very view, else the closest there is. */
  best(id, key) {
    let best = null, most = -Infinity;
    const { from, to } = this.tl.view, perPixel = this.tl.view.length / this.tl.plotWidth;
    for (const tile of this.kept) {
      if (!tile.parts.has(id)) continue;
      if (tile.key === key) return tile;
      const covered = (Math.min(to, tile.to) - Math.max(from, tile.from)) / (to - from);
      const coarse = tile.bucket > 3 * perPixel ? Math.log2(tile.bucket / perPixel) / 20 : 0;
      if (covered - coarse > most) { most = covered - coarse; best = tile; }
    }
    return most > -1 ? best : null;
  }

  bestCounter(id, key) {
    return this.counters.find((one) => one.key === key && one.series.has(id)) ?? this.counters.find((one) => one.series.has(id));
  }

  /** What the rows on the canvas still lack for this view. */
  missing() {
    const { key } = this.window, tracks = [], counters = [];
    const near = [...rowsNear(this.tl, NEAR)];
    for (const row of near) {
      if (row.counter && this.bestCounter(row.counter.id, key)?.key !== key) counters.push(row.counter.id);
      else if (row.track && this.best(row.track.id, key)?.key !== key && !tracks.includes(row.track.id)) tracks.push(row.track.id);
    }
    return { tracks, counters };
  }

  get whole() {
    const { tracks, counters } = this.missing();
    return !tracks.length && !counters.length && this.tl.strip.whole && this.tl.arrows.whole;
  }

  /** Says that the view has changed: data is fetched after a short pause, in a long gesture every now and then. */
  changed() {
    const now = performance.now();
    this.since ??= now;
    if (now - this.since > LONGEST_PAUSE_MS && this.timer) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.timer = this.since = null; this.fetch(); }, PAUSE_MS);
  }

  async fetch() {
    const lacking = this.missing();
    this.flight?.abort();
    this.flight = null;
    if (this.whole) { this.tl.touch(); return; }
    const flight = (this.flight = new AbortController());
    const asked = this.window;
    this.asked += 1;
    const span = `from=${asked.from}&to=${asked.to}&px=${asked.px}`;
    try {
      const [tile, series] = await Promise.all([
        lacking.tracks.length ? ask(this.tl, `tile?${span}&tracks=${lacking.tracks.join(",")}`, flight.signal).then((answer) => answer.arrayBuffer()) : null,
        lacking.counters.length ? ask(this.tl, `counter?${span}&ids=${lacking.counters.join(",")}`, flight.signal).then((answer) => answer.json()) : null,
        this.tl.strip.fetch(flight.signal), this.tl.arrows.fetch(flight.signal),
      ]);
      if (this.flight !== flight) return;
      if (tile) this.keep(this.kept, decodeTile(tile, asked, lacking.tracks));
      if (series) this.keep(this.counters, { key: asked.key, from: asked.from, to: asked.to, series: new Map(series.series.map((one) => [one.id, one])) });
      for (const id of series ? lacking.counters : []) if (!this.counters[0].series.has(id)) this.counters[0].series.set(id, { id, t: [], min: [], max: [], last: [] });
      this.failed = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.failed = true;
    }
    this.flight = null;
    this.seen += 1;
    this.tl.refined = performance.now();
    this.tl.touch();
    if (!this.failed && !this.whole) this.changed();
  }

  keep(list, one) {
    list.unshift(one);
    if (list.length > KEPT) list.pop();
  }

  get gapTracks() { return this.tl.layout.tracks.filter((track) => track.group === "gaps").map((track) => track.id); }

  /** Drops what is known of some tracks. */
  forget(tracks) {
    for (const tile of this.kept) for (const id of tracks) tile.parts.delete(id);
    this.whole_capture = null;
    this.tl.strip.forget();
  }

  /** The gaps of every rank over the whole capture, for the strip at the top. */
  async overview() {
    const gaps = this.gapTracks;
    if (!gaps.length) return;
    const asked = { key: "overview" };
    const answer = await ask(this.tl, `tile?from=0&to=${this.tl.layout.to}&px=600&tracks=${gaps.join(",")}`);
    this.whole_capture = decodeTile(await answer.arrayBuffer(), asked, gaps);
    this.tl.touch();
  }
}
