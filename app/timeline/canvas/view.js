// The window of time on the screen. Always whole nanoseconds: what a link says is exactly what is drawn.

const SHORTEST = 10; // ns across the whole canvas
const GLIDE_MS = 45; // how fast the picture follows the keys

class View {
  constructor(limit, free = false) {
    this.limit = Math.max(limit, 1);
    this.free = free; // beside another run it may show time that this capture does not have
    this.goal = [0, this.limit];
    this.set(0, this.limit);
  }

  get length() { return this.to - this.from; }

  /** Shows a window at once. */
  set(from, to) {
    this.goal = this.fit(from, to);
    this.at = null;
    this.take(this.goal);
  }

  /** Shows exactly the window of a link, cut at the ends of the capture; false where nothing of it is left. */
  exactly(from, to) {
    if (this.free) { this.set(from, to); return true; }
    const [start, end] = [Math.max(0, from), Math.min(this.limit, to)];
    if (!(end > start)) return false;
    this.set(start, end);
    return true;
  }

  /** Moves towards a window over the next frames. */
  glide(from, to) {
    this.goal = this.fit(from, to);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.take(this.goal);
  }

  take([from, to]) {
    this.from = Math.round(from);
    this.to = Math.max(Math.round(to), this.from + SHORTEST);
  }

  fit(from, to) {
    if (this.free) return [from, Math.max(to, from + SHORTEST)];
    const size = bounded(to - from, SHORTEST, this.limit);
    const start = bounded((from + to) / 2 - size / 2, 0, this.limit - size);
    return [start, start + size];
  }

  zoomed(factor, at) {
    const [from, to] = this.goal;
    return [at - (at - from) * factor, at + (to - at) * factor];
  }

  panned(by) { return [this.goal[0] + by, this.goal[1] + by]; }

  /** One frame of the glide; false when it has arrived. */
  step(ms) {
    const [from, to] = this.goal;
    if (!this.moving) { this.at = null; return false; }
    const at = this.at ?? [this.from, this.to];
    const share = 1 - Math.exp(-Math.max(ms, 8) / GLIDE_MS);
    const next = [at[0] + (from - at[0]) * share, at[1] + (to - at[1]) * share];
    const near = (to - from) * 0.002;
    if (Math.abs(next[0] - from) < near && Math.abs(next[1] - to) < near) {
      this.at = null;
      this.take(this.goal);
      return false;
    }
    this.at = next;
    this.take(next);
    return true;
  }

  get moving() {
    const before = [this.from, this.to];
    const [from, to] = [Math.round(this.goal[0]), Math.max(Math.round(this.goal[1]), Math.round(this.goal[0]) + SHORTEST)];
    return before[0] !== from || before[1] !== to;
  }
}

const STEPS = [1, 2, 5];

/** Where to write times: multiples of 1, 2 or 5 at least `apart` pixels from each other. */
function ticks(from, to, width, apart) {
  const least = ((to - from) * apart) / width;
  let size = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  while (!STEPS.some((step) => step * size >= least)) size *= 10;
  size *= STEPS.find((step) => step * size >= least);
  size = Math.max(1, size);
  const found = [];
  for (let at = Math.ceil(from / size) * size; at <= to; at += size) found.push(at);
  return { size, found };
}

/** A tick's text in the unit of the distance between ticks, so that no digit is lost. */
function tickText(at, size) {
  const [scale, unit] = UNITS.find(([one]) => size >= one) ?? UNITS[3];
  return `${Math.round(at / scale).toLocaleString("en-US")} ${unit}`;
}
