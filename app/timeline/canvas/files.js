// Takes the view away: as a picture, or as a trace of just this window for another viewer.

function fileMenu(tl, box) {
  const line = (text, about, act) => button(make("div", "line", box), "link", text, about, act);
  line(tl.say("save_png"), tl.say("save_png_about"), () => savePicture(tl));
  if (tl.data.perfetto) line(tl.say("open_perfetto"), tl.say("open_perfetto_about"), () => openPerfetto(tl));
  line(tl.say("save_perfetto"), tl.say("save_perfetto_about"), () => saveExport(tl, "perfetto", "json"));
  line(tl.say("save_speedscope"), tl.say("save_speedscope_about"), () => saveExport(tl, "speedscope", "speedscope.json"));
  if (tl.data.guest) return;
  line(tl.say("copy_link"), tl.say("copy_link_about"), () => copyLink(tl));
  if (!tl.data.perfetto) make("div", "quiet", box, tl.say("no_perfetto"));
}

function fileName(tl, ending) {
  return `npulens-${String(tl.data.run).slice(0, 12)}-${tl.view.from}-${tl.view.to}.${ending}`;
}

function savePicture(tl) {
  draw(tl);
  tl.canvas.toBlob((blob) => save(blob, fileName(tl, "png")), "image/png");
}

/** The window and the tracks that are not hidden. */
function exportPath(tl, to) {
  const tracks = tl.layout.tracks.filter((track) => track.id >= 0 && !tl.hide.has(`all.${track.group}`) && !tl.hide.has(String(track.id)) && !tl.hide.has(`r${track.rank}`));
  return `export?to=${to}&from=${Math.max(0, tl.view.from)}&end=${Math.min(tl.layout.to, tl.view.to)}&tracks=${tracks.map((track) => track.id).join(",")}`;
}

async function saveExport(tl, to, ending) {
  tl.note(tl.say("exporting"));
  const blob = await ask(tl, exportPath(tl, to)).then((answer) => answer.blob(), () => null);
  tl.note(blob ? "" : tl.say("unreachable"));
  if (blob) save(blob, fileName(tl, ending));
}

/** Perfetto's own page, served from here, fetching the window by itself. */
function openPerfetto(tl) {
  const folder = tl.data.perfetto.replace(/[^/]*$/, ""), path = `${folder}window/${tl.data.token}/${tl.data.run}/${exportPath(tl, "perfetto")}&name=/${fileName(tl, "json")}`; // what follows the last slash is the title there
  const address = new URL(path, window.location.origin).href;
  if (!window.open(`${tl.data.perfetto}#!/?url=${encodeURIComponent(address)}`, "_blank")) tl.note(tl.say("popup_blocked"));
}

function copyLink(tl) {
  const address = new URL(window.location.href);
  for (const [name, value] of Object.entries(placeOfTimeline(tl))) {
    if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
  }
  address.searchParams.set("run", tl.data.run);
  navigator.clipboard?.writeText(address.href);
  tl.note(tl.say("copied"));
}
