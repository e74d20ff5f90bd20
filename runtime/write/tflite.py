"""Writes a .tflite file: ``Graph`` -> bytes, the inverse of ``tflite.py``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.runtime.check import check, need_graph
from twinfer.runtime.errors import InvalidArgumentError, ModelError
from twinfer.runtime.graph import DTYPES, PACKED_BITS, Graph, Node, Quant, Signature, Tensor, walk
from twinfer.runtime.read import schema
from twinfer.runtime.read.files import is_stream, need_path
from twinfer.runtime.read.flatbuffer import Damage, Values, at
from twinfer.runtime.write.encode import encode

#: The format's offsets have 32 bits, flatbuffers stops at 31.
MAX_BYTES = (1 << 31) - (1 << 20)


def write(graph: Graph) -> bytes:
    """The .tflite file of a graph, the same bytes for the same graph. Equal constants are stored once.

    Raises ModelError, with the place, if the graph contradicts itself, a value or option does not fit its type, or the
    constants pass 2 GiB.
    """
    need_graph(graph)
    for subgraph in walk(graph):
        check(subgraph, inputs_written=True)
    try:
        return _Writer(graph).file()
    except Damage as damage:
        raise ModelError(f"{graph.name}: {damage}") from None


def check_suffix(path: str | os.PathLike[str]) -> None:
    """InvalidArgumentError for "-" and for the suffix of another kind of file; no suffix is fine."""
    need_path(path)
    if os.fspath(path) == "-":
        raise InvalidArgumentError("-: models are not written to standard output: name a file (or /dev/stdout)")
    file = Path(path)
    if file.suffix.lower() not in ("", ".tflite") and not is_stream(path):
        raise InvalidArgumentError(f"{file}: a .tflite file is written: call it {file.with_suffix('.tflite')}")


class _Writer:
    """One file while it is written: the parts that all subgraphs share."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.codes: dict[tuple[str, int], int] = {}
        self.buffers: list[memoryview | None] = [None]  # buffer 0 stands for "no data"
        self.known: dict[bytes, int] = {}
        self.bytes = 0

    def file(self) -> bytes:
        graphs = tuple(walk(self.graph))
        values = {
            "version": schema.VERSION,
            "subgraphs": [self._subgraph(i, graph) for i, graph in enumerate(graphs)],
            "description": self.graph.description or None,
            "metadata": self._metadata(self.graph.metadata) or None,
            "signature_defs": [_signature(signature, graphs) for signature in self.graph.signatures] or None,
            "operator_codes": [_operator_code(op, version) for op, version in self.codes],
            "buffers": [{"data": data} for data in self.buffers],
        }
        return encode("Model", values)

    def _subgraph(self, index: int, graph: Graph) -> Values:
        positions = {tensor: i for i, tensor in enumerate(graph.tensors)}
        with at(f"subgraph {index}"):
            return {
                "tensors": [self._tensor(i, tensor, positions) for i, tensor in enumerate(graph.tensors)],
                "operators": [self._operator(node, positions) for node in graph.nodes],
                "inputs": _indices(graph.inputs, positions),
                "outputs": _indices(graph.outputs, positions),
                "name": graph.extra.get("subgraph_name", graph.name) or None,
            }

    def _tensor(self, index: int, tensor: Tensor, positions: Mapping[Tensor, int]) -> Values:
        with at(f"tensor {index} {tensor.name!r}"):
            extra = tensor.extra
            return {
                "name": tensor.name or None,
                "type": tensor.type,
                "shape": tensor.shape,
                "shape_signature": tensor.shape_signature or None,
                "buffer": self._constant(tensor),
                "quantization": _quantization(tensor.quant, extra, positions),
                "is_variable": tensor.variable,
                **{key: extra[key] for key in ("has_rank", "sparsity", "variant_tensors") if key in extra},
            }

    def _constant(self, tensor: Tensor) -> int:
        """The buffer of a tensor's value; 0 if it has none."""
        data = tensor.data
        if data is None:
            return 0
        plain = tensor.type in DTYPES and "sparsity" not in tensor.extra
        dtype, shape = (tensor.dtype, tensor.shape) if plain else (np.dtype(np.uint8), (data.size,))
        if data.dtype != dtype or data.shape != shape:
            raise Damage(f"the value is {data.dtype}{list(data.shape)}, it should be {dtype}{list(shape)}")
        if tensor.type in PACKED_BITS and "sparsity" not in tensor.extra and data.size != tensor.nbytes:
            raise Damage(f"the value has {data.size} bytes, {tensor.type}{list(tensor.shape)} takes {tensor.nbytes}")
        return self._buffer(np.ascontiguousarray(data, dtype).reshape(-1).view(np.uint8).data)

    def _buffer(self, data: memoryview) -> int:
        """The index of a buffer with these bytes, made on first use."""
        key = hashlib.sha256(data).digest()
        if key not in self.known:
            self.known[key] = len(self.buffers)
            self.buffers.append(data)
            self.bytes += len(data) + 32
            if self.bytes > MAX_BYTES:
                raise Damage(
                    "the constants are larger than 2 GiB, the limit of the format: split or quantise the model"
                )
        return self.known[key]

    def _operator(self, node: Node, positions: Mapping[Tensor, int]) -> Values:
        with at(f"operator {node.index} {node.op}"):
            _split(node.op)
            code = self.codes.setdefault((node.op, node.version), len(self.codes))
            return {
                "opcode_index": code,
                "inputs": _indices(node.inputs, positions),
                "outputs": _indices(node.outputs, positions),
                "custom_options": node.extra.get("custom_options"),
                "mutating_variable_inputs": node.extra.get("mutating_variable_inputs"),
                "intermediates": _indices(node.extra.get("intermediates", ()), positions) or None,
                **_options(node),
            }

    def _metadata(self, metadata: Mapping[str, bytes]) -> list[Values]:
        return [{"name": name, "buffer": self._buffer(memoryview(data))} for name, data in metadata.items()]


def _indices(tensors: Sequence[Tensor | None], positions: Mapping[Tensor, int]) -> tuple[int, ...]:
    """Positions in the subgraph; -1 for None."""
    for tensor in tensors:
        if tensor is not None and tensor not in positions:
            raise Damage(f"{tensor} is not among the graph's tensors")
    return tuple(-1 if tensor is None else positions[tensor] for tensor in tensors)


def _quantization(quant: Quant | None, extra: Mapping[str, Any], positions: Mapping[Tensor, int]) -> Values | None:
    values: Values = {key: extra[key] for key in ("min", "max") if key in extra}
    if quant is not None:
        values["scale"] = quant.scale.tolist()
        values["zero_point"] = quant.zero_point.tolist()
        values["quantized_dimension"] = quant.axis
    if "details" in extra:
        kind, details = extra["details"]
        tensors = {key: _indices([details[key]], positions)[0] for key in ("scales", "zero_points") if key in details}
        values["details"] = kind, {**details, **tensors}
    return values or None


def _options(node: Node) -> Values:
    """The options table in the union that it belongs to."""
    table = schema.OPERATOR_OPTIONS.get(node.op)
    known = table.defaults if table else {}
    for key in node.options:
        if key not in known:
            raise Damage(f"there is no option {key!r}; the options are: {', '.join(known) or 'none'}")
    if table is None:
        return {}
    union = "builtin_options" if table.name in schema.UNIONS["BuiltinOptions"] else "builtin_options_2"
    values = {**known, **node.options}
    return {union: (table.name, {key: None if value == b"" else value for key, value in values.items()})}


def _split(op: str) -> tuple[str, str]:
    """Name of the operator in the format and, for custom operators, their own; Damage if there is none of the name."""
    name, _, custom = op.partition(":")
    if name not in schema.ENUMS["BuiltinOperator"].names or (name == "CUSTOM") != bool(custom):
        raise Damage("this is not an operator of the format; custom operators are called CUSTOM:name")
    return name, custom


def _operator_code(op: str, version: int) -> Values:
    name, custom = _split(op)
    names = schema.ENUMS["BuiltinOperator"].names
    placeholder = names.index("PLACEHOLDER_FOR_GREATER_OP_CODES")  # what old readers see of newer operators
    return {
        "builtin_code": names.index(name),
        "deprecated_builtin_code": min(names.index(name), placeholder),
        "custom_code": custom or None,
        "version": version,
    }


def _signature(signature: Signature, graphs: Sequence[Graph]) -> Values:
    with at(f"signature {signature.key!r}"):
        if not 0 <= signature.subgraph < len(graphs):
            raise Damage(f"subgraph {signature.subgraph} does not exist, there are {len(graphs)}")
        positions = {tensor: i for i, tensor in enumerate(graphs[signature.subgraph].tensors)}
        return {
            "signature_key": signature.key,
            "subgraph_index": signature.subgraph,
            "inputs": _tensor_map(signature.inputs, positions),
            "outputs": _tensor_map(signature.outputs, positions),
        }


def _tensor_map(tensors: Mapping[str, Tensor], positions: Mapping[Tensor, int]) -> list[Values]:
    return [{"name": name, "tensor_index": _indices([tensor], positions)[0]} for name, tensor in tensors.items()]
