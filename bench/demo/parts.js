// SPDX-License-Identifier: Apache-2.0
// What all parts of the page use: elements, bytes of models, pixels as a model takes them.

/** An element with properties (those with a dash are attributes) and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

export function button(text, press, className = "") {
  return make("button", { type: "button", className, textContent: text, onclick: press });
}

/** A button that lets the visitor choose a file. */
export function chooser(text, accept, chosen) {
  const input = make("input", { type: "file", accept, "aria-label": text });
  input.onchange = () => input.files.length && chosen(input.files[0]);
  return make("label", { className: "file" }, text, input);
}

/** Values between 0 and 1 as the input takes them: integers over their whole range, floats as they are. */
export function stored(values, { dtype }) {
  if (dtype === "int8") return Int8Array.from(values, (value) => Math.round(255 * value) - 128);
  if (dtype === "uint8") return Uint8Array.from(values, (value) => Math.round(255 * value));
  return Float32Array.from(values);
}

/** Calls again and again, a moment after each time; gives a function that ends that. */
export function repeat(task, ms) {
  let timer = 0, ended = false;
  const turn = async () => {
    await task();
    if (!ended) timer = setTimeout(turn, ms);
  };
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b5a900", "#8a6fd1"];

export function grouped(number) {
  return Math.round(number).toLocaleString("en");
}

/** A shape for a reader. */
export function extents(shape) {
  return shape.join(" × ");
}

/** Microseconds for a reader. */
export function shownTime(us) {
  if (us >= 10000) return `${(us / 1000).toFixed(1)} ms`;
  if (us >= 1000) return `${(us / 1000).toFixed(2)} ms`;
  return `${us.toFixed(us < 100 ? 1 : 0)} µs`;
}
