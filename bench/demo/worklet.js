// SPDX-License-Identifier: Apache-2.0
/** Hands the microphone's samples to the page in parts of 20 ms. */
class Listener extends AudioWorkletProcessor {
  #part = new Float32Array(320);
  #filled = 0;

  process([[samples]]) {
    for (const sample of samples ?? []) {
      this.#part[this.#filled++] = sample;
      if (this.#filled === this.#part.length) {
        this.port.postMessage(this.#part.slice());
        this.#filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("listener", Listener);
