// SPDX-License-Identifier: Apache-2.0
// Interpreted beside compiled: times in turns, layer by layer on demand, and whether all bits are those of Python.
import { button, extents, grouped, make, shownTime } from "./parts.js";

/** Least microseconds that a timing takes: the browser's clock is coarse, and it compiles anew only what runs long. */
const LEAST = 12000;

const WAYS = { interpreted: "shared kernels, called from a table", compiled: "a function for each layer" };

export function race(models, record) {
  const shown = {};
  const cards = Object.entries(WAYS).map(([way, about]) => {
    const time = make("b", { textContent: "…" }), bar = make("div", { className: "bar" });
    const size = `${about}; ${grouped(record.bytes[way] / 1024)} KiB of WebAssembly`;
    shown[way] = { time, bar, card: make("div", {}, make("span", { textContent: way }), time, bar, make("span", { textContent: size })) };
    return shown[way].card;
  });
  const ratio = make("p"), bits = make("p", { role: "status" });
  const table = make("div", { className: "table", tabIndex: 0, role: "group", "aria-label": "Times of layers" });
  const best = {};

  /** Times both in turns; the least of each counts. */
  function time(inputs, rounds = 3) {
    for (let round = 0; round < rounds; ++round) {
      for (const [way, model] of Object.entries(models)) {
        best[way] = Math.min(best[way] ?? Infinity, least(() => {
          model.set(inputs);
          model.runLayers(0, model.facts.layers.length);
        }));
      }
    }
    const most = Math.max(best.interpreted, best.compiled);
    for (const [way, { time, bar, card }] of Object.entries(shown)) {
      time.textContent = shownTime(best[way]);
      bar.style.width = `${(100 * best[way]) / most}%`;
      card.classList.toggle("won", best[way] < most);
    }
    const percent = Math.round(100 * (best.interpreted / best.compiled - 1));
    ratio.textContent = percent >= 1 ? `Compiled code is ${percent} % faster here.` : "Both take as long here.";
  }

  function layers(inputs) {
    const rows = [];
    const { layers } = models.compiled.facts;
    for (const model of Object.values(models)) model.set(inputs);
    for (let i = 0; i < layers.length; i = layers[i].with + 1) {
      const end = layers[i].with + 1;
      const times = Object.values(models).map((model) => {
        const us = least(() => model.runLayers(i, end), LEAST / 8);
        return shownTime(us);
      });
      const { op, shape, macs } = layers[end - 1];
      rows.push(make("tr", {}, ...[i + 1, op, extents(shape), grouped(macs), ...times].map((text, k) =>
        make("td", { textContent: text, ...(k === 1 || k === 2 ? { "data-side": "left" } : {}) }))));
    }
    const names = ["layer", "operator", "output", "MACs", ...Object.keys(models)];
    const head = names.map((text, k) => make("th", { scope: "col", textContent: text, ...(k === 1 || k === 2 ? { "data-side": "left" } : {}) }));
    table.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
  }

  /** Compares outputs with those that Python's interpreter gave for the same inputs, both whole and layer by layer. */
  function check() {
    let far = 0, same = 0, count = 0;
    const compare = ({ facts, outputs }, wanted) => wanted.forEach((text, i) => {
      ++count;
      if (text === base64(outputs[i])) ++same;
      else if (!near(outputs[i], typed(text, outputs[i]), facts.outputs[i])) ++far;
    });
    for (const { inputs, outputs } of record.checks) {
      for (const model of Object.values(models)) {
        const values = inputs.map((text, i) => typed(text, model.inputs[i]));
        model.reset();
        model.run(values, { integers: true });
        compare(model, outputs);
        model.reset();
        model.set(values);
        for (let i = 0; i < model.facts.layers.length; i = model.facts.layers[i].with + 1) {
          model.runLayers(i, model.facts.layers[i].with + 1);
        }
        compare(model, outputs);
        model.reset();
      }
    }
    bits.className = far ? "bad" : "good";
    bits.dataset.bits = far ? "differ" : same === count ? "same" : "near";
    bits.textContent = far
      ? `✗ ${far} of ${count} outputs differ from those of Python's interpreter.`
      : same === count ? `✓ The same bits as Python's interpreter, in ${count} of ${count} outputs.`
      : `✓ As Python's interpreter computes it, but for the last bits of floats: libraries of C differ.`;
  }

  let inputs = () => null;
  const each = make("details", {}, make("summary", { textContent: "Every layer" }), table);
  const again = make("div", { className: "row", hidden: true }, button("Time again", () => layers(inputs())));
  each.append(again);
  each.ontoggle = () => {
    again.hidden = !each.open;
    if (each.open) layers(inputs());
  };
  return {
    element: make("section", { "aria-label": "Interpreted beside compiled" }, make("h2", { textContent: "Interpreted beside compiled" }),
      make("div", { className: "race" }, ...cards), ratio, bits, each),
    time, check,
    from(source) {
      inputs = source;
    },
  };
}

/** The least microseconds that a call takes, of as many calls as the clock needs. */
function least(call, enough = LEAST) {
  for (let count = 1; ; count *= 2) {
    const begun = performance.now();
    for (let i = 0; i < count; ++i) call();
    const us = 1000 * (performance.now() - begun);
    if (us >= enough) return us / count;
  }
}

/** Whether floats differ no more than exp and log of two libraries do. */
function near(got, want, { dtype }) {
  if (!/float(32|64)|complex/.test(dtype)) return false;
  const largest = want.reduce((most, value) => Math.max(most, Math.abs(value) || 0), 0);
  return want.every((value, i) => Object.is(value, got[i]) || Math.abs(value - got[i]) <= 1e-5 * largest);
}

export function base64(array) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function typed(text, view) {
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  return new view.constructor(bytes.buffer);
}
