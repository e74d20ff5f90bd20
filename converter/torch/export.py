"""``from_torch``: a PyTorch module -> ``Graph``, by way of torch.export and ONNX."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from twinfer.converter.torch.load import load, quiet
from twinfer.runtime.errors import InvalidArgumentError, ToolError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph

if TYPE_CHECKING:
    import torch

#: The opset that torch writes: the first one with GELU, and the one that torch's translations are written for.
OPSET = 20

_INSTEAD = "compute it otherwise, or end the model before it and leave it to the program that runs the model"

_BEFORE = "give the model before torch.ao.quantization.convert or quantize_dynamic: in floats, for twinfer to quantise"

#: A module, a program of ``torch.export.export``, or the path of one that ``torch.export.save`` wrote (.pt2).
Source = Any


def from_torch(
    module: Source,
    example_inputs: Any = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
    check: bool = True,
) -> Graph:
    """The model of a ``torch.nn.Module`` as a float Graph, for ``twinfer.convert`` to optimise and quantise::

        graph = twinfer.from_torch(model, torch.zeros(1, 3, 96, 96))
        twinfer.convert_file(graph, "model.tflite", channels_last=True, quantize="int8", calibration={"x": images})

    ``example_inputs``: a tensor or a tuple of them, as the module is called; the model is made for their shapes and
    types (float32, int32, int64 or bool), the first dimension included. The module is exported in evaluation mode,
    whatever mode it is in, and left as it was. A ``torch.export.ExportedProgram``, or the path of one (.pt2), has its
    example inputs already; export it from a module in evaluation mode (``model.eval()``). Only tensors of a file are
    unpickled. A file with objects of other classes, which could run code, is refused. ``input_names`` and
    ``output_names``: names of inputs and outputs; by default those of the arguments of ``forward`` and of torch's
    results. ``shapes`` gives inputs that a program leaves dynamic a static shape by name, ``constants`` makes
    inputs constants. Inputs and outputs keep torch's layout, images NCHW: ``convert(graph, channels_last=True)`` makes
    that NHWC. ``check``: the graph runs here on the example inputs, beside the module. A ModelWarning says by how much
    an output is off if that is more than 0.01 % of its range.

    Raises ToolError without the extra ``torch``, InvalidArgumentError for arguments that do not fit,
    UnsupportedOperatorError for what torch cannot export or TFLite cannot express (all operators at once), ModelError
    for weights with NaN or infinity, and by ``check`` for outputs that are off by more than 1 %.
    """
    missing = [name for name in ("torch", "onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ToolError(f"PyTorch models need the package {' and '.join(missing)}: pip install 'twinfer[torch]'")
    if isinstance(module, str | os.PathLike):
        module = load(module)
    inputs = _inputs(module, example_inputs)
    program = _program(module, inputs)
    names = _names(input_names) or _tensor_inputs(program)
    proto = _export(program, type(module).__name__, (names, _names(output_names)))
    from twinfer.converter.onnx import read_onnx

    graph = read_onnx(proto, shapes=shapes, constants=constants)
    if check:
        _check(graph, module, program, names, constants or {})
    return graph


def _check(
    graph: Graph, module: Source, program: torch.export.ExportedProgram, names: list[str], constants: Mapping[str, Any]
) -> None:
    """Compares the graph with the module itself, or with a program that came without."""
    from twinfer.converter.torch.compare import compare

    if program.example_inputs is None:
        return
    if module is program:
        compare(graph, cast(Any, program.module()), program.example_inputs, names, constants)
    else:
        with _evaluation(module):
            compare(graph, module, program.example_inputs, names, constants)


def _inputs(module: Source, given: Any) -> tuple[Any, ...]:
    """The arguments to export with; InvalidArgumentError unless they fit the module."""
    import torch

    if isinstance(module, torch.export.ExportedProgram):
        if given is not None:
            raise InvalidArgumentError("an ExportedProgram has its example inputs already: leave example_inputs out")
        return ()
    if not isinstance(module, torch.nn.Module):
        what = f"{type(module).__module__}.{type(module).__qualname__}"
        raise InvalidArgumentError(f"from_torch takes a torch.nn.Module, an ExportedProgram or a .pt2 file, no {what}")
    if given is None:
        raise InvalidArgumentError("from_torch needs example_inputs: a tensor, or a tuple as the module is called with")
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _names(given: Sequence[str] | None) -> list[str] | None:
    return [given] if isinstance(given, str) else None if given is None else list(given)


def _program(module: Source, inputs: tuple[Any, ...]) -> torch.export.ExportedProgram:
    import torch

    if isinstance(module, torch.export.ExportedProgram):
        return module
    with _evaluation(module), torch.no_grad():
        try:
            module(*inputs)  # a plain run shows an error in the user's own code better than a traced one
        except Exception as error:
            what = f"{type(module).__name__} does not run with these example inputs"
            raise InvalidArgumentError(f"{what}: {_reason(error)}") from error
        from twinfer.converter.torch.trace import Traceable

        with _exporting(type(module).__name__), Traceable():
            return torch.export.export(module, inputs, strict=False)


def _export(program: torch.export.ExportedProgram, name: str, names: tuple[list[str] | None, list[str] | None]) -> Any:
    """The onnx.ModelProto."""
    import torch

    from twinfer.converter.torch.rewrite import rewritten

    with _exporting(name), torch.no_grad():
        program = rewritten(program)
        exported = torch.onnx.export(
            program, input_names=names[0], output_names=names[1], opset_version=OPSET, dynamo=True,
            verbose=False,
        )  # fmt: skip
    return cast(Any, exported).model_proto


@contextmanager
def _exporting(name: str) -> Iterator[None]:
    """UnsupportedOperatorError with torch's reason for whatever its exporter raises, and what the module's own code
    raises in it."""
    try:
        with quiet():
            yield
    except TwinferError:
        raise
    except Exception as error:
        raise UnsupportedOperatorError(f"torch cannot export {name}: {_reason(error)}") from error


def _tensor_inputs(program: torch.export.ExportedProgram) -> list[str]:
    from torch.export.graph_signature import InputKind, TensorArgument

    specs = program.graph_signature.input_specs
    return [s.arg.name for s in specs if s.kind is InputKind.USER_INPUT and isinstance(s.arg, TensorArgument)]


def _reason(error: BaseException) -> str:
    """The first of the errors that led to this one, in one line: torch wraps it in advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or "no reason given"
    if missing := re.search(r"No ONNX function found for <OpOverload\(op='\w+\.(\w+)'", text):
        return f"torch.onnx has no form of {missing[1]}: {_INSTEAD}"
    if type(error).__name__ in ("DynamicOutputShapeException", "GuardOnDataDependentSymNode"):
        named = re.match(r"(?:torch\.ops\.)?aten\._?(\w+)", text)
        what = f"{named[1]} has a result whose size" if named else "it has a size or a branch that"
        return f"{what} depends on values at run time: {_INSTEAD}"
    if "PackedParams" in text or "quantized nyi" in text:
        return f"it is quantised already, in PyTorch's own form; {_BEFORE}"
    return f"{type(error).__name__}: {text[:240]}"


@contextmanager
def _evaluation(module: torch.nn.Module) -> Iterator[None]:
    """Puts every part of a module into evaluation mode, and at the end back into its own."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
