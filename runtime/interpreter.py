"""The interpreter: LiteRT's Python API over a plan, so that a user changes one import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.graph import Graph, Signature, Tensor, walk
from twinfer.runtime.op import Array, Shape
from twinfer.runtime.plan import Plan, make_plan
from twinfer.runtime.session import Hook, Session
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.tflite import read, read_file


class _Program:
    """One subgraph on its way to running: sizes asked for, then the engine that holds its tensors."""

    def __init__(self, graph: Graph) -> None:
        self.file_graph = graph
        self.graph = graph
        self.wanted: dict[int, Shape] = {}
        self.engine: Session | None = None

    def ready(self) -> Session:
        if self.engine is None:
            raise NotReadyError("the tensors are not allocated: call allocate_tensors() first")
        return self.engine

    def tensor(self, index: int) -> Tensor:
        count = len(self.graph.tensors)
        if not isinstance(index, int | np.integer) or not 0 <= index < count:
            raise InvalidArgumentError(f"tensor index {index} is outside 0..{count - 1}")
        return self.graph.tensors[int(index)]

    def resize(self, index: int, shape: Shape, strict: bool) -> None:
        old = self.tensor(index)
        if old not in self.graph.inputs:
            raise InvalidArgumentError(f"only inputs can be resized, {old} is none")
        if any(d < 0 for d in shape):
            raise InvalidArgumentError(f"{old} cannot have the shape {list(shape)}")
        if strict:
            signature = old.shape_signature or old.shape
            if len(signature) != len(shape) or any(s not in (-1, d) for s, d in zip(signature, shape, strict=True)):
                raise InvalidArgumentError(f"{old}: strict resizing to {list(shape)} against {list(signature)}")
        if shape == self.wanted.get(index, old.shape):
            return
        self.wanted[index] = shape
        self.engine = None

    def resized(self) -> Graph:
        if not self.wanted:
            return self.file_graph
        return infer_shapes(self.file_graph, {self.file_graph.tensors[i]: shape for i, shape in self.wanted.items()})


class Interpreter:
    """Runs a .tflite model operator by operator; the methods are those of LiteRT's ``Interpreter``.

    ``model_path`` or ``model_content`` (bytes) gives the model. ``experimental_preserve_all_tensors`` gives every
    tensor memory of its own, so that intermediate ones can be read after a run. ``on_call(position, step)``, ours
    alone, is called after every kernel call; without it the whole plan runs in one C call. Delegates, threads and op
    resolvers have no meaning here: delegates are refused, the others are accepted and change nothing.

    Raises ModelError for a damaged model. Operators without a kernel raise UnsupportedOperatorError in
    ``allocate_tensors``, before anything runs.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[object] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: object = None,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        *,
        on_call: Hook | None = None,
    ) -> None:
        if experimental_delegates:
            raise InvalidArgumentError("delegates are not supported: twinfer runs its own kernels")
        if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
            raise InvalidArgumentError(f"num_threads must be a positive integer, not {num_threads!r}")
        if (model_path is None) == (model_content is None):
            raise InvalidArgumentError("give one of model_path and model_content")
        graph = read_file(model_path) if model_path is not None else read(model_content or b"")
        self._setup(graph, experimental_preserve_all_tensors, on_call)

    @classmethod
    def from_graph(cls, graph: Graph, *, preserve_all: bool = False, on_call: Hook | None = None) -> Self:
        """The same over a Graph that is in memory already."""
        self = cls.__new__(cls)
        self._setup(graph, preserve_all, on_call)
        return self

    def _setup(self, graph: Graph, preserve_all: bool, on_call: Hook | None) -> None:
        self._programs = [_Program(g) for g in walk(graph)]
        self._signatures = {s.key: s for s in graph.signatures}
        self._preserve_all = preserve_all
        self.on_call = on_call

    def _open(self, plan: Plan) -> Session:
        """What runs a plan; the compiled twin opens another engine here."""
        return Session(plan)

    @property
    def session(self) -> Session:
        """What runs the main subgraph, for reports and measurements; NotReadyError before allocate_tensors()."""
        return self._programs[0].ready()

    @property
    def plan(self) -> Plan:
        """The plan in use; NotReadyError before allocate_tensors()."""
        return self.session.plan

    # -- running ---------------------------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Plan the arena and make everything ready; does nothing if nothing has changed since the last call."""
        self._allocate(self._programs[0])

    def _allocate(self, program: _Program) -> None:
        if program.engine is None:
            program.engine = self._open(make_plan(program.resized(), preserve_all=self._preserve_all))
            program.graph = program.engine.plan.graph

    def invoke(self) -> None:
        """One inference; variables keep their values for the next one."""
        self._invoke(self._programs[0])

    def _invoke(self, program: _Program) -> None:
        engine = program.ready()
        if self.on_call is not None:
            engine.run_observed(self.on_call)
        else:
            engine.run()

    def reset_all_variables(self) -> None:
        """All variable tensors to their initial values."""
        self._programs[0].ready().reset_variables()

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape; used from the next allocate_tensors() on. ``strict``: only open dimensions."""
        self._programs[0].resize(input_index, tuple(int(d) for d in tensor_size), strict)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy ``value`` (numpy array of the tensor's dtype and shape) into an input or variable."""
        self._set(self._programs[0], tensor_index, value)

    def _set(self, program: _Program, index: int, value: Any) -> None:
        tensor, engine = program.tensor(index), program.ready()
        array = np.asarray(value)
        if array.dtype != tensor.dtype:
            raise InvalidArgumentError(f"cannot set {tensor}: the value is {array.dtype}, {tensor.dtype} is needed")
        if array.shape != tensor.shape:
            raise InvalidArgumentError(
                f"cannot set {tensor}: the value has shape {list(array.shape)}; resize_tensor_input() changes the input"
            )
        self._readable(engine, tensor)
        if tensor.data is not None:
            raise InvalidArgumentError(f"cannot set {tensor}: it is a constant of the model")
        engine.view(tensor)[...] = array

    def get_tensor(self, tensor_index: int) -> Array:
        """A copy of the tensor's value; an intermediate one needs experimental_preserve_all_tensors."""
        return self._get(self._programs[0], tensor_index)

    def _get(self, program: _Program, index: int) -> Array:
        tensor, engine = program.tensor(index), program.ready()
        self._readable(engine, tensor)
        return engine.view(tensor).copy()

    def _readable(self, engine: Session, tensor: Tensor) -> None:
        plan = engine.plan
        if tensor.data is not None or tensor.variable or tensor in plan.graph.inputs or tensor in plan.graph.outputs:
            return
        if not self._preserve_all or tensor not in plan.offsets:
            raise InvalidArgumentError(
                f"{tensor} keeps no memory of its own: use experimental_preserve_all_tensors=True, or on_call to look"
            )

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that gives the tensor's memory as an array, without a copy; valid until the next allocation."""
        program = self._programs[0]
        program.tensor(tensor_index)

        def view() -> Array:
            tensor, engine = program.tensor(tensor_index), program.ready()
            self._readable(engine, tensor)
            return engine.view(tensor)

        return view

    # -- details ---------------------------------------------------------------------------------------------------

    def get_input_details(self) -> list[dict[str, Any]]:
        """One dictionary an input, with LiteRT's keys: name, index, shape, shape_signature, dtype, quantization, …"""
        return self._details(self._programs[0].graph, self._programs[0].graph.inputs)

    def get_output_details(self) -> list[dict[str, Any]]:
        """One dictionary an output, as ``get_input_details``."""
        return self._details(self._programs[0].graph, self._programs[0].graph.outputs)

    def get_tensor_details(self) -> list[dict[str, Any]]:
        """One dictionary a tensor of the model, in index order; those without elements in numpy are left out."""
        graph = self._programs[0].graph
        return self._details(graph, [t for t in graph.tensors if t.type not in ("RESOURCE", "VARIANT")])

    def _details(self, graph: Graph, tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
        index = {t: i for i, t in enumerate(graph.tensors)}
        return [details(t, index[t]) for t in tensors]

    # -- signatures ------------------------------------------------------------------------------------------------

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Signature key -> {"inputs": names, "outputs": names}."""
        return {key: {"inputs": sorted(s.inputs), "outputs": sorted(s.outputs)} for key, s in self._signatures.items()}

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A callable for one signature; the key may be left out where there is only one."""
        if signature_key is None:
            if len(self._signatures) != 1:
                raise InvalidArgumentError(f"this model has {len(self._signatures)} signatures, name one of them")
            signature_key = next(iter(self._signatures))
        if signature_key not in self._signatures:
            known = ", ".join(self._signatures) or "none"
            raise InvalidArgumentError(f"signature {signature_key!r} is not in this model; it has: {known}")
        return SignatureRunner(self, self._signatures[signature_key])


class SignatureRunner:
    """Runs one signature: ``runner(name=array, ...) -> {name: array}``, as LiteRT's; inputs are resized as needed."""

    def __init__(self, interpreter: Interpreter, signature: Signature) -> None:
        self._interpreter = interpreter
        self._program = interpreter._programs[signature.subgraph]
        index = {t: i for i, t in enumerate(self._program.file_graph.tensors)}
        self._inputs = {name: index[t] for name, t in signature.inputs.items()}
        self._outputs = {name: index[t] for name, t in signature.outputs.items()}

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        if set(inputs) != set(self._inputs):
            raise InvalidArgumentError(f"this signature takes {sorted(self._inputs)}, not {sorted(inputs)}")
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        for name, array in arrays.items():
            self._program.resize(self._inputs[name], array.shape, strict=False)
        self._interpreter._allocate(self._program)
        for name, array in arrays.items():
            self._interpreter._set(self._program, self._inputs[name], array)
        self._interpreter._invoke(self._program)
        return {name: self._interpreter._get(self._program, i) for name, i in self._outputs.items()}

    def _named(self, names: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        return {name: details(self._program.tensor(i), i) for name, i in names.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Input name -> details dictionary."""
        return self._named(self._inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Output name -> details dictionary."""
        return self._named(self._outputs)


def details(tensor: Tensor, index: int) -> dict[str, Any]:
    """LiteRT's details dictionary of a tensor."""
    quant = tensor.quant
    scales = quant.scale if quant is not None else np.zeros(0, np.float32)
    zeros = (quant.zero_point if quant is not None else np.zeros(0)).astype(np.int32)
    single = (float(scales[0]), int(zeros[0])) if scales.size == 1 else (0.0, 0)
    return {
        "name": tensor.name,
        "index": index,
        "shape": np.array(tensor.shape, np.int32),
        "shape_signature": np.array(tensor.shape_signature or tensor.shape, np.int32),
        "dtype": np.bytes_ if tensor.type == "STRING" else tensor.dtype.type if _has_dtype(tensor) else None,
        "quantization": single,
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zeros,
            "quantized_dimension": quant.axis if quant is not None else 0,
        },
        "sparsity_parameters": {},
    }


def _has_dtype(tensor: Tensor) -> bool:
    from twinfer.runtime.graph import DTYPES

    return tensor.type in DTYPES
