"""The same odd calls of LiteRT's interpreter, ours and the compiled model: same values, or same exceptions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.bench.peers.engines import installed
from twinfer.converter.build import Builder
from twinfer.runtime.write.tflite import write


def model(shape: tuple[int, ...] = (1, 3)) -> bytes:
    """relu6(a + b), with a signature; tensor 2 is the sum, 3 the output."""
    b = Builder("sum")
    x, y = b.input("a", "FLOAT32", shape), b.input("b", "FLOAT32", shape)
    return write(b.graph([b.op("RELU6", [b.op("ADD", [x, y])])], signature="serve"))


ONES = np.ones((1, 3), np.float32)


def opened(open_: Callable[..., Any], **arguments: Any) -> Any:
    return open_(**{"model_content": model(), **arguments})


def ready(open_: Callable[..., Any], **arguments: Any) -> Any:
    engine = opened(open_, **arguments)
    engine.allocate_tensors()
    for i in (0, 1):
        engine.set_tensor(i, ONES)
    return engine


def then(*calls: tuple[Any, ...], start: Callable[..., Any] = ready, **arguments: Any) -> Callable[..., Any]:
    """Calls methods one after the other; gives what each has returned."""

    def run(open_: Callable[..., Any]) -> Any:
        engine = start(open_, **arguments)
        return [getattr(engine, name)(*given) for name, *given in calls]

    return run


def resized(*shapes: list[int], strict: bool = False) -> Callable[..., Any]:
    calls = [("resize_tensor_input", i, shape, strict) for i, shape in enumerate(shapes)]
    values = [("set_tensor", i, np.full(shape, 2, np.float32)) for i, shape in enumerate([*shapes, [1, 3]][:2])]
    return then(*calls, ("allocate_tensors",), ("get_input_details",), *values, ("invoke",), ("get_tensor", 3))


def signature(key: Any = None, **inputs: Any) -> Callable[..., Any]:
    return lambda open_: opened(open_).get_signature_runner(key)(**inputs)


def view(open_: Callable[..., Any]) -> Any:
    engine = ready(open_)
    given, result = engine.tensor(0), engine.tensor(3)
    given()[...] = 2
    engine.invoke()
    return result().copy()


#: What gives the same on all of them: a value, or an exception of the type that LiteRT raises.
CALLS: dict[str, Callable[..., Any]] = {
    "ops": then(("_get_ops_details",)),
    "ops before allocation": then(("_get_ops_details",), start=opened),
    "op": then(("_get_op_details", 1)),
    "op out of range": then(("_get_op_details", 9)),
    "tensor details": then(("_get_tensor_details", 2, 0)),
    "tensor details out of range": then(("_get_tensor_details", 99, 0)),
    "all details": then(("get_tensor_details", 0)),
    "details of a subgraph that is not there": then(("get_tensor_details", 1)),
    "details of subgraph -1": then(("get_tensor_details", -1)),
    "value of a subgraph": then(("invoke",), ("get_tensor", 3, 0)),
    "value of a subgraph that is not there": then(("get_tensor", 3, 1)),
    "value of subgraph -1": then(("get_tensor", 3, -1)),
    "signatures": then(("_get_full_signature_list",), ("get_signature_list",), ("num_subgraphs",)),
    "views": view,
    "view out of range": lambda open_: ready(open_).tensor(99)(),
    "view before allocation": lambda open_: opened(open_).tensor(0)(),
    "get before allocation": then(("get_tensor", 3), start=opened),
    "set before allocation": then(("set_tensor", 0, ONES), start=opened),
    "invoke before allocation": then(("invoke",), start=opened),
    "reset": then(("reset_all_variables",), ("get_tensor", 0)),
    "reset before allocation": then(("reset_all_variables",), start=opened),
    "allocate twice": then(("allocate_tensors",), ("get_tensor", 0)),
    "set an output": then(("set_tensor", 3, ONES), ("get_tensor", 3)),
    "set float64": then(("set_tensor", 0, ONES.astype(np.float64))),
    "set int": then(("set_tensor", 0, ONES.astype(np.int32))),
    "set a list": then(("set_tensor", 0, [[1.0, 2.0, 3.0]])),
    "set None": then(("set_tensor", 0, None)),
    "set a number": then(("set_tensor", 0, 1.0)),
    "set another rank": then(("set_tensor", 0, ONES[0])),
    "set another shape": then(("set_tensor", 0, np.ones((3, 1), np.float32))),
    "set Fortran order": then(("set_tensor", 0, np.asfortranarray(ONES)), ("invoke",), ("get_tensor", 3)),
    "resize": resized([4, 3], [4, 3]),
    "resize to batch 0": resized([0, 3], [0, 3]),
    "resize one, to broadcast": resized([2, 3]),
    "resize to another rank": resized([2, 1, 3], [2, 1, 3]),
    "resize strictly": resized([2, 3], strict=True),
    "resize strictly to the same": resized([1, 3], strict=True),
    "resize and invoke": then(("resize_tensor_input", 0, [2, 3]), ("invoke",)),
    "resize out of range": then(("resize_tensor_input", 99, [2, 3]), ("allocate_tensors",)),
    "resize to -1": then(("resize_tensor_input", 0, [-1, 3]), ("allocate_tensors",)),
    "signature": signature(a=ONES, b=2 * ONES),
    "signature by key": signature("serve", a=ONES, b=ONES),
    "signature that is not there": signature("train", a=ONES, b=ONES),
    "signature without an input": signature(a=ONES),
    "signature with another input": signature(a=ONES, c=ONES),
    "signature with float64": signature(a=ONES, b=ONES.astype(np.float64)),
    "signature with a batch": signature(a=np.ones((2, 3), np.float32), b=np.ones((2, 3), np.float32)),
    "signature details": lambda open_: opened(open_).get_signature_runner().get_input_details(),
    "signature outputs": lambda open_: opened(open_).get_signature_runner().get_output_details(),
    "no model": lambda open_: open_(),
    "two models": lambda open_: open_(model_path="x", model_content=model()),
    "no such file": lambda open_: open_(model_path="/nowhere/x.tflite"),
    "empty path": lambda open_: open_(model_path=""),
    "empty content": lambda open_: open_(model_content=b""),
    "no flatbuffer": lambda open_: open_(model_content=b"123456789"),
    "no threads": then(start=opened, num_threads=0),
    "threads of another type": then(start=opened, num_threads="2"),
    "two threads": then(("invoke",), ("get_tensor", 3), num_threads=2),
    "no delegates": then(start=opened, experimental_delegates=[]),
    "resolver of another type": then(start=opened, experimental_op_resolver_type=1),
    "zero points": lambda open_: opened(open_).experimental_compress_quantization_zero_points,
    "intermediate": then(("invoke",), ("get_tensor", 2), experimental_preserve_all_tensors=True),
}

#: Where LiteRT goes wrong, or raises what is no answer to a caller: ours is stated. (their exception, ours or a value)
DIFFERENT: dict[str, tuple[Callable[..., Any], type | None, type | None]] = {
    "delegates": (then(start=opened, experimental_delegates=[object()]), AttributeError, ValueError),
    "index of name": (then(("get_tensor", "a")), TypeError, ValueError),
    "signature with lists": (signature(a=[[1.0, 2.0, 3.0]], b=ONES), AttributeError, ValueError),
    "resize an output": (then(("resize_tensor_input", 3, [2, 3])), None, ValueError),
    "resize to a fraction": (then(("resize_tensor_input", 0, [1.5, 3])), None, ValueError),
    "resolver None": (then(start=opened, experimental_op_resolver_type=None), ValueError, None),
    "view held over invoke": (lambda open_: _held(ready(open_)), RuntimeError, None),
    "content as a bytearray": (lambda open_: opened(open_, model_content=bytearray(model())), TypeError, None),
}


def _held(engine: Any) -> None:
    array = engine.tensor(0)()
    engine.invoke()
    del array


def theirs(**arguments: Any) -> Any:
    if not installed("litert"):
        pytest.skip("LiteRT is not installed")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    return Interpreter(**{"experimental_op_resolver_type": OpResolverType.BUILTIN_REF, **arguments})


def outcome(call: Callable[..., Any], open_: Callable[..., Any]) -> Any:
    try:
        return call(open_)
    except Exception as error:
        return error


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Exception):
        return isinstance(b, type(a))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    return bool(a == b)


ours = pytest.mark.parametrize("open_", [twinfer.Interpreter, twinfer.CompiledModel], ids=["interpreted", "compiled"])


@ours
@pytest.mark.parametrize("name", CALLS)
def test_as_litert(name: str, open_: Callable[..., Any]) -> None:
    wanted, got = outcome(CALLS[name], theirs), outcome(CALLS[name], open_)
    assert same(wanted, got), f"LiteRT: {wanted!r}, twinfer: {got!r}"


@ours
@pytest.mark.parametrize("name", DIFFERENT)
def test_better_than_litert(name: str, open_: Callable[..., Any]) -> None:
    call, wrong, right = DIFFERENT[name]
    for wanted, got in ((wrong, outcome(call, theirs)), (right, outcome(call, open_))):
        assert isinstance(got, wanted) if wanted else not isinstance(got, Exception), repr(got)


def test_every_public_name_of_litert_is_there() -> None:
    if not installed("litert"):
        pytest.skip("LiteRT is not installed")
    import inspect

    from ai_edge_litert import interpreter as module

    names = {name for name in dir(module.Interpreter) if not name.startswith("_")}
    names |= {"_get_ops_details", "_get_op_details", "_get_tensor_details", "_get_full_signature_list"}
    assert not [name for name in names if not hasattr(twinfer.Interpreter, name)]
    for name in {*names, "__init__"}:
        theirs_, mine = getattr(module.Interpreter, name), getattr(twinfer.Interpreter, name)
        if callable(theirs_):
            wanted = list(inspect.signature(theirs_).parameters)
            assert list(inspect.signature(mine).parameters)[: len(wanted)] == wanted, name


def test_delegates_and_resolvers() -> None:
    with pytest.raises(ValueError, match=r"cannot load a delegate from libedgetpu\.so\.1: .* its own kernels"):
        twinfer.load_delegate("libedgetpu.so.1")
    for kind in twinfer.OpResolverType:
        opened(twinfer.Interpreter, experimental_op_resolver_type=kind)
    if installed("litert"):
        from ai_edge_litert.interpreter import OpResolverType

        assert [(k.name, k.value) for k in OpResolverType] == [(k.name, k.value) for k in twinfer.OpResolverType]
        opened(twinfer.Interpreter, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)


def quantised() -> bytes:
    b = Builder("quantised")
    x = b.input("x", "INT8", (1, 4), scale=0.5, zero=3)
    return write(b.graph([b.op("RELU", [x], shape=(1, 4), scale=0.5, zero=3)]))


@ours
def test_names_of_tflm(open_: Any) -> None:
    value = np.array([[-9, 3, 5, 127]], np.int8)
    engines = [open_.from_bytes(quantised())]
    with contextlib.suppress(ImportError):
        from tflite_micro import runtime

        engines.append(runtime.Interpreter.from_bytes(quantised()))
    for engine in engines:
        engine.set_input(value, 0)
        engine.invoke()
        assert engine.get_output(0).tolist() == [[3, 3, 5, 127]]
        engine.reset()
        for details in (engine.get_input_details(0), engine.get_output_details(0)):
            assert details["shape"].tolist() == [1, 4]
            assert details["dtype"] is np.int8
            assert details["quantization_parameters"]["scales"].tolist() == [0.5]
        for wrong in (lambda e: e.set_input(value, 1), lambda e: e.get_output(-1), lambda e: e.get_input_details(7)):
            with pytest.raises((ValueError, IndexError, RuntimeError)):
                wrong(engine)
    with pytest.raises(ValueError, match="an arena of 1 bytes is too small"):
        open_.from_bytes(quantised(), arena_size=1)
