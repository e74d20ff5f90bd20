"""SVDF: features of the new input, then a filter over the last few of them, which the state keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node, Quant
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.activation import bounded, quantized_range, vector_range
from twinfer.runtime.ops.core.channels import fold_zero
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.recurrent._sequences import products
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import present


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 5, node, f"it has {len(node.inputs)} inputs, not 5")
    x, features, time, bias, state = node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4)
    rank = int(node.options["rank"])
    need(len(x.shape) == len(features.shape) == len(time.shape) == 2, node, "input and weights must be matrices")
    (batches, size), (filters, memory) = x.shape, time.shape
    need(rank >= 1 and filters % rank == 0, node, f"{filters} filters are not a multiple of rank {rank}")
    need(features.shape == (filters, size) and memory >= 1, node, f"{x}, {features} and {time} do not match")
    need(bias is None or bias.shape == (filters // rank,), node, f"{bias} must have {filters // rank} elements")
    need(state.size == batches * filters * memory, node, f"{state} must have {batches * filters * memory} elements")
    need(state.variable, node, f"{state} must be a variable")
    _check_types(node)
    return [(batches, filters // rank)]


def _check_types(node: Node) -> None:
    x, features, time, bias, state = node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4)
    need_type(node, x, "FLOAT32", "INT8")
    need_type(node, features, x.type)
    need_type(node, node.output, x.type)
    need_type(node, state, *(("FLOAT32",) if x.type == "FLOAT32" else ("INT8", "INT16")))
    need_type(node, time, state.type)
    if bias is not None:
        need_type(node, bias, "FLOAT32" if x.type == "FLOAT32" else "INT32")
    if x.type == "FLOAT32":
        vector_range(node)
        return
    need_quant(node, x, features, time, state, node.output)
    if features.zero or time.zero:
        raise unsupported(node, f"{features} and {time} must have zero points of 0")
    quantized_range(node, node.output)


def multipliers_of(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Multipliers of the features and of the output. Source: TFLM svdf_common.cc, PrepareSvdf."""
    x, features, time, state = (node.input(i) for i in (0, 1, 2, 4))
    first = quantize_multiplier(x.scale * features.scale / state.scale)
    return first, quantize_multiplier(state.scale * time.scale / node.output.scale)


def bias_of(node: Node) -> Array | None:
    """The bias's value, zeros where there is none, None where it is computed at run time."""
    bias = node.optional(3)
    return np.zeros(node.output.shape[1], np.int32) if bias is None else bias.data


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The output; ``inputs[4]`` is the state before. Source: TFLM svdf_common.cc."""
    x, features, time, bias, state = inputs
    if x.dtype == np.float32:
        return [_float_reference(node, inputs)]
    rows = state.reshape(len(x), *time.shape)
    start = np.zeros(node.output.shape[1]) if bias is None else bias
    newest = (x.astype(np.int64) - node.input(0).zero) @ features.astype(np.int64).T
    info, held = np.iinfo(state.dtype), node.input(4).zero
    newest = np.clip(requantize(wrap32(newest), *multipliers_of(node)[0]) + held, info.min, info.max) - held
    moved = np.concatenate([rows[:, :, 1:].astype(np.int64) - held, newest[:, :, None]], axis=2)
    sums = (moved * time).sum(axis=2).reshape(*node.output.shape, -1).sum(axis=2) + start
    steps = wrap32(requantize(wrap32(sums.astype(np.int64)), *multipliers_of(node)[1]) + node.output.zero)
    return [np.clip(steps, *quantized_range(node, node.output)).astype(np.int8)]


def _float_reference(node: Node, inputs: list[Any]) -> Array:
    """In float32, every sum in order."""
    x, features, time, bias, state = inputs
    newest = products(x, features)[:, :, None]
    moved = np.concatenate([state.reshape(len(x), *time.shape)[:, :, 1:], newest], axis=2)
    filtered = np.zeros(newest.shape[:2], np.float32)
    for k in range(time.shape[1]):
        filtered += moved[:, :, k] * time[:, k]
    sums = np.zeros(node.output.shape, np.float32) if bias is None else np.tile(bias, (len(x), 1))
    for rank in np.moveaxis(filtered.reshape(*sums.shape, -1), 2, 0):
        sums += rank
    return bounded(sums, *vector_range(node))


def _sizes(node: Node) -> dict[str, Param]:
    (batches, size), units, memory = node.input(0).shape, node.output.shape[1], node.input(2).shape[1]
    return {"batches": batches, "size": size, "units": units, "rank": int(node.options["rank"]), "memory": memory}


def params_s8(node: Node) -> dict[str, Param]:
    """``tw_svdf_s8_params`` of kernels_c/recurrent/svdf.h."""
    x, state, y = node.input(0), node.input(4), node.output
    least, most = quantized_range(node, y)
    (mult, shift), (out_mult, out_shift) = multipliers_of(node)
    zeros = {"in_zero": x.zero, "state_zero": state.zero, "out_zero": y.zero, "low": least, "high": most}
    return {**_sizes(node), **zeros, "mult": mult, "shift": shift, "out_mult": out_mult, "out_shift": out_shift}


def call_of(node: Node, kernel: str, params: dict[str, Param], inputs: tuple[Argument, ...], scratch: int = 0) -> Call:
    """A kernel's call."""
    macs = node.input(0).shape[0] * (node.input(1).size + node.input(2).size)
    return Call(kernel, params, inputs, (node.output, node.input(4)), scratch, macs=macs)


def lower(node: Node, target: Target) -> Call:
    """The call in plain C."""
    x, state = node.input(0), node.input(4)
    start = np.zeros(node.output.shape[1], np.float32 if x.type == "FLOAT32" else np.int32)
    inputs = (x, node.input(1), node.input(2), node.optional(3) or constant.bias(start))
    if x.type == "FLOAT32":
        low, high = vector_range(node)
        return call_of(node, "tw_svdf_f32", {**_sizes(node), "low": low, "high": high}, inputs)
    kernel = "tw_svdf_s8" if state.type == "INT8" else "tw_svdf_s16"
    return call_of(node, kernel, params_s8(node), inputs)


class Filters(NamedTuple):
    """Constant weights as variants read them: features int8 [filters, size], time [filters, memory], and what sums
    begin with, zero points folded in: those of features, int32 [filters], and of units, int32 [units]."""

    features: Array
    time: Array
    starts: Array
    bias: Array


def filters_of(node: Node) -> Filters:
    """Declined if something is computed at run time."""
    why = "weights or the bias are computed at run time"
    features, time = (present(node.input(i).data, why) for i in (1, 2))
    units, bias = node.output.shape[1], present(bias_of(node), why)
    starts = fold_zero(features, np.zeros(len(features), np.int32), node.input(0).zero)
    return Filters(features, time, starts, fold_zero(time.reshape(units, -1), bias, node.input(4).zero))


NO_BIAS = "TFLM crashes without a bias, and LiteRT computes a state of int8 otherwise"
UNCLIPPED = "TFLM and LiteRT ignore the activation of int8"
WRAPS = "TFLM as packaged adds a state's zero point after clamping and wraps; its sources no longer do"


def _case(
    rng: np.random.Generator, kind: str, shape: Shape, sizes: tuple[int, int, int], held: tuple[float, int] = (2.0, -3)
) -> Case:
    """``sizes``: units, rank, memory; ``held``: scale of the state and, for INT8, its zero point."""
    (units, rank, memory), (held_scale, zero) = sizes, held
    real, filters = kind == "FLOAT32", units * rank
    integer = {"x": 0.05, "f": 0.02, "t": 0.01, "s": held_scale, "y": 2.0}
    scales: dict[str, Any] = dict.fromkeys(integer) if real else integer
    of_state = zero if kind == "INT8" else 0
    byte = kind if real else "INT8"

    def some(name: str, type: str, shape: Shape) -> Any:
        values = rng.standard_normal(shape) if real else rng.integers(-127, 128, shape)
        return tensor(shape, type, scales[name], 0, data=values, name=name)

    x = tensor(shape, byte, scales["x"], 0 if real else 4, name="x")
    state = replace(tensor((shape[0], filters * memory), kind, scales["s"], of_state, name="s"), variable=True)
    of_bias = ("FLOAT32", None) if real else ("INT32", held_scale * 0.01)
    bias = tensor((units,), of_bias[0], of_bias[1], data=rng.integers(-9, 9, units), name="b")
    y = tensor((shape[0], units), byte, scales["y"], 0 if real else -128, name="y")
    ins = (x, some("f", byte, (filters, shape[1])), some("t", kind, (filters, memory)), bias, state)
    options = {"rank": rank, "fused_activation_function": "RELU", "asymmetric_quantize_inputs": False}
    return Case(Node("SVDF", ins, (y,), options), tolerance=1e-4 if real else 0.0)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for kind in ("FLOAT32", "INT8", "INT16"):
        for shape, sizes in (((1, 5), (3, 1, 4)), ((2, 33), (4, 2, 7)), ((3, 1), (1, 1, 1))):
            yield (case := _case(rng, kind, shape, sizes))
        bare = replace(case.node, inputs=(*case.node.inputs[:3], None, case.node.inputs[4]))
        yield replace(case, node=bare, oracle="none" if kind == "INT8" else "litert", why=NO_BIAS)
    yield _case(rng, "INT16", (2, 33), (4, 2, 7), held=(1e-4, 0))
    yield _case(rng, "INT8", (2, 33), (4, 2, 7), held=(0.2, 0))
    case = _case(rng, "INT8", (2, 33), (4, 2, 7), held=(0.2, -3))
    yield Case(case.node, oracle="none", why=WRAPS)
    clipped = replace(case.node.output, quant=Quant.per_tensor(2.0, -18))
    yield Case(replace(case.node, outputs=(clipped,)), oracle="none", why=UNCLIPPED)
    six = _case(rng, "FLOAT32", (2, 33), (4, 2, 7))
    options = {**six.node.options, "fused_activation_function": "RELU6"}
    yield replace(six, node=replace(six.node, options=options))


OP = Op("SVDF", infer, reference, lower, cases)
