// Tables in the drawer; one of them says what is on the canvas in words, for those who cannot see it.

const VISIBLE_ROWS = 1000;

/** A table whose heads sort it. Columns are [title, cell of a row, value to sort by, right aligned, all of a short text]. */
function table(tl, parent, about, columns, rows, chosen) {
  const made = make("table", "", parent), head = make("tr", "", make("thead", "", made)), body = make("tbody", "", made);
  make("caption", "hidden", made, about);
  let sorted = -1, down = true;
  const fill = () => {
    body.replaceChildren();
    for (const row of rows) {
      const line = make("tr", "", body);
      columns.forEach(([, cell, , right, all]) => { const one = make("td", right ? "right" : "", line, cell(row)); if (all) one.title = all(row); });
      if (chosen) { line.tabIndex = 0; line.onclick = () => chosen(row); line.onkeydown = (event) => { if (event.key === "Enter") chosen(row); }; }
    }
  };
  columns.forEach(([title, , value, right], at) => {
    const cell = make("th", right ? "right" : "", head);
    cell.scope = "col";
    button(cell, "sort", title, tl.say("sort_by", { what: title }), () => {
      down = sorted === at ? !down : Boolean(right);
      sorted = at;
      const order = (a, b) => { const [x, y] = [value(a) ?? -Infinity, value(b) ?? -Infinity]; return x < y ? -1 : x > y ? 1 : 0; };
      rows.sort((a, b) => (down ? -order(a, b) : order(a, b)));
      [...head.children].forEach((one) => one.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    });
  });
  fill();
  return made;
}

function copyTable(tl, body) {
  return button(null, "", tl.say("copy_table"), tl.say("copy_table_about"), () => navigator.clipboard?.writeText(tabbed(body)));
}

/** The table as tab-separated text; a cell that a spreadsheet would run gets a mark in front. */
function tabbed(body) {
  const safe = (text) => (/^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text).replace(/[\t\n]/g, " ");
  return [...body.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => safe(cell.textContent)).join("\t")).join("\n");
}

/** Spans and cells within the window on the rows of the canvas, by row and time. */
function visibleMarks(tl, limit) {
  const found = [], { from, to } = tl.view, { key } = tl.tiles.window;
  for (const row of rowsNear(tl, 0)) {
    const tile = row.track && row.type === "track" ? tl.tiles.best(row.track.id, key) : null;
    if (!tile) continue;
    const part = tile.parts.get(row.track.id);
    for (const i of part.spans) if (tile.s_ts[i] < to && tile.s_ts[i] + tile.s_dur[i] >= from) found.push({ row, span: spanOf(tile, i, row) });
    for (const i of part.cells) if (tile.c_ts[i] < to && tile.c_ts[i] + tile.bucket > from) found.push({ row, cell: cellOf(tile, i, row) });
    if (found.length > limit * 4) break;
  }
  return found.slice(0, limit);
}

function showVisible(tl) {
  const rows = visibleMarks(tl, VISIBLE_ROWS), { words, tools, body } = openDrawer(tl, "table"), of = (one) => one.span ?? one.cell;
  make("strong", "name", words, tl.say("table_title", { n: rows.length }));
  make("span", "quiet", words, `${exact(tl.view.from)} – ${exact(tl.view.to)}`);
  tools.prepend(copyTable(tl, body));
  const name = (one) => (one.cell ? cellText(tl, one.cell) : one.span.gap ? tl.cause(one.span.name) : called(one.span.name));
  if (!rows.length) make("div", "quiet", body, tl.say(tl.by === "picture" ? "picture_no_table" : "area_nothing"));
  else table(tl, body, tl.say("table_about"), [
    [tl.say("col_name"), name, (one) => name(one).toLowerCase()],
    [tl.say("col_track"), (one) => ranked(one.row.rank, one.row.label), (one) => ranked(one.row.rank, one.row.label)],
    [tl.say("start"), (one) => exact(of(one).ts), (one) => of(one).ts, true],
    [tl.say("duration"), (one) => exact(of(one).dur), (one) => of(one).dur, true],
  ], rows, (one) => { if (one.span) pick(tl, one.span); else intoCell(tl, one.cell); });
  if (rows.length === VISIBLE_ROWS) make("div", "quiet", body, tl.say("area_cut", { n: VISIBLE_ROWS }));
}
