"""Weights stored coded: which layer's in what coding, and the calls that decode them.

Coding acts on the arrays that ``lower`` packed, so every kernel keeps its own layout; ``Call.weights`` says what of an
array are weights. Decoded they are a tensor in the arena: for the time of their layer or, decoded at the start, for
ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Array, Call, Decode, Weights
from twinfer.runtime.options import Options
from twinfer.runtime.plan.codes import CODINGS, Blocks, Code, for_helium
from twinfer.runtime.target import Target

#: Bytes of decoded weights that a slice of a layer should not exceed.
SLICE_BYTES = 2048

#: Bytes of a decoder on Cortex-M4, with the helpers that it shares; the others', which differ little; and those of
#: every call of one. Measured by ``twinfer bench --weights lut,huffman,bitmap --layers``.
DECODER_BYTES: Mapping[str, int] = {
    "tw_decode_lut_pairs": 90,
    "tw_decode_huffman_table": 190,
    "tw_decode_huffman": 340,
    "tw_decode_bitmap": 340,
}
USUAL_BYTES, CALL_BYTES = 200, 50

#: Share of a layer's bytes by which a coding has to be the smallest if it decodes slower than a table of values does.
SLOWER: Mapping[str, float] = {"tw_decode_huffman": 0.05, "tw_decode_bitmap": 0.025}


@dataclass(frozen=True)
class Stored:
    """Calls, one a node, and those that decode at the start, each with the position of its layer."""

    calls: Sequence[Call]
    start: Sequence[tuple[Call, int]] = ()


@dataclass(frozen=True)
class _Layer:
    """A call whose weights may be coded: its position, and the array that they are in."""

    call: Call
    position: int
    array: Array
    layout: Weights

    @property
    def rows(self) -> Array:
        """The array's bytes, int8 [rows, head + weights + tail]."""
        return np.ascontiguousarray(self.array).reshape(-1).view(np.int8).reshape(self.layout.rows, -1)

    @property
    def ends(self) -> Array | None:
        """Heads and tails of all rows, one after the other; None if there are none."""
        rows, w = self.rows, self.layout
        if not w.head + w.tail:
            return None
        return np.concatenate([rows[:, : w.head], rows[:, rows.shape[1] - w.tail :]], axis=1).reshape(-1)

    def blocks(self, channels: int) -> Blocks:
        """The weights in slices of so many channels (0: whole), int8 [slices, rows, n].

        Those of one row are filled up to a multiple of 8 by the last one; so is a slice of the channels that remain.
        """
        w, body = self.layout, self._weights()
        if channels:
            share, unit = body.size // self.shares, w.unit
            body = body.reshape(-1)
            full = body[: self.out // unit * unit * share].reshape(-1, channels * share)
            rest = body[None, body.size - unit * share :] if self.out % unit else full[:0]
            missing = full.shape[1] - rest.shape[1]
            body = np.concatenate([full, np.pad(rest, ((0, 0), (0, missing)), mode="edge")])
        made: Blocks = body.reshape(len(body) if channels else 1, w.rows, -1)
        missing = -made.shape[2] % 8 if w.rows == 1 else 0
        return np.pad(made, ((0, 0), (0, 0), (0, missing)), mode="edge")

    def _weights(self) -> Blocks:
        """All weights as bytes, int8 [rows, n]."""
        rows, w = self.rows, self.layout
        body = np.ascontiguousarray(rows[:, w.head : rows.shape[1] - w.tail])
        if not w.halves:
            return body
        half = body.view("<i2").astype(np.int32)
        low = half.astype(np.int8)
        return np.stack([low, (half - low) >> 8], axis=-1).astype(np.int8).reshape(w.rows, -1)

    @property
    def out(self) -> int:
        """Output channels, where it may be cut."""
        return int(self.call.params.get("out", 0))  # type: ignore[arg-type]

    @property
    def shares(self) -> int:
        """Channels that the weights hold, those that fill them up included."""
        unit = self.layout.unit
        return self.out if self.layout.overlap else -(-self.out // unit) * unit

    def channels(self) -> int:
        """Channels of a slice: as many as ``SLICE_BYTES`` hold, or four, which kernels take at a time, or the fewest; 0
        where it is not to be cut."""
        unit = self.layout.unit
        if not unit or self.call.params.get("batches") != 1 or self.array.nbytes <= SLICE_BYTES:
            return 0
        full = self.out // unit * unit
        fits = [n for n in range(unit, full + 1, unit) if full % n == 0 and n < self.out]
        small = [n for n in fits if n <= 4 or n * self.array.nbytes // self.shares <= SLICE_BYTES]
        return max(small, default=fits[0] if fits else 0)


@dataclass(frozen=True)
class _Option:
    """A layer's weights in one coding, in slices of so many channels (0: whole)."""

    layer: _Layer
    code: Code
    channels: int

    @property
    def slices(self) -> int:
        """How many of them, but for one of the channels that remain."""
        return self.layer.out // self.channels if self.channels else 1

    @property
    def nbytes(self) -> int:
        """In flash."""
        return self.code.nbytes + (0 if self.layer.ends is None else self.layer.ends.nbytes)

    @property
    def saved(self) -> int:
        """Bytes of flash, the decoder's aside, as far as they are worth its instructions."""
        plain = self.layer.array.nbytes
        return plain - self.nbytes - CALL_BYTES * len(self.code.kernels) - int(plain * SLOWER.get(self.code.kernel, 0))


def store(calls: Sequence[Call], nodes: Sequence[Node], target: Target, options: Options) -> Stored:
    """The calls with their weights stored as ``options`` say."""
    layers = [_Layer(c, i, _value(c), c.weights) for i, c in enumerate(calls) if c.weights and _value(c).size]
    chosen = _chosen(layers, nodes, target, options)
    made, start = list(calls), list[tuple[Call, int]]()
    room = max((o.code.table.nbytes for o in chosen if o.code.table), default=0)
    table = _tensor("table of a decoder", room)
    for option in chosen:
        i = option.layer.position
        if options.decode == "start":
            made[i], decoders = _from_start(option, nodes[i], table)
            start += [(call, i) for call in decoders]
        else:
            made[i] = _with_decoder(option, nodes[i])
    return Stored(made, start)


def _chosen(layers: Sequence[_Layer], nodes: Sequence[Node], target: Target, options: Options) -> list[_Option]:
    """Which layers are coded, and how."""
    whole = options.decode == "start"
    if options.weights == "auto":
        return _smallest(layers, CODINGS, target, whole)
    if options.weights in CODINGS:
        return _options(layers, options.weights, target, whole)
    if options.weights == "plain" or target.wide:
        return []
    packed = [layer for layer in layers if nodes[layer.position].input(1).type == "INT4"]
    return _smallest(packed, ["lut"], target, whole)


def _value(call: Call) -> Array:
    """The weights' array."""
    arg = call.inputs[1]
    data = arg.data if isinstance(arg, Tensor) else arg
    return np.zeros(0, np.int8) if data is None else data


def _options(layers: Iterable[_Layer], coding: str, target: Target, whole: bool) -> list[_Option]:
    """Every layer whose weights the coding can hold, in slices where it can be cut and is not to be ``whole``."""
    found = []
    for layer in layers:
        channels = 0 if whole else layer.channels()
        blocks = layer.blocks(channels)
        code = CODINGS[coding](blocks, layer.layout.halves) if blocks.shape[2] % 8 == 0 else None
        if code is not None:
            found.append(_Option(layer, for_helium(code) if target.mve else code, channels))
    return found


def _smallest(layers: Sequence[_Layer], codings: Iterable[str], target: Target, whole: bool) -> list[_Option]:
    """The layers that are smaller coded, and how, so that all bytes are fewest, the decoders' too: all sets of decoders
    are tried."""
    options = [o for coding in codings for o in _options(layers, coding, target, whole) if o.saved > 0]
    decoders = sorted({o.code.kernels for o in options}, key=sorted)
    sets = (there for count in range(len(decoders) + 1) for there in combinations(decoders, count))
    return max((_best(options, there) for there in sets), key=_gain)


def _best(options: Iterable[_Option], decoders: Sequence[frozenset[str]]) -> list[_Option]:
    """Of every layer the smallest option that these decoders serve."""
    best: dict[int, _Option] = {}
    for option in options:
        rival = best.get(option.layer.position)
        if option.code.kernels in decoders and (rival is None or option.saved > rival.saved):
            best[option.layer.position] = option
    return [best[i] for i in sorted(best)]


def _gain(options: Sequence[_Option]) -> int:
    """Bytes of flash that these options save, their decoders included."""
    return sum(o.saved for o in options) - decoder_bytes(name for o in options for name in o.code.kernels)


def decoder_bytes(kernels: Iterable[str]) -> int:
    """About what these decoders take of flash on a Cortex-M4, each paid once."""
    return sum(DECODER_BYTES.get(name, USUAL_BYTES) for name in set(kernels))


def _with_decoder(option: _Option, node: Node) -> Call:
    """The call over weights that are decoded right before it, slice by slice where it is cut."""
    call, channels = option.layer.call, option.channels
    room = _tensor("table of a decoder", option.code.table.nbytes) if option.code.table else None
    *table, codes = _decoders(option, node, room)
    whole = replace(call, inputs=_reading(call, codes))
    rest = _rest(option.layer, whole) if channels and option.layer.out % option.layer.layout.unit else None
    decode = Decode(table[0] if table else None, codes, option.slices, rest)
    made = _part(option.layer, whole, channels, channels, channels) if channels else whole
    return replace(made, decode=decode)


def _rest(layer: _Layer, whole: Call) -> Call:
    """The call over the channels that remain behind all slices."""
    unit, first = layer.layout.unit, layer.out // layer.layout.unit * layer.layout.unit
    if layer.layout.overlap:
        return _part(layer, whole, unit, first, layer.out - unit)
    return _part(layer, whole, layer.out - first, first, first)


def _part(layer: _Layer, whole: Call, count: int, first: int, output: int) -> Call:
    """The call over ``count`` channels, its constants advanced by the shares of ``first``, its output by ``output``."""
    params = {**whole.params, "out": count}
    if "mults" in params and params["mults"] != 1:
        params["mults"] = count  # multipliers of their own, as before
    constants = -(-layer.out // layer.layout.unit) * layer.layout.unit
    strides = [0, 0, *(_share(arg, constants) * first for arg in whole.inputs[2:])]
    strides += [output * tensor.dtype.itemsize for tensor in whole.outputs]
    return replace(whole, params=params, strides=tuple(strides))


def _from_start(option: _Option, node: Node, room: Tensor) -> tuple[Call, list[Call]]:
    """The call over weights that are decoded once, and what decodes them."""
    decoders = list(_decoders(option, node, room))
    return replace(option.layer.call, inputs=_reading(option.layer.call, decoders[-1])), decoders


def _share(arg: Tensor | Array | None, channels: int) -> int:
    """Bytes of a constant that belong to each of so many channels; 0 for what all share."""
    array = arg.data if isinstance(arg, Tensor) else arg
    return 0 if array is None or array.size == 1 else array.nbytes // channels


def _reading(call: Call, codes: Call) -> tuple[Tensor | Array | None, ...]:
    return (call.inputs[0], codes.outputs[0], *call.inputs[2:])


def _tensor(name: str, nbytes: int) -> Tensor:
    return Tensor(name, "INT8", (nbytes,))


def _decoders(option: _Option, node: Node, room: Tensor | None) -> Iterator[Call]:
    """What makes the decoder's table in ``room``, if it has one, and what decodes the weights of one slice."""
    layer, code, w = option.layer, option.code, option.layer.layout
    name = node.input(1).name
    note = f'"{name}", {code.about}: {layer.array.nbytes:,} -> {option.nbytes:,} bytes'
    if code.table is not None and room is not None:
        yield Call(code.table.kernel, code.table.params, code.table.inputs, (room,), note=note)
    body = layer.blocks(option.channels).shape[2]
    frame = {"rows": w.rows, "head": w.head, "body": body, "tail": w.tail}
    inputs = (*(room if array is None else array for array in code.inputs), layer.ends)
    made = _tensor(f"{name}, decoded", w.rows * (w.head + body + w.tail))
    strides = (*code.strides, *[0] * (len(inputs) - len(code.strides)), 0)
    yield Call(code.kernel, {**frame, **code.params}, inputs, (made,), strides=strides, note=note)
