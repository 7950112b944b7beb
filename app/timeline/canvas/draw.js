// The whole picture: rows, grid, ruler, overview, gutter, selection, arrows. One pass, no state of its own.

const OVERVIEW = 26, RULER = 26, TOP = OVERVIEW + RULER, GUTTER = 232, PICTURE_GUTTER = 116;

function draw(tl) {
  const began = performance.now(), { pen, theme } = tl, key = tl.tiles.window.key;
  pen.setTransform(tl.ratio, 0, 0, tl.ratio, 0, 0);
  pen.fillStyle = theme.paper;
  pen.fillRect(0, 0, tl.width, tl.height);
  pen.font = `11.5px ${theme.font}`;
  tl.sticky = stickyOf(tl);
  const marks = ticks(tl.view.from, tl.view.to, tl.plotWidth, 130);
  clipped(tl, 0, TOP + tl.pinnedHeight, tl.width, tl.height, () => {
    const low = TOP + tl.pinnedHeight;
    const shown = tl.flow.filter((row) => { const y = topOf(tl, row); return y + row.h > low && y < tl.height; });
    paintGrid(tl, marks, low);
    for (const row of shown) paintRow(tl, row, key);
  });
  if (tl.pinned.length) clipped(tl, 0, TOP, tl.width, TOP + tl.pinnedHeight, () => {
    pen.fillStyle = theme.raised;
    pen.fillRect(0, TOP, tl.width, tl.pinnedHeight);
    paintGrid(tl, marks, TOP);
    for (const row of tl.pinned) paintRow(tl, row, key);
    pen.fillStyle = theme.accent;
    pen.fillRect(0, TOP + tl.pinnedHeight - 2, tl.width, 1);
  });
  clipped(tl, tl.left, TOP, tl.width, tl.height, () => { paintWindows(tl); paintArea(tl); paintAllArrows(tl); paintArrows(tl); paintFlags(tl); paintBand(tl); });
  paintSticky(tl);
  paintRuler(tl, marks);
  paintOverview(tl);
  paintScrollbar(tl);
  tl.lastDrawMs = performance.now() - began;
  tl.draws += 1;
}

function clipped(tl, x0, y0, x1, y1, act) {
  tl.pen.save();
  tl.pen.beginPath();
  tl.pen.rect(x0, y0, x1 - x0, Math.max(0, y1 - y0));
  tl.pen.clip();
  act();
  tl.pen.restore();
}

function paintGrid(tl, marks, top) {
  tl.pen.fillStyle = tl.theme.grid;
  for (const at of marks.found) tl.pen.fillRect(Math.round(tl.xOf(at)), top, 1, tl.height - top);
}

function paintRow(tl, row, key) {
  const { pen, theme } = tl, top = topOf(tl, row);
  if (row.type === "rank" || row.type === "group") {
    pen.fillStyle = row.type === "rank" ? theme.raised : theme.paper;
    pen.fillRect(0, top, tl.width, row.h - 1);
  }
  clipped(tl, tl.left, top, tl.width, top + row.h, () => {
    if (row.type === "steps") paintSteps(tl, row, top);
    else if (row.type === "counter") paintCounter(tl, row, top, key);
    else if (row.type === "did") paintDid(tl, row, top);
    else if (row.track) paintTrack(tl, row, top + (row.type === "rank" ? 2 : 0), key);
    else if (row.type === "rank") rankLine(tl, row, top);
  });
  paintLabel(tl, row, top);
}

/** What a rank is, along its heading: device, host, how its clock was moved. */
function rankLine(tl, row, top) {
  const { about } = row, parts = [clean(about.device ?? ""), clean(about.host ?? "")];
  if (about.shift_ns) parts.push(tl.say("shifted", { shift: length(about.shift_ns), within: length(about.uncertainty_ns) }));
  tl.pen.fillStyle = tl.theme.quiet;
  tl.pen.textBaseline = "middle";
  tl.pen.fillText(fitted(tl, parts.filter(Boolean).join(" · "), tl.plotWidth - 16), tl.left + 8, top + row.h / 2);
}

function paintLabel(tl, row, top) {
  if (row.type === "did") { paintDidLabel(tl, row, top); return; }
  const { pen, theme } = tl, head = row.type === "rank" || row.type === "group", path = row.track?.group === "path" && !row.pinned;
  const indent = row.type === "rank" ? 8 : row.type === "group" || path ? 16 : 28, tall = head || path ? row.h - 1 : Math.min(row.h, 20);
  if (!head) { pen.fillStyle = row.pinned || row.key === tl.over ? theme.raised : theme.paper; pen.fillRect(0, top, tl.left, row.h); }
  pen.fillStyle = theme.line;
  pen.fillRect(tl.left - 1, top, 1, row.h);
  pen.fillStyle = theme.grid;
  if (!head) pen.fillRect(0, top + row.h - 1, tl.width, 1);
  pen.textBaseline = "middle";
  // The name of a tall track stays on the canvas as long as any of the track does.
  const low = TOP + tl.pinnedHeight + (tl.sticky ? STICKY : 0), at = head || row.pinned ? top : Math.max(top, Math.min(low, top + row.h - tall)), middle = at + tall / 2 + 0.5;
  if (head || (row.track && row.track.lanes > 1)) arrowHead(tl, indent - (head ? 0 : 12), middle, row.folded);
  pen.fillStyle = row.type === "group" ? theme.quiet : theme.ink;
  pen.font = `${head || path ? "600 " : ""}11.5px ${theme.font}`;
  const x = indent + (head ? 14 : 4);
  const text = row.type === "group" ? `${row.label} (${row.count})` : row.pinned ? ranked(row.rank, row.label) : row.label;
  pen.fillText(bare(tl, text, tl.left - x - (row.key === tl.over ? 50 : 8)), x, middle);
  pen.font = `11.5px ${theme.font}`;
  if (row.sub && row.h > 30) { pen.fillStyle = theme.quiet; pen.fillText(bare(tl, `${row.sub} · ${brief(row.counter.min)} – ${brief(row.counter.max)}`, tl.left - x - 8), x, middle + 15); }
  if (row.key === tl.over && !head && row.type !== "steps") {
    pen.fillStyle = theme.quiet;
    pen.fillText(row.pinned ? "◆" : "◇", tl.left - 42, middle);
    pen.fillText("✕", tl.left - 20, middle);
  }
}

/** A lane of the picture is often too low for its name: then every few have one. */
function paintDidLabel(tl, row, top) {
  const { pen, theme } = tl;
  if (row.key === tl.over) { pen.fillStyle = theme.raised; pen.fillRect(0, top, tl.left, row.h); }
  pen.fillStyle = theme.line;
  pen.fillRect(tl.left - 1, top, 1, row.h);
  if (row.of && row.rank !== null) pen.fillRect(tl.left - 5, top, 2, row.h);
  if (!row.named && row.key !== tl.over) return;
  pen.fillStyle = row.key === tl.over ? theme.ink : theme.quiet;
  pen.textBaseline = "middle";
  if (row.several) arrowHead(tl, 8, top + row.h / 2, true);
  pen.fillText(bare(tl, row.label, tl.left - 36), 22, top + row.h / 2 + 0.5);
}

/** Whose rows these are, where the heading has scrolled away. */
function paintSticky(tl) {
  if (!tl.sticky) return;
  const { pen, theme } = tl, low = TOP + tl.pinnedHeight;
  pen.fillStyle = theme.raised;
  pen.fillRect(0, low, tl.left - 1, STICKY);
  pen.fillStyle = theme.line;
  pen.fillRect(0, low + STICKY - 1, tl.left - 1, 1);
  pen.fillStyle = theme.ink;
  pen.textBaseline = "middle";
  pen.font = `600 11px ${theme.font}`;
  pen.fillText(bare(tl, tl.sticky.text, tl.left - 16), 8, low + STICKY / 2);
  pen.font = `11.5px ${theme.font}`;
}

function bare(tl, text, room) {
  if (tl.pen.measureText(text).width > room) text = telling(text);
  const wide = tl.pen.measureText(text).width;
  if (wide <= room) return text;
  return `${text.slice(0, Math.max(1, Math.floor((text.length * (room - 8)) / wide)))}…`;
}

function arrowHead(tl, x, y, shut) {
  const { pen } = tl;
  pen.fillStyle = tl.theme.quiet;
  pen.beginPath();
  if (shut) { pen.moveTo(x, y - 4); pen.lineTo(x + 6, y); pen.lineTo(x, y + 4); }
  else { pen.moveTo(x - 1, y - 3); pen.lineTo(x + 7, y - 3); pen.lineTo(x + 3, y + 3); }
  pen.fill();
}

function paintRuler(tl, { size, found }) {
  const { pen, theme } = tl;
  pen.fillStyle = theme.raised;
  pen.fillRect(0, OVERVIEW, tl.width, RULER);
  pen.fillStyle = theme.ink;
  pen.textBaseline = "middle";
  pen.fillText(tl.say("window", { length: length(tl.view.length) }), 8, OVERVIEW + RULER / 2);
  clipped(tl, tl.left, OVERVIEW, tl.width, TOP, () => {
    for (const at of found) {
      const x = Math.round(tl.xOf(at));
      pen.fillStyle = theme.line;
      pen.fillRect(x, OVERVIEW + 4, 1, RULER - 4);
      pen.fillStyle = theme.quiet;
      pen.fillText(tickText(at, size), x + 4, OVERVIEW + RULER / 2);
    }
    for (const flag of tl.marks) {
      const x = tl.xOf(flag.at), wide = flag.name ? pen.measureText(flag.name).width : 0;
      pen.fillStyle = flagColour(tl, flag.colour);
      pen.beginPath(); pen.moveTo(x, OVERVIEW + 4); pen.lineTo(x + 11, OVERVIEW + 9); pen.lineTo(x, OVERVIEW + 14); pen.fill();
      pen.fillRect(x - 0.5, OVERVIEW + 4, 1.5, RULER - 4);
      if (!wide) continue;
      pen.fillRect(x, OVERVIEW + 4, wide + 8, 15);
      pen.fillStyle = inkOn(flagColour(tl, flag.colour));
      pen.fillText(flag.name, x + 4, OVERVIEW + 12);
    }
  });
  pen.fillStyle = theme.line;
  pen.fillRect(0, TOP - 1, tl.width, 1);
}

/** The capture from end to end: the first rank's steps, every rank's gaps, and the window as a frame. */
function paintOverview(tl) {
  const { pen, theme } = tl, scale = tl.plotWidth / tl.layout.to, xOf = (ns) => tl.left + ns * scale;
  pen.fillStyle = theme.paper;
  pen.fillRect(0, 0, tl.width, OVERVIEW);
  pen.fillStyle = theme.quiet;
  pen.textBaseline = "middle";
  pen.fillText(tl.say("capture", { length: length(tl.layout.to) }), 8, OVERVIEW / 2);
  const gaps = tl.layout.tracks.filter((track) => track.group === "gaps"), tile = tl.tiles.whole_capture;
  const tall = (OVERVIEW - 6) / Math.max(1, gaps.length);
  gaps.forEach((track, at) => {
    const y = 3 + at * tall;
    pen.fillStyle = roleColour("computing");
    pen.globalAlpha = 0.5;
    pen.fillRect(xOf(track.from), y, Math.max(0, (track.to - track.from) * scale), Math.max(1, tall - 0.5));
    pen.globalAlpha = 1;
    if (!tile) return;
    const part = tile.parts.get(track.id);
    for (const i of part.spans) {
      const wide = tile.s_dur[i] * scale; // narrower than a pixel it is fainter, so that many short gaps do not look like one
      pen.globalAlpha = bounded(wide, 0.1, 1);
      pen.fillStyle = causeColour(tile.names[tile.s_name[i]]);
      pen.fillRect(xOf(tile.s_ts[i]), y, Math.max(1, wide), Math.max(1, tall - 0.5));
    }
    for (const i of part.cells) { pen.globalAlpha = bounded(tile.c_busy[i], 0.1, 1); pen.fillStyle = causeColour(tile.names[tile.c_name[i]]); pen.fillRect(xOf(tile.c_ts[i]), y, Math.max(0.5, tile.bucket * scale), Math.max(1, tall - 0.5)); }
    pen.globalAlpha = 1;
  });
  pen.fillStyle = theme.line;
  for (const step of tl.stepsOf.get(tl.layout.ranks[0]?.rank) ?? []) pen.fillRect(xOf(step.ts), 1, 1, OVERVIEW - 2);
  const x0 = Math.max(tl.left, xOf(tl.view.from)), x1 = Math.min(tl.width - 1, xOf(tl.view.to));
  pen.globalAlpha = 0.72;
  pen.fillStyle = theme.paper;
  pen.fillRect(tl.left, 0, Math.max(0, x0 - tl.left), OVERVIEW);
  pen.fillRect(x1, 0, Math.max(0, tl.width - x1), OVERVIEW);
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 1.5;
  pen.strokeRect(x0 + 0.5, 1, Math.max(2, x1 - x0 - 1), OVERVIEW - 2);
}

function paintScrollbar(tl) {
  const free = tl.height - TOP - tl.pinnedHeight;
  if (tl.flowHeight <= free) return;
  const tall = Math.max(24, (free * free) / tl.flowHeight), y = TOP + tl.pinnedHeight + ((free - tall) * tl.scroll) / (tl.flowHeight - free);
  tl.pen.fillStyle = tl.theme.quiet;
  tl.pen.globalAlpha = 0.5;
  tl.pen.fillRect(tl.width - 7, y, 5, tall);
  tl.pen.globalAlpha = 1;
}
