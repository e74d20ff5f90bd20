// SPDX-License-Identifier: Apache-2.0
// Any other model: a slider for every value where they are few, random values where they are many.
import { button, make } from "./parts.js";

const MOST = 24;

/** The least and greatest real value of an input, as far as it says. */
function limits({ dtype, scale, zeroPoint }) {
  const ends = { int8: [-128, 127], uint8: [0, 255], int16: [-32768, 32767], bool: [0, 1] }[dtype];
  if (!ends) return /^u?int/.test(dtype) ? [0, 1] : [-1, 1];
  return typeof scale === "number" ? ends.map((end) => scale * (end - zeroPoint)) : ends;
}

export function numbers(tensors, give) {
  const values = tensors.map((tensor) => new Float64Array(tensor.length));
  const total = values.reduce((sum, each) => sum + each.length, 0);
  const sliders = make("div", { className: "sliders", tabIndex: 0, role: "group", "aria-label": "Input values" });
  const update = () => give(tensors.map((tensor, i) => inOwnType(values[i], tensor)));
  const shown = [];
  if (total <= MOST) {
    tensors.forEach((tensor, i) => {
      const [low, high] = limits(tensor);
      for (let k = 0; k < tensor.length; ++k) {
        const text = make("output", { textContent: "0.00" });
        const slider = make("input", { type: "range", min: low, max: high, step: (high - low) / 255, value: 0 });
        slider.oninput = () => {
          values[i][k] = Number(slider.value);
          text.textContent = values[i][k].toFixed(2);
          update();
        };
        shown.push(() => {
          slider.value = values[i][k];
          text.textContent = values[i][k].toFixed(2);
        });
        sliders.append(make("label", {}, make("span", { textContent: `${tensor.name.slice(0, 8)} [${k}]` }), slider, text));
      }
    });
  }
  function fill(value) {
    tensors.forEach((tensor, i) => {
      const [low, high] = limits(tensor);
      values[i].forEach((_, k) => (values[i][k] = value(low, high)));
    });
    shown.forEach((each) => each());
    update();
  }
  const random = () => fill((low, high) => low + Math.random() * (high - low));
  random();
  const what = total <= MOST ? "Move the sliders: they are the model's input." : `The model takes ${total.toLocaleString("en")} numbers: try random ones.`;
  return {
    element: make("div", {}, make("p", { textContent: what }), ...(shown.length ? [sliders] : []),
      make("div", { className: "row" }, button("Random values", random, "main"), button("All zero", () => fill(() => 0)))),
    end() {},
  };
}

/** Real numbers as run() takes them: floats where it quantises, else the input's own type. */
function inOwnType(values, { dtype, scale }) {
  if (scale || /float/.test(dtype)) return Float32Array.from(values);
  const whole = { int8: Int8Array, uint8: Uint8Array, bool: Uint8Array, int16: Int16Array, int32: Int32Array, uint32: Uint32Array }[dtype];
  if (whole) return whole.from(values, Math.round);
  return (dtype === "uint64" ? BigUint64Array : BigInt64Array).from(values, (value) => BigInt(Math.round(value)));
}
