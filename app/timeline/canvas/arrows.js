// All launch arrows of some kinds, between the rows on the canvas; thin, so that they do not hide what they join.

class Arrows {
  constructor(tl) { Object.assign(this, { tl, key: "", found: [], said: "" }); }

  /** What is asked for: the kinds, the window, and the tracks with a row. */
  get asked() {
    const { tl } = this;
    if (!tl.routes.size || tl.by === "picture") return null;
    const { from, to, key } = tl.tiles.window, tracks = [...new Set([...tl.pinned, ...tl.flow].filter((row) => row.track && row.track.id >= 0).map((row) => row.track.id))];
    return { key: `${key}/${[...tl.routes].join()}/${tracks.join()}`, path: `arrows?from=${from}&to=${to}&routes=${[...tl.routes].map(encodeURIComponent).join(",")}&tracks=${tracks.join(",")}` };
  }

  get whole() {
    const { asked } = this;
    if (!asked) Object.assign(this, { key: "", found: [], said: "" });
    return !asked || asked.key === this.key;
  }

  async fetch(signal) {
    const { asked } = this;
    if (!asked || asked.key === this.key) return;
    try {
      const answer = await ask(this.tl, asked.path, signal).then((one) => one.json());
      this.found = answer.arrows;
      this.said = answer.cut ? this.tl.say("arrows_cut", { n: answer.arrows.length.toLocaleString("en-US") }) : answer.arrows.length ? "" : this.tl.say("arrows_none");
    } catch (error) {
      if (error.status !== 413) throw error;
      this.found = [];
      this.said = this.tl.say("arrows_many");
    }
    this.key = asked.key;
  }
}

function paintAllArrows(tl) {
  const { pen, theme } = tl, { found } = tl.arrows;
  if (!tl.routes.size || tl.by === "picture") return;
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 1;
  pen.globalAlpha = found.length > 200 ? 0.25 : 0.5;
  pen.beginPath();
  for (const { source, target } of found) {
    const a = placeOf(tl, source), b = placeOf(tl, target);
    if (!a || !b || (a.x < tl.left && b.x < tl.left) || (a.x > tl.width && b.x > tl.width)) continue;
    const bend = Math.max(12, Math.abs(b.x - a.x) / 3);
    pen.moveTo(a.x, a.y);
    pen.bezierCurveTo(a.x + bend, a.y, b.x - bend, b.y, b.x, b.y);
  }
  pen.stroke();
  pen.globalAlpha = 1;
}

/** Which kinds of arrows there are; a tick draws all of a kind. */
function arrowMenu(tl, box) {
  make("h4", "", box, tl.say("arrows_title"));
  if (!tl.layout.routes.length) make("div", "quiet", box, tl.say("arrows_absent"));
  for (const [route, count] of tl.layout.routes) {
    const label = make("label", "", make("div", "line", box)), tick = make("input", "", label);
    tick.type = "checkbox";
    tick.checked = tl.routes.has(route);
    tick.onchange = () => { if (tick.checked) tl.routes.add(route); else tl.routes.delete(route); tl.rearranged(); };
    make("span", "", label, `${clean(route)} (${count.toLocaleString("en-US")})`);
  }
  make("div", "quiet", box, tl.say("arrows_about"));
}
