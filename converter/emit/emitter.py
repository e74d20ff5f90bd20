"""Adds TFLite operators with known shapes to a graph. What only moves constants is done ahead of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.build import TYPES, Builder
from twinfer.converter.facts import UNKNOWN
from twinfer.converter.table import ROWS
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, EMPTY, Quant, Tensor

#: Bytes of constants that conversion may make beyond those that the model brings.
MOST = 256 << 20


class Budget:
    """Bytes that are left of ``MOST``."""

    def __init__(self) -> None:
        self.left = MOST

    def afford(self, size: int, what: str) -> None:
        """Raises UnsupportedOperatorError if fewer than ``size`` bytes are left. The reader adds the node."""
        if size > self.left:
            raise UnsupportedOperatorError(
                f"{what} takes {size / 1e6:,.0f} MB more than its inputs, but {self.left / 1e6:,.0f} MB are left "
                "for constants that are computed ahead: export the model with smaller shapes, or make this an input"
            )

    def take(self, size: int, what: str) -> None:
        """``afford``, then takes the bytes off. A result no larger than its operands costs nothing."""
        self.afford(size, what)
        self.left -= max(0, size)


Shape = tuple[int, ...]

#: An operand: constants may be arrays, float numbers are scalars of the other operand's type.
Operand = Tensor | NDArray[Any] | None

#: Types of ONNX that numpy lacks, and those that hold their values exactly.
WIDER = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8, "bfloat16": np.float32}

#: Types that TFLite's kernels compute in. What only the exporter's shape arithmetic uses is folded before.
CARRIED = frozenset({"FLOAT32", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL", "UINT16", "UINT32", "UINT64"})

#: Types that few of TFLite's operators take, and the types that the others compute in for them; back, CAST wraps.
WIDE = MappingProxyType({"UINT16": "INT32", "UINT32": "INT64", "UINT64": "INT64"})
TAKES_ALL = frozenset({"BITCAST", "CAST", "RESHAPE", "RIGHT_SHIFT"})

#: Operators that give the same bits for signed and unsigned integers.
SAME_BITS = frozenset({"ADD", "SUB", "MUL", "SUM", "EQUAL", "NOT_EQUAL", "SELECT_V2", "BITWISE_XOR", "NEG"})

#: Operators that compare only: of unsigned integers after 2^63 was taken off each.
COMPARE = frozenset(
    {"LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN", "TOPK_V2"}
)

#: Types that most of TFLite's operators compute in as quantised numbers only.
SMALL = frozenset({"INT8", "INT16", "UINT8"})

#: Operators whose results are not below zero, and those whose results are not where their input 0 is not.
POSITIVE = frozenset({"ARG_MAX", "ARG_MIN", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "SOFTMAX", "SQUARE"})
MOVES = frozenset(
    {"AVERAGE_POOL_2D", "CAST", "DEQUANTIZE", "GATHER", "GATHER_ND", "MAX_POOL_2D", "MEAN", "QUANTIZE", "RESHAPE"}
    | {"SLICE", "SQRT", "STRIDED_SLICE", "TILE", "TRANSPOSE"}
)
NHWC = (0, 2, 3, 1)
NCHW = (0, 3, 1, 2)


def constant(value: NDArray[Any], name: str = "constant") -> Tensor:
    """A constant that is in no graph yet; UnsupportedOperatorError if TFLite has no such type. One of ``WIDER`` says in
    ``extra["narrow"]`` what it was."""
    extra = EMPTY
    if (narrow := value.dtype.name) in WIDER:
        value, extra = value.astype(WIDER[narrow]), MappingProxyType({"narrow": narrow})
    kind = TYPES.get(value.dtype.newbyteorder("<"))
    if kind is None:
        raise UnsupportedOperatorError(f"values of type {value.dtype}; use one that TFLite has")
    return Tensor(name, kind, value.shape, data=np.array(value, DTYPES[kind], order="C"), extra=extra)


class Emitter:
    """Adds TFLite operators to a graph. Names start with ``place``, the name of what is being emitted."""

    def __init__(self, name: str) -> None:
        self.builder = Builder(name)
        self.place = ""
        self.named = 0  # tensors named so far
        self.budget = Budget()
        self.quants: dict[Tensor, Quant] = {}  # of integer tensors whose readers alone know it
        self.wide: dict[Tensor, Tensor] = {}  # 16 bits with a zero point -> INT16 around 0
        self.in_blocks: dict[str, int] = {}  # layers whose weights of few bits became floats -> bytes that these had

    def emit(self, op: str, inputs: Sequence[Operand], shape: Shape, type: str = "", **options: Any) -> Tensor:
        """An operator with one output, of input 0's type unless another is given; arrays become constants."""
        return self.emit_all(op, inputs, [shape], type, **options)[0]

    def emit_all(
        self,
        op: str,
        inputs: Sequence[Operand],
        shapes: Sequence[Shape],
        type: str | Sequence[str] = "",
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """An operator with several outputs, of one type or of one each; UnsupportedOperatorError if TFLite cannot
        compute in one of the types."""
        tensors = [self.operand(value) for value in inputs]
        if op not in TAKES_ALL and any(t is not None and t.type in WIDE for t in tensors):
            return self._widened(op, tensors, shapes, type, options)
        kind = type or next(t.type for t in tensors if t is not None)
        kinds = [kind] * len(shapes) if isinstance(kind, str) else kind
        for tensor in tensors:
            if tensor is not None:
                _carried(tensor.type)
                self.builder.add(tensor)
        named = zip(kinds, shapes, strict=True)
        outputs = [Tensor(self._name(op, i), _carried(kind), tuple(shape)) for i, (kind, shape) in enumerate(named)]
        return self.builder.node(op, tensors, outputs, options)

    def _widened(
        self, op: str, tensors: Sequence[Tensor | None], shapes: Sequence[Shape], type: Any, options: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        """The operator in a signed type that holds the numbers of unsigned ones, and its results cast back."""
        moves = op in ROWS and ROWS[op].moves is not None
        largest = any(t is not None and t.type == "UINT64" for t in tensors)
        if largest and not (moves or op in SAME_BITS or op in COMPARE):
            raise UnsupportedOperatorError("UINT64, of which TFLite has no arithmetic; cast to INT64 before")
        wide = [None if t is None else self._signed(t, op in COMPARE) for t in tensors]
        kind = type or next(t.type for t in tensors if t is not None)
        kinds = [kind] * len(shapes) if isinstance(kind, str) else kind
        asked = WIDE.get(type, type) if isinstance(type, str) else [WIDE.get(each, each) for each in type]
        results = self.emit_all(op, wide, shapes, asked, **options)
        if largest and op in COMPARE:
            results = tuple(self._shifted(t) if each in WIDE else t for t, each in zip(results, kinds, strict=True))
        return tuple(self.cast(t, each) if each in WIDE else t for t, each in zip(results, kinds, strict=True))

    def _signed(self, x: Tensor, compared: bool) -> Tensor:
        wide = self.cast(x, WIDE.get(x.type, x.type))
        return self._shifted(wide) if compared and x.type == "UINT64" else wide

    def _shifted(self, x: Tensor) -> Tensor:
        """x + 2^63, which wraps: the order of unsigned integers becomes that of signed ones."""
        return self.binary("ADD", x, np.array(np.iinfo(np.int64).min))

    def call(self, op: str, inputs: Sequence[Tensor], like: Sequence[Tensor], **options: Any) -> tuple[Tensor, ...]:
        """An operator that runs subgraphs, with outputs of these types and shapes."""
        for tensor in inputs:
            self.builder.add(tensor)
        outputs = [Tensor(self._name(op, i), _carried(t.type), t.shape, t.quant) for i, t in enumerate(like)]
        return self.builder.node(op, inputs, outputs, options)

    def _name(self, op: str, i: int) -> str:
        return f"{self.place}/{op.lower()}_{self._next()}" + (f"_{i}" if i else "")

    def _next(self) -> int:
        self.named += 1
        return self.named

    def operand(self, value: Operand) -> Tensor | None:
        return self.known(value) if isinstance(value, np.ndarray) else value

    def known(self, value: NDArray[Any]) -> Tensor:
        """The array as a constant with a name of its own."""
        return constant(value, f"{self.place}/constant_{self._next()}")

    def takes(self, op: str, kind: str) -> bool:
        """Whether an operator takes numbers of a type that are not quantised. INT32 holds those of others, and CAST
        wraps what comes out."""
        return kind not in SMALL or ROWS.get(op, UNKNOWN).bytes

    def binary(self, op: str, x: Operand, y: Operand, type: str = "", **options: Any) -> Tensor:
        """An element-wise operator over two operands that broadcast; integers may be widened for it."""
        a, b = self.operand(x), self.operand(y)
        kind = next(t.type for t in (a, b) if t is not None)
        if a is not None and b is not None and not self.takes(op, kind):
            result = self.binary(op, self.cast(a, "INT32"), self.cast(b, "INT32"), type, **options)
            return result if type else self.cast(result, kind)
        shape = np.broadcast_shapes(*(t.shape for t in (a, b) if t is not None))
        return self.emit(op, [a, b], shape, type, **options)

    def unary(self, op: str, x: Tensor, type: str = "", **options: Any) -> Tensor:
        if not self.takes(op, x.type):
            result = self.unary(op, self.cast(x, "INT32"), type, **options)
            return result if type else self.cast(result, x.type)
        return self.emit(op, [x], x.shape, type, **options)

    def cast(self, x: Tensor, kind: str) -> Tensor:
        if x.data is not None and x.type in DTYPES and x.type != kind and x.quant is None and x.dtype.kind in "iu":
            return self.known(x.data.astype(DTYPES[kind]))
        for near, other in ((x.type, kind), (kind, x.type)):
            if near == "UINT64" and other not in ("UINT64", "INT64"):  # LiteRT has no CAST of it, but its bits
                return self.cast(self.cast(x, "INT64"), kind)
        if {x.type, kind} == {"UINT64", "INT64"}:
            return self.emit("BITCAST", [x], x.shape, kind)
        return x if x.type == kind else self.unary("CAST", x, kind, in_data_type=x.type, out_data_type=kind)

    def nonnegative(self, x: Tensor) -> bool:
        """Whether nothing in x is below zero, as far as can be told from constants and from the operators before x."""
        for node in reversed(self.builder.nodes):
            if x in node.outputs and node.op in MOVES:
                x = node.input(0)
            elif x in node.outputs:
                return node.op in POSITIVE or (node.op == "TOPK_V2" and x is node.outputs[1])
        return x.data is not None and bool((x.data >= 0).all())

    def quantised(self, x: Tensor) -> bool:
        """Whether integers are known to stand for real numbers, as far as the operators before x tell."""
        for node in reversed(self.builder.nodes):
            if x not in node.outputs or x.quant is not None or x in self.quants:
                continue
            if ROWS.get(node.op, UNKNOWN).moves is None:
                return False
            x = node.input(ROWS[node.op].first)
        return x.quant is not None or x in self.quants

    def quantized(self, op: str, x: Tensor, kind: str, quant: Quant) -> Tensor:
        """An element-wise operator with a quantised result."""
        self.builder.add(x)
        return self.builder.node(op, [x], [Tensor(self._name(op, 0), kind, x.shape, quant)])[0]

    def annotate(self, x: Tensor, quant: Quant) -> None:
        """Says what integers without a quantisation stand for; UnsupportedOperatorError if they are read in two
        ways."""
        known = self.quants.get(x) or x.quant
        if known is not None and known != quant:
            raise UnsupportedOperatorError(f"{x} is read with two scales or zero points; quantise it once for each")
        if x.quant is None:
            self.quants[x] = quant

    def affine(self, x: Tensor, scale: NDArray[Any], zeros: NDArray[Any], axis: int) -> Tensor:
        """(x - zeros) * scale in floats, each one number, or one per element of the axis."""
        shape = [-1 if scale.size * zeros.size > 1 and i == axis else 1 for i in range(len(x.shape))]
        real = self.cast(x, "FLOAT32")
        if zeros.any():
            real = self.binary("SUB", real, zeros.astype(np.float32).reshape(shape))
        return self.binary("MUL", real, scale.astype(np.float32).reshape(shape)) if (scale != 1).any() else real

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Dimensions in another order: ``result.shape[i] == x.shape[perm[i]]``. Constants are transposed here."""
        perm = tuple(int(p) for p in perm)
        if perm == tuple(range(len(perm))):
            return x
        shape = tuple(x.shape[p] for p in perm)
        if x.data is not None:
            quant = x.quant and Quant(x.quant.scale, x.quant.zero_point, perm.index(x.quant.axis))
            return move_constant(x, shape, quant, lambda data: data.transpose(perm))
        return self.emit("TRANSPOSE", [x, np.array(perm, np.int32)], shape)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in another shape. Constants are reshaped here."""
        shape = tuple(int(d) for d in shape)
        if shape == x.shape:
            return x
        if x.data is not None:
            quant = x.quant
            if quant is not None and quant.per_channel:  # only where the channels stay one dimension of their own
                before, count = math.prod(x.shape[: quant.axis]), quant.scale.size
                same = (i for i, d in enumerate(shape) if d == count and math.prod(shape[:i]) == before)
                axis = next(same, None)
                quant = None if axis is None else Quant(quant.scale, quant.zero_point, axis)
            return move_constant(x, shape, quant, lambda data: data.reshape(shape))
        return self.emit("RESHAPE", [x, np.array(shape, np.int32)], shape, new_shape=shape)

    def copy(self, x: Tensor) -> Tensor:
        """Another tensor with the same value."""
        return self.emit("RESHAPE", [x, np.array(x.shape, np.int32)], x.shape, new_shape=x.shape)

    def repeat(self, x: Tensor, shape: Shape) -> Tensor:
        """x broadcast to a shape: dimensions of one element are repeated."""
        x = self.reshape(x, (*[1] * (len(shape) - len(x.shape)), *x.shape))
        times = [n if d == 1 else 1 for n, d in zip(shape, x.shape, strict=True)]
        return x if x.shape == shape else self.emit("TILE", [x, np.array(times, np.int32)], shape)

    def along_last(self, x: Tensor, axes: Sequence[int], run: Callable[[Tensor], Tensor]) -> Tensor:
        """``run`` on x with these dimensions behind all others, and its result with them back in their places."""
        order = [*(i for i in range(len(x.shape)) if i not in axes), *axes]
        return self.transpose(run(self.transpose(x, order)), [order.index(i) for i in range(len(order))])

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.emit("CONCATENATION", parts, tuple(shape), axis=axis)

    def split(self, x: Tensor, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
        """Parts of these sizes along an axis, one behind the other."""
        if len(sizes) < 2:
            return (x,) * len(sizes)
        shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]
        where = np.array(axis, np.int32)
        if len(set(sizes)) == 1:
            return self.emit_all("SPLIT", [where, x], shapes, x.type, num_splits=len(sizes))
        return self.emit_all("SPLIT_V", [x, np.array(sizes, np.int32), where], shapes, num_splits=len(sizes))

    def flip(self, x: Tensor, axis: int) -> Tensor:
        """The elements along an axis in reverse order."""
        return self.gather(x, np.arange(x.shape[axis] - 1, -1, -1), axis)

    def gather(self, x: Tensor, indices: Tensor | NDArray[Any], axis: int) -> Tensor:
        """Elements of an axis by indices of any shape, which may count from the end."""
        at = self.from_front(indices, x.shape[axis])
        return self.emit("GATHER", [x, at], (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]), axis=axis)

    def take_along(self, x: Tensor, indices: Tensor | NDArray[Any], axis: int) -> Tensor:
        """Single elements: each index says which along the axis, its own place says where along the others.

        What is known at run time only is picked row by row along the last dimension, so that no table is needed.
        """
        at = self.from_front(indices, x.shape[axis])
        x = self.part(x, [0] * len(x.shape), [x.shape[i] if i == axis else n for i, n in enumerate(at.shape)])
        if at.data is None:
            return self._by_rows(x, at, axis)
        lines = np.moveaxis(np.asarray(at.data), axis, -1).reshape(-1, at.shape[axis])
        if len(lines) and (lines == lines[0]).all():
            return self.gather(x, lines[0], axis)
        flat = self.reshape(x, (x.size,))
        return self.emit("GATHER", [flat, self.along_flat(at, x.shape, axis)], at.shape, axis=0)

    def _by_rows(self, x: Tensor, at: Tensor, axis: int) -> Tensor:
        """Elements or, where numbers are repeated along all dimensions behind the axis, slices."""
        made = next((node for node in reversed(self.builder.nodes) if at in node.outputs), None)
        given = made.input(0) if made is not None and made.op == "TILE" else at
        if given.shape[: axis + 1] == at.shape[: axis + 1] and math.prod(given.shape[axis + 1 :]) == 1:
            numbers = self.reshape(given, at.shape[: axis + 1])
            return self.emit("GATHER", [x, numbers], at.shape, axis=axis, batch_dims=axis)
        order = [*(i for i in range(len(x.shape)) if i != axis), axis]
        x, at = self.transpose(x, order), self.transpose(at, order)
        y = self.emit("GATHER", [x, at], at.shape, axis=len(order) - 1, batch_dims=len(order) - 1)
        return self.transpose(y, [order.index(i) for i in range(len(order))])

    def along_flat(self, at: Tensor, shape: Shape, axis: int) -> Tensor:
        """Where single elements lie in a tensor of this shape that has become one line: ``at`` says where along the
        axis, the place of each number where along the others. Constants are computed here."""
        steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        self.budget.afford(8 * len(steps) * at.size, "a table of its elements")
        places = np.indices(at.shape)
        first = sum(step * places[i] for i, step in enumerate(steps) if i != axis)
        first = np.broadcast_to(np.asarray(first, at.dtype), at.shape)
        if at.data is not None:
            return self.known(np.asarray(first + at.data * np.int32(steps[axis])))
        at = at if steps[axis] == 1 else self.binary("MUL", at, np.array(steps[axis], at.dtype))
        return self.binary("ADD", at, first) if first.any() else at

    def from_front(self, indices: Tensor | NDArray[Any], extent: int | Sequence[int]) -> Tensor:
        """Indices counted from the front, where sources may count them from the end and TFLite's operators may not.

        ``extent``: of the dimension that they point into; one for each element of their last dimension if they are
        several. Constants are changed here, and ModelError says which are out of range. What is known at run time
        only gets four operators that TFLM has, too: i - extent * max(min(i, 0), -1).
        """
        if isinstance(indices, np.ndarray) or indices.data is not None:
            known, size = np.asarray(indices if isinstance(indices, np.ndarray) else indices.data), np.array(extent)
            wrong = (known >= size) | (known < -size)
            if wrong.any():
                raise ModelError(f"index {known[wrong][0]} is out of range for {size.tolist()} elements")
            return self.known(np.asarray(np.where(known < 0, known + size, known), np.int32))
        if self.nonnegative(indices):
            return indices
        below = self.binary("MINIMUM", indices, np.array(0, indices.dtype))
        below = self.binary("MAXIMUM", below, np.array(-1, indices.dtype))
        return self.binary("SUB", indices, self.binary("MUL", below, np.array(extent, indices.dtype)))

    def part(self, x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
        """The block of ``size`` from ``begin`` on."""
        if tuple(size) == x.shape:
            return x
        return self.emit("SLICE", [x, np.array(begin, np.int32), np.array(size, np.int32)], tuple(size))

    def slices(self, x: Tensor, ranges: Sequence[range]) -> Tensor:
        """The elements that a range names along every dimension; steps may be negative."""
        shape = tuple(map(len, ranges))
        if all(r.step == 1 for r in ranges):
            return self.part(x, [r.start for r in ranges], shape)
        mask = sum((r.stop < 0) << i for i, r in enumerate(ranges))  # -1 would count from the end
        limits = [np.array(v, np.int32) for v in zip(*((r.start, r.stop, r.step) for r in ranges), strict=True)]
        return self.emit("STRIDED_SLICE", [x, *limits], shape, end_mask=mask)

    def pad(self, x: Tensor, pads: Sequence[tuple[int, int]], value: Any = 0) -> Tensor:
        """Padding with one value, (before, after) for every dimension, none negative."""
        if not any(map(any, pads)):
            return x
        shape = tuple(d + before + after for d, (before, after) in zip(x.shape, pads, strict=True))
        table = np.array(pads, np.int32)
        if isinstance(value, Tensor):
            return self.emit("PADV2", [x, table, self.reshape(value, ())], shape)
        if value == 0 and x.type not in SMALL:  # PAD fills quantised tensors with the zero point
            return self.emit("PAD", [x, table], shape)
        return self.emit("PADV2", [x, table, np.array(value, x.dtype)], shape)


def move_constant(x: Tensor, shape: Shape, quant: Quant | None, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Tensor:
    """A constant with its elements moved, and with them the integers that it was dequantised from."""
    kept = {key: value for key, value in x.extra.items() if key in ("stored", "bytes") and quant}
    extra = {key: np.array(move(value), order="C") for key, value in kept.items()}
    data = np.array(move(np.asarray(x.data)), order="C")
    return replace(x, shape=shape, data=data, quant=quant, extra=MappingProxyType(extra))


def rows_of(x: Tensor, first: int, count: int) -> Tensor:
    """Elements of a constant's first dimension, with the integers that it was dequantised from."""
    quant, part = x.quant, slice(first, first + count)
    if quant is not None and quant.per_channel and quant.axis == 0:
        quant = Quant(quant.scale[part], quant.zero_point[part])
    return move_constant(x, (count, *x.shape[1:]), quant, lambda data: data[part])


def _carried(kind: str) -> str:
    if kind not in CARRIED:
        raise UnsupportedOperatorError(f"TFLite's operators do not compute in {kind}; export the model in float32")
    return kind
