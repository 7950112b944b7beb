// A list of which one row is chosen, and chips below it that unfold short lists.
// Names come from captures: they are only ever text (textContent); nothing here becomes HTML.
const open = new Map(); // which chip of which list lies open

export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  parentElement.querySelector(".picker")?.remove();
  const box = element("div", data.compact ? "picker compact" : "picker", parentElement);
  if (data.height) box.style.setProperty("--most", `${data.height}px`);
  const rows = element("div", "rows", box);
  rows.setAttribute("role", "group");
  rows.setAttribute("aria-label", data.label);
  if (!data.rows.length) element("div", "none", rows, data.none);
  for (const row of data.rows) rows.append(button(row, row.key === data.chosen, () => setTriggerValue("chosen", row.key)));
  rows.onkeydown = (event) => walk(event, [...rows.querySelectorAll(".row")]);
  const chosen = rows.querySelector("[aria-pressed=true]");
  if (chosen) rows.scrollTop = Math.max(0, chosen.offsetTop - rows.offsetTop - 60);
  if (data.chips.length) chips(box, data);
}

function element(tag, name, parent, text) {
  const made = document.createElement(tag);
  made.className = name;
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
}

function button(row, chosen, choose) {
  const made = element("button", row.settled ? "row settled" : "row");
  made.type = "button";
  made.dataset.key = row.key;
  made.title = row.title;
  made.setAttribute("aria-pressed", String(chosen));
  element("span", "head", made, row.head);
  element("span", "amount", made, row.amount);
  if (row.who || row.share) {
    element("span", "who", made, row.who);
    element("span", "share", made, row.share);
  }
  if (row.bar !== null) {
    const bar = element("span", "bar", made);
    element("span", "fill", bar).style.cssText = `display:block;width:${(100 * row.bar).toFixed(2)}%`;
  }
  made.onclick = choose;
  return made;
}

function walk(event, rows) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const at = rows.indexOf(event.target);
  if (!step || at < 0) return;
  event.preventDefault();
  rows[Math.min(rows.length - 1, Math.max(0, at + step))].focus();
}

function chips(box, data) {
  const line = element("div", "chips", box);
  const told = element("div", "told", box);
  const show = (key) => {
    open.set(data.label, key);
    for (const one of line.children) one.setAttribute("aria-expanded", String(one.dataset.key === key));
    told.replaceChildren();
    told.hidden = !key;
    for (const item of data.chips.find((one) => one.key === key)?.items ?? []) {
      const entry = element("div", "item", told);
      element("b", "", entry, item.head);
      element("span", "", entry, item.text);
    }
  };
  for (const chip of data.chips) {
    const made = element("button", "chip", line, `${chip.label} ${chip.items.length}`);
    made.type = "button";
    made.dataset.key = chip.key;
    made.onclick = () => show(open.get(data.label) === chip.key ? null : chip.key);
  }
  show(data.chips.some((one) => one.key === open.get(data.label)) ? open.get(data.label) : null);
}
