// What lies over the rows: the selected area, the rubber band, marks, and the launch arrows of the selected span.

function paintArea(tl) {
  const { area, pen, theme } = tl;
  if (!area) return;
  const x0 = tl.xOf(area.from), x1 = tl.xOf(area.to);
  pen.fillStyle = theme.accent;
  pen.globalAlpha = 0.14;
  const tracks = new Set(area.tracks), ranks = new Set(ranksOf(tl, area));
  for (const row of [...tl.pinned, ...tl.flow]) {
    if (row.type === "did" ? !tl.layout.ranks.some(({ rank }) => ranks.has(rank) && rank >= row.ranks[0] && rank <= row.ranks[1]) : !row.track || row.type === "rank" || !tracks.has(row.track.id)) continue;
    pen.fillRect(x0, topOf(tl, row), Math.max(1, x1 - x0), row.h);
  }
  pen.globalAlpha = 0.8;
  pen.fillRect(x0, TOP, 1, tl.height);
  pen.fillRect(x1, TOP, 1, tl.height);
  pen.globalAlpha = 1;
  const text = length(area.to - area.from), middle = bounded((x0 + x1) / 2, tl.left + 30, tl.width - 40);
  pen.textAlign = "center";
  pen.fillStyle = theme.ink;
  pen.fillText(text, middle, TOP + 9);
  pen.textAlign = "left";
}

/** The rectangle while the pointer draws it. */
function paintBand(tl) {
  const { band, pen, theme } = tl;
  if (!band) return;
  const [x, y] = [Math.min(band.x0, band.x1), Math.min(band.y0, band.y1)];
  const [wide, tall] = [Math.abs(band.x1 - band.x0), Math.abs(band.y1 - band.y0)];
  pen.fillStyle = band.zoom ? roleColour("transferring") : theme.accent;
  pen.globalAlpha = 0.18;
  pen.fillRect(x, band.zoom ? TOP : y, wide, band.zoom ? tl.height : tall);
  pen.globalAlpha = 1;
  pen.strokeStyle = pen.fillStyle;
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, (band.zoom ? TOP : y) + 0.5, wide, band.zoom ? tl.height : tall);
  const text = length((wide * tl.view.length) / tl.plotWidth), beside = x + wide + 6 > tl.width - 70 ? x - 70 : x + wide + 6;
  pen.fillStyle = theme.paper;
  pen.fillRect(beside - 4, band.y1 + 3, pen.measureText(text).width + 8, 18);
  pen.fillStyle = theme.ink;
  pen.fillText(text, beside, band.y1 + 12);
}

function paintFlags(tl) {
  for (const { at, colour } of tl.marks) { tl.pen.fillStyle = flagColour(tl, colour); tl.pen.fillRect(tl.xOf(at) - 0.5, TOP, 1, tl.height); }
}

/** Where a span lies on the canvas: its lane where its tile is loaded, else the middle of its row. */
function placeOf(tl, end) {
  const row = tl.rowOf.get(String(end.track));
  if (!row) return null;
  const tile = tl.tiles.best(end.track, tl.tiles.window.key), part = tile?.parts.get(end.track);
  const at = end.lane === undefined || end.lane === null ? part?.spans.find((i) => tile.s_id[i] === end.id) : undefined;
  const lane = end.lane ?? (at === undefined ? undefined : tile.s_lane[at]);
  const inside = lane === undefined ? row.h / 2 : 1 + (lane + 0.5) * row.lane;
  return { x: tl.xOf(end.ts), y: topOf(tl, row) + inside };
}

/** Arrows to the other ends of the selected span's links; an end that is not on the canvas gets a marker to go to. */
function paintArrows(tl) {
  tl.ends = [];
  const picked = tl.picked;
  if (!picked?.links?.length) return;
  const { pen, theme } = tl, here = placeOf(tl, picked);
  const low = TOP + tl.pinnedHeight, from = here && { x: bounded(here.x, tl.left, tl.width), y: bounded(here.y, low, tl.height) };
  let spread = 0;
  for (const link of picked.links) {
    const there = placeOf(tl, link);
    const inside = there && there.x >= tl.left && there.x <= tl.width && there.y >= low && there.y <= tl.height;
    const x = there ? there.x : tl.xOf(link.ts), y = there ? there.y : tl.height - 14;
    const end = { x: bounded(x, tl.left + 9, tl.width - 16), y: bounded(y, low + 9, tl.height - 9) };
    if (!inside) { end.y = bounded(end.y + (there && there.y >= low && there.y <= tl.height ? 0 : spread), low + 9, tl.height - 9); spread -= 16; }
    if (from) curve(tl, link.out ? from : end, link.out ? end : from);
    if (!inside) {
      pen.fillStyle = theme.ink;
      pen.beginPath(); pen.arc(end.x, end.y, 7, 0, 7); pen.fill();
      pen.fillStyle = theme.paper;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(x < tl.left ? "‹" : x > tl.width ? "›" : y < low ? "↑" : "↓", end.x, end.y);
      pen.textAlign = "left";
      tl.ends.push({ ...end, link });
    }
  }
}

function curve(tl, a, b) {
  const { pen, theme } = tl, bend = Math.max(24, Math.abs(b.x - a.x) / 3), back = b.x < a.x ? -1 : 1;
  for (const [wide, colour] of [[3.5, theme.paper], [1.6, theme.ink]]) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = wide;
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.bezierCurveTo(a.x + bend * back, a.y, b.x - bend * back, b.y, b.x, b.y);
    pen.stroke();
  }
  pen.beginPath();
  pen.moveTo(b.x, b.y);
  pen.lineTo(b.x - 7 * back, b.y - 4);
  pen.lineTo(b.x - 7 * back, b.y + 4);
  pen.fill();
}
