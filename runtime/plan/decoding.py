"""The program of a step whose weights are coded: the calls that decode them, in a loop where the step is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

from twinfer.runtime.constant import Constant, Pool, Role
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan.weights import CodedWeights, PackedWeights
from twinfer.runtime.program import Argument, Call, Instruction, Loop, Slice, Step


def decoded_before(coded: CodedWeights, pool: Pool) -> Step:
    """The step with calls that decode its weights right before its own call, slice by slice where it is cut."""
    layer, table = coded.layer, coded.code.table
    room = _tensor("table of a decoder", table.nbytes) if table else None
    *once, codes = _decoders(coded, pool, room)
    whole = _reading(layer.call, codes)
    if not coded.channels:
        return replace(layer.step, call=whole, body=(*once, codes, whole))
    call = part_of_layer(layer, whole, coded.channels, stride=coded.channels)
    body: tuple[Instruction, ...] = (*once, Loop(coded.slices, (codes, call)), *_rest(coded, whole, codes))
    return replace(layer.step, call=call, body=body)


def _rest(coded: CodedWeights, whole: Call, codes: Call) -> Iterator[Call]:
    """The calls for the channels that remain behind all slices."""
    layer, unit = coded.layer, coded.layer.layout.unit
    if layer.out % unit == 0:
        return
    first = layer.out // unit * unit
    inputs = tuple(_behind(argument, coded.slices) for argument in codes.inputs)
    yield replace(codes, inputs=inputs)
    if layer.layout.overlap:
        yield part_of_layer(layer, whole, unit, first, layer.out - unit)
    else:
        yield part_of_layer(layer, whole, layer.out - first, first, first)


def _behind(argument: Argument, slices: int) -> Argument:
    """The argument after so many iterations."""
    if not isinstance(argument, Slice):
        return argument
    return Slice(argument.value, argument.offset + slices * argument.stride)


def part_of_layer(
    layer: PackedWeights, whole: Call, count: int, first: int = 0, output: int = 0, *, stride: int = 0
) -> Call:
    """The call over ``count`` channels: constants from channel ``first`` on, output from channel ``output`` on.

    In a loop both advance by ``stride`` channels per iteration.
    """
    params = {**whole.params, "out": count}
    if "mults" in params and params["mults"] != 1:
        params["mults"] = count  # multipliers of their own, as before
    shares = -(-layer.out // layer.layout.unit) * layer.layout.unit
    inputs = tuple(_cut(argument, shares, first, stride) for argument in whole.inputs[2:])
    sizes = [(tensor, tensor.dtype.itemsize) for tensor in whole.written]
    outputs = tuple(Slice(tensor, size * output, size * stride) for tensor, size in sizes)
    return replace(whole, params=params, inputs=(*whole.inputs[:2], *inputs), outputs=outputs)


def _cut(argument: Argument, channels: int, first: int, stride: int) -> Argument:
    """A constant of so many channels, from channel ``first`` on; whole if all channels share it."""
    if not isinstance(argument, Constant) or argument.array.size == 1 or argument.role is Role.QUANT:
        return argument
    share = argument.nbytes // channels
    return Slice(argument, share * first, share * stride)


def decoded_at_start(chosen: Sequence[CodedWeights], pool: Pool) -> tuple[Step, ...]:
    """The steps that decode weights once, before the first run; all use the same memory for their tables."""
    tables = [coded.code.table.nbytes for coded in chosen if coded.code.table]
    room = _tensor("table of a decoder", max(tables, default=0))
    calls = [tuple(_decoders(coded, pool, room)) for coded in chosen]
    steps = [coded.layer.step for coded in chosen]
    return tuple(Step(s.node, s.position, body[-1], body) for s, body in zip(steps, calls, strict=True))


def reading(step: Step, decoders: Step) -> Step:
    """The step over the weights that ``decoders`` decodes."""
    call = _reading(step.call, decoders.call)
    return replace(step, call=call, body=(call,))


def _reading(call: Call, codes: Call) -> Call:
    """The call over what ``codes`` decodes."""
    return replace(call, inputs=(call.inputs[0], *codes.written, *call.inputs[2:]))


def _tensor(name: str, nbytes: int) -> Tensor:
    return Tensor(name, "INT8", (nbytes,))


def _decoders(coded: CodedWeights, pool: Pool, room: Tensor | None) -> Iterator[Call]:
    """The call that fills the decoder's table in ``room``, if there is one, and the call that decodes one slice."""
    layer, code, w = coded.layer, coded.code, coded.layer.layout
    node = layer.step.node
    name = node.input(1).name
    note = f'"{name}", {code.about}: {layer.constant.nbytes:,} -> {coded.nbytes:,} bytes'

    def constant(array: Array | None, use: str) -> Constant | None:
        return None if array is None else pool.packed(Constant(array, Role.CODES, code.about, name=note), node, use)

    if code.table is not None and room is not None:
        inputs = tuple(constant(array, f"table {i}") for i, array in enumerate(code.table.inputs))
        yield Call(code.table.kernel, code.table.params, inputs, (room,), note=note)
    body = layer.blocks(coded.channels).shape[2]
    params = {"rows": w.rows, "head": w.head, "body": body, "tail": w.tail, **code.params}
    codes = [room if a is None else constant(a, f"codes {i}") for i, a in enumerate(code.inputs)]
    strides = chain(code.strides if coded.channels else (), repeat(0))
    parts = (Slice(value, 0, by) if value and by else value for value, by in zip(codes, strides, strict=False))
    decoded = _tensor(f"{name}, decoded", w.rows * (w.head + body + w.tail))
    yield Call(code.kernel, params, (*parts, constant(layer.ends, "codes ends")), (decoded,), note=note)
