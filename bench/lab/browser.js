// SPDX-License-Identifier: Apache-2.0
// Times engines on the same models in one page, in turn: bench/lab/browser.py gives it models and reads what it returns.

/** How each engine is made ready: gives what runs it on x and returns its first output. One thread each. */
const ENGINES = {
  twinfer: async (name, x) => {
    const model = await (await import(`/ours/${name}.js`)).load();
    return () => model.run(x)[0];
  },
  "litert.js": async (name, x, shape) => {
    const litert = await import("/npm/@litertjs/core/dist/index.js");
    globalThis.liteRtIsThere ??= litert.loadLiteRt("/npm/@litertjs/core/wasm/", { threads: false });
    await globalThis.liteRtIsThere;
    const model = await litert.loadAndCompile(await bytes(`/models/${name}.tflite`), { accelerator: "wasm" });
    return async () => {
      const input = new litert.Tensor(x, shape);
      const [output] = await model.run(input);
      const values = output.toTypedArray().slice();
      input.delete();
      output.delete();
      return values;
    };
  },
  "onnxruntime-web": async (name, x) => {
    const ort = await import("/npm/onnxruntime-web/dist/ort.wasm.min.mjs");
    ort.env.wasm.numThreads = 1;
    const session = await ort.InferenceSession.create(await bytes(`/models/${name}.onnx`), { executionProviders: ["wasm"] });
    const [input] = session.inputNames;
    const [output] = session.outputNames;
    const shape = session.inputMetadata[0].shape;
    return async () => (await session.run({ [input]: new ort.Tensor("float32", x, shape) }))[output].data;
  },
  "tfjs-tflite": async (name, x) => {
    if (!globalThis.tfweb) await script("/npm/@tensorflow/tfjs-tflite/wasm/tflite_web_api_client.js");
    tfweb.tflite_web_api.setWasmPath("/npm/@tensorflow/tfjs-tflite/wasm/");
    const content = (await bytes(`/models/${name}.tflite`)).buffer;
    const runner = await tfweb.TFLiteWebModelRunner.create(content, { numThreads: 1 });
    return () => {
      runner.getInputs()[0].data().set(x);
      runner.infer();
      return runner.getOutputs()[0].data().slice();
    };
  },
};

async function bytes(url) {
  return new Uint8Array(await (await fetch(url)).arrayBuffer());
}

function script(src) {
  return new Promise((resolve, reject) => {
    document.head.append(Object.assign(document.createElement("script"), { src, onload: resolve, onerror: reject }));
  });
}

/** Milliseconds of so many calls. */
async function timed(run, count) {
  const begin = performance.now();
  for (let i = 0; i < count; ++i) {
    const result = run();
    if (result instanceof Promise) await result;
  }
  return performance.now() - begin;
}

/** The times of one model, in microseconds by engine, a batch of about `batch` milliseconds in every round. */
export async function measure({ name, input, shape }, engines, rounds, batch, warm) {
  const x = Float32Array.from(input);
  const found = {};
  for (const engine of engines) {
    try {
      const run = await ENGINES[engine](name, x, shape);
      found[engine] = { run, output: [...(await run())], times: [] };
      const before = performance.now();
      while (performance.now() - before < warm) await timed(run, 8);
      found[engine].count = Math.max(1, Math.round((8 * batch) / (await timed(run, 8))));
    } catch (error) {
      found[engine] = { error: String(error?.stack ?? error) };
    }
  }
  const running = Object.values(found).filter(({ run }) => run);
  for (let round = 0; round < rounds; ++round) {
    for (let i = 0; i < running.length; ++i) {
      const each = running[(i + round) % running.length];
      each.times.push((1000 * (await timed(each.run, each.count))) / each.count);
    }
  }
  return Object.fromEntries(Object.entries(found).map(([engine, { run, ...told }]) => [engine, told]));
}
