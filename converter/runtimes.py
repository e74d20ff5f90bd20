"""The runtimes that models come from: ONNX Runtime, PyTorch and Keras run a source as it is, to compare with."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from twinfer.converter import OnnxFile
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: The largest error of a float result, as a share of the output's range: usually, and of a source that computes in 16
#: bits, as the result does not.
BOUND, NARROW_BOUND = 1e-4, 1e-2


class Origin(ABC):
    """A source, ready to run in its own runtime. ``engine``: the runtime's name. ``bound``: the largest
    error of a float result, as a share of the output's range. ``same_bits``: integers come out the same."""

    engine: str
    bound: float = BOUND
    same_bits: bool = False

    @abstractmethod
    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs, in the model's order, of inputs by name; ToolError if the runtime cannot."""

    def inner(self, inputs: Mapping[str, Array], names: Sequence[str]) -> Mapping[str, Array]:
        """Those of the named values inside the model that the runtime can show."""
        return {}


def origin_of(source: Any, imported: Graph, constants: Mapping[str, Any]) -> Origin:
    """The source in its runtime; ``imported`` is the graph that was read of it.

    Raises ToolError if the runtime is not installed or refuses the model.
    """
    suffix = os.path.splitext(source)[1].lower() if isinstance(source, str | os.PathLike) else ""
    kinds = {base.__module__.partition(".")[0] for base in type(source).__mro__}
    if isinstance(source, OnnxFile | bytes) or "onnx" in kinds or suffix == ".onnx":
        return _Onnx(source, constants)
    if suffix == ".keras" or "keras" in kinds:
        return _Keras(source, constants)
    if suffix == ".pt2" or "torch" in kinds:
        return _Torch(source, imported, constants)
    return _Original(imported)


def _need(module: str, package: str) -> None:
    if find_spec(module) is None:
        raise ToolError(f"to run this model as it is takes {module}: pip install {package}")


class _Original(Origin):
    """A .tflite file or a graph: our interpreter runs it as it was before passes."""

    engine = "the model before the passes"
    same_bits = True

    def __init__(self, imported: Graph) -> None:
        self._session = Session(make_plan(imported))

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        self._session.reset_variables()
        self._session.feed([inputs[t.name] for t in self._session.plan.graph.inputs])
        self._session.run()
        return self._session.outputs()


#: ONNX Runtime's names of types -> numpy's.
_ONNX_TYPES = {"float": "f4", "float16": "f2", "double": "f8", "bool": "?"}
_ONNX_TYPES |= {f"{sign}int{8 * size}": f"{sign[:1] or 'i'}{size}" for sign in ("", "u") for size in (1, 2, 4, 8)}


class _Onnx(Origin):
    """ONNX Runtime on the CPU, without its optimisations: they round differently."""

    engine = "ONNX Runtime"

    def __init__(self, source: Any, constants: Mapping[str, Any]) -> None:
        _need("onnxruntime", "onnxruntime")
        self._source, self._constants = source, constants
        self._session = self._opened(self._content())
        self.bound = NARROW_BOUND if self._narrow() else BOUND

    def _narrow(self) -> bool:
        """Whether constants or ends are float16 or bfloat16."""
        ends = (*self._session.get_inputs(), *self._session.get_outputs())
        proto = self._source.model if isinstance(self._source, OnnxFile) else self._source
        kinds = {tensor.data_type for tensor in proto.graph.initializer} if hasattr(proto, "graph") else set()
        return any("float16" in end.type for end in ends) or not kinds.isdisjoint((10, 16))

    def _content(self) -> Any:
        """What ONNX Runtime opens: a path where there is one, because of constants in files beside it."""
        if isinstance(self._source, OnnxFile):
            return os.fspath(self._source.path)
        return self._source if isinstance(self._source, bytes | str | os.PathLike) else self._source.SerializeToString()

    def _opened(self, content: Any) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors share no other class
            raise _refused(self.engine, error) from error

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        return self._run(self._session, inputs)

    def _run(self, session: Any, inputs: Mapping[str, Array]) -> list[Array]:
        feeds = {}
        for end in session.get_inputs():
            value = np.asarray(self._constants.get(end.name, inputs.get(end.name)))
            kind = end.type.removeprefix("tensor(").removesuffix(")")
            if kind not in _ONNX_TYPES or value.dtype == object:
                raise ToolError(f"{self.engine}: input {end.name!r} of type {end.type} cannot be fed")
            shape = [d if isinstance(d, int) and d >= 0 else -1 for d in end.shape]
            same = -1 in shape or np.prod(shape) == value.size  # it says [] of inputs without a shape
            fixed = same and shape.count(-1) <= 1 and len(shape) != value.ndim
            feeds[end.name] = (value.reshape(shape) if fixed else value).astype(_ONNX_TYPES[kind])
        try:
            return [np.asarray(value) for value in session.run(None, feeds)]
        except Exception as error:
            raise _refused(self.engine, error) from error

    def inner(self, inputs: Mapping[str, Array], names: Sequence[str]) -> Mapping[str, Array]:
        import onnx

        from twinfer.converter.onnx.read import open_onnx

        opened = open_onnx(self._source) if isinstance(self._source, str | os.PathLike) else self._source
        proto = opened.model if isinstance(opened, OnnxFile) else opened
        model = onnx.load_model_from_string(proto if isinstance(proto, bytes) else proto.SerializeToString())
        there = {name for node in model.graph.node for name in node.output} & set(names)
        asked = [name for name in names if name in there]
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked)
        return dict(zip(asked, self._run(self._opened(model.SerializeToString()), inputs), strict=True))


class _Keras(Origin):
    """The model as it predicts."""

    engine = "Keras"

    def __init__(self, source: Any, constants: Mapping[str, Any]) -> None:
        _need("keras", "keras")
        import keras

        from twinfer.converter.keras.read import loaded, named_ends

        self._keras, self._constants = keras, constants
        self._model = loaded(source)
        narrow = any("float16" in layer.compute_dtype for layer in self._model.layers if layer.compute_dtype)
        self.bound = NARROW_BOUND if narrow else BOUND
        self._inputs = named_ends(self._model)[0]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        values = self._values(inputs)
        given = self._keras.tree.pack_sequence_as(self._model.input, values) if len(values) > 1 else values[0]
        return self._arrays(partial(self._model, training=False), given)

    def inner(self, inputs: Mapping[str, Array], names: Sequence[str]) -> Mapping[str, Array]:
        made = {}
        for layer in self._model.layers:
            if layer.name in names and isinstance(getattr(layer, "output", None), self._keras.KerasTensor):
                made[layer.name] = layer.output
        inside = self._keras.Function(list(self._inputs.values()), list(made.values()))
        return dict(zip(made, self._arrays(inside, self._values(inputs)), strict=True))

    def _values(self, inputs: Mapping[str, Array]) -> list[Any]:
        """The inputs as the backend's tensors, in the model's order."""
        return [
            self._keras.ops.convert_to_tensor(np.asarray(self._constants.get(name, inputs.get(name))), end.dtype)
            for name, end in self._inputs.items()
        ]

    def _arrays(self, function: Any, given: Any) -> list[Array]:
        try:
            with warnings.catch_warnings():  # Keras reads PyTorch's tensors in a way that NumPy 2 calls old
                warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy", DeprecationWarning)
                flat = self._keras.tree.flatten(function(given))
                return [np.asarray(self._keras.ops.convert_to_numpy(value)) for value in flat]
        except Exception as error:  # whatever a backend raises
            raise _refused(self.engine, error) from error


class _Torch(Origin):
    """A program of torch.export."""

    engine = "PyTorch"

    def __init__(self, source: Any, imported: Graph, constants: Mapping[str, Any]) -> None:
        _need("torch", "torch")
        import torch

        from twinfer.converter.torch.load import load

        self._program = load(source) if isinstance(source, str | os.PathLike) else source
        self._constants, self._names = constants, [t.name for t in imported.inputs]
        narrow = any(value.dtype in (torch.float16, torch.bfloat16) for value in self._program.state_dict.values())
        self.bound = NARROW_BOUND if narrow else BOUND

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        import torch

        metas = self._metas()
        free = iter(self._names)
        values = [self._constants[name] if name in self._constants else inputs[next(free)] for name in metas]
        given = [torch.from_numpy(np.array(v)).to(meta.dtype) for v, meta in zip(values, metas.values(), strict=True)]
        try:
            with torch.no_grad():
                module = self._program.module()
                spec = self._program.call_spec.in_spec
                args, kwargs = torch.utils._pytree.tree_unflatten(given, spec)
                flat = torch.utils._pytree.tree_leaves(module(*args, **kwargs))
        except Exception as error:  # whatever a module raises
            raise _refused(self.engine, error) from error
        return [value.detach().cpu().numpy() for value in flat if isinstance(value, torch.Tensor)]

    def _metas(self) -> dict[str, Any]:
        """The example value of every input, by its name in the program."""
        named = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        return {name: named[name].meta["val"] for name in self._program.graph_signature.user_inputs}


def _refused(engine: str, error: BaseException) -> ToolError:
    said = " ".join(str(error).split())
    return ToolError(f"{engine} cannot run the model: {said[:200]}")
