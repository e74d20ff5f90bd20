// SPDX-License-Identifier: Apache-2.0
// The arena, the one block of memory that a run writes to: its bytes as pixels, tensor by tensor, layer by layer.
import { COLOURS, button, extents, grouped, make } from "./parts.js";

const PACE = 450; // milliseconds of a layer

/** Tensors that are named below the picture. */
const NAMED = 4;

/** Shows `model`, a copy that nobody else runs; `inputs()` gives the values that a run begins with. */
export function arena(model, record, inputs) {
  const { layers } = model.facts;
  const size = Math.max(1, model.arena.length);
  const columns = Math.ceil(Math.sqrt(2.2 * size));
  const rows = Math.ceil(size / columns);
  const bytes = make("canvas", { className: "arena", width: columns, height: rows, role: "img", "aria-label": "The bytes of the arena" });
  const life = make("canvas", { className: "life", role: "img", "aria-label": "Which tensor lies where, over all layers" });
  const now = make("p", { className: "now" });
  const live = make("ul", { className: "live" });
  const slider = make("input", { type: "range", min: 0, max: layers.length, step: 1, value: 0, "aria-label": "Layer" });
  const position = record.positions; // of each layer among the model's operators, as tensors count them
  let at = 0; // so many layers have run
  let playing = 0;

  /** The layers that run together with the next one end before this. */
  const end = (layer) => layers[layer].with + 1;

  function restart() {
    model.reset();
    model.set(inputs());
    at = 0;
  }

  function step() {
    if (at >= layers.length) restart();
    else {
      const next = end(at);
      model.runLayers(at, next);
      at = next;
    }
    draw();
  }

  function goTo(wanted) {
    restart();
    while (at < wanted && at < layers.length) {
      const next = end(at);
      model.runLayers(at, next);
      at = next;
    }
    draw();
  }

  /** The number of the operator that has run last; -1: none. */
  const moment = () => (at ? position[at - 1] : -1);

  function draw() {
    slider.value = at;
    const time = moment();
    const here = record.tensors.map((tensor, i) => ({ ...tensor, i })).filter((tensor) => tensor.first <= time && time <= tensor.last);
    drawBytes(bytes, model.arena, here);
    drawLife(life, record, position, time);
    const layer = layers[at - 1];
    now.textContent = layer
      ? `Layer ${at} of ${layers.length}: ${layer.op} makes ${extents(layer.shape)} values${layer.macs ? ` by ${grouped(layer.macs)} multiplications` : ""}.`
      : "The input lies in the arena; no layer has run.";
    const made = here.filter((tensor) => tensor.first === time && !tensor.scratch);
    const role = (tensor) => (made.includes(tensor) ? (time < 0 ? "input" : "made now") : tensor.last === time ? "read for the last time" : "waits");
    here.sort((a, b) => made.includes(b) - made.includes(a) || b.bytes - a.bytes);
    live.replaceChildren(...here.slice(0, NAMED).map((tensor) =>
      make("li", {}, make("i", { style: `background:${colour(tensor)}` }), make("span", { className: "name", textContent: tensor.name }),
        make("span", { className: "role", textContent: `${grouped(tensor.bytes)} B${tensor.scratch ? "" : `, ${role(tensor)}`}` }))),
      ...(here.length > NAMED ? [make("li", { textContent: `and ${here.length - NAMED} more` })] : []));
  }

  const play = button("Play", () => (playing ? pause() : run()), "main");
  function run() {
    play.textContent = "Pause";
    playing = setInterval(step, PACE);
    step();
  }
  function pause() {
    clearInterval(playing);
    playing = 0;
    play.textContent = "Play";
  }
  slider.oninput = () => {
    pause();
    goTo(Number(slider.value));
  };
  life.onclick = (event) => {
    pause();
    const box = life.getBoundingClientRect();
    const time = Math.floor(((event.clientX - box.left) / box.width) * (count(record, position) + 1)) - 1;
    goTo(position.filter((each) => each <= time).length);
  };
  const watch = new ResizeObserver(() => drawLife(life, record, position, moment()));
  watch.observe(life);
  restart();
  draw();
  return {
    element: make("section", { "aria-label": "The arena" }, make("h2", { textContent: `The arena: ${grouped(record.arena)} bytes` }),
      make("p", { className: "quiet", textContent: "All values of a run lie in this one block of memory. Each pixel is one of its bytes now; colours are tensors, grey is free. A layer reads some and writes others." }),
      bytes, make("div", { className: "row" }, play, button("One layer on", () => { pause(); step(); }), slider), now, live,
      make("p", { className: "quiet", textContent: "Below: layers from left to right, addresses from top to bottom. The planner has found a place for every tensor, so that none meets another while both are needed." }), life),
    run, pause,
    end() {
      pause();
      watch.disconnect();
    },
  };
}

function colour(tensor) {
  return tensor.scratch ? "#8b95a1" : COLOURS[tensor.i % COLOURS.length];
}

function rgb(text) {
  return [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16));
}

/** Every byte a pixel: in its tensor's colour, lighter for greater values; what nobody will read any more is grey. */
function drawBytes(canvas, memory, here) {
  const image = new ImageData(canvas.width, canvas.height);
  for (let i = 0; i < memory.length; ++i) {
    const grey = 112 + memory[i] / 16;
    image.data.set([grey, grey, grey, 90], 4 * i);
  }
  for (const tensor of here) {
    const [r, g, b] = rgb(colour(tensor));
    const turn = tensor.type === "int8" ? 128 : 0;
    const values = memory.subarray(tensor.offset, tensor.offset + tensor.bytes).map((byte) => (byte + turn) & 255);
    const [least, most] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [255, 0]);
    values.forEach((value, i) => {
      const light = 0.45 + 0.95 * Math.sqrt((value - least) / (most - least || 1));
      image.data.set([r * light, g * light, b * light, 255], 4 * (tensor.offset + i));
    });
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** How many operators there are. */
function count(record, position) {
  return Math.max(...record.tensors.map((tensor) => tensor.last), ...position, 0) + 1;
}

/** A rectangle for every tensor; a line where the run stands. */
function drawLife(canvas, record, position, time) {
  const ratio = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width) return;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const each = width / (count(record, position) + 1), y = (byte) => (height * byte) / Math.max(record.arena, 1);
  record.tensors.forEach((tensor, i) => {
    const lives = tensor.first <= time && time <= tensor.last;
    context.globalAlpha = lives ? 1 : 0.45;
    context.fillStyle = colour({ ...tensor, i });
    const [top, bottom] = [y(tensor.offset), y(tensor.offset + tensor.bytes)];
    context.fillRect(each * (tensor.first + 1) + 0.5, top, each * (tensor.last - tensor.first + 1) - 1, Math.max(1, bottom - top - 0.5));
  });
  context.globalAlpha = 1;
  context.strokeStyle = getComputedStyle(canvas).color;
  context.lineWidth = 2;
  context.strokeRect(each * (time + 1) + 1, 1, Math.max(each - 2, 1), height - 2);
}
