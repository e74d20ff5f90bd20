// SPDX-License-Identifier: Apache-2.0
// Draw a digit: strokes are kept as lines, so that the model gets them in the size that its pictures have.
import { button, make, stored } from "./parts.js";

/** Digits as strokes, in a square of 100 by 100. */
export const EXAMPLES = [
  [[[50, 8], [32, 15], [24, 35], [24, 65], [32, 85], [50, 92], [68, 85], [76, 65], [76, 35], [68, 15], [50, 8]]],
  [[[38, 25], [54, 8], [54, 92]]],
  [[[26, 28], [34, 12], [52, 8], [68, 16], [70, 34], [58, 54], [24, 92], [76, 92]]],
  [[[26, 14], [50, 8], [70, 18], [70, 36], [46, 48], [70, 60], [72, 80], [52, 92], [26, 86]]],
  [[[58, 8], [24, 62], [78, 62]], [[62, 40], [62, 92]]],
  [[[72, 8], [34, 8], [30, 46], [54, 40], [72, 54], [72, 76], [52, 92], [26, 86]]],
  [[[64, 8], [40, 30], [28, 62], [36, 86], [54, 92], [72, 80], [70, 62], [50, 54], [30, 66]]],
  [[[24, 8], [76, 8], [58, 46], [44, 92]]],
  [[[50, 48], [30, 36], [32, 16], [50, 8], [68, 16], [70, 36], [50, 48], [28, 64], [30, 84], [50, 92], [70, 84], [72, 64], [50, 48]]],
  [[[70, 36], [54, 46], [34, 38], [30, 20], [48, 8], [66, 14], [70, 36], [66, 66], [52, 92]]],
];

/** How pictures of a size hold their digit: pixels that it fills, width of the pen. */
const FORMS = { 8: { fills: 7.6, pen: 1.15 }, 28: { fills: 20, pen: 2.4 } };

const FINE = 16; // subpixels of a pixel, in each direction

export function digit(tensor, give) {
  const size = tensor.shape[1];
  const pad = make("canvas", { className: "pad", width: 320, height: 320, role: "img", "aria-label": "Drawing" });
  const seen = make("canvas", { className: "tiny", width: size, height: size, role: "img", "aria-label": "As the model sees it" });
  let strokes = [];
  let example = -1;

  function redraw() {
    const context = pad.getContext("2d");
    context.clearRect(0, 0, 320, 320);
    trace(context, strokes, 26, ([x, y]) => [3.2 * x, 3.2 * y]);
    const values = picture(strokes, size);
    show(seen, values);
    give([stored(values, tensor)]);
  }

  const at = (event) => {
    const box = pad.getBoundingClientRect();
    return [(100 * (event.clientX - box.left)) / box.width, (100 * (event.clientY - box.top)) / box.height];
  };
  pad.onpointerdown = (event) => {
    if (example >= 0) strokes = [];
    example = -1;
    pad.setPointerCapture(event.pointerId);
    strokes.push([at(event)]);
    redraw();
  };
  pad.onpointermove = (event) => {
    if (!event.buttons || !strokes.length || example >= 0) return;
    strokes.at(-1).push(at(event));
    redraw();
  };
  const next = () => {
    example = (example + 1) % EXAMPLES.length;
    strokes = structuredClone(EXAMPLES[example]);
    redraw();
  };
  const clear = () => {
    strokes = [];
    example = -1;
    redraw();
  };
  example = 2;
  next();
  return {
    element: make("div", {}, make("p", { textContent: "Draw a digit with a finger or the mouse." }), pad,
      make("div", { className: "row" }, button("Clear", clear), button("An example", next), seen,
        make("span", { className: "quiet", textContent: `as the model sees it: ${size} × ${size}` }))),
    end() {},
  };
}

/** Draws strokes whose points are placed by a function. */
function trace(context, strokes, width, place) {
  Object.assign(context, { lineWidth: width, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  for (const stroke of strokes) {
    context.beginPath();
    stroke.map(place).forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (stroke.length === 1) context.lineTo(place(stroke[0])[0] + 0.1, place(stroke[0])[1]);
    context.stroke();
  }
}

/** The strokes in the middle of a picture, as large as there. Values from 0 to 1. */
export function picture(strokes, size) {
  const { fills, pen } = FORMS[size];
  const fine = new OffscreenCanvas(size * FINE, size * FINE);
  const context = fine.getContext("2d", { willReadFrequently: true });
  const points = strokes.flat();
  if (points.length) {
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const scale = ((fills - pen) * FINE) / Math.max(right - left, bottom - top, 1);
    const middle = (size * FINE) / 2;
    trace(context, strokes, pen * FINE, ([x, y]) => [
      middle + scale * (x - (left + right) / 2), middle + scale * (y - (top + bottom) / 2),
    ]);
  }
  const { data } = context.getImageData(0, 0, size * FINE, size * FINE);
  const values = new Float32Array(size * size);
  for (let y = 0; y < size * FINE; ++y) {
    for (let x = 0; x < size * FINE; ++x) {
      values[Math.floor(y / FINE) * size + Math.floor(x / FINE)] += data[4 * (y * size * FINE + x) + 3];
    }
  }
  return values.map((sum) => sum / (255 * FINE * FINE));
}

/** Shows values from 0 to 1 in grey. */
export function show(canvas, values) {
  const image = new ImageData(canvas.width, canvas.height);
  values.forEach((value, i) => image.data.set([255 * value, 255 * value, 255 * value, 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}
