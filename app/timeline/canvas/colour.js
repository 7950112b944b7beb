// Colours: the table of roles of the whole dashboard (ROLES), and within a role a shade by name, so that equal names look
// equal and neighbours differ. Every span wide enough also carries its name.

/** What a rank did: a cause of idle time, of which one is "unknown", or a role of work. */
function roleColour(role) {
  return ROLES.of_cause[role] ?? ROLES.roles[role]?.colour ?? ROLES.roles.idle.colour;
}

function causeColour(cause) { return ROLES.of_cause[cause] ?? ROLES.roles.idle.colour; }

function shadesOf(role) { return ROLES.roles[role]?.shades ?? [ROLES.mark]; }

/** A task of a collective that waits for a peer (Notify_Wait, Notify Wait) is waiting, as in analysis/sql/comm_task.sql. */
function shadesOfSpan(kind, name) { return shadesOf(kind === "comm_task" && /wait/i.test(name) ? "waiting" : ROLES.of_kind[kind]); }

function shadesOfGroup(group) { return shadesOf(ROLES.of_group[group]); }

function spanColour(kind, name) {
  const shades = shadesOfSpan(kind, name);
  return shades[hash(name) % shades.length];
}

/** Colours that a flag can have. */
function flagColour(tl, at) {
  return [tl.theme.accent, ...["transferring", "host", "waiting", "copying", "unknown"].map(roleColour)][at];
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
