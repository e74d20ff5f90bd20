// SPDX-License-Identifier: Apache-2.0
// The model's answer: bars for few outputs, a curve for many.
import { make } from "./parts.js";

const MOST = 12;

export function answer(record, facts) {
  const first = facts.outputs[0];
  if (!first || first.length > MOST || /complex/.test(first.dtype)) return curve(first);
  const names = Array.from({ length: first.length }, (_, i) => record.labels[i] ?? `class ${i}`);
  const said = make("p", { className: "answer", "aria-live": "polite" });
  const list = make("dl", { className: "bars" });
  const bars = names.map((name) => {
    const term = make("dt", { textContent: name }), bar = make("i"), per = make("dd", { className: "per" });
    list.append(term, make("dd", { className: "bar" }, bar), per);
    return { term, bar, per };
  });
  return {
    element: make("section", { "aria-label": "Answer" }, said, list),
    show([values]) {
      const numbers = Array.from(values, Number);
      const [low, high] = [Math.min(0, ...numbers), Math.max(...numbers)];
      const shares = low >= 0 && high <= 1.01; // of one: probabilities
      const best = numbers.indexOf(high);
      const text = (value) => (shares ? `${Math.round(100 * value)} %` : value.toPrecision(3));
      const sole = make("small", { textContent: ` ${text(high)}` });
      const name = numbers.length === 1 && high < 0.5 ? `not ${names[0]}` : names[best];
      said.replaceChildren(...(record.labels.length ? [name, sole] : []));
      bars.forEach(({ term, bar, per }, i) => {
        bar.style.width = `${100 * (shares ? numbers[i] : (numbers[i] - low) / (high - low || 1))}%`;
        per.textContent = text(numbers[i]);
        term.classList.toggle("best", i === best);
      });
    },
  };
}

function curve(tensor) {
  const canvas = make("canvas", { className: "curve", width: 640, height: 160, role: "img", "aria-label": "The outputs as a curve" });
  const text = tensor ? `${tensor.name}: ${tensor.length.toLocaleString("en")} values` : "The model has no output.";
  return {
    element: make("section", { "aria-label": "Answer" }, canvas, make("p", { className: "quiet", textContent: text })),
    show([values]) {
      const numbers = Array.from(values ?? [], Number).map((value) => (Number.isFinite(value) ? value : 0));
      const low = numbers.reduce((least, value) => Math.min(least, value), Infinity);
      const span = numbers.reduce((most, value) => Math.max(most, value), -Infinity) - low || 1;
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, 640, 160);
      Object.assign(context, { strokeStyle: "#0072b2", lineWidth: 2 });
      context.beginPath();
      numbers.forEach((value, i) => context.lineTo((640 * (i + 0.5)) / numbers.length, 150 - (140 * (value - low)) / span));
      context.stroke();
    },
  };
}
