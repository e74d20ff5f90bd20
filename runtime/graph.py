"""The model as immutable data, in TFLite's terms: ``Graph`` of ``Node`` over ``Tensor``.

Nothing is changed after it was made; a pass is a function ``Graph -> Graph``. Tensors and nodes compare by
identity, so that they can be keys. Constants are numpy arrays in ``Tensor.data``.
"""

from __future__ import annotations

import copyreg
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.errors import ModelError, UnsupportedOperatorError


# Constants of models are read-only mappings, which Python alone neither pickles nor copies.
def _frozen(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


copyreg.pickle(MappingProxyType, lambda mapping: (_frozen, (dict(mapping),)))

#: A numpy array of any type and shape.
Array = NDArray[Any]

#: TFLite tensor type -> numpy dtype that holds one element. Types without one (STRING, RESOURCE, VARIANT) are absent;
#: the types of ``PACKED_BITS`` are kept as their raw bytes in ``Tensor.data``.
DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        name: np.dtype(kind)
        for name, kind in (
            ("FLOAT32", "<f4"), ("FLOAT16", "<f2"), ("FLOAT64", "<f8"), ("INT8", "i1"), ("INT16", "<i2"),
            ("INT32", "<i4"), ("INT64", "<i8"), ("UINT8", "u1"), ("UINT16", "<u2"), ("UINT32", "<u4"),
            ("UINT64", "<u8"), ("BOOL", "?"), ("COMPLEX64", "<c8"), ("COMPLEX128", "<c16"),
        )
    }
)  # fmt: skip

#: Integer type -> the least and the greatest value of an element.
LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in DTYPES.items() if dtype.kind in "iu"}
)

#: Bits of one element of the types that numpy lacks.
PACKED_BITS: Mapping[str, int] = MappingProxyType(
    {"INT4": 4, "UINT4": 4, "INT2": 2, "BFLOAT16": 16, "FLOAT8_E4M3FN": 8, "FLOAT8_E5M2": 8}
)

EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Quant:
    """Affine quantisation ``real = scale * (q - zero_point)``; several elements: per channel along ``axis``."""

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int = 0

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int = 0) -> Quant:
        return cls(np.array([scale], np.float32), np.array([zero_point], np.int64))

    @property
    def per_channel(self) -> bool:
        return self.scale.size > 1

    @cached_property
    def scales(self) -> NDArray[np.float64]:
        """The scales, exactly, in the type that multipliers are computed in."""
        return self.scale.astype(np.float64)

    @cached_property
    def usable(self) -> bool:
        """Whether no scale is negative, infinite or not a number."""
        return bool(np.isfinite(self.scale).all() and (self.scale >= 0).all())

    @cached_property
    def zeros_of_bytes(self) -> bool:
        """Whether there is a zero point per scale, and int8 holds them all."""
        return self.zero_point.size == self.scale.size and bool((np.abs(self.zero_point + 0.5) < 128).all())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Quant)
            and self.axis == other.axis
            and np.array_equal(self.scale, other.scale, equal_nan=True)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Tensor:
    """One value of the graph.

    ``shape`` is the static shape; ``shape_signature`` keeps -1 where the file leaves a dimension open (empty: none is).
    ``data`` is the constant's value with dtype ``DTYPES[type]`` and shape ``shape`` (raw uint8 for packed types,
    strings and sparse tensors), or None. ``variable`` tensors keep their value between runs.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    quant: Quant | None = None
    data: Array | None = None
    variable: bool = False
    shape_signature: tuple[int, ...] = ()
    #: What only the file format knows: sparsity, quantisation's min and max, …
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def dtype(self) -> np.dtype[Any]:
        try:
            return DTYPES[self.type]
        except KeyError:
            raise ModelError(f"tensor {self.name!r}: type {self.type} has no fixed-size elements") from None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the value; packed types round up to whole bytes."""
        if self.type in PACKED_BITS:
            return (self.size * PACKED_BITS[self.type] + 7) // 8
        return self.size * self.dtype.itemsize

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value of an element; ModelError if they are no integers."""
        if self.type not in LIMITS:
            raise ModelError(f"{self}: its elements are no integers of whole bytes")
        return LIMITS[self.type]

    @cached_property
    def too_large(self) -> bool:
        """Whether it has 2 GiB or more, which int32 offsets do not reach; a dimension of 0 counts as 1."""
        bits = PACKED_BITS.get(self.type) or 8 * self.dtype.itemsize
        return math.prod(max(d, 1) for d in self.shape) * bits >= 8 << 31

    @property
    def scale(self) -> float:
        """Per-tensor scale as float64 (exactly the file's float32); ModelError if there is none."""
        return self._affine[0]

    @property
    def zero(self) -> int:
        """Per-tensor zero point; ModelError if there is none."""
        return self._affine[1]

    @cached_property
    def _affine(self) -> tuple[float, int]:
        if self.quant is None or self.quant.per_channel:
            what = "no quantisation" if self.quant is None else "per-channel quantisation"
            raise ModelError(
                f"{self} has {what}, a single scale and zero point are needed here: quantise it per tensor"
            )
        return float(self.quant.scale[0]), int(self.quant.zero_point[0])

    def __str__(self) -> str:
        return self._said

    @cached_property
    def _said(self) -> str:  # messages are made before it is known whether they are needed
        return f"tensor {self.name!r} {self.type}{list(self.shape)}"


@dataclass(frozen=True, eq=False)
class Node:
    """One operator application. ``op`` is TFLite's name (custom: ``CUSTOM:name``); absent optional inputs are None."""

    op: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    version: int = 1
    index: int = 0  # position in its subgraph, for messages
    #: What only the file format knows: custom options, intermediates, …
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def input(self, i: int) -> Tensor:
        """Input ``i``; ModelError if it is absent."""
        tensor = self.inputs[i] if i < len(self.inputs) else None
        if tensor is None:
            raise ModelError(f"{self}: input {i} is missing")
        return tensor

    def optional(self, i: int) -> Tensor | None:
        return self.inputs[i] if i < len(self.inputs) else None

    @property
    def output(self) -> Tensor:
        """Output 0."""
        if not self.outputs:
            raise ModelError(f"{self}: it has no output")
        return self.outputs[0]

    def constant(self, i: int) -> Array:
        """Value of input ``i``, which must be a constant; UnsupportedOperatorError if it is computed at run time."""
        tensor = self.input(i)
        if tensor.data is None:
            advice = "if it is an input of the model, twinfer convert --constant NAME=VALUE makes it one"
            raise UnsupportedOperatorError(f"{self}: input {i} ({tensor}) must be a constant: {advice}")
        return tensor.data

    def __str__(self) -> str:
        out = f" -> {self.outputs[0].name!r}" if self.outputs else ""
        return f"operator {self.index} {self.op}{out}"


@dataclass(frozen=True)
class Signature:
    """A named entry point: argument and result names to tensors of subgraph ``subgraph``."""

    key: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    subgraph: int = 0

    def over(self, of: Callable[[Tensor], Tensor]) -> Signature:
        """The signature for a graph in which ``of(t)`` stands for every tensor t."""
        inputs, outputs = ({key: of(t) for key, t in named.items()} for named in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs)


@dataclass(frozen=True, eq=False)
class Graph:
    """A model: the main subgraph, and in ``subgraphs`` (from index 1 on) those that control flow calls.

    ``tensors`` are in the file's order (LiteRT's tensor index is the position); ``nodes`` are in execution order.
    """

    name: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    signatures: tuple[Signature, ...] = ()
    subgraphs: tuple[Graph, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=lambda: EMPTY)
    description: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def said(self) -> str:
        """The graph in a line: its name, inputs, outputs, and how many operators it has."""
        ends = (", ".join(f"{t.name} {t.type}{list(t.shape)}" for t in side) for side in (self.inputs, self.outputs))
        return f"{self.name!r}: {' -> '.join(ends)}, {len(self.nodes)} operators"

    def __repr__(self) -> str:
        return f"<Graph {self.said}>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the .tflite file, whole or not at all; ``twinfer.write(graph)`` gives its bytes.

        Raises ModelError as ``write`` does, InvalidArgumentError if the path cannot be written or has another suffix.
        """
        from twinfer.runtime.read.files import write_whole
        from twinfer.runtime.write.tflite import check_suffix, write

        check_suffix(path)
        content = write(self)
        write_whole(path, lambda file: file.write(content))

    def _repr_html_(self) -> str:
        from twinfer.runtime.write.html import graph_html

        return graph_html(self)


def consumers(graph: Graph) -> dict[Tensor, list[Node]]:
    """Which nodes read each tensor, in execution order (a node that reads it twice is listed once)."""
    readers: dict[Tensor, list[Node]] = {}
    for node in graph.nodes:
        for tensor in dict.fromkeys(node.inputs):
            if tensor is not None:
                readers.setdefault(tensor, []).append(node)
    return readers


def walk(graph: Graph) -> Iterator[Graph]:
    """The main subgraph, then the others, in index order."""
    yield graph
    yield from graph.subgraphs
