// Two timelines one above the other: each shows the same time from its own zero, and moving one moves the other.

const BESIDE = "npulens-beside";

function tellBeside(tl) {
  const { pair } = tl.data;
  if (!pair || tl.led) return;
  const [from, to] = tl.view.goal;
  window.dispatchEvent(new CustomEvent(BESIDE, { detail: { name: pair.name, of: tl, from: from - pair.zero, to: to - pair.zero } }));
}

function besideMoved(tl, { name, of, from, to }) {
  const { pair } = tl.data;
  if (of === tl || !tl.layout || pair?.name !== name) return;
  tl.led = true;
  tl.view.set(from + pair.zero, to + pair.zero);
  tl.viewChanged();
  tl.led = false;
}
