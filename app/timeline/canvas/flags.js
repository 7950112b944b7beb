// Named moments: set, named, coloured, jumped to, told in the link.

const COLOURS_OF_FLAGS = 6, LONGEST_FLAG = 80;

/** Flags as the words of a link: a moment, then its colour and its name where it has them. */
function spelledFlags(flags) {
  return flags.map(({ at, colour, name }) => [at, ...(colour || name ? [colour] : []), ...(name ? [encodeURIComponent(name).replaceAll("'", "%27")] : [])].join(":")).join(",");
}

function readFlags(text) {
  const found = new Map();
  for (const one of String(text ?? "").split(",")) {
    const [, at, colour, name] = /^(\d{1,16})(?::(\d))?(?::([^:]*))?$/.exec(one) ?? [];
    if (at === undefined) continue;
    let said = "";
    try { said = clean(decodeURIComponent(name ?? "")).slice(0, LONGEST_FLAG); } catch { said = ""; }
    found.set(Number(at), { at: Number(at), colour: Number(colour ?? 0) % COLOURS_OF_FLAGS, name: said });
  }
  return sortedFlags([...found.values()]);
}

function sortedFlags(flags) { return flags.sort((a, b) => a.at - b.at); }

function flagText(flag) { return flag.name || exact(flag.at); }

function setFlag(tl, at) {
  const moment = Math.max(0, Math.round(at));
  if (!tl.marks.some((one) => one.at === moment)) tl.marks = sortedFlags([...tl.marks, { at: moment, colour: 0, name: "" }]);
  tl.placeChanged();
  tl.touch();
}

function markHere(tl) {
  const { pointer } = tl;
  setFlag(tl, pointer && pointer.x > tl.left ? tl.nsOf(pointer.x) : tl.picked ? tl.picked.ts : tl.nsOf(tl.left + tl.plotWidth / 2));
}

function dropFlag(tl, flag) {
  tl.marks = tl.marks.filter((one) => one !== flag);
  tl.placeChanged();
  tl.touch();
}

/** The next or the previous flag from the middle of the view, round and round. */
function stepFlag(tl, by) {
  if (!tl.marks.length) { tl.flash(tl.say("no_marks")); return; }
  const middle = Math.round((tl.view.goal[0] + tl.view.goal[1]) / 2), one = Math.max(1, tl.view.length / tl.plotWidth);
  const ahead = by > 0 ? tl.marks.find((flag) => flag.at > middle + one) : tl.marks.findLast((flag) => flag.at < middle - one);
  goToMoment(tl, (ahead ?? tl.marks.at(by > 0 ? 0 : -1)).at);
}

/** Brings a moment to the middle. */
function goToMoment(tl, at) {
  const half = tl.view.length / 2;
  tl.show(at - half, at + half);
}

function markMenu(tl, box) {
  const again = () => { box.replaceChildren(); markMenu(tl, box); tl.touch(); };
  if (!tl.marks.length) make("div", "quiet", box, tl.say("no_marks"));
  tl.marks.forEach((flag, at) => {
    const line = make("div", "line", box), swatch = button(line, "swatch", "", tl.say("mark_colour"), () => { flag.colour = (flag.colour + 1) % COLOURS_OF_FLAGS; tl.placeChanged(); again(); });
    swatch.style.background = flagColour(tl, flag.colour);
    const field = make("input", "", line);
    field.value = flag.name;
    field.maxLength = LONGEST_FLAG;
    field.placeholder = tl.say("mark_name");
    field.setAttribute("aria-label", `${tl.say("mark_name")} ${exact(flag.at)}`);
    field.onkeydown = (event) => event.stopPropagation();
    field.oninput = () => { flag.name = clean(field.value); tl.placeChanged(); tl.touch(); };
    button(line, "link", exact(flag.at), tl.say("go_there"), () => goToMoment(tl, flag.at));
    if (at) make("span", "quiet", line, `+${length(flag.at - tl.marks[at - 1].at)}`);
    button(line, "", "✕", tl.say("drop_mark"), () => { dropFlag(tl, flag); again(); });
  });
}
