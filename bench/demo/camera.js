// SPDX-License-Identifier: Apache-2.0
// Show something to the camera, or choose a picture: the middle square, as small as the model takes it.
import { button, chooser, make, repeat, stored } from "./parts.js";

export function camera(tensor, give) {
  const [, height, width, channels] = tensor.shape;
  const video = make("video", { muted: true, playsInline: true, hidden: true, "aria-label": "Camera" });
  const seen = make("canvas", { className: "tiny wide", width, height, role: "img", "aria-label": "As the model sees it" });
  const said = make("p", { className: "quiet", role: "status" });
  const context = seen.getContext("2d", { willReadFrequently: true });
  let stream = null, stop = () => {};

  function look(source, wide, high) {
    const side = Math.min(wide, high);
    context.drawImage(source, (wide - side) / 2, (high - side) / 2, side, side, 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height);
    const values = new Float32Array(width * height * channels);
    for (let i = 0; i < width * height; ++i) {
      const [r, g, b] = data.subarray(4 * i, 4 * i + 3);
      if (channels === 3) values.set([r / 255, g / 255, b / 255], 3 * i);
      else values[i] = (0.299 * r + 0.587 * g + 0.114 * b) / 255;
    }
    give([stored(values, tensor)]);
  }

  function end() {
    stop();
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
    video.hidden = true;
    toggle.textContent = "Start the camera";
  }

  async function start() {
    if (stream) return end();
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch (error) {
      said.textContent = refusal("camera", error);
      return;
    }
    said.textContent = "";
    video.srcObject = stream;
    video.hidden = false;
    toggle.textContent = "Stop the camera";
    await video.play();
    stop = repeat(() => video.videoWidth && look(video, video.videoWidth, video.videoHeight), 80);
  }

  async function chosen(file) {
    end();
    const picture = await createImageBitmap(file);
    look(picture, picture.width, picture.height);
  }

  const toggle = button("Start the camera", start, "main");
  scene(context, width, height);
  look(seen, width, height);
  return {
    element: make("div", {}, video, make("div", { className: "row" }, toggle, chooser("Choose a picture", "image/*", chosen)),
      said, make("div", { className: "row" }, seen, make("span", { className: "quiet", textContent: `as the model sees it: ${width} × ${height}` }))),
    end,
  };
}

/** A picture to begin with: sky, ground and a sun. */
function scene(context, width, height) {
  const sky = context.createLinearGradient(0, 0, 0, height);
  sky.addColorStop(0, "#3f7fc4");
  sky.addColorStop(0.6, "#cfe3f2");
  sky.addColorStop(0.61, "#4d7d3a");
  sky.addColorStop(1, "#2b4d22");
  context.fillStyle = sky;
  context.fillRect(0, 0, width, height);
  context.fillStyle = "#ffe08a";
  context.beginPath();
  context.arc(0.75 * width, 0.22 * height, 0.1 * width, 0, 7);
  context.fill();
}

/** Why there is no camera or microphone, and what to do. */
export function refusal(what, error) {
  if (!globalThis.isSecureContext) return `Browsers give a ${what} only to https:// pages and to localhost.`;
  return `No ${what}: ${error.message || error.name}.`;
}
