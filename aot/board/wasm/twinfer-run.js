// SPDX-License-Identifier: Apache-2.0
// Runs models that twinfer has compiled to WebAssembly. NAME.js beside it loads one; twinfer-run.d.ts says what all does.

const VIEWS = {
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  float16: Uint16Array, // as bits
  int32: Int32Array,
  uint32: Uint32Array,
  float32: Float32Array,
  complex64: Float32Array, // in pairs
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float64: Float64Array,
  complex128: Float64Array,
};

/** The least and the greatest value of what can be quantised. */
const LIMITS = {
  int8: [-128, 127],
  uint8: [0, 255],
  int16: [-32768, 32767],
  uint16: [0, 65535],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
};

const STATUS = {
  3: "rows of the input are missing",
  4: "begin() comes first",
  5: "cancelled by the hook",
  6: "no such layers",
};

/** The bytes of a module, from wherever they are. */
async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  if (typeof Response !== "undefined" && source instanceof Response) return fetched(source, source.url);
  const url = new URL(source, globalThis.document?.baseURI ?? import.meta.url);
  if (url.protocol === "file:" && globalThis.process?.versions?.node) {
    return (await import("node:fs/promises")).readFile(url);
  }
  return fetched(await fetch(url), url);
}

function fetched(response, url) {
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

export async function open(facts, source) {
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(await bytesOf(source));
  return new Model(facts, (await WebAssembly.instantiate(module, {})).exports);
}

class Model {
  #code;
  #call;
  #blocks = {}; // name -> address
  #owned; // addresses of arena and state, in the order of parameters in C
  #given = 0; // pointers to inputs, of a model that reads one in place
  #row = 0;
  #inputs;
  #outputs;

  constructor(facts, code) {
    this.facts = facts;
    this.#code = code;
    this.#call = (what, ...rest) => code[`${facts.name}_${what}`](...rest);
    this.#owned = facts.blocks.map((block) => (this.#blocks[block] = this.#call(block)));
    this.#place();
    const view = (tensor) => array(tensor, code.memory.buffer, this.#blocks[tensor.block] + tensor.offset);
    this.#inputs = facts.inputs.map((tensor) => (tensor.block ? view(tensor) : null));
    this.#outputs = facts.outputs.map((tensor) => (tensor.data ? constant(tensor) : view(tensor)));
    this.reset();
  }

  /** Finds memory behind that of the program for what a caller of C would own: a row, an input in place. */
  #place() {
    const { rows, inPlace, inputs } = this.facts;
    const { memory } = this.#code;
    let end = this.#code.__heap_base.value;
    const take = (bytes) => {
      const begin = Math.ceil(end / 64) * 64;
      end = begin + bytes;
      const more = Math.ceil((end - memory.buffer.byteLength) / 65536);
      if (more > 0) memory.grow(more);
      return begin;
    };
    if (inPlace) {
      this.#blocks.input = take(inPlace.bytes);
      this.#given = take(4 * inPlace.of);
      new Uint32Array(memory.buffer, this.#given, inPlace.of)[inPlace.place] = this.#blocks.input;
    }
    if (rows) this.#row = take(inputs[rows.input].bytes / rows.count);
  }

  get inputs() {
    return this.#inputs;
  }

  get outputs() {
    return this.#outputs;
  }

  get arena() {
    return new Uint8Array(this.#code.memory.buffer, this.#owned[0], this.facts.arenaBytes);
  }

  run(inputs, options) {
    const { rows } = this.facts;
    const values = this.set(inputs);
    if (rows) {
      const size = values.length / rows.count;
      this.begin();
      for (let i = 0, wanted = 1; wanted; ++i) wanted = this.pushRow(values.subarray(i * size, (i + 1) * size));
      return this.finish(options);
    }
    check(this.facts, this.#call("run_static", this.#given, 0));
    return this.results(options);
  }

  set(inputs) {
    const listed = list(inputs, this.facts.inputs);
    let apart = null;
    this.facts.inputs.forEach((tensor, i) => {
      const stored = from(listed[i], tensor);
      if (this.#inputs[i]) this.#inputs[i].set(stored);
      else apart = stored;
    });
    return apart;
  }

  results({ integers = false } = {}) {
    return this.facts.outputs.map((tensor, i) => shown(this.#outputs[i], tensor, integers));
  }

  begin() {
    check(this.facts, this.#call("begin", this.#fed));
  }

  pushRow(row) {
    const address = this.#fed;
    const { rows, inputs } = this.facts;
    const tensor = { ...inputs[rows.input], name: `a row of ${inputs[rows.input].name}` };
    tensor.length /= rows.count;
    array(tensor, this.#code.memory.buffer, this.#row).set(from(row, tensor));
    const wanted = this.#call("push_row", address, this.#row);
    if (wanted === -3) throw new Error(`${this.facts.name}: no row is wanted any more, finish() comes next`);
    check(this.facts, Math.min(wanted, 0));
    return wanted;
  }

  finish(options) {
    if (this.#fed) check(this.facts, this.#call("finish", ...this.#owned, 0));
    return this.results(options);
  }

  /** The address of the block that rows go to. */
  get #fed() {
    if (!this.facts.rows) throw new Error(`${this.facts.name} takes its input whole: compile it with --input-rows`);
    return this.#blocks[this.facts.rows.block];
  }

  runLayers(begin, end) {
    const input = this.facts.inPlace ? [this.#blocks.input] : [];
    check(this.facts, this.#call("run_layers", ...this.#owned, ...input, begin, end));
  }

  reset() {
    const { reset } = this.facts;
    if (reset.length) this.#call("reset", ...reset.map((block) => this.#blocks[block]));
  }
}

/** The values of an output that never changes, from its bytes. */
function constant(tensor) {
  return array(tensor, Uint8Array.from(tensor.data).buffer, 0);
}

function array(tensor, buffer, address) {
  return new VIEWS[tensor.dtype](buffer, address, tensor.length);
}

function check(facts, status) {
  if (status) throw new Error(`${facts.name}: ${STATUS[Math.abs(status)] ?? `a layer wrote outside its memory (${status})`}`);
}

/** The inputs in their order: values alone for a model with one input, else a list, or an object by name. */
function list(inputs, tensors) {
  const isArray = (value) => Array.isArray(value) || ArrayBuffer.isView(value);
  const alone = tensors.length === 1 && isArray(inputs) && !isArray(inputs[0]);
  const listed = alone ? [inputs] : Array.isArray(inputs) ? inputs : tensors.map(({ name }) => inputs?.[name]);
  const missing = tensors.findIndex((_, i) => !isArray(listed[i]));
  if (missing >= 0) throw new TypeError(`input ${missing}, ${tensors[missing].name}, should be an array`);
  if (listed.length > tensors.length) throw new TypeError(`${listed.length} inputs are given, not ${tensors.length}`);
  return listed;
}

/** Values in a tensor's own type: real numbers for quantised integers are quantised, as in Python. */
function from(values, tensor) {
  const { dtype, length, name, scale } = tensor;
  const own = VIEWS[dtype];
  if (values.length !== length) throw new RangeError(`${name} takes ${length} values, not ${values.length}`);
  if (values instanceof own) return values;
  const numbers = Array.isArray(values);
  const floats = values instanceof Float32Array || values instanceof Float64Array;
  if (scale && (floats || numbers)) return quantized(values, tensor);
  if (dtype === "float16" && (floats || numbers)) return own.from(values, toHalf);
  if (numbers || (floats && /float|complex/.test(dtype))) return own.from(values, number(tensor));
  throw new TypeError(`${name} takes ${own.name}${scale ? " or Float32Array" : ""}, not ${values.constructor.name}`);
}

/** What makes an element of anything. */
function number({ dtype }) {
  return dtype.endsWith("int64") ? BigInt : Number;
}

/** The scale or zero point of element i. */
function at(value, i, { inner }) {
  return typeof value === "number" ? value : value[Math.floor(i / inner) % value.length];
}

/** The nearest integers, halves away from zero. */
function quantized(values, tensor) {
  const stored = new VIEWS[tensor.dtype](tensor.length);
  const make = number(tensor);
  const [low, high] = LIMITS[tensor.dtype];
  for (let i = 0; i < stored.length; ++i) {
    const steps = values[i] / at(tensor.scale, i, tensor);
    if (Number.isNaN(steps)) throw new RangeError(`${tensor.name}: value ${i} is no number`);
    const whole = Math.sign(steps) * Math.floor(Math.abs(steps) + 0.5) + at(tensor.zeroPoint, i, tensor);
    stored[i] = whole <= low ? low : whole >= high ? high : make(whole);
  }
  return stored;
}

/** A copy of an output: real numbers where it is quantised, unless integers are wanted. */
function shown(stored, tensor, integers) {
  if (tensor.dtype === "float16") return Float32Array.from(stored, fromHalf);
  if (!tensor.scale || integers) return stored.slice();
  const values = new Float32Array(stored.length);
  for (let i = 0; i < values.length; ++i) {
    values[i] = at(tensor.scale, i, tensor) * (Number(stored[i]) - at(tensor.zeroPoint, i, tensor));
  }
  return values;
}

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : rest * 2 ** -24);
}

/** The nearest half, ties to even; overflow gives infinity. */
function toHalf(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size || 2 ** -24)), -14), unit = 2 ** (exponent - 10);
  let steps = Math.floor(size / unit);
  const rest = size / unit - steps;
  if (rest > 0.5 || (rest === 0.5 && steps % 2)) ++steps;
  return sign | (steps + ((exponent + 14) << 10)); // a step beyond 2047 carries into the exponent
}
