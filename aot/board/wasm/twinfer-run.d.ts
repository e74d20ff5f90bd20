// SPDX-License-Identifier: Apache-2.0
// What twinfer-run.js does: it runs models that twinfer has compiled to WebAssembly.

/** Values of a tensor: bool as 0 and 1, complex numbers as pairs, float16 as its bits where it is stored. */
export type Values =
  | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array | Float32Array | Float64Array;

/** An input or output; `length` is that of its array. `block` and `offset` say where it lies in memory. */
export interface Tensor {
  readonly name: string;
  /** As in numpy: int8, float32, bool, ... */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly length: number;
  readonly bytes: number;
  readonly block?: string;
  readonly offset?: number;
  /** real = scale * (stored - zeroPoint); lists: per channel, each of `inner` values in turn. */
  readonly scale?: number | readonly number[];
  readonly zeroPoint?: number | readonly number[];
  readonly inner?: number;
  /** The bytes of an output that never changes. */
  readonly data?: readonly number[];
}

export interface Layer {
  readonly op: string;
  readonly kernel: string;
  readonly output: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly macs: number;
  /** The layer that it runs with: itself, or the last of those that run together. */
  readonly with: number;
}

export interface Facts {
  readonly name: string;
  /** Whether layers are called from a table (interpreted) or each has a function of its own (compiled). */
  readonly mode: "compiled" | "interpreted";
  readonly arenaBytes: number;
  readonly stateBytes: number;
  readonly macs: number;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly layers: readonly Layer[];
  /** Of a model that takes its input by rows: which input, and how many rows it has. */
  readonly rows: { readonly input: number; readonly count: number; readonly block: string } | null;
}

/** Where a file is, or what it holds. */
export type Source = string | URL | Response | ArrayBuffer | Uint8Array | WebAssembly.Module;

export interface Options {
  /** Outputs as they are stored; otherwise quantised ones are real numbers, as Float32Array. */
  integers?: boolean;
}

/** Of one input its values; of several a list in their order, or an object by name. */
export type Inputs = Values | readonly number[] | readonly (Values | readonly number[])[] | Record<string, Values | readonly number[]>;

/** A model with memory of its own. Errors are thrown, with the tensor's name and what it takes. */
export interface Model {
  readonly facts: Facts;
  /**
   * One inference. Real numbers (Float32Array, Float64Array, numbers) for quantised inputs are quantised; arrays of an
   * input's own type are taken as they are. Gives an array for each output.
   */
  run(inputs: Inputs, options?: Options): Values[];
  /** Sets what the model keeps from run to run to its beginning. */
  reset(): void;
  /** An inference by rows, of a model compiled with --input-rows; pushRow gives how many rows are still wanted. */
  begin(): void;
  pushRow(row: Values | readonly number[]): number;
  finish(options?: Options): Values[];
  /** The same as run in parts: set, then runLayers over all layers in order, then results. */
  set(inputs: Inputs): void;
  runLayers(begin: number, end: number): void;
  results(options?: Options): Values[];
  /** Inputs and outputs where they lie in memory, to fill and to read without a copy; null for one by rows. */
  readonly inputs: readonly (Values | null)[];
  readonly outputs: readonly Values[];
  /** The arena as it is now. */
  readonly arena: Uint8Array;
}

export declare function open(facts: Facts, source: Source): Promise<Model>;
