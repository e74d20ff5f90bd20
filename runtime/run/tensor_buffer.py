"""The names of LiteRT's ``CompiledModel``: buffers that a caller keeps, and runs from buffers to buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.run.names import Names

if TYPE_CHECKING:
    from twinfer.runtime.run.signature_runner import SignatureRunner

#: What LiteRT calls the signature of a model without signatures.
PLACEHOLDER = "<placeholder signature>"


class TensorBuffer:
    """Memory for the value of a tensor. LiteRT's copies bytes of any type; here a type that is not the tensor's is
    refused, and new memory is zero."""

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array

    @classmethod
    def create_from_host_memory(cls, data_array: Array) -> TensorBuffer:
        """A buffer that is this very array, which must lie in one piece."""
        if not isinstance(data_array, np.ndarray) or not data_array.flags.c_contiguous:
            raise InvalidArgumentError("a buffer over memory of yours takes a C-contiguous numpy array")
        return cls(data_array)

    @property
    def array(self) -> Array:
        """The values; InvalidArgumentError after ``destroy``."""
        if self._array is None:
            raise InvalidArgumentError("this TensorBuffer has been destroyed")
        return self._array

    def write(self, data_array: Array) -> None:
        """Copies the elements of an array of the tensor's type to the buffer's first elements."""
        if not isinstance(data_array, np.ndarray):
            raise InvalidArgumentError(f"a buffer takes a numpy array, not {type(data_array).__name__}")
        self._check(data_array.dtype, data_array.size)
        self.array.reshape(-1)[: data_array.size] = data_array.reshape(-1)

    def read(self, num_elements: int, output_dtype: Any) -> Array:
        """A copy of the first elements, [num_elements]."""
        self._check(np.dtype(output_dtype), num_elements)
        return self.array.reshape(-1)[:num_elements].copy()

    def _check(self, dtype: Any, elements: int) -> None:
        if dtype != self.array.dtype:
            raise InvalidArgumentError(f"this buffer holds {self.array.dtype}, not {dtype}")
        if not 0 <= elements <= self.array.size:
            raise InvalidArgumentError(f"{elements} elements do not fit this buffer, which has {self.array.size}")

    def get_tensor_details(self) -> dict[str, Any]:
        """Its "dtype" and "shape"."""
        return {"dtype": self.array.dtype.name, "shape": list(self.array.shape)}

    def destroy(self) -> None:
        """Gives the memory back."""
        self._array = None


class BufferRuns(Names):
    """Part of ``Interpreter``: what LiteRT's ``CompiledModel`` has. Signatures count in the file's order, their inputs
    and outputs in that of their subgraph, as there."""

    if TYPE_CHECKING:

        def invoke(self) -> None: ...
        def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner: ...

    def get_num_signatures(self) -> int:
        return len(self._keys())

    def get_signature_index(self, key: str) -> int:
        """The number of a signature, -1 if there is none of that name."""
        keys = self._keys()
        return keys.index(key) if key in keys else -1

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """Its "key", and names of its "inputs" and "outputs"."""
        keys = self._keys()
        if not 0 <= index < len(keys):
            raise InvalidArgumentError(f"there is no signature {index}: the model has {len(keys)}")
        ends = self._ends(keys[index])
        return {"key": keys[index], "inputs": [*ends[0]], "outputs": [*ends[1]]}

    def get_input_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """Name of an input -> its name, index, dtype and shape as it is now."""
        return self._about(signature_key, 0)

    def get_output_tensor_details(self, signature_key: str) -> dict[str, Any]:
        return self._about(signature_key, 1)

    def get_input_buffer_requirements(self, input_index: int, signature_index: int = 0) -> dict[str, Any]:
        """The "buffer_size" in bytes; 1, memory of this computer, is the only type."""
        return _requirements(self.create_input_buffers(signature_index), input_index)

    def get_output_buffer_requirements(self, output_index: int, signature_index: int = 0) -> dict[str, Any]:
        return _requirements(self.create_output_buffers(signature_index), output_index)

    def is_fully_accelerated(self) -> bool:
        """Always: there is nothing slower to fall back on."""
        return True

    def create_input_buffers(self, signature_index: int = 0) -> list[TensorBuffer]:
        """A new buffer for every input."""
        return [*self._buffers(self.get_signature_by_index(signature_index)["key"], 0).values()]

    def create_output_buffers(self, signature_index: int = 0) -> list[TensorBuffer]:
        return [*self._buffers(self.get_signature_by_index(signature_index)["key"], 1).values()]

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        return _named(self._buffers(signature_key, 0), input_name)

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        return _named(self._buffers(signature_key, 1), output_name)

    def run_by_name(
        self,
        signature_key: str,
        input_map: Mapping[str, TensorBuffer],
        output_map: Mapping[str, TensorBuffer],
    ) -> None:
        """One run: inputs from buffers, outputs into buffers. InvalidArgumentError for names, types and shapes that do
        not fit."""
        names, outputs = self._ends(signature_key)
        for given, wanted in ((input_map, names), (output_map, outputs)):
            if {*given} != {*wanted}:
                raise InvalidArgumentError(f"{signature_key!r} has {', '.join(wanted)}, not {', '.join(given)}")
        for name, detail in self._about(signature_key, 1).items():
            into = output_map[name].array
            if into.dtype.name != detail["dtype"] or [*into.shape] != detail["shape"]:
                raise InvalidArgumentError(f"the buffer of {name!r} is {into.dtype} {[*into.shape]}, not {detail}")
        values = {name: buffer.array for name, buffer in input_map.items()}
        with self._lock:
            if signature_key in self._signatures:
                results = self.get_signature_runner(signature_key)(**values)
            else:
                self.allocate_tensors()
                for name, index in names.items():
                    self.set_tensor(index, values[name])
                self.invoke()
                results = {name: self.get_tensor(index) for name, index in outputs.items()}
        for name, value in results.items():
            output_map[name].write(value)

    def run_by_index(
        self,
        signature_index: int,
        input_buffers: Sequence[TensorBuffer],
        output_buffers: Sequence[TensorBuffer],
    ) -> None:
        """``run_by_name``, with buffers in the order of inputs and outputs."""
        about = self.get_signature_by_index(signature_index)
        maps = []
        for end, buffers in (("inputs", input_buffers), ("outputs", output_buffers)):
            if len(buffers) != len(about[end]):
                raise InvalidArgumentError(f"{about['key']!r} has {len(about[end])} {end}, not {len(buffers)}")
            maps.append(dict(zip(about[end], buffers, strict=True)))
        self.run_by_name(about["key"], *maps)

    def resize_input_tensor(
        self, input_index: int, dims: Sequence[int], signature_index: int = 0, strict: bool = True
    ) -> None:
        """Gives an input of a signature another shape, and needs new buffers; ``strict``: only open dimensions."""
        about = self.get_signature_by_index(signature_index)
        if not 0 <= input_index < len(about["inputs"]):
            raise InvalidArgumentError(f"there is no input {input_index}: {about['key']!r} has {len(about['inputs'])}")
        self.resize_input_tensor_by_name(about["key"], about["inputs"][input_index], dims, strict)

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        from twinfer.runtime.shapes import shape_of

        inputs, _ = self._ends(signature_key)
        if input_name not in inputs:
            raise InvalidArgumentError(f"there is no input {input_name!r}; there are: {', '.join(inputs)}")
        signature = self._signatures.get(signature_key)
        with self._lock:
            self._subgraph(0 if signature is None else signature.subgraph).resize(
                inputs[input_name], shape_of(dims), strict
            )

    def _keys(self) -> list[str]:
        return [*self._signatures] or [PLACEHOLDER]

    def _ends(self, key: str) -> tuple[dict[str, int], dict[str, int]]:
        """Names of inputs and of outputs -> the tensors' numbers, in the order of the subgraph."""
        signature = self._signatures.get(key)
        if signature is None and key not in self._keys():
            raise InvalidArgumentError(f"there is no signature {key!r}; there are: {', '.join(self._keys())}")
        graph = self._subgraphs[0 if signature is None else signature.subgraph].file_graph
        index = {tensor: i for i, tensor in enumerate(graph.tensors)}

        def named(tensors: Sequence[Tensor], names: Mapping[str, Tensor] | None) -> dict[str, int]:
            pairs = [(t.name, t) for t in tensors] if names is None else names.items()
            return {name: index[t] for name, t in sorted(pairs, key=lambda pair: [*tensors].index(pair[1]))}

        inputs, outputs = (None, None) if signature is None else (signature.inputs, signature.outputs)
        return named(graph.inputs, inputs), named(graph.outputs, outputs)

    def _about(self, key: str, end: int) -> dict[str, Any]:
        indices = self._ends(key)[end]
        signature = self._signatures.get(key)
        subgraph = self._subgraphs[0 if signature is None else signature.subgraph]
        with self._lock:
            every = {name: subgraph.details(i) for name, i in indices.items()}
        return {
            name: {
                "name": each["name"],
                "index": each["index"],
                "dtype": np.dtype(each["dtype"]).name,
                "shape": each["shape"].tolist(),
            }
            for name, each in every.items()
        }

    def _buffers(self, key: str, end: int) -> dict[str, TensorBuffer]:
        every = self._about(key, end)
        return {name: TensorBuffer(np.zeros(each["shape"], each["dtype"])) for name, each in every.items()}


def _named(buffers: Mapping[str, TensorBuffer], name: str) -> TensorBuffer:
    if name not in buffers:
        raise InvalidArgumentError(f"there is no tensor {name!r}; there are: {', '.join(buffers)}")
    return buffers[name]


def _requirements(buffers: Sequence[TensorBuffer], index: int) -> dict[str, Any]:
    if not 0 <= index < len(buffers):
        raise InvalidArgumentError(f"there is no tensor {index}: the signature has {len(buffers)}")
    return {"buffer_size": buffers[index].array.nbytes, "supported_types": [1]}
