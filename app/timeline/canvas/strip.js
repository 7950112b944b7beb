// The picture of the job: what each rank did at every moment, by role, as stacked shares of each pixel.
//
// An answer is painted once into a picture of its own, a pixel a moment. A redraw only places and stretches it.

const STACK = 12; // pixels of height that the shares of a moment are stacked in
const PICTURES = 8; // answers that are kept

/** What of the picture is asked for: a row for one rank or for several. */
function askedStrip(tl) {
  const rows = tl.flow.filter((row) => row.type === "did");
  if (!rows.length) return null;
  const { from, to, px, key } = tl.tiles.window, names = rows.map((row) => row.ranks.join("-"));
  const wide = bounded(Math.ceil(px / (rows.length > 24 ? 4 : 2)), 1, 4096);
  return { from, to, px: wide, names, key: `${key}/${names.join(",")}` };
}

class Strip {
  constructor(tl) { Object.assign(this, { tl, kept: [] }); }

  /** What ranks did is known together with why their devices idled. */
  get working() { return this.tl.layout.causes_state === "working"; }

  /** The answer to draw a row from: that of this very view, else the newest that has it. */
  best(name) { return this.kept.find((one) => one.places.has(name)); }

  get whole() {
    const asked = askedStrip(this.tl);
    return !asked || this.kept[0]?.key === asked.key || this.working;
  }

  async fetch(signal) {
    const asked = askedStrip(this.tl), held = asked && this.kept.find((one) => one.key === asked.key);
    if (held) this.kept = [held, ...this.kept.filter((one) => one !== held)];
    if (!asked || held || this.working) return;
    const answer = await ask(this.tl, `strip?from=${asked.from}&to=${asked.to}&px=${asked.px}&rows=${asked.names.join(",")}`, signal);
    const { header, columns } = decoded(await answer.arrayBuffer());
    this.kept.unshift({ ...asked, roles: header.roles, share: columns.c_share, places: new Map(asked.names.map((name, at) => [name, at])), painted: "" });
    if (this.kept.length > PICTURES) this.kept.pop();
  }

  /** Forgets what was said before everything was known. */
  forget() { this.kept = []; }
}

/** The answer as a picture: in every column the roles one upon the other, as tall as their share. */
function stripImage(tl, held) {
  const colours = held.roles.map((role) => roleColour(role)), said = colours.join();
  if (held.painted === said) return held.image;
  const { px, share, roles } = held, rows = held.names.length, image = new ImageData(px, rows * STACK), dots = new Uint32Array(image.data.buffer);
  const inks = colours.map((colour) => { const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)); return (255 << 24) | (b << 16) | (g << 8) | r; });
  for (let row = 0; row < rows; row += 1) {
    for (let x = 0; x < px; x += 1) {
      let filled = 0, done = 0;
      for (let role = 0; role < roles.length; role += 1) {
        filled += share[(row * px + x) * roles.length + role];
        const until = Math.min(STACK, Math.round((filled * STACK) / 255));
        for (; done < until; done += 1) dots[(row * STACK + STACK - 1 - done) * px + x] = inks[role];
      }
    }
  }
  held.image = new OffscreenCanvas(px, rows * STACK);
  held.image.getContext("2d").putImageData(image, 0, 0);
  held.painted = said;
  return held.image;
}

function paintDid(tl, row, top) {
  const { pen } = tl, name = row.ranks.join("-"), held = tl.strip.best(name);
  if (!held?.roles.length) {
    paintWaiting(tl, row, top);
    pen.fillStyle = tl.theme.quiet;
    pen.textBaseline = "middle";
    if (row.says) pen.fillText(tl.say(held ? "did_none" : "reading"), tl.left + 8, top + row.h - Math.min(row.h / 2, 8));
    return;
  }
  const gap = row.h > 8 ? 1 : 0, scale = held.px / (held.to - held.from), [first, last] = [tl.view.from, tl.view.to].map((at) => bounded((at - held.from) * scale, 0, held.px));
  const x0 = tl.xOf(held.from + first / scale), wide = tl.xOf(held.from + last / scale) - x0;
  pen.imageSmoothingEnabled = false;
  if (last > first) pen.drawImage(stripImage(tl, held), first, held.places.get(name) * STACK, last - first, STACK, x0, top + gap, wide, row.h - gap);
  if (row.rank === null) return;
  pen.fillStyle = tl.theme.paper;
  for (const step of tl.stepsOf.get(row.rank) ?? []) pen.fillRect(Math.round(tl.xOf(step.ts)), top, 1, row.h);
}

/** The shares of one moment of a row, the largest first. */
function didAt(tl, row, at) {
  const name = row.ranks.join("-"), held = tl.strip.best(name), moment = held ? Math.floor(((at - held.from) * held.px) / (held.to - held.from)) : -1;
  if (!held || moment < 0 || moment >= held.px) return null;
  const begin = (held.places.get(name) * held.px + moment) * held.roles.length, size = (held.to - held.from) / held.px;
  const shares = held.roles.map((role, n) => [role, held.share[begin + n] / 255]).filter(([, part]) => part > 0).sort((a, b) => b[1] - a[1]);
  return { from: held.from + moment * size, dur: size, shares };
}

/** Windows of the page on the rows of their rank: those of a problem framed, differences of two runs painted. */
function paintWindows(tl) {
  const { pen, theme } = tl;
  for (const one of tl.data.painted ?? []) {
    const x0 = tl.xOf(one.from), wide = Math.max(2, tl.xOf(one.to) - x0), differs = typeof one.change === "number";
    if (x0 > tl.width || x0 + wide < tl.left) continue;
    let said = differs ? `${one.change > 0 ? "+" : "−"}${length(Math.abs(one.change))}` : "";
    for (const row of [...tl.flow, ...tl.pinned]) {
      const mine = one.rank === null || row.rank === one.rank || (row.ranks && one.rank >= row.ranks[0] && one.rank <= row.ranks[1]);
      if (!mine || (row.type !== "did" && row.type !== "track" && row.type !== "rank")) continue;
      const y = topOf(tl, row), left = Math.max(x0, tl.left);
      pen.fillStyle = differs ? roleColour(one.change > 0 ? "residual" : "host") : theme.accent;
      if (row.type !== "did") { pen.globalAlpha = differs ? 0.35 : 0.1; pen.fillRect(x0, y, wide, row.h); pen.globalAlpha = 1; }
      if (said && pen.measureText(said).width + 8 < x0 + wide - left) {
        pen.fillStyle = theme.ink;
        pen.textBaseline = "middle";
        pen.fillText(said, left + 4, y + Math.min(row.h, HEAD) / 2);
        said = "";
      }
      if (row.type === "did") { pen.strokeStyle = theme.ink; pen.lineWidth = 1.5; pen.strokeRect(x0 + 0.5, y + 0.5, wide, row.h); }
    }
  }
}
