// The same canvas in a notebook: what it asks goes to the kernel as a message, and the answer comes back as bytes.

const GUEST_STYLE = `:host { --st-background-color: var(--jp-layout-color0, #ffffff); --st-secondary-background-color: var(--jp-layout-color2, #f3f5f7);
  --st-text-color: var(--jp-ui-font-color0, #1d2733); --st-primary-color: var(--jp-brand-color1, #0067a8); --st-font: var(--jp-ui-font-family, sans-serif); }`;

function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" }), waiting = new Map(), data = model.get("said");
  make("style", "", root, `${GUEST_STYLE}\n${data.style}`);
  let number = 0;
  const heard = ({ id, status }, buffers) => { waiting.get(id)?.(new Response(buffers[0], { status })); waiting.delete(id); };
  model.on("msg:custom", heard);
  const left = mounted({
    parentElement: root, data,
    ask: (path, signal) => new Promise((done, failed) => {
      const id = `${(number += 1)}`;
      waiting.set(id, done);
      signal?.addEventListener("abort", () => { waiting.delete(id); failed(new DOMException("moved on", "AbortError")); });
      model.send({ id, path });
    }),
    setStateValue: (name, value) => { model.set(name, value); model.save_changes(); },
    setTriggerValue: () => {},
  });
  return () => { left(); model.off("msg:custom", heard); };
}

export default { render };
