// The timeline as one object, kept on the element that Streamlit gives us: a rerun only brings new words and setters.

const AGAIN_MS = 1200, FLASH_MS = 2500;

/** Draws into the element of a component, or tells the canvas that is there what is new; what to call at the end. */
function mounted(component) {
  const { parentElement, data } = component;
  const tl = parentElement.npulens ?? (parentElement.npulens = begin(parentElement, component));
  tl.component = component;
  const spoke = tl.data.lang;
  tl.data = data;
  tl.attach();
  if (spoke !== data.lang) tl.speak();
  tl.touch();
  tl.follow(data.place);
  return () => tl.detach();
}

function begin(root, component) {
  const tl = new Timeline(root, component);
  tl.start();
  return tl;
}

class Timeline {
  constructor(root, component) {
    Object.assign(this, {
      component, data: component.data, layout: null, pin: [], hide: new Set(), order: [], fold: new Set(), foldAtFirst: new Set(),
      by: component.data.by ?? "ranks", byAtFirst: component.data.by ?? "ranks", opened: new Set(), routes: new Set(),
      marks: [], picked: null, area: null, back: null, q: "", wanted: null, hits: [], hitTotal: 0, hitAt: -1, scroll: 0, left: GUTTER, width: 900, height: 400, ratio: 1,
      widths: new Map(), pinned: [], flow: [], pinnedHeight: 0, flowHeight: 0, rowOf: new Map(), known: new Set(), draws: 0, lastDrawMs: 0, ends: [], view: new View(1),
    });
    this.host = make("div", "timeline", root);
    buildBar(this, this.host);
    this.stage = make("div", "stage", this.host);
    this.canvas = make("canvas", "canvas", this.stage);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.pen = this.canvas.getContext("2d", { alpha: false });
    this.cursor = make("div", "cursor", this.stage);
    this.dropLine = make("div", "dropline", this.stage);
    this.tip = make("div", "tip", this.stage);
    this.status = make("div", "status", this.stage);
    this.status.setAttribute("role", "status");
    this.cursor.hidden = this.dropLine.hidden = this.tip.hidden = true;
    const box = make("div", "drawer", this.host);
    this.grip = make("div", "grip", box);
    this.drawer = { box, head: make("div", "drawerhead", box), body: make("div", "drawerbody", box), kind: "" };
    box.hidden = true;
    this.help = make("div", "overlay", this.host);
    this.help.hidden = true;
    this.help.setAttribute("role", "dialog");
    this.help.onclick = (event) => { if (event.target === this.help) toggleHelp(this); };
    this.palette = { box: make("div", "over", this.host) };
    this.palette.box.hidden = true;
    this.palette.box.setAttribute("role", "dialog");
    this.palette.box.onclick = (event) => { if (event.target === this.palette.box) closePalette(this); };
    this.strip = new Strip(this);
    this.arrows = new Arrows(this);
    this.tiles = new Tiles(this);
    listen(this);
    this.pullDrawer();
  }

  say(key, values = {}) { return (this.data.texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole); }
  cause(key) { return (this.layout?.causes?.[key] ?? this.layout?.path_kinds?.[key])?.[this.data.lang === "zh" ? 1 : 0] ?? clean(key); }
  role(key) { return ROLES.roles[{ unknown_work: "unknown", unknown: "" }[key] ?? key]?.said[this.data.lang === "zh" ? 1 : 0] ?? this.cause(key); }
  fact(key) { return this.data.facts[key] ?? clean(key); }
  note(text) { this.status.textContent = text; this.status.hidden = !text; }
  /** A note that goes by itself. */
  flash(text) { this.note(text); setTimeout(() => { if (this.status.textContent === text) this.note(""); }, FLASH_MS); }
  get plotWidth() { return Math.max(50, this.width - this.left); }
  xOf(ns) { return this.left + ((ns - this.view.from) * this.plotWidth) / this.view.length; }
  nsOf(x) { return this.view.from + ((x - this.left) * this.view.length) / this.plotWidth; }

  async start() {
    this.theme = readTheme(this.host);
    this.speak();
    this.note(this.say("reading"));
    try {
      this.layout = await ask(this, "layout").then((answer) => answer.json());
    } catch (error) {
      this.note(this.say({ 404: "gone", 503: "preparing" }[error.status] ?? "unreachable"));
      if (error.status !== 404) setTimeout(() => { if (this.host.isConnected) this.start(); }, AGAIN_MS);
      return;
    }
    this.index();
    this.foldAtFirst = foldedAtFirst(this.layout);
    this.view = new View(this.layout.to, Boolean(this.data.pair));
    this.note(this.layout.tracks.length ? "" : this.say("empty"));
    this.given = spelled(this.data.place);
    takePlace(this, this.data.place ?? {});
    this.speak();
    this.expose();
    this.viewChanged(true);
    this.tiles.overview().catch(() => {});
    this.watchCauses();
  }

  get working() { return [this.layout.causes_state, this.layout.path_state].includes("working"); }

  /** Why the devices idled, and the critical path, are found out behind the first picture and drawn when known. */
  watchCauses() {
    if (!this.working) return;
    setTimeout(async () => {
      const layout = this.host.isConnected && await ask(this, "layout").then((answer) => answer.json(), () => null);
      if (!layout) { if (this.host.isConnected) this.watchCauses(); return; }
      const before = this.layout, known = (state) => before[state] === "working" && layout[state] !== "working";
      this.layout = layout;
      if (known("causes_state") || known("path_state")) {
        this.index();
        this.tiles.forget(layout.tracks.filter(derived).map((track) => track.id));
        this.tiles.overview().catch(() => {});
        this.rearranged();
      }
      this.watchCauses();
    }, AGAIN_MS);
  }

  /** The layout by rank and by id. */
  index() {
    const by = (list, key) => {
      const made = new Map();
      for (const one of list) { if (!made.has(one[key])) made.set(one[key], []); made.get(one[key]).push(one); }
      return made;
    };
    this.tracksOf = by(this.layout.tracks, "rank");
    this.countersOf = by(this.layout.counters, "rank");
    this.stepsOf = by(this.layout.steps, "rank");
    this.pathTrack = this.layout.tracks.find((track) => track.group === "path");
    this.trackOf = new Map(this.layout.tracks.map((track) => [track.id, track]));
    this.counterOf = new Map(this.layout.counters.map((one) => [one.id, one]));
  }

  /** A place that did not come from here, such as a link followed while the page is open, is taken. */
  follow(place) {
    const said = spelled(place), again = said === this.given;
    this.given = said;
    if (!this.layout || again || this.known.has(said) || !place || !Object.keys(place).length) return;
    takePlace(this, place);
    this.viewChanged(true);
  }

  speak() {
    this.canvas.setAttribute("aria-label", this.say("aria", { tracks: this.layout?.tracks.length ?? 0 }));
    this.help.setAttribute("aria-label", this.say("help_title"));
    nameBar(this);
    if (!this.layout) return;
    arrange(this);
    this.menu.hidden = true;
    if (!this.help.hidden) { toggleHelp(this); toggleHelp(this); }
    this.again();
    this.touch();
  }

  /** Draws the open drawer anew in the language of now. */
  again() {
    if (this.drawer.box.hidden) return;
    if (this.drawer.kind === "table") showVisible(this);
    else if (this.drawer.kind === "hits") showHits(this);
    else if (this.picked) pick(this, this.picked);
    else if (this.area) showArea(this);
  }

  attach() {
    if (this.attached) return;
    this.attached = true;
    this.onKey = (event) => keyed(this, event);
    this.onPress = (event) => {
      const path = event.composedPath();
      if (!path.includes(this.menu) && !path.includes(this.barParts.bar)) this.menu.hidden = true;
      if (!path.includes(this.hitList) && !path.includes(this.search)) this.hitList.hidden = true;
    };
    this.onSize = () => this.resize();
    document.addEventListener("keydown", this.onKey, true);
    document.addEventListener("pointerdown", this.onPress, true);
    document.addEventListener("fullscreenchange", this.onSize);
    window.addEventListener("resize", this.onSize);
    this.onBeside = (event) => besideMoved(this, event.detail);
    window.addEventListener(BESIDE, this.onBeside);
    this.sizes = new ResizeObserver(this.onSize);
    this.sizes.observe(this.host);
    this.onTheme = () => { this.theme = readTheme(this.host); this.touch(); };
    this.host.addEventListener("transitionend", this.onTheme);
    requestAnimationFrame(() => { this.onTheme(); this.resize(); });
  }

  detach() {
    this.attached = false;
    document.removeEventListener("keydown", this.onKey, true);
    document.removeEventListener("pointerdown", this.onPress, true);
    document.removeEventListener("fullscreenchange", this.onSize);
    window.removeEventListener("resize", this.onSize);
    window.removeEventListener(BESIDE, this.onBeside);
    this.host.removeEventListener("transitionend", this.onTheme);
    this.sizes?.disconnect();
  }

  /** Fills what is left of the window below the page's head; the drawer takes its part from the canvas. */
  resize() {
    this.host.style.height = `${this.wantedHeight()}px`;
    const { clientWidth: wide, clientHeight: tall } = this.stage, ratio = window.devicePixelRatio || 1;
    if (!wide || !tall) return;
    if (wide !== this.width || tall !== this.height || ratio !== this.ratio || this.canvas.width !== Math.round(wide * ratio)) {
      Object.assign(this, { width: wide, height: tall, ratio });
      this.canvas.width = Math.round(wide * ratio);
      this.canvas.height = Math.round(tall * ratio);
      if (this.layout) { this.scrollTo(this.scroll); this.tiles.changed(); this.drawNow(); } else this.blank();
    }
  }

  /** Empty paper until the layout is there: an opaque canvas begins black. */
  blank() {
    this.pen.fillStyle = this.theme.paper;
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  wantedHeight() {
    if (this.host.getRootNode().fullscreenElement === this.host) return window.innerHeight;
    const top = this.host.getBoundingClientRect().top + (document.querySelector("[data-testid='stMain']")?.scrollTop ?? 0);
    const rest = this.data.height ?? Math.max(480, Math.round(window.innerHeight - top - 20));
    if (!this.data.picture || this.by !== "picture" || !this.drawer.box.hidden) return rest;
    return bounded(this.barParts.bar.offsetHeight + TOP + this.flowHeight + 8, 160, this.data.picture);
  }

  pullDrawer() {
    this.grip.onpointerdown = (event) => {
      this.grip.setPointerCapture(event.pointerId);
      const from = event.clientY, tall = this.drawer.box.offsetHeight;
      this.grip.onpointermove = (now) => { this.drawer.box.style.height = `${bounded(tall + from - now.clientY, 90, this.host.clientHeight - 220)}px`; this.resize(); };
      this.grip.onpointerup = () => { this.grip.onpointermove = null; };
    };
  }

  show(from, to) { this.view.glide(from, to); this.viewChanged(); }

  viewChanged(quietly) {
    this.tip.hidden = true;
    this.tiles.changed();
    this.moved = performance.now();
    if (!quietly) { tellPlace(this); tellBeside(this); }
    this.touch();
  }

  placeChanged() { if (this.layout) tellPlace(this); }

  scrollTo(y) {
    const free = this.height - TOP - this.pinnedHeight, before = this.scroll;
    this.scroll = Math.round(bounded(y, 0, Math.max(0, this.flowHeight - free)));
    if (before === this.scroll) return false;
    this.tip.hidden = true;
    this.tiles.changed();
    this.placeChanged();
    this.touch();
    return true;
  }

  arrangeBy(by) {
    if (this.by === by) return;
    this.by = by;
    this.scroll = 0;
    this.menu.hidden = true;
    this.rearranged();
    nameBar(this);
    this.resize();
  }

  /** Opens or closes a lane of the picture that stands for several ranks. */
  open(key) {
    if (!this.opened.delete(key)) this.opened.add(key);
    this.rearranged();
    this.resize();
  }

  toggle(what, key) {
    if (what === "pin") this.pin = this.pin.includes(key) ? this.pin.filter((one) => one !== key) : [...this.pin, key];
    else if (this[what].has(key)) this[what].delete(key);
    else this[what].add(key);
    this.rearranged();
  }

  /** Puts a row before another of its kind, or last. */
  reorder(row, before) {
    const keys = peersOf(this, row).map((one) => one.key).filter((key) => key !== row.key);
    const at = before ? keys.indexOf(before.key) : keys.length;
    keys.splice(at < 0 ? keys.length : at, 0, row.key);
    this.order = [...this.order.filter((key) => !keys.includes(key)), ...keys];
    this.rearranged();
  }

  rearranged() {
    arrange(this);
    this.scrollTo(this.scroll);
    this.tiles.changed();
    this.placeChanged();
    this.touch();
  }

  clear() {
    this.picked = this.area = this.back = null;
    this.drawer.box.hidden = true;
    this.resize();
    this.placeChanged();
    this.touch();
  }

  toggleDrawer() {
    if (this.drawer.box.hidden && !this.picked && !this.area) { showVisible(this); return; }
    this.drawer.box.hidden = !this.drawer.box.hidden;
    this.resize();
  }

  escape() {
    if (!this.help.hidden) toggleHelp(this);
    else if (!this.palette.box.hidden) closePalette(this);
    else if (!this.menu.hidden) this.menu.hidden = true;
    else if (this.drag) this.drag = this.band = null;
    else this.clear();
  }

  /** The token has run out: the page makes a new one when it is told so. */
  renew() {
    if (this.renewing && performance.now() - this.renewing < 10000) return;
    this.renewing = performance.now();
    this.component.setTriggerValue("renew", Date.now());
  }

  touch() {
    if (!this.layout) this.blank();
    if (this.frame || !this.layout) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = null;
      const going = this.view.step(now - (this.lastFrame ?? now - 16));
      this.lastFrame = going ? now : null;
      this.drawNow();
      if (going || this.view.moving) { this.tiles.changed(); this.touch(); }
    });
  }

  drawNow() {
    if (!this.layout || !this.host.isConnected) return;
    draw(this);
    this.drawn = performance.now();
    const said = this.tiles.failed ? this.say("unreachable") : this.arrows.said;
    if (said !== (this.standing ?? "")) { this.note(said); this.standing = said; }
  }

  /** What the browser tests and the benchmark look at. */
  expose() {
    const tl = this;
    window.__npulens_timeline = {
      get view() { return [tl.view.from, tl.view.to]; },
      get settled() { return !tl.view.moving && !tl.frame && !tl.tiles.flight && !tl.tiles.timer && !tl.tiles.failed && tl.tiles.whole && !tl.working && Boolean(tl.tiles.whole_capture || !tl.tiles.gapTracks.length) && !tl.reading; },
      get state() { return placeOfTimeline(tl); },
      get lastDrawMs() { return tl.lastDrawMs; },
      get times() { return { moved: tl.moved, drawn: tl.drawn, refined: tl.refined, asked: tl.tiles.asked, draws: tl.draws }; },
      get rows() { return [...tl.pinned, ...tl.flow].map((row) => ({ key: row.key, type: row.type, label: row.label, y: topOf(tl, row), h: row.h, lane: row.lane, pinned: Boolean(row.pinned), folded: Boolean(row.folded) })); },
      get ends() { return (tl.ends ?? []).map(({ x, y, link }) => ({ x, y, id: link.id })); },
      get picked() { return tl.picked && { ...tl.picked }; },
      get area() { return tl.area && { ...tl.area }; },
      get hits() { return tl.hits; },
      get by() { return tl.by; },
      get capture() { return tl.layout.to; },
      get sticky() { return tl.sticky?.text ?? ""; },
      get arrows() { return tl.arrows.found.length; },
      lit: () => visibleMarks(tl, 20000).filter((one) => { if (!one.span) return false; const tile = tl.tiles.best(one.row.track.id, tl.tiles.window.key), i = tile.s_id.indexOf(one.span.id); return litIn(tl, tile, one.row)?.(i); }).map((one) => one.span.id),
      visible: (limit) => visibleMarks(tl, limit ?? 2000).map((one) => (one.span ? { ...one.span, x: tl.xOf(one.span.ts), x1: tl.xOf(one.span.ts + one.span.dur), y: topOf(tl, one.row) + 1 + (one.span.lane + 0.5) * one.row.lane } : { ...one.cell, cell: true, x: tl.xOf(one.cell.ts), x1: tl.xOf(one.cell.ts + one.cell.dur), y: topOf(tl, one.row) + 1 + (one.cell.lane + 0.9) * one.row.lane })),
      hit: (x, y) => hit(tl, x, y),
      show: (from, to) => { tl.view.set(from, to); tl.viewChanged(); },
      marksDrawn: () => rowsNear(tl, 0).reduce((n, row) => n + (row.track ? ((part) => (part ? part.spans.length + part.cells.length : 0))(tl.tiles.best(row.track.id, tl.tiles.window.key)?.parts.get(row.track.id)) : 0), 0),
    };
  }
}
