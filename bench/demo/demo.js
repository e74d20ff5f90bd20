// SPDX-License-Identifier: Apache-2.0
// The page: a tab for every model, and in it input, answer, times and arena.
import { answer } from "./answer.js";
import { arena } from "./arena.js";
import { camera } from "./camera.js";
import { digit } from "./draw.js";
import { models } from "./models.js";
import { numbers } from "./numbers.js";
import { grouped, make } from "./parts.js";
import { base64, race } from "./race.js";

const DOES = { digit: "draw a digit", words: "speak a word", camera: "use the camera", numbers: "give numbers" };

/** When a model is timed, in milliseconds after it is shown: browsers compile what runs often anew, and faster. */
const WAITS = [50, 700, 1500, 3000, 6000];

const page = document.documentElement;
let shown = null;
let asked = 0;

/** The part of the page by which the visitor gives a model's input. */
async function asking(record, tensors, give) {
  if (record.kind === "digit") return digit(tensors[0], give);
  if (record.kind === "camera") return camera(tensors[0], give);
  if (record.kind === "words") return (await import("./listen.js")).words(record, tensors[0], give);
  return numbers(tensors, give);
}

async function open(record) {
  const turn = ++asked;
  shown?.end();
  shown = null;
  page.dataset.drawn = "";
  for (const link of document.querySelectorAll("#models a")) {
    if (link.hash === `#${record.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const place = document.getElementById("model");
  place.replaceChildren(make("p", { className: "quiet", textContent: "Loading …" }));
  try {
    const view = await viewOf(record);
    if (turn !== asked) return view.end();
    shown = view;
    place.replaceChildren(view.element);
    view.begin();
    page.dataset.drawn = "yes";
  } catch (error) {
    if (turn === asked) place.replaceChildren(make("p", { className: "bad", textContent: `${record.title}: ${error.message}` }));
    throw error;
  }
}

async function viewOf(record) {
  const modules = await Promise.all(["_interpreted", ""].map((way) => import(`./models/${record.name}${way}.js`)));
  // Each copy has a memory of its own: two are timed, one answers, one is looked at layer by layer.
  const [interpreted, compiled, live, walker] = await Promise.all([...modules, modules[1], modules[1]].map((module) => module.load()));
  const tensors = compiled.facts.inputs;
  const result = answer(record, compiled.facts), beside = race({ interpreted, compiled }, record);
  beside.check();
  const timers = [];
  let inputs = null;

  /** Runs the model whenever there is another input. */
  function give(values) {
    inputs = values;
    const outputs = live.run(values, { integers: true });
    result.show(live.results());
    // For a console, and for tests: what the model got last, and what it gave, as bytes.
    globalThis.last = () => ({ name: record.name, inputs: inputs.map(base64), outputs: outputs.map(base64) });
  }

  const input = await asking(record, tensors, give);
  const memory = arena(walker, record, () => inputs);
  beside.from(() => inputs);
  const untrained = make("p", { className: "about warn" }, "This model has random weights: it shows speed and memory, and its answers mean nothing. For answers, make the page with a trained model: ", make("code", { textContent: "twinfer demo model.tflite -o site" }));
  const { layers, macs } = compiled.facts;
  const about = make("p", { className: "about quiet", textContent: `${record.title}: a file of ${grouped(record.bytes.file / 1024)} KiB, ${layers.length} layers, ${grouped(macs)} multiplications a run.` });
  const left = make("div", {}, make("h2", { textContent: "Input and answer" }), input.element, result.element);
  const right = make("div", {}, beside.element, memory.element);
  return {
    element: make("div", {}, about, ...(record.untrained ? [untrained] : []), make("div", { className: "sides" }, left, right)),
    begin() {
      for (const wait of WAITS) timers.push(setTimeout(() => beside.time(inputs), wait));
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) memory.run();
    },
    end() {
      timers.forEach(clearTimeout);
      input.end();
      memory.end();
    },
  };
}

function theme() {
  const dark = page.dataset.theme ? page.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  page.dataset.theme = dark ? "light" : "dark";
}

function follow() {
  return open(models.find(({ name }) => `#${name}` === location.hash) ?? models[0]);
}

document.getElementById("theme").onclick = theme;
document.getElementById("models").append(...models.map((record) =>
  make("li", {}, make("a", { href: `#${record.name}` }, record.title.replace(/_(int8|float32)$/, ""), " ", make("small", { textContent: DOES[record.kind] })))));
addEventListener("hashchange", follow);
follow();
