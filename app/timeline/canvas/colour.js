// Colours: a fixed family for every kind of work, and within the family a shade by name, so that equal names look
// equal and neighbours differ. The families keep their distance for every kind of colour vision (blue, orange, purple,
// green, grey of Okabe and Ito), and every span wide enough also carries its name.

const FAMILIES = {
  compute: ["#0072b2", "#3a93cb", "#6ab4e4", "#1b5c88", "#4f84a8"],
  comm: ["#e69f00", "#f2bb45", "#c28200", "#ffd27a", "#d9a441"],
  copy: ["#9c2f75", "#b65a94", "#cf86b4", "#7c1d5a"],
  host: ["#1b9e77", "#46b593", "#7acab0", "#0f7a5a", "#5f9f8b"],
  python: ["#8f9a5b", "#a6af78", "#bcc497", "#757f45"],
  runtime: ["#7468a8", "#9188be", "#b0a9d3", "#594e8c"],
  unknown: ["#7a5230", "#95704d", "#5f3d20"],
  wait: ["#a9b1bb", "#bcc3cb", "#98a2ad"],
  mark: ["#7d8b99", "#95a1ad", "#68757f"],
};

const FAMILY_OF = {
  kernel: "compute", memset: "compute", device_other: "compute", device_annotation: "mark",
  comm_op: "comm", comm_task: "comm", memcpy: "copy", unknown: "unknown", wait: "wait",
  cpu_op: "host", host_other: "host", python: "python", annotation: "mark", step_mark: "mark",
  runtime: "runtime", enqueue: "runtime", dequeue: "runtime", gc: "copy", profiler_split: "mark",
};

const FAMILY_OF_GROUP = { stream: "compute", comm: "comm", host: "host", profiler: "mark", other: "mark" };

const CAUSE_COLOURS = {
  host_late: "#d55e00", sync_stall: "#cc79a7", launch_overhead: "#e69f00", dependency: "#56b4e9", unknown: "#a9b1bb",
  copy_exposed: "#9c2f75", dataloader: "#009e73", gc: "#b8a800", compile: "#7468a8", memory_alloc: "#8c5a2b",
  profiler_overhead: "#68757f", late_rank: "#f2bb45", comm_exposed: "#c28200", pipeline_bubble: "#1b5c88",
};
/** Pieces of the critical path by what they are; the families of the spans that they lead to. */
const PATH_COLOURS = {
  kernel: FAMILIES.compute[0], comm: FAMILIES.comm[0], copy: FAMILIES.copy[0], host: FAMILIES.host[0],
  launch: "#56b4e9", queue: FAMILIES.runtime[0], sync: "#cc79a7", peer: "#d55e00", unexplained: FAMILIES.wait[0],
};
const SPARE_CAUSES = ["#4f84a8", "#707d1f", "#b65a94", "#7acab0"];

function causeColour(cause) {
  return CAUSE_COLOURS[cause] ?? PATH_COLOURS[cause] ?? SPARE_CAUSES[hash(cause) % SPARE_CAUSES.length];
}

function spanColour(kind, name) {
  const family = FAMILIES[FAMILY_OF[kind] ?? "mark"];
  return family[hash(name) % family.length];
}

function cellColour(group, name) {
  if (group === "gaps" || group === "path") return causeColour(name);
  const family = FAMILIES[FAMILY_OF_GROUP[group] ?? "mark"];
  return family[hash(name) % family.length];
}

const INKS = new Map();

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  let ink = INKS.get(colour);
  if (!ink) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((one) =>
      one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    ink = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101820" : "#ffffff";
    INKS.set(colour, ink);
  }
  return ink;
}

/** The theme as the page has it now; the canvas cannot use CSS variables by itself. */
function readTheme(host) {
  const style = getComputedStyle(host);
  const of = (name, other) => style.getPropertyValue(`--st-${name}`).trim() || other;
  const paper = of("background-color", "#ffffff");
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = paper;
  const dark = parseInt(String(probe.fillStyle).slice(1, 3), 16) < 128;
  return {
    dark, paper, raised: of("secondary-background-color", dark ? "#1c222b" : "#f3f5f7"),
    ink: of("text-color", dark ? "#e4e9ef" : "#1d2733"), accent: of("primary-color", "#0067a8"),
    quiet: dark ? "#98a3af" : "#5d6975", grid: dark ? "rgba(200,210,220,.10)" : "rgba(60,75,90,.10)",
    line: dark ? "rgba(200,210,220,.20)" : "rgba(60,75,90,.20)", font: of("font", "sans-serif"),
  };
}
