// Small tools everything else stands on. Names out of traces reach the screen only through textContent and fillText.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

/** Text without control characters and without marks that turn the reading direction around. */
function clean(text) {
  return String(text ?? "").replace(UNSEEN, " ").trim();
}

const CALLED = new Map(), FRAME = /^(?:.*\/)?([^/()]+\.py\(\d+\)): (.+)$/s;

/** The useful part of a name first: a C++ kernel without return type, namespaces and parameters; a function, then its file. */
function called(name) {
  let text = CALLED.get(name);
  if (text === undefined) {
    if (CALLED.size > 20000) CALLED.clear();
    const frame = FRAME.exec(name);
    text = frame ? `${frame[2]} · ${frame[1]}` : /^\w+ [\w:]+[<(]|::.*[<(]|^\w+\(.*[<*&].*\)$/s.test(name) ? bareKernel(name) || name : name;
    CALLED.set(name, text);
  }
  return text;
}

function bareKernel(name) {
  const text = name.replaceAll("(anonymous namespace)", "_");
  let depth = 0, begin = 0, end = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const one = text[i];
    if (one === "(" && depth === 0 && i > begin) { end = i; break; }
    if (one === "<" || one === "(") depth += 1;
    else if (one === ">" || one === ")") depth -= 1;
    else if (one === " " && depth === 0) begin = i + 1;
  }
  return text.slice(begin, end).replace(/[A-Za-z_~$][\w$]*::/g, "").trim();
}

/** What tells a name that is too long from its neighbours: of HCCL's groups the index and the root, of ranks their numbers. */
function telling(text) {
  if (text.length > 300) return text;
  return text.replace(/^rank (?=\d+–\d+$)/, "").replace(/(?:Group )?([\w.:-]+)%\S+?_(\d+)_([^_\s]+)_\d{10,}(?: Communication)?/, "$3 · $1:$2").replace(/Group (\S+) Communication/, "$1");
}

function make(tag, name, parent, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
}

/** A button with a text for the eye and a sentence for the pointer and the screen reader. */
function button(parent, name, text, about, act) {
  const made = make("button", name, parent, text);
  made.type = "button";
  tell(made, text, about || text);
  made.onclick = act;
  return made;
}

/** What a button says to the eye stands in what it says to the ear. */
function tell(made, text, about) {
  made.title = about;
  made.setAttribute("aria-label", !/\w{2}/.test(text) || about.toLowerCase().includes(text.toLowerCase()) ? about : `${text}: ${about}`);
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** A length of time to four digits in the unit that reads best. */
function length(ns) {
  if (ns === null || ns === undefined) return "–";
  const [scale, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const value = ns / scale;
  const whole = String(Math.trunc(Math.abs(value))).length;
  const digits = scale === 1 ? (Number.isInteger(value) ? 0 : 1) : Math.max(0, 4 - whole);
  return `${value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}

/** Every nanosecond of a time. */
function exact(ns) {
  return `${Math.round(ns).toLocaleString("en-US")} ns`;
}

function number(value) {
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: 3 });
}

/** A figure in few letters: 943.7M. */
function brief(value) {
  return Number(value).toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 4 });
}

function share(part, whole) {
  if (!whole) return "–";
  const percent = (100 * part) / whole;
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

function bounded(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/** FNV-1a over the text: the same name has the same colour in every run and on every machine. */
function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return (value ^ (value >>> 15)) >>> 0;
}

/** Saves bytes or a picture under a file name. */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 20000);
}

/** An answer of the data route; a refusal is thrown with its status. */
async function ask(tl, path, signal) {
  const answer = await (tl.component.ask?.(path, signal) ?? fetch(`${tl.data.url}/${path}`, { headers: { [tl.data.header]: tl.data.token }, signal }));
  if (!answer.ok) {
    if (answer.status === 403) tl.renew();
    throw Object.assign(new Error(`${answer.status}`), { status: answer.status });
  }
  return answer;
}
