"""The interpreter: LiteRT's Python API over a plan, so that a user changes one import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from twinfer.runtime.check import need_graph
from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.graph import DTYPES, Graph, Signature, Tensor, walk
from twinfer.runtime.op import Array, Shape
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.run.guard import Guard, spread
from twinfer.runtime.run.session import Hook, Session
from twinfer.runtime.shapes import infer_shapes, shape_of
from twinfer.runtime.target import HOST


class _Program:
    """One subgraph on its way to running: sizes asked for, then the engine that holds its tensors."""

    def __init__(self, graph: Graph, options: Options) -> None:
        self.file_graph = graph
        self.graph = graph
        self.options = options
        self.wanted: dict[int, Shape] = {}
        self.engine: Session | None = None
        self._views: dict[int, Array] = {}  # of the engine's tensors, so that getting and setting are quick

    def allocate(self, make: Callable[[Graph], Session]) -> None:
        if self.engine is None:
            wanted = {self.file_graph.tensors[i]: shape for i, shape in self.wanted.items()}
            graph = infer_shapes(self.file_graph, wanted) if wanted else self.file_graph
            self.engine = make(graph)
            self.graph = self.engine.plan.graph

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
        if old.data is not None:
            raise InvalidArgumentError(f"{old} is a constant of the model and cannot be resized")
        if any(d < 0 for d in shape):
            raise InvalidArgumentError(f"{old} cannot have the shape {list(shape)}")
        if strict:
            signature = old.shape_signature or old.shape
            if len(signature) != len(shape) or any(s not in (-1, d) for s, d in zip(signature, shape, strict=True)):
                raise InvalidArgumentError(f"{old}: strict resizing to {list(shape)} against {list(signature)}")
        if shape == self.wanted.get(index, old.shape):
            return
        self.wanted[int(index)] = shape
        self.engine = None
        self._views.clear()

    def view(self, index: int) -> Array:
        """The memory of a tensor that has some of its own; a constant's is read-only."""
        try:
            return self._views[index]
        except (KeyError, TypeError):  # TypeError: no index at all
            return self._open_view(index)

    def _open_view(self, index: int) -> Array:
        tensor, session = self.tensor(index), self.ready()
        plan = session.plan
        own = self.options.preserve_all and tensor in plan.offsets
        if not own and tensor.data is None and tensor not in (*plan.graph.inputs, *plan.graph.outputs, *plan.variables):
            raise InvalidArgumentError(
                f"{tensor} keeps no memory of its own: use experimental_preserve_all_tensors=True, or on_call to look"
            )
        view = session.view(tensor).view()
        if tensor.data is not None:
            view.flags.writeable = False
        self._views[int(index)] = view
        return view

    def set(self, index: int, value: Any) -> None:
        view, array = self.view(index), _array(value, self.tensor(index))
        if array.dtype != view.dtype or array.shape != view.shape or not view.flags.writeable:
            raise _misfit(self.tensor(index), array)
        view[...] = array

    def details(self, index: int) -> dict[str, Any]:
        tensor = self.tensor(index)
        return details(tensor, index, self.wanted.get(index, tensor.shape))


def _array(value: Any, what: object) -> Array:
    """The value as an array; InvalidArgumentError if it is none."""
    try:
        return np.asarray(value)
    except Exception as error:  # lists of several lengths, and what arrays of other libraries raise
        raise InvalidArgumentError(f"cannot set {what}: the value is no array: {error}") from None


def _misfit(tensor: Tensor, value: Array) -> InvalidArgumentError:
    """Why a value cannot be set."""
    if value.dtype != tensor.dtype:
        why = f"the value is {value.dtype}, {tensor.dtype} is needed"
    elif value.shape != tensor.shape:
        why = f"the value's shape is {list(value.shape)}; resize_tensor_input() changes that of an input"
    else:
        why = "it is a constant of the model"
    return InvalidArgumentError(f"cannot set {tensor}: {why}")


class Interpreter:
    """Runs a .tflite model operator by operator; the methods are those of LiteRT's ``Interpreter``.

    ``model_path`` or ``model_content`` (bytes) gives the model. ``experimental_preserve_all_tensors`` gives every
    tensor memory of its own, so that intermediate ones can be read after a run. ``on_call(position, step)``, ours
    alone, is called after every kernel call; without it the whole plan runs in one C call. So is ``guard``: the arena
    is spread out and every step watched; GuardError names one that uses memory not its own. Delegates are refused; op
    resolvers, threads (one is used) and the other experimental arguments are accepted and mean nothing here.

    Errors have the types of LiteRT's, ValueError and RuntimeError, as bases. Raises ModelError for a damaged model.
    Operators without a kernel raise UnsupportedOperatorError in ``allocate_tensors``, before anything runs.
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
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        on_call: Hook | None = None,
        guard: bool = False,
    ) -> None:
        if experimental_delegates is not None and not (
            isinstance(experimental_delegates, list | tuple) and not experimental_delegates
        ):
            raise InvalidArgumentError("delegates are not supported: twinfer runs its own kernels")
        if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
            raise InvalidArgumentError(f"num_threads must be a positive integer, not {num_threads!r}")
        if (model_path is None) == (model_content is None):
            raise InvalidArgumentError("give one of model_path and model_content")
        graph = read_file(model_path) if model_content is None else read(model_content)  # type: ignore[arg-type]
        self._setup(graph, Options(guard=guard, preserve_all=experimental_preserve_all_tensors), on_call)

    @classmethod
    def from_graph(cls, graph: Graph, options: Options = USUAL, *, on_call: Hook | None = None) -> Self:
        """The same over a Graph that is in memory already."""
        self = cls.__new__(cls)
        self._setup(graph, options, on_call)
        return self

    def _setup(self, graph: Graph, options: Options, on_call: Hook | None) -> None:
        need_graph(graph)
        self._programs = [_Program(g, options) for g in walk(graph)]
        self._signatures = {s.key: s for s in graph.signatures}
        self.on_call = on_call
        self._options = options

    def _open(self, plan: Plan) -> Session:
        """What runs a plan; the compiled twin opens another engine here."""
        return Session(plan)

    def _make(self, graph: Graph) -> Session:
        plan = make_plan(graph, HOST, self._options)
        return self._open(spread(plan) if self._options.guard else plan)

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
        self._programs[0].allocate(self._make)

    def invoke(self) -> None:
        """One inference; variables keep their values for the next one."""
        self._invoke(self._programs[0])

    def _invoke(self, program: _Program) -> None:
        engine = program.ready()
        if self._options.guard:
            Guard(engine).run(self.on_call)
        elif self.on_call is not None:
            engine.run_observed(self.on_call)
        else:
            engine.run()

    def reset_all_variables(self) -> None:
        """All variable tensors to their initial values, which they have after allocation, too."""
        if self._programs[0].engine is not None:
            self._programs[0].engine.reset_variables()

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape; the next allocate_tensors() does it. ``strict``: only open dimensions."""
        self._programs[0].resize(input_index, shape_of(tensor_size), strict)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy ``value`` (numpy array of the tensor's dtype and shape) into an input or variable."""
        self._programs[0].set(tensor_index, value)

    def get_tensor(self, tensor_index: int) -> Array:
        """A copy of the tensor's value; an intermediate one needs experimental_preserve_all_tensors."""
        return self._programs[0].view(tensor_index).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that gives the tensor's memory as an array, without a copy; valid until the next allocation."""
        program = self._programs[0]
        program.tensor(tensor_index)
        return lambda: program.view(tensor_index)[...]

    # -- details ---------------------------------------------------------------------------------------------------

    def get_input_details(self) -> list[dict[str, Any]]:
        """One dictionary an input, with LiteRT's keys: name, index, shape, shape_signature, dtype, quantization, …"""
        return self._details(self._programs[0].graph.inputs)

    def get_output_details(self) -> list[dict[str, Any]]:
        """One dictionary an output, as ``get_input_details``."""
        return self._details(self._programs[0].graph.outputs)

    def get_tensor_details(self) -> list[dict[str, Any]]:
        """One dictionary a tensor of the model, in index order; types that numpy cannot name are left out."""
        return self._details([t for t in self._programs[0].graph.tensors if t.type in _NUMPY])

    def _details(self, tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
        program = self._programs[0]
        index = {t: i for i, t in enumerate(program.graph.tensors)}
        return [program.details(index[t]) for t in tensors]

    def num_subgraphs(self) -> int:
        """How many subgraphs the model has: the main one, and those that control flow calls."""
        return len(self._programs)

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
        if not isinstance(signature_key, str) or signature_key not in self._signatures:
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
        arrays = {name: _array(value, f"input {name!r}") for name, value in inputs.items()}
        for name, array in arrays.items():
            self._program.resize(self._inputs[name], array.shape, strict=False)
        self._program.allocate(self._interpreter._make)
        for name, array in arrays.items():
            self._program.set(self._inputs[name], array)
        self._interpreter._invoke(self._program)
        return {name: self._program.view(i).copy() for name, i in self._outputs.items()}

    def _named(self, names: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        return {name: self._program.details(i) for name, i in names.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Input name -> details dictionary."""
        return self._named(self._inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Output name -> details dictionary."""
        return self._named(self._outputs)


#: Tensor type -> what LiteRT's details call its dtype.
_NUMPY: Mapping[str, type] = {
    **{name: dtype.type for name, dtype in DTYPES.items()},
    "STRING": np.bytes_,
    "RESOURCE": np.object_,
    "VARIANT": np.object_,
    "INT2": np.int8,
    "INT4": np.int8,
    "UINT4": np.uint8,
}


def details(tensor: Tensor, index: int, shape: Shape) -> dict[str, Any]:
    """LiteRT's details dictionary of a tensor; ``shape`` may be one that it has been asked to take."""
    quant = tensor.quant
    scales = quant.scale if quant is not None else np.zeros(0, np.float32)
    zeros = (quant.zero_point if quant is not None else np.zeros(0)).astype(np.int32)
    single = (float(scales[0]), int(zeros[0])) if scales.size == 1 else (0.0, 0)
    return {
        "name": tensor.name,
        "index": index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(tensor.shape_signature or tensor.shape, np.int32),
        "dtype": _NUMPY.get(tensor.type),
        "quantization": single,
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zeros,
            "quantized_dimension": quant.axis if quant is not None else 0,
            "block_size": 0,
        },
        "sparsity_parameters": {},
    }
