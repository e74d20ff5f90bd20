"""The interpreter's API: the same code over LiteRT's Interpreter, ours and the compiled twin has the same effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.peers.engines import installed
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning, NotReadyError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.run.details import NUMPY_TYPES
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.write.tflite import write

Open = Callable[..., Any]


def small(signature: str = "") -> bytes:
    """int8 [1, 6, 5, 2] -> convolution per channel, RELU6 -> reshape -> dense -> [1, 4]."""
    rng = np.random.default_rng(5)
    b = Builder("small")
    x = b.input("x", "INT8", (1, 6, 5, 2), scale=0.5, zero=3)
    w = b.constant(rng.integers(-127, 128, (4, 3, 3, 2), np.int8), scale=[0.01, 0.02, 0.03, 0.04], name="w")
    bias = b.constant(rng.integers(-99, 99, 4, np.int32), scale=[0.005, 0.01, 0.015, 0.02], name="bias")
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2, "fused_activation_function": "RELU6"}
    y = b.op("CONV_2D", [x, w, bias], scale=0.05, zero=-128, **options)
    y = b.op("RESHAPE", [y, np.array([1, 36], np.int32)], shape=(1, 36), new_shape=(1, 36))
    v = b.constant(rng.integers(-127, 128, (4, 36), np.int8), scale=0.01, name="v")
    y = b.op("FULLY_CONNECTED", [y, v, None], shape=(1, 4), scale=0.25, zero=7)
    return write(b.graph([y], signature=signature))


def sum_of_two() -> bytes:
    """Float a + b of shape [?, 3], with a signature."""
    b = Builder("sum")
    x, y = b.input("a", "FLOAT32", (1, 3)), b.input("b", "FLOAT32", (1, 3))
    return write(b.graph([b.op("ADD", [x, y])], signature="serve"))


def litert(**arguments: Any) -> Any:
    if not installed("litert"):
        pytest.skip("LiteRT is not installed")
    from ai_edge_litert.interpreter import Interpreter as Theirs
    from ai_edge_litert.interpreter import OpResolverType

    return Theirs(experimental_op_resolver_type=OpResolverType.BUILTIN_REF, **arguments)


each = pytest.mark.parametrize("open_", [litert, Interpreter, CompiledModel], ids=["litert", "interpreted", "compiled"])
ours = pytest.mark.parametrize("open_", [Interpreter, CompiledModel], ids=["interpreted", "compiled"])


def ready(open_: Open, model: bytes, **arguments: Any) -> tuple[Any, int, int]:
    """An allocated interpreter, the index of its first input and of its first output."""
    interpreter = open_(model_content=model, **arguments)
    interpreter.allocate_tensors()
    return interpreter, interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Equal, and of equal types, all the way down."""
    assert type(a) is type(b), f"{where}: {a!r} and {b!r}"
    if isinstance(a, dict):
        assert list(a) == list(b), where
        for key in a:
            assert_same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, pair in enumerate(zip(a, b, strict=True)):
            assert_same(*pair, f"{where}/{i}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    else:
        assert a == b, where


@ours
@pytest.mark.parametrize("model", [small("main"), sum_of_two()], ids=["small", "sum"])
def test_details_are_litert_s(open_: Open, model: bytes) -> None:
    theirs, mine = litert(model_content=model), open_(model_content=model)
    for _ in range(2):  # before and after allocation
        for method in ("get_input_details", "get_output_details", "get_signature_list", "num_subgraphs"):
            assert_same(getattr(theirs, method)(), getattr(mine, method)(), method)
        count = len(mine.get_tensor_details())  # LiteRT appends temporaries of its own
        assert_same(theirs.get_tensor_details()[:count], mine.get_tensor_details(), "get_tensor_details")
        theirs.allocate_tensors()
        mine.allocate_tensors()


@pytest.mark.corpus("app", "op", sample=60)
def test_details_are_litert_s_on_real_models(corpus_model: Any) -> None:
    try:
        theirs = litert(model_path=str(corpus_model.path))
    except ValueError as error:
        pytest.skip(f"LiteRT refuses it: {error}")
    mine = Interpreter(model_path=corpus_model.path)
    for method in ("get_input_details", "get_output_details", "get_tensor_details", "get_signature_list"):
        assert_same(getattr(theirs, method)(), getattr(mine, method)(), method)


@each
def test_set_invoke_get(open_: Open) -> None:
    interpreter, x, y = ready(open_, small())
    value = np.random.default_rng(1).integers(-128, 128, (1, 6, 5, 2), np.int8)
    interpreter.set_tensor(x, value)
    interpreter.invoke()
    got = interpreter.get_tensor(y)
    assert (got.dtype, got.shape) == (np.int8, (1, 4))
    interpreter.invoke()  # the input is still there
    np.testing.assert_array_equal(interpreter.get_tensor(y), got)
    np.testing.assert_array_equal(interpreter.get_tensor(x), value)
    got[...] = 0  # a copy
    assert interpreter.get_tensor(y).any()


@each
def test_views(open_: Open) -> None:
    interpreter, x, y = ready(open_, small())
    interpreter.tensor(x)().fill(9)
    assert (interpreter.get_tensor(x) == 9).all()
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.tensor(y)(), interpreter.get_tensor(y))


@each
def test_noncontiguous_and_numpy_indices(open_: Open) -> None:
    interpreter, x, _ = ready(open_, small())
    value = np.random.default_rng(2).integers(-128, 128, (2, 5, 6, 1), np.int8).transpose(3, 2, 1, 0)
    interpreter.set_tensor(np.int64(x), value)
    np.testing.assert_array_equal(interpreter.get_tensor(np.int32(x)), value)


@each
@pytest.mark.parametrize(
    "value",
    [
        np.zeros((1, 6, 5, 2), np.float32),
        np.zeros((1, 6, 5, 2), np.uint8),
        np.zeros((6, 5, 2), np.int8),
        np.zeros(60, np.int8),
        [[1.5]],
    ],
    ids=["float", "uint8", "rank", "flat", "list"],
)
def test_values_that_do_not_fit(open_: Open, value: Any) -> None:
    interpreter, x, _ = ready(open_, small())
    with pytest.raises(ValueError, match="annot set tensor"):
        interpreter.set_tensor(x, value)


@each
@pytest.mark.parametrize("index", [999, -1])
def test_indices_that_do_not_exist(open_: Open, index: int) -> None:
    interpreter, _, _ = ready(open_, small())
    for call in (interpreter.get_tensor, lambda i: interpreter.set_tensor(i, np.zeros(1, np.int8))):
        with pytest.raises(ValueError, match="index"):
            call(index)


@each
def test_before_allocation(open_: Open) -> None:
    interpreter = open_(model_content=small())
    x, y = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    with pytest.raises(RuntimeError):
        interpreter.invoke()
    with pytest.raises(ValueError, match="allocate"):
        interpreter.get_tensor(y)
    with pytest.raises(ValueError, match="allocate"):
        interpreter.set_tensor(x, np.zeros((1, 6, 5, 2), np.int8))
    with pytest.raises(ValueError, match="allocate"):
        interpreter.tensor(x)()
    interpreter.reset_all_variables()


@each
def test_resize(open_: Open) -> None:
    interpreter, a, y = ready(open_, sum_of_two())
    b = interpreter.get_input_details()[1]["index"]
    for index in (a, b):
        interpreter.resize_tensor_input(index, np.array([4, 3], np.int32))
    assert interpreter.get_input_details()[0]["shape"].tolist() == [4, 3]
    with pytest.raises(RuntimeError):
        interpreter.invoke()
    interpreter.allocate_tensors()
    interpreter.set_tensor(a, np.ones((4, 3), np.float32))
    interpreter.set_tensor(b, np.full((4, 3), 2, np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(y), np.full((4, 3), 3, np.float32))
    assert interpreter.get_output_details()[0]["shape"].tolist() == [4, 3]
    for index in (a, b):
        interpreter.resize_tensor_input(index, [1, 3])
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(a).shape == (1, 3)


@ours
def test_resize_to_nothing(open_: Open) -> None:
    interpreter, a, y = ready(open_, sum_of_two())
    for details in interpreter.get_input_details():
        interpreter.resize_tensor_input(details["index"], [0, 3])
    interpreter.allocate_tensors()
    interpreter.set_tensor(a, np.ones((0, 3), np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(y).shape == (0, 3)


@each
def test_resizing_to_the_same_shape_changes_nothing(open_: Open) -> None:
    interpreter, x, _ = ready(open_, small())
    interpreter.resize_tensor_input(x, [1, 6, 5, 2])
    interpreter.invoke()


@each
def test_what_cannot_be_resized(open_: Open) -> None:
    interpreter, x, _ = ready(open_, small())
    for index, shape, strict in ((x, [1, -6, 5, 2], False), (999, [1], False), (x, [2, 6, 5, 2], True)):
        with pytest.raises((ValueError, RuntimeError)):
            interpreter.resize_tensor_input(index, shape, strict=strict)
    interpreter.resize_tensor_input(x, [7])
    with pytest.raises((ValueError, RuntimeError)):
        interpreter.allocate_tensors()


@each
def test_signature(open_: Open) -> None:
    interpreter = open_(model_content=sum_of_two())
    assert interpreter.get_signature_list() == {"serve": {"inputs": ["a", "b"], "outputs": ["add_2"]}}
    runner = interpreter.get_signature_runner()
    one = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(runner(a=one, b=one)["add_2"], one * 2)
    wide = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(runner(a=wide, b=wide * 3)["add_2"], wide * 4)  # resized as needed
    assert list(runner.get_input_details()) == ["a", "b"]
    assert runner.get_output_details()["add_2"]["dtype"] is np.float32
    for wrong in ({"a": one}, {"a": one, "c": one}, {"a": one, "b": one, "c": one}, {"a": one, "b": one.astype(int)}):
        with pytest.raises(ValueError):  # noqa: PT011
            runner(**wrong)
    with pytest.raises(ValueError, match="nope"):
        interpreter.get_signature_runner("nope")
    with pytest.raises(ValueError, match=r"0 [sS]ignatures"):
        open_(model_content=small()).get_signature_runner()


@each
def test_preserve_all_tensors(open_: Open) -> None:
    interpreter, x, y = ready(open_, small(), experimental_preserve_all_tensors=True)
    interpreter.set_tensor(x, np.full((1, 6, 5, 2), 5, np.int8))
    interpreter.invoke()
    named = {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_tensor_details() if d["name"]}
    conv = next(v for name, v in named.items() if name.startswith("conv_2d"))
    flat = next(v for name, v in named.items() if name.startswith("reshape"))
    assert conv.shape == (1, 3, 3, 4)
    np.testing.assert_array_equal(flat, conv.reshape(1, 36))
    assert conv.any()
    assert named["w"].dtype == np.int8
    plain, px, py = ready(open_, small())
    plain.set_tensor(px, np.full((1, 6, 5, 2), 5, np.int8))
    plain.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(y), plain.get_tensor(py))


@ours
def test_intermediate_tensors_and_constants_are_protected(open_: Open) -> None:
    interpreter, _, _ = ready(open_, small())
    index = {d["name"].split("_")[0]: d["index"] for d in interpreter.get_tensor_details()}
    with pytest.raises(InvalidArgumentError, match="experimental_preserve_all_tensors"):
        interpreter.get_tensor(index["reshape"])
    bias = interpreter.get_tensor(index["bias"])
    with pytest.raises(InvalidArgumentError, match="constant"):
        interpreter.set_tensor(index["bias"], bias)
    assert not interpreter.tensor(index["bias"])().flags.writeable


@ours
def test_on_call_sees_every_step(open_: Open) -> None:
    seen: list[tuple[int, str]] = []
    interpreter, x, y = ready(open_, small(), on_call=lambda i, step: seen.append((i, step.node.op)))
    interpreter.set_tensor(x, np.full((1, 6, 5, 2), 5, np.int8))
    interpreter.invoke()
    assert seen == [(0, "CONV_2D"), (1, "FULLY_CONNECTED")]  # the reshape is in place
    observed = interpreter.get_tensor(y)
    interpreter.on_call = None
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(y), observed)


@each
def test_construction(open_: Open, tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(small())
    open_(model_path=str(path), num_threads=4)
    open_(model_path=path, experimental_disable_delegate_clustering=True)
    for wrong in (
        {},
        {"model_path": str(path), "model_content": small()},
        {"model_path": str(tmp_path / "absent")},
        {"model_content": b"neither model nor anything else"},
        {"model_content": small(), "num_threads": 0},
        {"model_content": small(), "num_threads": "4"},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            open_(**wrong)


def test_delegates_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="delegates"):
        Interpreter(model_content=small(), experimental_delegates=[object()])


@ours
def test_unsupported_operators_are_told_before_anything_runs(open_: Open) -> None:
    b = Builder("custom")
    x = b.input("x", "FLOAT32", (1, 3))
    model = write(b.graph([b.op("CUSTOM:Mystery", [x], shape=(1, 3))]))
    interpreter = open_(model_content=model)
    assert interpreter.get_input_details()[0]["name"] == "x"
    with pytest.raises(UnsupportedOperatorError, match="Mystery"):
        interpreter.allocate_tensors()
    with pytest.raises(NotReadyError):
        interpreter.invoke()


@each
def test_a_second_allocation_changes_nothing(open_: Open) -> None:
    """Inputs keep their values, as in LiteRT; no shape has changed."""
    values = np.arange(3, dtype=np.float32).reshape(1, 3)
    interpreter = open_(model_content=sum_of_two())
    interpreter.allocate_tensors()
    a, b = (details["index"] for details in interpreter.get_input_details())
    for index, value in ((a, values), (b, 10 * values)):
        interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(index, value)
        interpreter.allocate_tensors()
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), 11 * values)


@pytest.mark.parametrize("type", NUMPY_TYPES)
def test_types_of_details_are_litert_s(type: str) -> None:
    x = Tensor("x", type, (2,))
    content = write(Graph("types", (x,), (), (x,), (x,)))
    mine, theirs = (open_(model_content=content).get_input_details()[0]["dtype"] for open_ in (Interpreter, litert))
    assert mine is theirs


def test_repaired_models_warn_where_the_interpreter_is_made(corpus: Path) -> None:
    path = corpus / "models/tflm_person_detect.tflite"
    for given in ({"model_path": path}, {"model_content": path.read_bytes()}):
        with pytest.warns(ModelWarning, match="14 1-D tensors") as said:
            Interpreter(**given)  # type: ignore[arg-type]
        assert said[0].filename == __file__
