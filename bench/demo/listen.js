// SPDX-License-Identifier: Apache-2.0
// Speak a word: sound becomes what the model takes, by another model in WebAssembly.
import { refusal } from "./camera.js";
import { button, chooser, make, repeat } from "./parts.js";

const RATE = 16000, FRAME = 480, PART = 320;

/** Sound that is no louder is not made louder. */
const FAINT = 0.02;

export async function words(record, tensor, give) {
  const canvas = make("canvas", { className: "sound", role: "img", "aria-label": "What is made of the last second of sound" });
  const said = make("p", { className: "quiet", role: "status", textContent: "Nothing is heard yet." });
  const ear = await (record.ear === "spectrogram" ? spectrogramOf(canvas, give) : featuresOf(record.ear, canvas, tensor, give));
  let audio = null, stream = null, stop = () => {};

  async function end() {
    stop();
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
    toggle.textContent = "Start the microphone";
    await audio?.close();
    audio = null;
  }

  async function start() {
    if (stream) return end();
    stop();
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
      audio = new AudioContext({ sampleRate: RATE });
      await audio.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    } catch (error) {
      said.textContent = refusal("microphone", error);
      return;
    }
    const listener = new AudioWorkletNode(audio, "listener");
    let loudest = 0;
    listener.port.onmessage = ({ data }) => {
      loudest = Math.max(0.97 * loudest, ...data.map(Math.abs));
      ear.take(data);
    };
    audio.createMediaStreamSource(stream).connect(listener);
    toggle.textContent = "Stop the microphone";
    stop = repeat(() => {
      said.textContent = loudest < FAINT ? "It is quiet: say a word." : "Sound is heard.";
    }, 200);
  }

  /** Plays a file to the model, as fast as it was spoken. */
  async function chosen(file) {
    await end();
    const decoded = await new OfflineAudioContext(1, RATE, RATE).decodeAudioData(await file.arrayBuffer());
    const samples = decoded.getChannelData(0);
    const begun = performance.now();
    let at = 0;
    ear.clear();
    stop = repeat(() => {
      const now = Math.min(samples.length, ((performance.now() - begun) * RATE) / 1000);
      for (; at + PART <= now; at += PART) ear.take(samples.subarray(at, at + PART));
      said.textContent = `${file.name}: ${(at / RATE).toFixed(1)} of ${(samples.length / RATE).toFixed(1)} s.`;
      if (at + PART > samples.length) stop();
    }, 20);
  }

  const toggle = button("Start the microphone", start, "main");
  ear.clear();
  return {
    element: make("div", {}, make("div", { className: "row" }, toggle, chooser("Choose a sound", "audio/*", chosen)), said, canvas,
      make("p", { className: "quiet", textContent: ear.about })),
    end,
  };
}

/** A second of sound as 49 moments of 10 numbers, all anew several times a second, as loud as its loudest sample. */
async function spectrogramOf(canvas, give) {
  const front = await (await import("./models/spectrogram.js")).load();
  const moments = 49, step = 320, second = new Float32Array(RATE), frames = new Float32Array(moments * FRAME);
  let fresh = 0;

  function hear() {
    fresh = 0;
    const loudest = second.reduce((most, sample) => Math.max(most, Math.abs(sample)), FAINT);
    for (let i = 0; i < moments; ++i) frames.set(second.subarray(i * step, i * step + FRAME), i * FRAME);
    const [values] = front.run(frames.map((sample) => sample / loudest));
    draw(canvas, values, 10);
    give([values]);
  }

  return {
    about: "The last second as the model sees it: 49 moments of 10 numbers, computed from your sound by another model here.",
    take(samples) {
      second.copyWithin(0, samples.length);
      second.set(samples, RATE - samples.length);
      fresh += samples.length;
      if (fresh >= RATE / 8) hear();
    },
    clear() {
      second.fill(0);
      hear();
    },
  };
}

/** Moments of 40 numbers: a window of 49, or for a model that remembers the newest alone. */
async function featuresOf(form, canvas, tensor, give) {
  const front = await (await import("./models/sound_features.js")).load();
  const streams = form === "stream";
  const rows = tensor.length / 40, step = streams ? 160 : 320, every = streams ? rows : 5;
  const history = new Float32Array(40 * Math.max(rows, 49)), frame = new Int16Array(FRAME);
  let filled = 0, waiting = 0;

  function moment() {
    const [values] = front.run(frame);
    history.copyWithin(0, 40);
    values.forEach((value, i) => (history[history.length - 40 + i] = value / 25.6));
    frame.copyWithin(0, step);
    filled = FRAME - step;
    if (++waiting < every) return;
    waiting = 0;
    draw(canvas, history, 40);
    give([history.slice(history.length - 40 * rows)]);
  }

  return {
    about: streams
      ? `The last half second of what the model has seen. It gets ${rows} new moments of 40 numbers at a time, and remembers what it needs.`
      : "The last second as the model sees it: 49 moments of 40 numbers, computed from your sound by another model here.",
    take(samples) {
      for (const sample of samples) {
        frame[filled++] = Math.max(-32768, Math.min(32767, Math.round(32768 * sample)));
        if (filled === FRAME) moment();
      }
    },
    clear() {
      front.reset();
      history.fill(0);
      filled = waiting = 0;
      draw(canvas, history, 40);
      give([history.slice(history.length - 40 * rows)]);
    },
  };
}

/** Numbers of moments, `each` at a time, from left to right; of 10 each between its own least and greatest value. */
function draw(canvas, values, each) {
  const moments = values.length / each;
  Object.assign(canvas, { width: moments, height: each });
  const image = new ImageData(moments, each);
  for (let k = 0; k < each; ++k) {
    const row = Array.from({ length: moments }, (_, i) => values[each * i + k]);
    const low = each === 10 ? Math.min(...row) : 0, span = each === 10 ? Math.max(...row) - low || 1 : 26;
    row.forEach((value, i) => {
      const share = (value - low) / span;
      image.data.set([255 * share, 190 * share + 20, 110 + 60 * share, 255], 4 * ((each - 1 - k) * moments + i));
    });
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}
