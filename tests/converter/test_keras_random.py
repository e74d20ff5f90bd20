"""``from_keras`` over random arguments: every layer and operation that has an importer, each argument by default or at
random, against what Keras itself computes."""

from __future__ import annotations

import inspect
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from needs import deep_but, needs

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = needs("keras", os.environ["KERAS_BACKEND"])

from keras import layers as L  # noqa: E402
from onnx_tools import compare, run  # noqa: E402

import twinfer  # noqa: E402

ops = keras.ops
Shape = tuple[int, ...]

#: Keras's warning when it turns a PyTorch tensor into an array under NumPy 2.
pytestmark = [
    pytest.mark.usefixtures("planned_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask:UserWarning"),
    pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`:UserWarning"),
    pytest.mark.filterwarnings("ignore:(?s).*using a softmax over axis:UserWarning"),
]


BOOL = st.booleans()
SMALL = st.integers(1, 3)
PADDING = st.sampled_from(["valid", "same"])
EPSILON = st.sampled_from([1e-5, 0.1, 2.0])
ACTIVATIONS = st.sampled_from(
    ["celu", "elu", "exponential", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu", "linear",
     "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus",
     "softsign", "swish", "tanh", "tanh_shrink"]
)  # fmt: skip
BOUNDED = st.sampled_from(["hard_sigmoid", "hard_tanh", "relu6", "sigmoid", "softsign", "tanh"])


def pair(low: int, high: int) -> Any:
    each = st.integers(low, high)
    return each | st.tuples(each, each)


def axis(shape: Shape) -> Any:
    rank = len(shape)
    return st.integers(1, rank - 1) | st.integers(1 - rank, -1)


def axes(shape: Shape) -> Any:
    rank = len(shape)
    several = st.lists(st.integers(1, rank - 1), min_size=1, unique=True)
    return axis(shape) | several | several.map(lambda a: [d - rank for d in a])


def last(shape: Shape) -> Any:
    """The last dimension, or several up to it; for others Keras on PyTorch computes not what its pages say."""
    rank = len(shape)
    some = st.integers(1, rank - 1).map(lambda first: list(range(first, rank)))
    return (
        st.just(-1) | st.just(rank - 1) | some | some.map(lambda a: [d - rank for d in a]) | some.map(lambda a: a[::-1])
    )


def apart(shape: Shape) -> Any:
    return st.sampled_from([[1, 3], [3, 1], [1, -1], [-3, -1]] if len(shape) == 4 else [-1])


def conv(rank: int, **more: Any) -> Callable[[Shape], dict[str, Any]]:
    number = SMALL if rank == 1 else pair(1, 3)
    base = {
        "strides": number, "padding": PADDING, "dilation_rate": number, "use_bias": BOOL, "activation": ACTIVATIONS,
    }  # fmt: skip
    return lambda shape: {"kernel_size": number, **base, **more}


def pool(rank: int) -> Callable[[Shape], dict[str, Any]]:
    number = SMALL if rank == 1 else pair(1, 3)
    return lambda shape: {"pool_size": number, "strides": number, "padding": PADDING}


def groups_of(shape: Shape) -> Any:
    return st.sampled_from([n for n in range(1, shape[-1] + 1) if shape[-1] % n == 0])


def recurrent(**more: Any) -> Callable[[Shape], dict[str, Any]]:
    return lambda shape: {
        "units": SMALL, "activation": BOUNDED, "use_bias": BOOL, "return_sequences": BOOL, "return_state": BOOL,
        "go_backwards": BOOL, "unroll": BOOL, **more,
    }  # fmt: skip


GATED = {"recurrent_activation": BOUNDED}
KINDS = ("Average", "Max")
KEEP = {"keepdims": BOOL}
AFFINE = {"epsilon": EPSILON, "center": BOOL, "scale": BOOL}
MODES = st.sampled_from(["nearest", "bilinear"])
PAIRS = st.integers(0, 2), st.tuples(st.integers(0, 2), st.integers(0, 2))
EDGES = {1: PAIRS[0] | PAIRS[1], 2: PAIRS[0] | PAIRS[1] | st.tuples(PAIRS[1], PAIRS[1])}

#: Layers by the number of dimensions of their input, and what their arguments may be for its shape.
LAYERS: dict[str, dict[str, tuple[tuple[int, ...], Callable[[Shape], dict[str, Any]]]]] = {
    "conv": {
        "Conv1D": ((3,), conv(1, filters=SMALL, groups=SMALL)),
        "Conv2D": ((4,), conv(2, filters=SMALL, groups=SMALL)),
        "DepthwiseConv1D": ((3,), conv(1, depth_multiplier=SMALL)),
        "DepthwiseConv2D": ((4,), conv(2, depth_multiplier=SMALL)),
        "SeparableConv1D": ((3,), conv(1, filters=SMALL, depth_multiplier=SMALL)),
        "SeparableConv2D": ((4,), conv(2, filters=SMALL, depth_multiplier=SMALL)),
        "Conv1DTranspose": ((3,), conv(1, filters=SMALL, output_padding=st.integers(0, 2))),
        "Conv2DTranspose": ((4,), conv(2, filters=SMALL, output_padding=pair(0, 2))),
    },
    "pool": {
        **{f"{kind}Pooling{rank}D": ((rank + 2,), pool(rank)) for kind in KINDS for rank in (1, 2)},
        **{
            f"Global{kind}Pooling{rank}D": ((rank + 2,), lambda s: KEEP) for kind in KINDS for rank in (1, 2)
        },
    },
    "normalize": {
        "BatchNormalization": ((2, 3, 4), lambda s: {"axis": axis(s), **AFFINE}),
        "LayerNormalization": ((2, 3, 4), lambda s: {"axis": last(s) | apart(s), **AFFINE, "rms_scaling": BOOL}),
        "GroupNormalization": (
            (2, 3, 4),
            lambda s: {"groups": groups_of(s) | st.just(-1), "axis": axis(s), **AFFINE},
        ),
        "RMSNormalization": ((2, 3, 4), lambda s: {"axis": last(s), "epsilon": EPSILON}),
        "UnitNormalization": ((2, 3, 4), lambda s: {"axis": axes(s)}),
        "Rescaling": (
            (2, 3, 4),
            lambda s: {
                "scale": st.floats(-2, 2, width=16) | st.just(list(range(1, s[-1] + 1))),
                "offset": st.floats(-2, 2, width=16) | st.just(list(range(s[-1]))),
            },
        ),
        "Normalization": ((2, 3, 4), lambda s: {"axis": st.none() | axes(s), "invert": BOOL}),
    },
    "activation": {
        "Activation": ((2, 3, 4), lambda s: {"activation": ACTIVATIONS}),
        "ELU": ((2, 3, 4), lambda s: {"alpha": st.sampled_from([0.0, 0.3, 1.0, 2.0])}),
        "LeakyReLU": ((2, 3, 4), lambda s: {"negative_slope": st.sampled_from([0.0, 0.01, 1.0, 1.5])}),
        "PReLU": ((2, 3, 4), lambda s: {"shared_axes": st.none() | axes(s).filter(lambda a: np.min(a) > 0)}),
        "ReLU": (
            (2, 3, 4),
            lambda s: {
                "max_value": st.sampled_from([None, 0.5, 1.0, 6.0]),
                "negative_slope": st.sampled_from([0.0, 0.2, 1.0]),
                "threshold": st.sampled_from([0.0, 0.25, 1.0]),
            },
        ),
        "Softmax": ((2, 3, 4), lambda s: {"axis": axes(s)}),
    },
    "move": {
        "CenterCrop": ((4,), lambda s: {"height": st.integers(1, s[1]), "width": st.integers(1, s[2])}),
        "Cropping1D": ((3,), lambda s: {"cropping": EDGES[1]}),
        "Cropping2D": ((4,), lambda s: {"cropping": EDGES[2]}),
        "ZeroPadding1D": ((3,), lambda s: {"padding": EDGES[1]}),
        "ZeroPadding2D": ((4,), lambda s: {"padding": EDGES[2]}),
        "UpSampling1D": ((3,), lambda s: {"size": SMALL}),
        "UpSampling2D": ((4,), lambda s: {"size": pair(1, 3), "interpolation": MODES}),
        "Resizing": ((4,), lambda s: {"height": st.integers(1, 12), "width": st.integers(1, 12)}),
        "Flatten": ((2, 3, 4), lambda s: {}),
        "Permute": ((2, 3, 4), lambda s: {"dims": st.permutations(range(1, len(s)))}),
        "RepeatVector": ((2,), lambda s: {"n": SMALL}),
        "Reshape": ((2, 3, 4), lambda s: {"target_shape": st.sampled_from([(-1,), (1, -1), (-1, s[-1])])}),
    },
    "dense": {
        "Dense": ((2, 3, 4), lambda s: {"units": SMALL, "use_bias": BOOL, "activation": ACTIVATIONS}),
        "EinsumDense": ((3,), lambda s: {"bias_axes": st.sampled_from([None, "d", "bd", "b"])}),
        "TimeDistributed": ((3, 4), lambda s: {}),
        "SpectralNormalization": ((3,), lambda s: {}),
        **{
            name: ((2, 3, 4), lambda s: {"rate": st.sampled_from([0.2, 0.5])})
            for name in ("AlphaDropout", "Dropout", "GaussianDropout")
        },
        "SpatialDropout1D": ((3,), lambda s: {"rate": st.just(0.5)}),
        "SpatialDropout2D": ((4,), lambda s: {"rate": st.just(0.5)}),
        "GaussianNoise": ((2, 3), lambda s: {"stddev": st.just(0.5)}),
        "Identity": ((2, 3), lambda s: {}),
        "ActivityRegularization": ((2, 3), lambda s: {"l1": st.just(0.1)}),
        "RandomBrightness": ((4,), lambda s: {"factor": st.just(0.5)}),
        "RandomContrast": ((4,), lambda s: {"factor": st.just(0.5)}),
        "RandomFlip": ((4,), lambda s: {"mode": st.just("horizontal")}),
        "RandomRotation": ((4,), lambda s: {"factor": st.just(0.5)}),
        "RandomTranslation": ((4,), lambda s: {"height_factor": st.just(0.5), "width_factor": st.just(0.5)}),
        "RandomZoom": ((4,), lambda s: {"height_factor": st.just(0.5)}),
    },
    "recurrent": {
        "SimpleRNN": ((3,), recurrent()),
        "GRU": ((3,), recurrent(reset_after=BOOL, **GATED)),
        "LSTM": ((3,), recurrent(unit_forget_bias=BOOL, **GATED)),
        "RNN": ((3,), lambda s: {"return_sequences": BOOL, "return_state": BOOL, "go_backwards": BOOL}),
        "Bidirectional": ((3,), lambda s: {"merge_mode": st.sampled_from(["concat", "sum", "mul", "ave", None])}),
    },
}  # fmt: skip


CASES = {name: case for family in LAYERS.values() for name, case in family.items()}
INNER = {"TimeDistributed": ("Dense", "Flatten", "LayerNormalization"), "SpectralNormalization": ("Dense",)}
CELLS = {"SimpleRNN": "SimpleRNNCell", "GRU": "GRUCell", "LSTM": "LSTMCell"}


def drawn(draw: Any, name: str, shape: Shape) -> dict[str, Any]:
    """Arguments of a layer: each that it can do without is left out or random."""
    strategies = CASES[name][1](shape)
    parameters = inspect.signature(getattr(L, name)).parameters
    needed = {n for n in strategies if n in parameters and parameters[n].default is inspect.Parameter.empty}
    rest = {n: s for n, s in strategies.items() if n not in needed}
    return draw(st.fixed_dictionaries({n: strategies[n] for n in needed}, optional=rest))  # type: ignore[no-any-return]


def made(draw: Any, name: str, shape: Shape) -> Any:
    own = drawn(draw, name, shape)
    if "strides" in own and "Pooling" not in name and np.max(own["strides"]) > 1:
        own.pop("dilation_rate", None)  # Keras has not both
    if np.max(own.get("output_padding", 0)) >= np.min(own.get("strides", 1)):
        own.pop("output_padding", None)
    if name == "Conv1D" and draw(BOOL):
        own["padding"] = "causal"
    if "groups" in own and name.startswith("Conv"):
        own["groups"] = math.gcd(own["groups"], shape[-1])
        own["filters"] *= own["groups"]
    if name == "GroupNormalization":
        own.setdefault("groups", 1)
        own["groups"] = math.gcd(own["groups"], shape[own.get("axis", -1)]) if own["groups"] > 0 else -1
    if name == "EinsumDense":
        own |= {
            "equation": "abc,cd->abd",
            "output_shape": (None, 3) if "b" not in (own.get("bias_axes") or "") else (shape[1], 3),
        }
    if name == "Normalization":
        at = own.get("axis", -1)
        size = [] if at is None else [shape[d] for d in sorted(d % len(shape) for d in np.atleast_1d(at))]
        own |= {n: np.random.default_rng(2).uniform(0.5, 2, size).tolist() for n in ("mean", "variance")}
        if size and draw(BOOL):  # a feature that never varied
            own["variance"] = np.zeros(size).tolist()
    if name == "RNN":
        cell = draw(st.sampled_from(list(CELLS)))
        inner = drawn(draw, cell, shape)
        own["cell"] = getattr(L, CELLS[cell])(
            **{n: v for n, v in inner.items() if not n.startswith("return") and n not in ("go_backwards", "unroll")}
        )
    if name == "Bidirectional":
        inner = drawn(draw, cell := draw(st.sampled_from(list(CELLS))), shape)
        inner["go_backwards"] = False
        own["layer"] = getattr(L, cell)(**inner)
        if draw(BOOL):
            own["backward_layer"] = getattr(L, cell)(**{**inner, "go_backwards": True, "use_bias": False})
    if name in INNER:
        inside = (shape[0], *shape[2:]) if name == "TimeDistributed" else shape
        own["layer"] = made(draw, draw(st.sampled_from(INNER[name])), inside)
    return getattr(L, name)(**own)


def randomised(model: Any) -> Any:
    rng = np.random.default_rng(1)
    for variable in model.variables:
        if "float" in variable.dtype:
            low, high = (0.5, 1.5) if "variance" in variable.path else (-1, 1)
            variable.assign(rng.uniform(low, high, variable.shape).astype(np.float32))
    return model


def check(inputs: Any, outputs: Any, *feeds: Any) -> None:
    model = randomised(keras.Model(inputs, outputs))
    results = model(list(feeds) if len(feeds) > 1 else feeds[0], training=False)
    want = [keras.ops.convert_to_numpy(v) for v in keras.tree.flatten(results)]
    graph = twinfer.from_keras(model, batch=feeds[0].shape[0])
    named = {t.name: x for t, x in zip(graph.inputs, feeds, strict=True)}
    for each in (graph, twinfer.convert(graph)):
        compare(run(each, named), want, 1e-5)


def random(examples: int) -> Any:
    health, phases = list(HealthCheck), [Phase.generate]
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=health,
        phases=phases,
    )


def drawn_shape(draw: Any, ranks: Sequence[int]) -> Shape:
    rank = draw(st.sampled_from(ranks))
    sides = [draw(st.integers(4, 9)) for _ in range(rank - 2)]
    return (draw(st.integers(1, 2)), *sides, draw(st.integers(1, 6)))


def values(shape: Shape, seed: int = 2) -> np.ndarray:
    """Half of them are quarters, where thresholds and limits are."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, shape)
    return np.where(rng.random(shape) < 0.5, np.round(4 * x) / 4, x).astype(np.float32)


@pytest.mark.parametrize("name", CASES)
@random(2)
@given(data=st.data())
def test_layer(name: str, data: Any) -> None:
    shape = drawn_shape(data.draw, CASES[name][0])
    x = keras.Input(shape[1:])
    layers = [made(data.draw, name, shape) for _ in range(2 if name in LAYERS["recurrent"] else 4)]
    note(f"{shape}: " + "\n".join(str(layer.get_config()) for layer in layers))
    check(x, [layer(x) for layer in layers], values(shape))


SIDES = st.integers(-3, 2)
AXES = st.sampled_from([None, 0, 1, 2, -1, -3, (0, 1), (-1, 1), (2, 0)])

#: Functions of keras.ops of one float.
UNARY = (
    "ceil", "cos", "elu", "exp", "floor", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "log_sigmoid", "negative",
    "relu", "relu6", "round", "selu", "sigmoid", "silu", "sin", "softplus", "softsign", "tanh", "tanh_shrink",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "greater", "greater_equal", "less",
    "less_equal",
)  # fmt: skip


def operation(d: Callable[[Any], Any], name: str, x: Any, y: Any, i: Any, j: Any, b: Any) -> Any:
    """An operation over x and y (floats), i and j (integers) and b (whether), all [2, 4, 3]; ``d`` draws."""
    f = getattr(ops, name)
    if name in UNARY:
        return f(x)
    if name in BINARY:
        return f(*d(st.permutations(d(st.sampled_from([(x, y), (i, j), (x, i), (x, 2), (i, 3), (i, 1.5)])))))
    if name in ("max", "min", "amax", "amin", "mean", "sum", "var"):
        axis = d(AXES)
        keep = d(BOOL) and not (axis is None and name[-3:] in ("max", "min"))  # PyTorch's drop them
        return [f(v, axis=axis, keepdims=keep) for v in (x, i)]
    if name == "one_hot":
        kind = d(st.sampled_from(["float32", "int32"]))
        return f(ops.clip(i, -1, 2), 3, axis=d(st.integers(-1, 2)), dtype=kind)
    if name == "take_along_axis":
        axis = d(st.none() | SIDES)
        if axis is None:  # Keras on PyTorch counts negative ones from the end of dimension 0
            return f(x, ops.reshape(ops.clip(i, 0, 23), (-1,)))
        return f(
            x, ops.clip(i, -2, 1)[tuple(slice(0, 2) if n == axis % 3 else slice(None) for n in range(3))], axis=axis
        )
    if name in ("divide", "true_divide"):
        return [f(v, w) for v, w in ((x, y + 9.5), (i, 4), (3, x + 9.5), (i, j + 9))]
    axis = d(SIDES)
    part = d(st.sampled_from([0, -1, [0, -2], [[1], [0]]]))
    cases: dict[str, Callable[[], Any]] = {
        "abs": lambda: [f(x), f(i)], "absolute": lambda: f(x), "sign": lambda: f(x), "square": lambda: [f(x), f(i)],
        "log": lambda: f(ops.abs(x) + 0.1), "sqrt": lambda: f(ops.abs(x)), "rsqrt": lambda: f(ops.abs(x) + 1),
        "celu": lambda: f(x, d(st.sampled_from([0.5, 1.0, 3.0]))),
        "elu": lambda: f(x, d(st.sampled_from([0.0, 0.5, 1.0]))),
        "gelu": lambda: f(x, approximate=d(BOOL)),
        "leaky_relu": lambda: f(x, d(st.sampled_from([0.0, 0.2, 1.5]))),
        "softmax": lambda: f(x, axis=d(st.none() | SIDES)), "log_softmax": lambda: f(x, axis=axis),
        "power": lambda: [x**2, ops.abs(x) ** 2.5, ops.abs(x) ** y, i**2, 2.0**y, x**3],
        "logical_and": lambda: f(b, i > 0), "logical_or": lambda: f(b, x > y), "logical_not": lambda: f(b),
        "broadcast_to": lambda: f(x[:, :1], (3, 2, 5, 3)),
        "cast": lambda: [f(v, d(st.sampled_from(["float32", "int32", "bool"]))) for v in (i, b, ops.abs(x) + 1)],
        "clip": lambda: [f(x, d(st.sampled_from([0, -1, 0.5])), d(st.sampled_from([1, 6, 2.5]))), f(i, -1, 2)],
        "concatenate": lambda: f(d(st.sampled_from([[x, y], [x, i, y], [i, j]])), axis=axis),
        "stack": lambda: f(d(st.sampled_from([[x, y], [x, i], [i, j]])), axis=d(st.integers(-4, 3))),
        "einsum": lambda: f(
            d(st.sampled_from(["abc,abd->acd", "abc,abd->bcd", "abc,adc->abd", "abc,abc->ab", "...c,...c->..."])), x, y
        ),
        "expand_dims": lambda: f(x, d(st.integers(-4, 3))),
        "squeeze": lambda: f(x[:, :1, :1], d(st.sampled_from([1, -1, -2, (1, 2)]))),
        "flip": lambda: f(x, d(st.sampled_from([None, 0, -1, (0, 2)]))),
        "matmul": lambda: [f(x, ops.transpose(y, (0, 2, 1))), f(x, np.ones((3, 2), np.float32)), f(x, i[0, 0])],
        "pad": lambda: f(x, ((0, 1), (2, 0), (0, axis % 3)), constant_values=d(st.sampled_from([None, 0, 2.5]))),
        "ravel": lambda: f(x), "reshape": lambda: f(x, (-1, 2, 3)), "copy": lambda: f(x), "stop_gradient": lambda: f(x),
        "repeat": lambda: f(x, d(SMALL), axis=axis), "swapaxes": lambda: f(x, axis, d(SIDES)),
        "split": lambda: [*f(x, d(st.sampled_from([2, 4, [1, 3], [2, 3]])), axis=d(st.sampled_from([1, -2])))],
        "transpose": lambda: f(x, d(st.permutations(range(3)))),
        "take": lambda: [f(x, part, axis=axis), f(x, ops.clip(i, 0, 1), axis=axis)],
        "where": lambda: [f(b, *d(st.sampled_from([(x, y), (x, 1), (i, x), (i, 2), (0.5, i)]))), f(i, x, y)],
    }  # fmt: skip
    return cases[name]()


OPERATIONS = (
    *UNARY, *BINARY, "max", "min", "amax", "amin", "mean", "sum", "var", "absolute", "one_hot",
    "take_along_axis", "divide", "true_divide", "abs", "sign",
    "square", "log", "sqrt", "rsqrt", "celu", "leaky_relu", "softmax", "log_softmax", "power", "logical_and",
    "logical_or", "logical_not", "broadcast_to", "cast", "clip", "concatenate", "stack", "einsum", "expand_dims",
    "squeeze", "flip", "matmul", "pad", "ravel", "reshape", "copy", "stop_gradient", "repeat", "swapaxes",
    "split", "transpose", "take", "where",
)  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
@random(2)
@given(data=st.data())
def test_operation(name: str, data: Any) -> None:
    shape = (2, 4, 3)
    types = ("float32", "float32", "int32", "int32", "bool")
    inputs = [keras.Input(shape[1:], batch_size=2, dtype=kind, name=f"x{k}") for k, kind in enumerate(types)]
    outputs = operation(data.draw, name, *inputs)
    feeds = [np.asarray(values(shape, k) * (1 + (k in (2, 3))), kind) for k, kind in enumerate(types[:4])]
    check(inputs, keras.tree.flatten(outputs), *feeds, np.random.default_rng(5).integers(0, 2, shape).astype(bool))


def test_parts_of_a_tensor() -> None:
    """Numbers, slices, None and ... in every order, as far as the tensor has dimensions; one number, too."""
    x = keras.Input((4, 3), batch_size=2)
    parts: list[Any] = [..., None, -2, slice(1, None, 2)]
    keys = [key for key in itertools.product(parts, repeat=2) if key.count(...) < 2]
    keys += [*itertools.permutations([..., None, 0]), (), (...,), (0, slice(0, -1), -1)]
    check(x, [x[0], *(x[key] for key in keys)], values((2, 4, 3)))


def test_relu_with_all_its_arguments() -> None:
    x = keras.Input((40,))
    table = itertools.product([None, 0.5, 6.0], [0.0, 0.2, 1.0], [0.0, 0.25, 1.0])
    check(x, [L.ReLU(top, slope, threshold)(x) for top, slope, threshold in table], values((2, 40)))


MERGES = ("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract")


BROADCAST = [((3, 4), (4,)), ((4,), (2, 3, 4)), ((2, 3, 4), (3, 4)), ((2, 1, 4), (3, 1)), ((1,), (1, 3, 1)),
             ((1, 4), (3, 1))]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), deep_but(BROADCAST, *BROADCAST[::2]))
def test_merges_broadcast(one: Shape, other: Shape) -> None:
    a, b, c = keras.Input(one), keras.Input(other), keras.Input(one)
    outputs = [getattr(L, name)()([a, b]) for name in MERGES]
    outputs += [getattr(L, name)()(o) for name in MERGES if name != "Subtract" for o in ([b, a, c], [c, b, a])]
    check([a, b, c], outputs, *(values((2, *shape), k) for k, shape in enumerate((one, other, one))))


def test_products_of_inputs_over_every_axis() -> None:
    shapes = {"u": (4,), "v": (4,), "m": (3, 4), "n": (4, 3), "w": (5, 4)}
    x = {name: keras.Input(shape) for name, shape in shapes.items()}
    outputs = []
    for a, b in itertools.product(shapes, shapes):
        for i, j in itertools.product(range(1, len(shapes[a]) + 1), range(1, len(shapes[b]) + 1)):
            if shapes[a][i - 1] == shapes[b][j - 1] and a != b:
                normalize = len(outputs) % 3 == 0
                turned = (i - 1 - len(shapes[a]), j) if normalize else (i, j - 1 - len(shapes[b]))
                outputs.append(L.Dot(turned if i != j else i, normalize=normalize)([x[a], x[b]]))
    assert len(outputs) > 15
    check([*x.values()], outputs, *(values((2, *shape), k) for k, shape in enumerate(shapes.values())))


@random(2)
@given(data=st.data())
def test_states_that_layers_are_given(data: Any) -> None:
    """Alone and in both directions, each of which has states of its own."""
    units = data.draw(SMALL)
    x, states = keras.Input((4, 2)), [keras.Input((units,)) for _ in range(4)]
    outputs = []
    for name, count in (("SimpleRNN", 1), ("GRU", 1), ("LSTM", 2)):
        own = {n: v for n, v in drawn(data.draw, name, (2, 4, 2)).items() if n not in ("units", "go_backwards")}
        outputs.append(getattr(L, name)(units, **own)(x, initial_state=states[:count]))
        outputs.append(L.Bidirectional(getattr(L, name)(units, **own))(x, initial_state=states[: 2 * count]))
    check([x, *states], keras.tree.flatten(outputs), values((2, 4, 2)), *(values((2, units), k) for k in range(4)))


@random(2)
@given(data=st.data())
def test_attention(data: Any) -> None:
    """Self and cross attention by the layer with an importer and by two that are followed."""
    shape = drawn_shape(data.draw, (3,))
    longer = (shape[0], shape[1] + 2, shape[2])
    x, y, z = keras.Input(shape[1:]), keras.Input(longer[1:]), keras.Input(longer[1:])
    free = {"value_dim": SMALL, "use_bias": BOOL, "output_shape": SMALL, "dropout": st.just(0.5)}
    own = data.draw(st.fixed_dictionaries({"num_heads": SMALL, "key_dim": SMALL}, optional=free))
    call = data.draw(st.fixed_dictionaries({}, optional={"use_causal_mask": BOOL, "return_attention_scores": BOOL}))
    outputs = [L.MultiHeadAttention(**own)(x, y, z, **call), L.MultiHeadAttention(**own)(y, x, x, **call)]
    outputs += [L.Attention(use_scale=data.draw(BOOL))([x, y])]
    check([x, y, z], keras.tree.flatten(outputs), values(shape, 1), values(longer, 2), values(longer, 3))


@random(4)
@given(data=st.data())
def test_masks_that_layers_are_given(data: Any) -> None:
    """Of truth values or numbers, for all heads or each, all queries or each; a row may be hidden whole."""
    n, time, heads = 2, data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    shown = data.draw(st.sampled_from([(n, time, time), (n, 1, time), (n, heads, time, time)]))
    x, kind = keras.Input((time, 3)), data.draw(st.sampled_from(["bool", "int32", "float32"]))
    mask = keras.Input(shown[1:], dtype=kind)
    own = data.draw(st.fixed_dictionaries({}, optional={"dropout": st.just(0.5), "value_dim": SMALL}))
    call = data.draw(
        st.fixed_dictionaries({}, optional={"use_causal_mask": st.just(True), "return_attention_scores": BOOL})
    )
    outputs = [L.MultiHeadAttention(heads, 2, **own)(x, x, attention_mask=mask, **call)]
    outputs += [L.Softmax(axis=a)(ops.matmul(x, ops.transpose(x, (0, 2, 1)))[:, None], mask[:, -time:][:, None])
                for a in (-1, -2) if len(shown) == 3]  # fmt: skip
    table = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 2, shown)
    table[0, ..., 0, :] = 0
    check([x, mask], keras.tree.flatten(outputs), values((n, time, 3)), table.astype(kind))


@pytest.mark.parametrize("axis", [1, (1, 2), -2])
def test_layer_normalization_over_any_dimension(axis: Any) -> None:
    """As Keras's pages say and its other backends do; on PyTorch a single dimension is taken for the last."""
    layer, x = L.LayerNormalization(axis=axis, epsilon=0.1), values((2, 4, 3, 5))
    inputs = keras.Input(x.shape[1:])
    model = randomised(keras.Model(inputs, layer(inputs)))
    middle, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    kept = [n if d in np.atleast_1d(axis) % 4 else 1 for d, n in enumerate(x.shape)]
    gamma, beta = (keras.ops.convert_to_numpy(v).reshape(kept) for v in (layer.gamma, layer.beta))
    graph = twinfer.from_keras(model, batch=2)
    compare(run(graph, {graph.inputs[0].name: x}), [(x - middle) / np.sqrt(variance + 0.1) * gamma + beta], 1e-5)


FIRST = [name for name in CASES if "data_format" in inspect.signature(getattr(L, name)).parameters]


@pytest.mark.parametrize("name", FIRST)
def test_channels_first(name: str) -> None:
    x = keras.Input((3, 8, 8) if 4 in CASES[name][0] else (3, 8))
    needed = {"filters": 2, "kernel_size": 2, "pool_size": 2, "height": 4, "width": 4, "factor": 0.5, "rate": 0.5,
              "height_factor": 0.2, "width_factor": 0.2, "size": 2, "padding": 1, "cropping": 1}  # fmt: skip
    known = inspect.signature(getattr(L, name)).parameters
    own = {n: v for n, v in needed.items() if n in known and known[n].default is inspect.Parameter.empty}
    model = keras.Model(x, getattr(L, name)(**own, data_format="channels_first")(x))
    check(x, model.output, values((1, *x.shape[1:])))


def masked(x: Any) -> Any:
    return L.Embedding(4, 3, mask_zero=True)(x)


CARRIED: dict[str, Callable[[Any], Any]] = {
    "of attention": lambda x: L.MultiHeadAttention(1, 2)(masked(x), masked(x)),
    "of queries": lambda x: L.MultiHeadAttention(1, 2)(masked(x), L.Embedding(4, 3)(x)),
    "of keys": lambda x: L.MultiHeadAttention(1, 2)(L.Embedding(4, 3)(x), L.Embedding(4, 3)(x), masked(x)),
    "of one of two": lambda x: L.Attention()([L.Embedding(4, 3)(x), masked(x)]),
    "of a layer that is followed": lambda x: L.Attention()([masked(x), masked(x)]),
    "by place": lambda x: L.GlobalAveragePooling1D()(L.Embedding(4, 3)(x), x > 1),
    "of a query": lambda x: L.MultiHeadAttention(1, 2)(L.Embedding(4, 3)(x), L.Embedding(4, 3)(x), query_mask=x > 1),
    "through others": lambda x: L.GlobalAveragePooling1D()(L.Add()([L.ReLU()(masked(x)), masked(x)])),
    "by Masking": lambda x: L.GlobalAveragePooling1D()(L.Masking()(L.Rescaling(1)(x[..., None]))),
    "by the layer before": lambda x: L.LSTM(2)(masked(x)),
    "a recurrent layer through others": lambda x: L.GRU(2)(L.Add()([masked(x), L.LayerNormalization()(masked(x))])),
    "of a model inside": lambda x: keras.Model(y := keras.Input((5, 3)), L.SimpleRNN(2)(y))(masked(x)),
    "by place, behind a state": lambda x: L.LSTM(2)(L.Embedding(4, 3)(x), None, x > 0),
    "by name": lambda x: L.Bidirectional(L.LSTM(2))(L.Embedding(4, 3)(x), mask=x > 0),
    "a constant": lambda x: L.LSTM(2)(L.Embedding(4, 3)(x), mask=np.array([[1, 1, 0, 1, 0]], bool).repeat(2, 0)),
}  # fmt: skip


@pytest.mark.parametrize("how", CARRIED)
def test_masks_are_carried(how: str) -> None:
    x = keras.Input((5,), batch_size=2, dtype="int32")
    check(x, CARRIED[how](x), np.array([[1, 2, 3, 0, 0], [2, 1, 2, 3, 0]], np.int32))
