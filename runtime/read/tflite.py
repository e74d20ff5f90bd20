"""Reads a .tflite file: bytes -> ``Graph``. The trust boundary: the file is untrusted, the graph is proven."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError, ModelError, ModelWarning
from twinfer.runtime.graph import EMPTY, Graph, Node, Signature, Tensor, walk
from twinfer.runtime.read import schema
from twinfer.runtime.read.files import read_bytes
from twinfer.runtime.read.flatbuffer import Damage, Reader, Values, at
from twinfer.runtime.read.subgraphs import check_calls, written_once
from twinfer.runtime.read.tflite_tensor import pick, pick_buffer, pick_optional, read_tensors


def read(data: bytes | bytearray | memoryview, name: str = "model") -> Graph:
    """The graph of a .tflite file in memory; constants are read-only views of ``data``, not copies.

    Raises ModelError, with the place and the reason, if anything in the file is damaged. Operators that twinfer has no
    kernel for are no damage: planning rejects them. Warns with ModelWarning about what it repairs.
    """
    graph, repaired = parse(data, name)
    if repaired:
        warnings.warn(repaired, ModelWarning, stacklevel=2)
    return graph


def parse(data: bytes | bytearray | memoryview, name: str) -> tuple[Graph, str]:
    """The graph as ``read`` gives it, and in words what was repaired in it; "" if nothing was, and no warning."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgumentError(f"a model's content is the bytes of a file, not {type(data).__name__}")
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"a model's content is the bytes of a file: {error}") from None
    try:
        model = _Model(view, name)
        return model.graph(), model.repairs()
    except Damage as damage:
        raise ModelError(f"{name}: {damage}") from None


def read_file(path: str | os.PathLike[str]) -> Graph:
    """The graph of a .tflite file; its name is the file's without the suffix.

    Raises InvalidArgumentError if there is no such file or it cannot be read, ModelError if it is damaged.
    """
    return read(read_bytes(path), Path(path).stem)


class _Model:
    """One file while it is read."""

    def __init__(self, data: memoryview, name: str) -> None:
        self.name = name
        self.reader = Reader(data)
        self.root = self.reader.root("Model")
        if self.root["version"] != schema.VERSION:
            raise Damage(f"schema version {self.root['version']} is not {schema.VERSION}", "field version")
        self.whole = np.frombuffer(data, np.uint8)
        self.whole.flags.writeable = False
        self.repaired: list[str] = []
        self.buffers = [self._buffer(i, buffer) for i, buffer in enumerate(self.root["buffers"])]
        self.codes = [_operator_code(i, code) for i, code in enumerate(self.root["operator_codes"])]

    def graph(self) -> Graph:
        if not self.root["subgraphs"]:
            raise Damage("the model has no subgraph")
        main, *others = (self._subgraph(i, raw) for i, raw in enumerate(self.root["subgraphs"]))
        graph = replace(
            main,
            name=self.name,
            subgraphs=tuple(others),
            metadata=self._metadata(),
            description=self.root["description"],
            extra={"subgraph_name": main.name},
        )
        check_calls(tuple(walk(graph)))
        return replace(graph, signatures=self._signatures(tuple(walk(graph))))

    def repairs(self) -> str:
        """What was repaired in the graph, or nothing."""
        if not self.repaired:
            return ""
        names = ", ".join(map(repr, self.repaired[:3])) + (", …" if len(self.repaired) > 3 else "")
        what = "1-D tensors have a quantized_dimension they do not have, axis 0 was assumed"
        return f"{self.name}: {len(self.repaired)} {what}: {names}"

    def _outside(self, offset: int, size: int, place: str) -> NDArray[np.uint8]:
        """Bytes of the file that lie outside of the flatbuffer."""
        if offset + size > self.whole.size:
            raise Damage(f"{size} bytes at {offset} reach outside of the file ({self.whole.size} bytes)", place)
        return self.whole[offset : offset + size]

    def _buffer(self, index: int, buffer: Values) -> NDArray[np.uint8] | None:
        """The bytes of a buffer, aligned for every dtype; None if it has none. Buffer 0 stands for "no data"."""
        if index == 0:
            return None
        if buffer["data"] is not None:
            data = np.frombuffer(buffer["data"], np.uint8)
        elif buffer["offset"] > 1:  # 1: a converter reserved the field and never filled it
            data = self._outside(buffer["offset"], buffer["size"], f"buffer {index}, field offset")
        else:
            return None
        if data.size and data.ctypes.data % 8:
            with at(f"buffer {index}"):
                self.reader.spend(data.size)
            data = data.copy()
        data.flags.writeable = False
        return data

    def _subgraph(self, index: int, raw: Values) -> Graph:
        with at(f"subgraph {index}"):
            tensors = read_tensors(raw["tensors"], self.buffers, self.repaired)
            nodes = []
            for i, operator in enumerate(raw["operators"]):
                with at(f"operator {i}"):
                    nodes.append(self._node(i, operator, tensors))
            graph = written_once(
                Graph(
                    name=raw["name"],
                    tensors=tensors,
                    nodes=tuple(nodes),
                    inputs=pick(tensors, raw["inputs"], "inputs"),
                    outputs=pick(tensors, raw["outputs"], "outputs"),
                )
            )
            try:
                check(graph, inputs_written=True)
            except ModelError as error:
                raise Damage(str(error)) from None
            return graph

    def _node(self, index: int, raw: Values, tensors: Sequence[Tensor]) -> Node:
        code = raw["opcode_index"]
        if code >= len(self.codes):
            raise Damage(f"operator code {code} does not exist, there are {len(self.codes)}", "field opcode_index")
        op, version = self.codes[code]
        with at(op):
            outputs = pick(tensors, raw["outputs"], "outputs")
            return Node(
                op=op,
                inputs=pick_optional(tensors, raw["inputs"], "inputs"),
                outputs=outputs,
                options=_options(op, raw),
                version=version,
                index=index,
                extra=self._node_extra(raw, tensors),
            )

    def _node_extra(self, raw: Values, tensors: Sequence[Tensor]) -> Mapping[str, Any]:
        extra: dict[str, Any] = {}
        custom = raw["custom_options"]
        if raw["large_custom_options_offset"] > 1:
            place = "field large_custom_options_offset"
            custom = self._outside(raw["large_custom_options_offset"], raw["large_custom_options_size"], place)
        if custom is not None and len(custom):
            self.reader.spend(len(custom))
            extra["custom_options"] = bytes(custom)
        if raw["intermediates"]:
            extra["intermediates"] = pick_optional(tensors, raw["intermediates"], "intermediates")
        if any(raw["mutating_variable_inputs"]):
            extra["mutating_variable_inputs"] = raw["mutating_variable_inputs"]
        return MappingProxyType(extra) if extra else EMPTY

    def _metadata(self) -> Mapping[str, bytes]:
        metadata: dict[str, bytes] = {}
        for i, entry in enumerate(self.root["metadata"]):
            with at("Metadata", i, entry["name"]):
                data = pick_buffer(self.buffers, entry["buffer"])
                self.reader.spend(0 if data is None else data.size)
                metadata[entry["name"]] = b"" if data is None else data.tobytes()
        return MappingProxyType(metadata)

    def _signatures(self, graphs: Sequence[Graph]) -> tuple[Signature, ...]:
        signatures = []
        for i, raw in enumerate(self.root["signature_defs"]):
            with at(f"signature {i} {raw['signature_key']!r}"):
                index = raw["subgraph_index"]
                if index >= len(graphs):
                    raise Damage(f"subgraph {index} does not exist, there are {len(graphs)}", "field subgraph_index")
                tensors = graphs[index].tensors
                inputs = _tensor_map(raw["inputs"], tensors, "inputs")
                outputs = _tensor_map(raw["outputs"], tensors, "outputs")
                signatures.append(Signature(raw["signature_key"], inputs, outputs, index))
        return tuple(signatures)


def _operator_code(index: int, raw: Values) -> tuple[str, int]:
    """Name and version. Files from before 2020 have their code in the deprecated field only."""
    with at(f"operator code {index}"):
        names = schema.ENUMS["BuiltinOperator"].names
        code = max(raw["builtin_code"], raw["deprecated_builtin_code"])
        if not 0 <= code < len(names) or names[code] == "PLACEHOLDER_FOR_GREATER_OP_CODES":
            raise Damage(f"code {code} is no operator (they go from 0 to {len(names) - 1})", "field builtin_code")
        op = names[code]
        if op == "CUSTOM":
            if not raw["custom_code"]:
                raise Damage("a custom operator needs a name", "field custom_code")
            op += ":" + raw["custom_code"]
        return op, raw["version"]


def _options(op: str, raw: Values) -> Mapping[str, Any]:
    """The operator's options with all defaults filled in."""
    table = schema.OPERATOR_OPTIONS.get(op)
    options = schema.default_options(op)
    for field in ("builtin_options", "builtin_options_2"):
        if raw[field] is None:
            continue
        name, values = raw[field]
        if table is None or table.name != name:
            expected = "no options" if table is None else table.name
            raise Damage(f"the options are {name}, {op} has {expected}", f"field {field}")
        for key, value in values.items():
            options[key] = bytes(value or b"") if isinstance(options[key], bytes) else value
    return MappingProxyType(options)


def _tensor_map(entries: Sequence[Values], tensors: Sequence[Tensor], field: str) -> Mapping[str, Tensor]:
    named: dict[str, Tensor] = {}
    for entry in entries:
        if entry["name"] in named:
            raise Damage(f"the name {entry['name']!r} is used twice", f"field {field}")
        named[entry["name"]] = pick(tensors, [entry["tensor_index"]], field)[0]
    return MappingProxyType(named)
