// Collects dropped or chosen files, asks the session for a grant, sends each file as one PUT straight from disk.
// Names of files are only ever text (textContent); nothing here becomes HTML.
const PARALLEL = 3;

// One zone for the whole visit: when the page changes it moves on, with what travels and what still waits its turn.
export default function (component) {
  const { parentElement, data } = component;
  const zone = globalThis.npulensDropZone ?? (globalThis.npulensDropZone = build(parentElement));
  if (zone.box.parentNode !== parentElement) parentElement.append(zone.box);
  zone.component = component;
  zone.paint(data);
  if (data.reply && zone.pending && data.reply.id === zone.pending.id) zone.answered(data.reply);
  return () => { if (zone.component === component) zone.detach(); };
}

function element(tag, name, parent) {
  const made = document.createElement(tag);
  made.className = name;
  parent.append(made);
  return made;
}

function build(root) {
  const box = element("div", "zone", root);
  const curtain = element("div", "curtain", box);
  const title = element("div", "title", box);
  const hint = element("div", "hint", box);
  const buttons = element("div", "buttons", box);
  const chooseFiles = element("button", "files", buttons);
  const chooseDirectory = element("button", "directory", buttons);
  const cancel = element("button", "cancel", buttons);
  const line = element("div", "line", box);
  const more = element("div", "line more", box);
  const track = element("div", "track", box);
  const fill = element("div", "fill", track);
  const files = picker(box, false);
  const directory = picker(box, true);
  line.setAttribute("role", "status");
  track.hidden = cancel.hidden = true;

  const zone = { box, component: null, pending: null, attached: false, waiting: [] };
  const data = () => zone.component.data;
  const text = (key, values = {}) => data().texts[key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  const busy = (on) => { cancel.hidden = track.hidden = !on; };
  const rest = (sentence, sent = false) => { zone.pending = null; zone.sent = sent; busy(false); fill.style.width = "0"; line.textContent = sentence; };
  const giveUp = (sentence) => { zone.component.setTriggerValue("dropped", zone.pending?.id); rest(sentence); next(); };
  const refuse = (key) => giveUp(data().refusals[key] ?? text("unreachable"));
  // The next drop asks a moment later, so that the session has heard the end of this one.
  const next = () => { const found = zone.waiting.shift(); if (found) setTimeout(() => offer(found), 150); queued(); };
  const queued = () => { more.textContent = zone.waiting.length ? text("queued", { files: zone.waiting.length }) : ""; };

  const offer = (found) => {
    if (!found.length) { if (!zone.pending) rest(data().refusals.nothing); return; }
    if (zone.pending) { zone.waiting.push(found); queued(); return; }
    const bytes = found.reduce((sum, one) => sum + one.file.size, 0);
    const tops = [...new Set(found.map((one) => one.path.split("/")[0]))];
    const name = tops.length > 1 ? `${tops[0]} +${tops.length - 1}` : tops[0];
    zone.pending = { id: `${Date.now()}-${Math.random()}`, found, bytes, name, requests: new Set(), stopped: false };
    busy(true);
    wish(zone.pending, 2000);
  };

  // What is said while the page is being drawn can get lost on the way: it is said again until there is an answer.
  const wish = (drop, wait) => {
    if (zone.pending !== drop || drop.started) return;
    zone.component.setTriggerValue("ask", { id: drop.id, files: drop.found.length, bytes: drop.bytes, name: drop.name });
    setTimeout(() => wish(drop, 2 * wait), wait);
  };

  zone.answered = (reply) => {
    const drop = zone.pending;
    if (drop.started) return;
    drop.started = true;
    if (reply.refused) refuse(reply.refused);
    else send(drop, reply.token);
  };

  const send = async (drop, token) => {
    const queue = [...drop.found];
    const sent = new Map();
    const show = (one) => {
      const done = [...sent.values()].reduce((sum, part) => sum + part, 0);
      fill.style.width = `${drop.bytes ? (100 * done) / drop.bytes : 100}%`;
      line.textContent = text("sending", { name: one.path, done: size(done), total: size(drop.bytes) });
    };
    const worker = async () => {
      while (queue.length && !drop.stopped) {
        const one = queue.shift();
        await put(drop, token, one, (bytes) => { sent.set(one, bytes); show(one); });
        sent.set(one, one.file.size);
      }
    };
    try {
      await Promise.all(Array.from({ length: PARALLEL }, worker));
      if (drop.stopped) return;
      await request(drop, "POST", `${data().url}/done`, token, null);
    } catch (refused) {
      if (!drop.stopped) { drop.stopped = true; drop.requests.forEach((one) => one.abort()); refuse(String(refused)); }
      return;
    }
    rest(text("sent"), true);
    zone.component.setTriggerValue("arrived", drop.id);
    next();
  };

  const put = (drop, token, one, progress) =>
    request(drop, "PUT", `${data().url}/file?path=${encodeURIComponent(one.path)}`, token, one.file, progress);

  const request = (drop, method, url, token, body, progress) => new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    drop.requests.add(call);
    call.open(method, url);
    call.setRequestHeader(data().header, token);
    if (body) call.setRequestHeader("Content-Type", "application/octet-stream");
    call.upload.onprogress = (event) => progress?.(event.loaded);
    call.onload = () => {
      drop.requests.delete(call);
      if (call.status === 200) resolve();
      else { let key = "unreachable"; try { key = JSON.parse(call.responseText).refused ?? key; } catch { /* not ours */ } reject(key); }
    };
    call.onerror = call.onabort = () => reject("unreachable");
    call.send(body);
  });

  chooseFiles.onclick = () => files.click();
  chooseDirectory.onclick = () => directory.click();
  for (const input of [files, directory]) {
    input.onchange = () => {
      offer([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
      input.value = "";
    };
  }
  cancel.onclick = () => {
    if (zone.pending) { zone.pending.stopped = true; zone.pending.requests.forEach((one) => one.abort()); }
    giveUp(text("cancelled"));
  };

  // The whole page is the target: a drop that misses the zone would otherwise make the browser leave the page.
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  const over = (event) => { if (carriesFiles(event)) { event.preventDefault(); box.classList.add("over"); } };
  const leave = (event) => { if (!event.relatedTarget) box.classList.remove("over"); };
  const dropped = async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    box.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const loose = [...event.dataTransfer.files];
    const found = entries.length ? await walk(entries, (count) => { if (!zone.pending) line.textContent = text("reading", { files: count }); })
      : loose.map((file) => ({ file, path: file.name }));
    offer(found);
  };
  zone.attach = () => {
    if (zone.attached) return;
    zone.attached = true;
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", dropped);
  };
  zone.detach = () => {
    zone.attached = false;
    document.removeEventListener("dragover", over);
    document.removeEventListener("dragleave", leave);
    document.removeEventListener("drop", dropped);
  };
  // What has arrived is a row of the tray from then on, and nothing is said of it here.
  zone.paint = ({ texts, hint: sentence, large, busy: working, loading }) => {
    zone.attach();
    if (zone.sent && (loading || !working)) { zone.sent = false; line.textContent = ""; }
    box.classList.toggle("large", large);
    curtain.textContent = texts.drop;
    title.textContent = texts.title;
    hint.textContent = sentence;
    chooseFiles.textContent = texts.files;
    chooseDirectory.textContent = texts.directory;
    cancel.textContent = texts.cancel;
    queued();
  };
  return zone;
}

function picker(parent, whole) {
  const input = element("input", whole ? "pick-directory" : "pick-files", parent);
  input.type = "file";
  input.multiple = true;
  input.webkitdirectory = whole;
  input.hidden = true;
  return input;
}

// Directory readers hand out their entries in batches; an empty batch is the end.
async function walk(entries, progress) {
  const found = [];
  const queue = [...entries];
  while (queue.length) {
    const entry = queue.shift();
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject)).catch(() => null);
      if (file) found.push({ file, path: entry.fullPath.replace(/^\//, "") });
      if (found.length % 50 === 0) progress(found.length);
    } else {
      const reader = entry.createReader();
      for (;;) {
        const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)).catch(() => []);
        if (!batch.length) break;
        queue.push(...batch);
      }
    }
  }
  return found;
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (bytes >= 999.5 && step < units.length - 1) { bytes /= 1000; step += 1; }
  return `${step ? bytes.toFixed(1) : bytes} ${units[step]}`;
}
