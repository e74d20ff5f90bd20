// SPDX-License-Identifier: Apache-2.0
// Speak a word: the last second of sound becomes a spectrogram, in WebAssembly, and that is the model's input.
import { load } from "./models/spectrogram.js";
import { refusal } from "./camera.js";
import { button, chooser, make, repeat } from "./parts.js";

const RATE = 16000, FRAME = 480, STEP = 320, FRAMES = 49;

/** Sound that is no louder is not made louder. */
const FAINT = 0.02;

export async function words(tensor, give) {
  const front = await load();
  const canvas = make("canvas", { className: "sound", width: FRAMES, height: 10, role: "img", "aria-label": "Spectrogram of the last second" });
  const said = make("p", { className: "quiet", role: "status", textContent: "Nothing is heard yet." });
  const second = new Float32Array(RATE);
  let audio = null, stream = null, stop = () => {};

  function hear() {
    const loudest = second.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    const frames = new Float32Array(FRAMES * FRAME);
    for (let i = 0; i < FRAMES; ++i) frames.set(second.subarray(i * STEP, i * STEP + FRAME), i * FRAME);
    const scale = 1 / Math.max(loudest, FAINT);
    const [spectrogram] = front.run(frames.map((sample) => sample * scale));
    draw(canvas, spectrogram);
    give([spectrogram]);
    return loudest;
  }

  function take(samples) {
    second.copyWithin(0, samples.length);
    second.set(samples, RATE - samples.length);
  }

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
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
      audio = new AudioContext({ sampleRate: RATE });
      await audio.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    } catch (error) {
      said.textContent = refusal("microphone", error);
      return;
    }
    const listener = new AudioWorkletNode(audio, "listener");
    listener.port.onmessage = ({ data }) => take(data);
    audio.createMediaStreamSource(stream).connect(listener);
    toggle.textContent = "Stop the microphone";
    stop = repeat(() => {
      const loudest = hear();
      said.textContent = loudest < FAINT ? "It is quiet: say a word." : "Sound is heard.";
    }, 150);
  }

  async function chosen(file) {
    await end();
    const decoded = await new OfflineAudioContext(1, RATE, RATE).decodeAudioData(await file.arrayBuffer());
    const samples = decoded.getChannelData(0);
    said.textContent = `${file.name}: its loudest second.`;
    second.fill(0);
    second.set(samples.subarray(loudest(samples), loudest(samples) + RATE));
    hear();
  }

  const toggle = button("Start the microphone", start, "main");
  hear();
  return {
    element: make("div", {}, make("div", { className: "row" }, toggle, chooser("Choose a sound", "audio/*", chosen)), said, canvas,
      make("p", { className: "quiet", textContent: "The last second as the model sees it: 49 moments of 10 numbers, computed from your sound by another model here." })),
    end,
  };
}

/** Where the second with the most energy begins. */
function loudest(samples) {
  let sum = 0, best = 0, most = -1;
  for (let i = 0; i < samples.length; ++i) {
    sum += samples[i] ** 2 - (i >= RATE ? samples[i - RATE] ** 2 : 0);
    if (sum > most && i >= RATE - 1) [most, best] = [sum, i - RATE + 1];
  }
  return best;
}

/** Each coefficient over time, between its least and greatest value. */
function draw(canvas, spectrogram) {
  const image = new ImageData(FRAMES, 10);
  for (let k = 0; k < 10; ++k) {
    const row = Array.from({ length: FRAMES }, (_, i) => spectrogram[10 * i + k]);
    const low = Math.min(...row), span = Math.max(...row) - low || 1;
    row.forEach((value, i) => {
      const share = (value - low) / span;
      image.data.set([255 * share, 190 * share + 20, 110 + 60 * share, 255], 4 * (k * FRAMES + i));
    });
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}
