// The pointer: pan, zoom, select, reorder. Habits of Perfetto and of MindStudio Insight both work.

const CLICK = 4; // pixels a hand may tremble
const EDGE = 12; // width of the scroll bar's grip

function listen(tl) {
  const { canvas } = tl;
  canvas.addEventListener("pointerdown", (event) => pressed(tl, event));
  canvas.addEventListener("pointermove", (event) => moved(tl, event));
  canvas.addEventListener("pointerup", (event) => released(tl, event));
  canvas.addEventListener("pointercancel", () => { tl.drag = tl.band = null; tl.touch(); });
  canvas.addEventListener("pointerleave", () => { tl.over = null; tl.pointer = null; tl.tip.hidden = true; tl.cursor.hidden = true; tl.touch(); });
  canvas.addEventListener("wheel", (event) => wheeled(tl, event), { passive: false });
  canvas.addEventListener("dblclick", (event) => { if (hit(tl, ...pointOf(tl, event))?.type === "span") focusPicked(tl); });
  canvas.addEventListener("contextmenu", (event) => { if (event.ctrlKey) event.preventDefault(); });
  canvas.addEventListener("auxclick", (event) => event.preventDefault());
}

function pointOf(tl, event) {
  const box = tl.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function kindOfDrag(tl, event, x, y) {
  if (y < OVERVIEW && x >= tl.left) return "overview";
  if (x > tl.width - EDGE && y > TOP && tl.flowHeight > tl.height - TOP - tl.pinnedHeight) return "scroll";
  if (x < tl.left && y > TOP) return "gutter";
  if (event.button === 1 || event.shiftKey || event.ctrlKey || event.metaKey) return "pan";
  if (event.altKey) return "zoom";
  return y < TOP ? "times" : "select";
}

function pressed(tl, event) {
  if (event.button > 1) return;
  event.preventDefault();
  tl.canvas.focus({ preventScroll: true });
  const [x, y] = pointOf(tl, event);
  tl.canvas.setPointerCapture(event.pointerId);
  tl.drag = { kind: kindOfDrag(tl, event, x, y), x, y, lastX: x, lastY: y, moved: false, add: event.ctrlKey || event.metaKey, row: rowAt(tl, y), goal: [...tl.view.goal], scroll: tl.scroll };
  tl.tip.hidden = true;
  if (tl.drag.kind === "overview") toOverview(tl, x);
}

function moved(tl, event) {
  const [x, y] = pointOf(tl, event), { drag } = tl;
  tl.pointer = { x, y };
  if (!drag) { hovered(tl, x, y); return; }
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK) return;
  drag.moved = true;
  tl.cursor.hidden = x < tl.left;
  tl.cursor.style.left = `${x}px`;
  if (drag.kind === "pan") {
    const by = ((drag.x - x) * tl.view.length) / tl.plotWidth;
    tl.view.set(drag.goal[0] + by, drag.goal[1] + by);
    tl.scrollTo(drag.scroll + drag.y - y);
    tl.viewChanged();
  } else if (drag.kind === "overview") toOverview(tl, x);
  else if (drag.kind === "scroll") {
    const free = tl.height - TOP - tl.pinnedHeight;
    tl.scrollTo(drag.scroll + ((y - drag.y) * tl.flowHeight) / free);
  } else if (drag.kind === "gutter") { tl.dropLine.hidden = false; tl.dropLine.style.top = `${y}px`; }
  else {
    const zoom = drag.kind === "zoom", whole = drag.kind === "times";
    tl.band = { x0: Math.max(drag.x, tl.left), x1: bounded(x, tl.left, tl.width), y0: whole ? TOP : drag.y, y1: whole ? tl.height : Math.max(y, TOP), zoom };
  }
  drag.lastX = x; drag.lastY = y;
  tl.touch();
}

function hovered(tl, x, y) {
  const row = rowAt(tl, y), over = x < tl.left && row ? row.key : null;
  if (over !== tl.over) { tl.over = over; tl.touch(); }
  const found = hit(tl, x, y);
  tl.canvas.style.cursor = x < tl.left ? "default" : found && found.type !== "value" && found.type !== "step" ? "pointer" : "crosshair";
  showTip(tl, found, x, y);
  tl.cursor.hidden = x < tl.left;
  tl.cursor.style.left = `${x}px`;
  tl.clock.textContent = x < tl.left ? "" : exact(tl.nsOf(x));
}

function released(tl, event) {
  const { drag, band } = tl, [x, y] = pointOf(tl, event);
  tl.drag = tl.band = null;
  tl.dropLine.hidden = true;
  if (!drag) return;
  if (!drag.moved) { if (drag.kind !== "overview" && drag.kind !== "scroll") clicked(tl, x, y, drag); tl.touch(); return; }
  if (drag.kind === "gutter") dropped(tl, drag.row, y);
  if (!band) { tl.touch(); return; }
  const [from, to] = [tl.nsOf(Math.min(band.x0, band.x1)), tl.nsOf(Math.max(band.x0, band.x1))];
  if (band.zoom) tl.show(from, to);
  else selectArea(tl, Math.floor(from), Math.ceil(to), tracksBetween(tl, Math.min(band.y0, band.y1), Math.max(band.y0, band.y1)));
  tl.touch();
}

function tracksBetween(tl, y0, y1) {
  const rows = [...tl.pinned.filter((row) => topOf(tl, row) < y1 && topOf(tl, row) + row.h > y0),
    ...tl.flow.filter((row) => { const y = topOf(tl, row); return y < y1 && y + row.h > Math.max(y0, TOP + tl.pinnedHeight); })];
  return tracksOfRows(tl, rows);
}

/** The tracks that rows stand for: their own, or every one of the ranks of a lane of the picture. */
function tracksOfRows(tl, rows) {
  return [...new Set(rows.flatMap((row) => {
    if (row.type === "did") return tl.layout.ranks.filter(({ rank }) => rank >= row.ranks[0] && rank <= row.ranks[1]).flatMap(({ rank }) => tracksOfRank(tl, rank));
    return row.track && row.type === "track" ? [row.track.id] : [];
  }))];
}

function clicked(tl, x, y, drag) {
  if (drag.kind === "gutter") { gutterClicked(tl, drag, x, y); return; }
  if (drag.kind === "times") {
    const near = tl.marks.find((flag) => Math.abs(tl.xOf(flag.at) - x) < 10);
    if (near) dropFlag(tl, near);
    return;
  }
  const found = hit(tl, x, y);
  if (!found) { tl.clear(); return; }
  if (found.type === "span") pick(tl, found.span);
  else if (found.type === "cell") intoCell(tl, found.cell);
  else if (found.type === "end") goTo(tl, found.link);
  else if (found.type === "did") intoPicture(tl, found.row);
  else if (found.type === "step") selectArea(tl, found.step.ts, found.step.ts + found.step.dur, tracksOfRank(tl, found.row.rank));
}

/** A lane of the picture leads to all tracks of its rank, in the same window; one of several ranks opens first. */
function intoPicture(tl, row) {
  if (row.several) tl.open(row.key); else toRank(tl, row.ranks[0]);
}

/** A cell is not a span: a click goes close enough to tell its spans apart. */
function intoCell(tl, cell) {
  const size = Math.max(cell.dur * 6, SHORTEST);
  tl.show(cell.ts + cell.dur / 2 - size / 2, cell.ts + cell.dur / 2 + size / 2);
}

function gutterClicked(tl, { row, add }, x, y) {
  if (y < TOP + tl.pinnedHeight + STICKY && y > TOP + tl.pinnedHeight && tl.sticky) { tl.scrollTo(tl.sticky.head.y); return; }
  if (!row) return;
  if (add) { pickLane(tl, row); return; }
  if (row.type === "did") { if (row.of) tl.open(row.of); else intoPicture(tl, row); return; }
  const own = row.type === "track" || row.type === "counter";
  if (own && x > tl.left - 30) tl.toggle("hide", row.key);
  else if (own && x > tl.left - 52) tl.toggle("pin", row.key);
  else if (row.type === "rank" || row.type === "group" || (row.track && row.track.lanes > 1)) tl.toggle("fold", row.key);
}

/** Takes a row into the selected area, or out of it; the first one begins an area over the window. */
function pickLane(tl, row) {
  const mine = tracksOfRows(tl, [row]), area = tl.area ?? { from: tl.view.from, to: tl.view.to, tracks: [] };
  const rest = area.tracks.filter((id) => !mine.includes(id)), out = mine.length && mine.every((id) => area.tracks.includes(id));
  if (mine.length) selectArea(tl, area.from, area.to, out ? rest : [...rest, ...mine]);
}

/** A row dropped between two others of its kind takes that place. */
function dropped(tl, row, y) {
  if (!row || (row.type !== "track" && row.type !== "rank") || (tl.by !== "ranks" && !row.pinned)) return;
  if (row.pinned) {
    const before = tl.pinned.find((one) => topOf(tl, one) + one.h / 2 > y);
    const rest = tl.pin.filter((key) => key !== row.key), at = before ? rest.indexOf(before.key) : rest.length;
    tl.pin = [...rest.slice(0, at < 0 ? rest.length : at), row.key, ...rest.slice(at < 0 ? rest.length : at)];
  } else {
    const peers = tl.flow.filter((one) => one.type === row.type && (row.type === "rank" || (one.rank === row.rank && one.track.group === row.track.group)));
    const before = peers.find((one) => topOf(tl, one) + one.h / 2 > y && one !== row);
    tl.reorder(row, before ?? null);
    return;
  }
  tl.rearranged();
}

function wheeled(tl, event) {
  const [x] = pointOf(tl, event), unit = event.deltaMode === 1 ? 16 : 1;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const factor = Math.exp(bounded(event.deltaY * unit, -240, 240) * 0.0028);
    tl.view.set(...tl.view.zoomed(factor, tl.nsOf(Math.max(x, tl.left))));
    tl.viewChanged();
    return;
  }
  const aside = event.shiftKey ? event.deltaX || event.deltaY : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
  if (aside) {
    event.preventDefault();
    tl.view.set(...tl.view.panned((aside * unit * tl.view.length) / tl.plotWidth));
    tl.viewChanged();
  } else if (tl.scrollTo(tl.scroll + event.deltaY * unit)) event.preventDefault();
}

function toOverview(tl, x) {
  const middle = ((bounded(x, tl.left, tl.width) - tl.left) / tl.plotWidth) * tl.layout.to, half = tl.view.length / 2;
  tl.view.set(middle - half, middle + half);
  tl.viewChanged();
}
