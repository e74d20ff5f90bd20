"""What an operator is (``Op``) and what it becomes (``Call``): one kernel call, the hinge of the project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.params import Param, check_params
from twinfer.runtime.target import Target

Array = NDArray[Any]

#: Floats of another machine or library may differ by this share of the tensor's largest magnitude.
TOLERANCE = 1e-5
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Weights:
    """What may be done to input 1 of a call, a constant array of int8 weights, to store it in less flash.

    Its bytes are ``rows`` of ``head`` bytes, weights, ``tail`` bytes, both multiples of 4. With ``halves`` they are
    int16, 256 * b + a for weights (a, b). With ``unit`` above 0, a call of one batch may be cut into calls over the
    "out" channels: any multiple of ``unit``, of which the constants hold equal shares; those of one element serve all.
    Where "out" is no multiple, the last share belongs to the channels that remain, filled up or, with ``overlap``, to
    the last ``unit`` channels.
    """

    rows: int = 1
    head: int = 0
    tail: int = 0
    halves: bool = False
    unit: int = 0
    overlap: bool = False


@dataclass(frozen=True)
class Decode:
    """What makes the weights of a call right before it: ``table``, once, if there is one, then for every slice
    ``codes`` and the call itself, every pointer advanced by its stride. ``rest``, if any, is the call for one more
    slice of other size, its pointers advanced by its own strides, once.
    """

    table: Call | None
    codes: Call
    slices: int = 1
    rest: Call | None = None


@dataclass(frozen=True)
class Call:
    """One kernel call: ``kernel(params, inputs, outputs, scratch)``.

    ``params`` has the members of the C struct ``<kernel>_params``, all of them and no others (else RuntimeError). An
    input is a tensor, a constant array that ``lower`` made (packed weights, multipliers, tables) or None (a null
    pointer). ``scratch`` is in bytes. ``inplace`` lists the positions in ``inputs`` whose memory output 0 may take
    over: the kernel must then be right when both pointers are equal. ``macs`` counts multiply-accumulates of the node.
    ``weights`` says that and how they may be stored coded, ``decode`` what decodes them then; ``strides``, if any, the
    bytes from slice to slice of every input and output; ``note`` what its constants are, for comments.
    """

    kernel: str
    params: Mapping[str, Param]
    inputs: tuple[Tensor | Array | None, ...]
    outputs: tuple[Tensor, ...]
    scratch: int = 0
    inplace: tuple[int, ...] = ()
    macs: int = 0
    weights: Weights | None = None
    decode: Decode | None = None
    strides: tuple[int, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        check_params(self.kernel, self.params)

    @property
    def calls(self) -> tuple[Call, ...]:
        """What decodes its weights, if anything, and the call itself."""
        before = () if self.decode is None else (self.decode.table, self.decode.codes)
        return (*(call for call in before if call is not None), self)

    @property
    def sequence(self) -> tuple[tuple[Call, int], ...]:
        """All calls as they follow one another, each with the slice that it is for."""
        if self.decode is None:
            return ((self, 0),)
        codes, slices, rest = self.decode.codes, self.decode.slices, self.decode.rest
        once = [(self.decode.table, 0)] if self.decode.table is not None else []
        more = [(codes, slices), (rest, 1)] if rest is not None else []
        return (*once, *((call, i) for i in range(slices) for call in (codes, self)), *more)

    @property
    def written(self) -> tuple[Tensor, ...]:
        """Its outputs, and the weights and tables that are decoded for it."""
        return tuple(tensor for call in self.calls for tensor in call.outputs)


@dataclass(frozen=True)
class Case:
    """A small node that tries an operator. Inputs without data are fed at run time.

    ``inputs`` gives the values to feed (None: random over the type's whole range, floats normal with sigma 3);
    ``oracle`` is the runtime that is right: "tflm", "litert" (its reference kernels) or "none" with ``why``.
    ``tolerance`` is the largest absolute difference of float outputs to reference and oracle (0: the same bits);
    integers are always compared with ``==``. Interpreter and compiled code always give the same bits.
    """

    node: Node
    inputs: tuple[Array, ...] | None = None
    oracle: str = "tflm"
    why: str = ""
    tolerance: float = 0.0


@dataclass(frozen=True)
class Op:
    """One TFLite operator.

    ``infer(node)`` checks the node (ranks, shapes, types, options; ModelError or UnsupportedOperatorError) and returns
    the shape of every output; it needs only the inputs' shapes and constants. ``reference(node, inputs)`` is the
    meaning in plain numpy. ``lower(node, target)`` is called after ``infer`` has agreed with the outputs' shapes.
    """

    name: str
    infer: Callable[[Node], list[Shape]]
    reference: Callable[[Node, list[Any]], list[Array]]
    lower: Callable[[Node, Target], Call]
    cases: Callable[[np.random.Generator], Iterator[Case]]


def tensor(
    shape: Shape,
    type: str = "FLOAT32",
    scale: float | Sequence[float] | None = None,
    zero: int | Sequence[int] = 0,
    axis: int = 0,
    data: Array | None = None,
    name: str = "t",
) -> Tensor:
    """A tensor in one line, for ``cases`` and tests; scale and zero may be sequences (per channel)."""
    from twinfer.runtime.graph import DTYPES, Quant

    quant = None
    if scale is not None:
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        quant = Quant(scales, np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy(), axis)
    if data is not None:
        data = np.ascontiguousarray(data, DTYPES[type]).reshape(shape)
    return Tensor(name, type, tuple(shape), quant, data)


def need(condition: bool, node: Node, message: str) -> None:
    """Raise ModelError naming the node unless ``condition`` holds."""
    if not condition:
        raise ModelError(f"{node}: {message}")


def need_type(node: Node, tensor: Tensor, *types: str) -> None:
    """Raise UnsupportedOperatorError unless the tensor's type is one of ``types``."""
    if tensor.type not in types:
        raise UnsupportedOperatorError(
            f"{node}: {tensor} has a type that twinfer has no kernel for here; supported: {', '.join(types)}"
        )


def unsupported(node: Node, message: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(f"{node}: {message}")
