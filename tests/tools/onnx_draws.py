"""Random ONNX nodes for differential tests: each attribute is absent or random, each optional input absent or there.

``DRAWS`` has a function per operator, or per group of them, that draws one node, and how many are drawn. NumPy draws
from a seed: hypothesis likes equal and small choices, and so misses combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx_tools import Array, model

FLOAT, INTS = np.float32, (np.int32, np.int64)


@dataclass
class Drawn:
    """One node with its inputs at run time, its constants and its attributes. ``order`` names its inputs, "": absent.

    ``refused``: a pattern of what twinfer may say that it cannot do; none: it must convert.
    """

    op: str
    inputs: dict[str, Array]
    constants: dict[str, Array] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("y",)
    opset: int = 17
    domain: str = ""
    tolerance: float = 2e-5
    refused: str = ""


def proto_of(drawn: Drawn) -> onnx.ModelProto:
    names = drawn.order or (*drawn.inputs, *drawn.constants)
    while not names[-1]:
        names = names[:-1]
    node = helper.make_node(drawn.op, list(names), list(drawn.outputs), domain=drawn.domain, **drawn.attributes)
    return model([node], drawn.inputs, drawn.constants, [name for name in drawn.outputs if name], drawn.opset)


class Draw:
    """What functions of DRAWS draw from."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def whole(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self) -> bool:
        return bool(self.rng.integers(2))

    def some(self, **choices: Sequence[Any]) -> dict[str, Any]:
        """Attributes: each is absent, or one of its choices."""
        return {key: self.pick(*values) for key, values in choices.items() if self.chance()}

    def shape(self, low: int, high: int, most: int = 4) -> tuple[int, ...]:
        return tuple(self.whole(1, most) for _ in range(self.whole(low, high)))

    def floats(self, *shape: int) -> Array:
        """Half of them are quarters, where limits are and which may be equal."""
        x = self.rng.normal(size=shape)
        return np.where(self.rng.random(shape) < 0.5, np.round(4 * x) / 4, x).astype(np.float32)

    def ints(self, low: int, high: int, shape: Sequence[int], dtype: Any = np.int64) -> Array:
        return self.rng.integers(low, high, tuple(shape)).astype(dtype)

    def values(self, shape: Sequence[int], dtype: Any) -> Array:
        return self.floats(*shape) if dtype == FLOAT else self.ints(-9, 10, shape, dtype)

    def axis(self, rank: int) -> int:
        return self.whole(-rank, rank - 1)

    def broadcast(self, count: int) -> list[tuple[int, ...]]:
        """Shapes that broadcast to one: dimensions in front are left out, others are one."""
        full = self.shape(0, 5, 3)
        shapes = [
            tuple(self.pick(n, n, 1) for n in full[self.pick(0, 0, self.whole(0, len(full))) :]) for _ in range(count)
        ]
        return shapes

    def where(self, values: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """The values as inputs at run time and as constants, at random; one at least is an input."""
        known = {key for key in values if self.chance()}
        known -= {next(iter(values))} if len(known) == len(values) else set()
        return {k: v for k, v in values.items() if k not in known}, {k: v for k, v in values.items() if k in known}


def _of_values(d: Draw, op: str, values: dict[str, Array], **more: Any) -> Drawn:
    inputs, constants = d.where(values)
    return Drawn(op, inputs, constants, order=tuple(values), **more)


UNARY = (
    "Abs", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sqrt", "Tanh",
    "Relu", "HardSwish", "Softplus", "Softsign", "Mish", "Identity", "Not", "IsNaN", "Size",
)  # fmt: skip


def unary(op: str) -> Callable[[Draw], Drawn]:
    """A function for DRAWS, with the operator's name."""

    def draw(d: Draw) -> Drawn:
        x = d.floats(*d.shape(0, 5)) * d.pick(1, 4)
        x = np.abs(x) + FLOAT(0.1) if op in ("Log", "Sqrt", "Reciprocal") else x > 0 if op == "Not" else x
        x = np.where(x > 0.5, FLOAT(np.nan), x) if op == "IsNaN" else x
        return Drawn(op, {"x": np.asarray(x)}, opset=20 if op == "Mish" else d.pick(14, 17, 20))

    draw.__name__ = op
    return draw


def activation(d: Draw) -> Drawn:
    op, some = d.pick(
        ("LeakyRelu", {"alpha": (0.3, 0.0, 1.5)}), ("Elu", {"alpha": (0.5, 1.0, 2.0)}),
        ("Selu", {"alpha": (0.5, 1.7), "gamma": (0.5, 2.0)}), ("Celu", {"alpha": (0.5, 1.0, 3.0)}),
        ("HardSigmoid", {"alpha": (0.1, 1 / 6), "beta": (0.3, 0.6)}), ("Gelu", {"approximate": ("none", "tanh")}),
        ("ThresholdedRelu", {"alpha": (0.5, 1.0)}), ("Swish", {"alpha": (0.5, 2.0)}),
    )  # fmt: skip
    x = {"x": 3 * d.floats(*d.shape(1, 5))}
    opset = 24 if op == "Swish" else 20
    return Drawn(op, x, attributes=d.some(**some), opset=opset, refused="ThresholdedRelu" * (op == "ThresholdedRelu"))


def clip(d: Draw) -> Drawn:
    kind = d.pick(FLOAT, np.int32)
    low, high = d.pick((0, 6), (-1, 1), (0, 1), (-2, 3), (1, 2))
    if kind == FLOAT:
        low, high = d.pick(low, low, -np.inf), d.pick(high, high, np.inf)
    values = {"x": d.values(d.shape(1, 4), kind) * kind(2)}
    values |= {"low": np.array(low, kind)} if d.pick(0, 1, 1) else {}
    values |= {"high": np.array(high, kind)} if d.pick(0, 1, 1) else {}
    inputs, constants = {"x": values.pop("x")}, values
    if d.chance():
        inputs, constants = inputs | constants, {}
    order = ("x", *(key if key in values else "" for key in ("low", "high")))
    return Drawn("Clip", inputs, constants, order=order, opset=d.pick(12, 13, 17))


def prelu(d: Draw) -> Drawn:
    shape = d.shape(2, 4)
    slope = d.pick((), (1,), shape[1:2] + (1,) * (len(shape) - 2), (1, shape[1]) + (1,) * (len(shape) - 2), shape[-1:])
    return _of_values(d, "PRelu", {"x": d.floats(*shape), "s": d.floats(*slope)})


def softmax(d: Draw) -> Drawn:
    x = d.floats(*d.shape(d.pick(1, 3), 4))
    opset = d.pick(11, 12, 13, 17)
    some = {"axis": d.axis(x.ndim)} if d.chance() else {}
    if x.ndim == 1 and opset < 13 and not some:
        some = {"axis": 0}  # the default is 1, which there is not
    return Drawn(d.pick("Softmax", "LogSoftmax"), {"x": x}, attributes=some, opset=opset)


def arithmetic(d: Draw) -> Drawn:
    op, kind = d.pick("Add", "Sub", "Mul", "Div"), d.pick(FLOAT, FLOAT, *INTS)
    a, b = (d.values(shape, kind) for shape in d.broadcast(2))
    b = np.asarray(np.where(b == 0, kind(3), b), kind) if op == "Div" else b
    return _of_values(d, op, {"a": a, "b": b}, opset=d.pick(13, 14, 17), refused="INT64" * (kind == np.int64))


def power(d: Draw) -> Drawn:
    x = np.abs(d.floats(*d.shape(0, 2))) + FLOAT(0.1)
    e = np.full(d.pick((), (1,), (1, 1), (1, 1, 1, 1), x.shape), d.pick(2, 2, 0.5, 3, -1, 1, 0), FLOAT)
    if d.chance():
        e = e.astype(d.pick(*INTS))
    inexact = ""
    if d.pick(0, 0, 1):
        x, e = d.ints(1, 5, x.shape, np.int32), np.full(e.shape, d.pick(2, 3, 2.5, 2.5, 1, 0)).astype(e.dtype)
        inexact = "no exact form" * (e.dtype in (FLOAT, np.int64))
    return (
        Drawn("Pow", {"x": x}, {"e": e}, refused=inexact)
        if d.chance()
        else Drawn("Pow", {"x": x, "e": e}, refused=inexact)
    )


def variadic(d: Draw) -> Drawn:
    op = d.pick("Min", "Max", "Sum", "Mean")
    kind = d.pick(FLOAT, np.int32) if op in ("Min", "Max") else FLOAT
    values = {f"x{i}": d.values(s, kind) for i, s in enumerate(d.broadcast(d.whole(1, 4)))}
    return _of_values(d, op, values)


def comparison(d: Draw) -> Drawn:
    op = d.pick("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or")
    kind = np.bool_ if op in ("And", "Or") else d.pick(FLOAT, *INTS)
    return _of_values(d, op, {k: d.ints(0, 3, s).astype(kind) for k, s in zip("ab", d.broadcast(2), strict=True)})


def where(d: Draw) -> Drawn:
    c, a, b = d.broadcast(3)
    kind = d.pick(FLOAT, *INTS)
    return _of_values(
        d, "Where", {"c": d.ints(0, 2, c).astype(np.bool_), "a": d.values(a, kind), "b": d.values(b, kind)}
    )


def cast(d: Draw) -> Drawn:
    x = d.ints(-9, 10, d.shape(0, 3)).astype(d.pick(FLOAT, *INTS, np.bool_))
    target = d.pick(FLOAT, *INTS, np.bool_, np.int8)
    if d.chance():
        return Drawn("Cast", {"x": x}, attributes={"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))})
    return Drawn("CastLike", {"x": x}, {"like": np.zeros(1, target)})


def layout(d: Draw) -> Drawn:
    x = d.floats(*d.shape(1, 4))
    rank, op = x.ndim, d.pick("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Shape", "Dropout")
    if op == "Reshape":
        shape = [*x.shape, 1] if d.chance() else [x.size]
        shape[d.whole(0, len(shape) - 1)] = -1
        shape = [0 if i < rank and n == x.shape[i] and d.chance() else n for i, n in enumerate(shape)]
        return Drawn(op, {"x": x}, {"s": np.array(shape)}, d.some(allowzero=(0,)))
    if op == "Flatten":
        return Drawn(op, {"x": x}, attributes=d.some(axis=range(-rank, rank + 1)))
    if op in ("Squeeze", "Unsqueeze"):
        at = sorted({d.whole(0, rank) for _ in range(d.whole(1, 2))})
        x = np.expand_dims(x, tuple(a for a in at if a <= rank)) if op == "Squeeze" else x
        axes = np.array([a - x.ndim - len(at) * (op == "Unsqueeze") if d.chance() else a for a in at])
        if op == "Squeeze" and d.chance():
            return Drawn(op, {"x": x}, opset=d.pick(11, 13))
        if d.chance():
            return Drawn(op, {"x": x}, attributes={"axes": axes.tolist()}, opset=11)
        return Drawn(op, {"x": x}, {"a": axes})
    if op == "Transpose":
        return Drawn(op, {"x": x}, attributes={"perm": d.rng.permutation(rank).tolist()} if d.chance() else {})
    if op == "Expand":
        shape = [d.pick(n, 1) if n > 1 else d.whole(1, 3) for n in x.shape][d.whole(0, rank) :]
        return Drawn(
            op, {"x": x}, {"s": np.array([*([2] if d.chance() and len(shape) == rank else []), *shape], np.int64)}
        )
    if op == "Shape":
        some = d.some(start=range(-rank - 1, rank + 1), end=range(-rank - 1, rank + 2))
        return Drawn(op, {"x": x}, attributes=some)
    return Drawn(op, {"x": x}, attributes=d.some(seed=(3,)), opset=d.pick(12, 13), outputs=d.pick(("y",), ("y", "m")))


def concat(d: Draw) -> Drawn:
    shape, count = d.shape(1, 4), d.whole(1, 4)
    axis, kind = d.axis(len(shape)), d.pick(FLOAT, *INTS)
    shapes = [[d.whole(1, 3) if i == axis % len(shape) else n for i, n in enumerate(shape)] for _ in range(count)]
    return _of_values(
        d, "Concat", {f"x{i}": d.values(s, kind) for i, s in enumerate(shapes)}, attributes={"axis": axis}
    )


def split(d: Draw) -> Drawn:
    x = d.floats(*d.shape(1, 3, 7))
    axis = d.axis(x.ndim)
    extent, some = x.shape[axis], {"axis": axis} if axis % x.ndim or d.chance() else {}
    count = d.whole(1, min(3, extent))
    outputs = tuple("abc"[:count])
    sizes = [*[extent // count] * (count - 1), extent - extent // count * (count - 1)]
    sizes = d.rng.permutation(sizes).tolist()
    how = d.pick("input", "attribute", "number", "even")
    if how == "input":
        return Drawn("Split", {"x": x}, {"s": np.array(sizes)}, some, outputs=outputs, opset=d.pick(13, 18))
    if how == "attribute":
        return Drawn("Split", {"x": x}, {}, some | {"split": sizes}, outputs=outputs, opset=11)
    if how == "number":
        return Drawn("Split", {"x": x}, {}, some | {"num_outputs": count}, outputs=outputs, opset=18)
    if extent % count:
        outputs = ("a",)
    return Drawn("Split", {"x": x}, {}, some, outputs=outputs, opset=d.pick(11, 13))


def slice_(d: Draw) -> Drawn:
    x = d.floats(*d.shape(1, 4, 6))
    count, kind = d.whole(1, x.ndim), d.pick(*INTS)
    axes = d.rng.permutation(x.ndim)[:count] if d.chance() else None
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for axis in range(count) if axes is None else axes:
        n, step = x.shape[axis], d.pick(1, 1, 2, -1, -2)
        start, end = d.whole(-n - 2, n + 2), d.pick(d.whole(-n - 2, n + 2), np.iinfo(kind).max, np.iinfo(kind).min)
        if not len(range(*slice(start, end, step).indices(n))):  # TFLite hardly has empty tensors
            start, end, step = 0, np.iinfo(kind).max, abs(step)
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
    constants = {"s": np.array(starts, kind), "e": np.array(ends, kind)}
    constants |= {"a": np.where(d.chance(), axes - x.ndim, axes).astype(kind)} if axes is not None else {}
    constants |= {"t": np.array(steps, kind)} if set(steps) != {1} or d.chance() else {}
    order = ("x", "s", "e", "a" if "a" in constants else "", "t" if "t" in constants else "")
    return Drawn("Slice", {"x": x}, constants, order=order, opset=d.pick(11, 13))


def pad(d: Draw) -> Drawn:
    x = d.values(d.shape(1, 4, 5), d.pick(FLOAT, FLOAT, np.int32))
    mode = d.pick("", "constant", "reflect", "edge", "wrap")
    opset = d.pick(18, 19) if mode == "wrap" else d.pick(11, 13, 18)
    opset = 19 if mode == "wrap" else opset
    axes = d.rng.permutation(x.ndim)[: d.whole(1, x.ndim)] if opset >= 18 and d.chance() else np.arange(x.ndim)
    most = [min(2, n - 1) if mode in ("reflect", "wrap") else 2 for n in np.array(x.shape)[axes]]
    pads = [d.whole(0, m) for m in [*most, *most]]
    if d.chance():  # negative ones cut
        pads = [max(p - 2, (1 - x.shape[axes[i % len(axes)]]) // 2) for i, p in enumerate(pads)]
    constants: dict[str, Array] = {"p": np.array(pads)}
    constants |= {"v": np.array(3, x.dtype)} if mode in ("", "constant") and d.chance() else {}
    order = ["x", "p", "v" if "v" in constants else ""]
    if len(axes) < x.ndim or list(axes) != sorted(axes):
        constants["a"] = axes - x.ndim if d.chance() else axes
        order.append("a")
    return Drawn("Pad", {"x": x}, constants, {"mode": mode} if mode else {}, order=tuple(order), opset=opset)


def indexed(d: Draw) -> Drawn:
    """Operators that take indices, which count from either end, at run time or as constants."""
    op, kind = d.pick("Gather", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"), d.pick(*INTS)
    x = d.values(d.shape(1, 3), d.pick(FLOAT, FLOAT, np.int32))
    axis = d.axis(x.ndim)
    some = {"axis": axis} if axis % x.ndim or d.chance() else {}
    n = x.shape[axis]
    if op == "Gather":
        return _of_values(d, op, {"x": x, "i": d.ints(-n, n, d.shape(0, 2), kind)}, attributes=some)
    if op == "GatherElements":
        shape = [d.whole(1, 4) if i == axis % x.ndim else d.whole(1, m) for i, m in enumerate(x.shape)]
        return _of_values(d, op, {"x": x, "i": d.ints(-n, n, shape, kind)}, attributes=some)
    if op == "ScatterElements":
        shape = [d.whole(1, m) for m in x.shape]
        i = np.apply_along_axis(lambda _: d.rng.permutation(n)[: shape[axis]], axis, np.zeros(shape))
        i = (i - n * d.ints(0, 2, shape)).astype(kind)
        return Drawn(op, {"x": x, "u": d.values(shape, x.dtype)}, {"i": i}, some, ("x", "i", "u"), opset=d.pick(11, 16))
    depth = d.whole(1, x.ndim)
    rows = d.rng.permutation(int(np.prod(x.shape[:depth])))[: d.whole(1, 3)]
    i = np.stack(np.unravel_index(rows, x.shape[:depth]), -1)
    i = (i - np.array(x.shape[:depth]) * d.ints(0, 2, i.shape)).astype(np.int64)
    if op == "GatherND":
        return _of_values(d, op, {"x": x, "i": i}, attributes=d.some(batch_dims=(0,)))
    u = d.values((len(rows), *x.shape[depth:]), x.dtype)
    return Drawn(op, {"x": x, "u": u}, {"i": i}, order=("x", "i", "u"))


def one_hot(d: Draw) -> Drawn:
    depth, shape = d.whole(1, 4), d.shape(0, 3)
    i = d.ints(-depth - 1, depth + 2, shape)  # beyond the depth there is no one
    values = d.values((2,), d.pick(FLOAT, np.int64, np.int32))
    some = {"axis": d.axis(len(shape) + 1)} if d.chance() else {}
    inputs, constants = {"i": i}, {"d": np.array(depth if d.chance() else [depth]), "v": values}
    if d.chance():
        inputs["v"] = constants.pop("v")
        if d.chance():
            constants["i"] = inputs.pop("i")
    return Drawn("OneHot", inputs, constants, some, ("i", "d", "v"))


def trilu(d: Draw) -> Drawn:
    constants = {"k": np.array(d.whole(-3, 3))} if d.chance() else {}
    return Drawn("Trilu", {"x": d.floats(*d.shape(2, 4))}, constants, d.some(upper=(0, 1)))


def blocks(d: Draw) -> Drawn:
    n, c, h, w = (d.whole(1, 3) for _ in range(4))
    b = d.whole(1, 3)
    if d.chance():
        return Drawn("SpaceToDepth", {"x": d.floats(n, c, h * b, w * b)}, attributes={"blocksize": b})
    return Drawn(
        "DepthToSpace", {"x": d.floats(n, c * b * b, h, w)}, attributes={"blocksize": b} | d.some(mode=("DCR", "CRD"))
    )


def tile(d: Draw) -> Drawn:
    x = d.floats(*d.shape(1, 4))
    return Drawn("Tile", {"x": x}, {"r": np.array([d.whole(1, 3) for _ in x.shape])})


def cum_sum(d: Draw) -> Drawn:
    x = d.floats(*d.shape(1, 4))
    axis = np.array(d.axis(x.ndim), d.pick(*INTS))
    return Drawn("CumSum", {"x": x}, {"a": axis}, d.some(exclusive=(0, 1), reverse=(0, 1)))


def _window(d: Draw, rank: int, kernel: Sequence[int], dilated: bool) -> dict[str, Any]:
    some: dict[str, Any] = {"strides": [d.whole(1, 3) for _ in range(rank)]} if d.chance() else {}
    how = d.pick("absent", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    if how.startswith("SAME") and any(s > k for s, k in zip(some.get("strides", ()), kernel, strict=False)):
        how = "VALID"  # ONNX Runtime would pad by a negative number
    if how == "pads":
        some["pads"] = [d.whole(0, k - 1) for k in [*kernel, *kernel]]
    elif how != "absent":
        some["auto_pad"] = how
    if dilated and not how.startswith("SAME") and d.chance():
        some["dilations"] = [d.whole(1, 2) for _ in range(rank)]
    return some


def conv(d: Draw) -> Drawn:
    rank, groups, per = d.whole(1, 2), d.pick(1, 1, 2, 3), d.whole(1, 2)
    kernel = [d.whole(1, 3) for _ in range(rank)]
    out = groups * d.whole(1, 2)
    x, w = d.floats(d.whole(1, 2), groups * per, *(d.whole(5, 8) for _ in range(rank))), d.floats(out, per, *kernel)
    constants = {"w": w} | ({"b": d.floats(out)} if d.chance() else {})
    some = _window(d, rank, kernel, True) | d.some(kernel_shape=(kernel,))
    some |= {"group": groups} if groups > 1 or d.chance() else {}
    return Drawn("Conv", {"x": x}, constants, some)


def conv_transpose(d: Draw) -> Drawn:
    rank, groups = d.whole(1, 2), d.pick(1, 1, 2)
    kernel = [d.whole(1, 3) for _ in range(rank)]
    x = d.floats(d.whole(1, 2), groups * d.whole(1, 2), *(d.whole(2, 5) for _ in range(rank)))
    constants = {"w": d.floats(x.shape[1], d.whole(1, 2), *kernel)}
    constants |= {"b": d.floats(constants["w"].shape[1] * groups)} if d.chance() else {}
    strides = [d.whole(1, 3) for _ in range(rank)]
    some: dict[str, Any] = d.some(kernel_shape=(kernel,)) | ({"strides": strides} if d.chance() else {})
    steps = some.get("strides", [1] * rank)
    if d.chance() and all(k >= s for k, s in zip(kernel, steps, strict=True)):
        some["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif d.chance():
        extra = [d.whole(0, s - 1) for s in steps]
        full = [(n - 1) * s + k + e for n, s, k, e in zip(x.shape[2:], steps, kernel, extra, strict=True)]
        some["output_shape"] = [d.whole(max(1, f - 3), f) for f in full]
        some |= {"output_padding": extra} if any(extra) else {}
        some |= d.some(auto_pad=("SAME_UPPER", "SAME_LOWER"))
    else:
        some |= {"pads": [d.whole(0, min(k - 1, 1)) for k in [*kernel, *kernel]]} if d.chance() else {}
        some |= {"output_padding": [d.whole(0, s - 1) for s in steps]} if d.chance() else {}
        some |= {"dilations": [d.whole(1, 2) for _ in range(rank)]} if d.chance() else {}
    some |= {"group": groups} if groups > 1 or d.chance() else {}
    return Drawn("ConvTranspose", {"x": x}, constants, some)


def pool(d: Draw) -> Drawn:
    op, rank = d.pick("MaxPool", "AveragePool"), d.whole(1, 2)
    kernel = [d.whole(1, 3) for _ in range(rank)]
    opset = d.pick(11, 12, 19, 22)
    some = _window(d, rank, kernel, op == "MaxPool" or opset >= 19) | {"kernel_shape": kernel}
    some |= {} if some.get("auto_pad", "").startswith("SAME") else d.some(ceil_mode=(0, 1))
    some |= d.some(count_include_pad=(0, 1)) if op == "AveragePool" else d.some(storage_order=(0,))
    return Drawn(
        op, {"x": d.floats(d.whole(1, 2), d.whole(1, 3), *(d.whole(5, 8) for _ in range(rank)))}, {}, some, opset=opset
    )


def global_pool(d: Draw) -> Drawn:
    return Drawn(d.pick("GlobalAveragePool", "GlobalMaxPool"), {"x": d.floats(*d.shape(3, 4))})


def normalization(d: Draw) -> Drawn:
    op = d.pick("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
    some = d.some(epsilon=(1e-3, 0.1))
    if op == "BatchNormalization":
        x = d.floats(*d.shape(2, 4))
        s, b, m, v = (d.floats(x.shape[1]) for _ in range(4))
        values = {"s": s, "b": b, "m": m, "v": np.abs(v) + FLOAT(0.1)}
        known = d.chance()
        inputs, constants = ({"x": x}, values) if known else ({"x": x} | values, {})
        return Drawn(op, inputs, constants, some | d.some(momentum=(0.5,)), ("x", *values), opset=d.pick(11, 14, 15))
    if op == "LayerNormalization":
        x = d.floats(*d.shape(1, 4, 5))
        axis = d.axis(x.ndim) if d.chance() else -1
        some |= {"axis": axis} if axis != -1 or d.chance() else {}
        values = {"s": d.floats(*x.shape[axis:])} | ({"b": d.floats(*x.shape[axis:])} if d.chance() else {})
        return Drawn(op, {"x": x}, values, some, tolerance=1e-4)
    groups, per = d.whole(1, 3), d.whole(1, 3)
    x = d.floats(d.whole(1, 2), groups * per, *d.shape(1, 2))
    if op == "InstanceNormalization":
        return Drawn(op, {"x": x}, {"s": d.floats(groups * per), "b": d.floats(groups * per)}, some, tolerance=1e-3)
    opset = d.pick(18, 20, 21, 23)
    count = groups if opset < 21 else groups * per
    some |= {"num_groups": groups}
    return Drawn(op, {"x": x}, {"s": d.floats(count), "b": d.floats(count)}, some, opset=opset, tolerance=1e-3)


def gemm(d: Draw) -> Drawn:
    n, k, m = (d.whole(1, 4) for _ in range(3))
    some = d.some(transA=(0, 1), transB=(0, 1), alpha=(0.5, 2.0), beta=(0.0, 0.25))
    a, b = d.floats(n, k), d.floats(k, m)
    values = {"a": a.T.copy() if some.get("transA") else a, "b": b.T.copy() if some.get("transB") else b}
    values |= {"c": d.floats(*d.pick((), (1,), (m,), (1, m), (n, 1), (n, 1), (n, m)))} if d.chance() else {}
    return _of_values(d, "Gemm", values, attributes=some)


def matmul(d: Draw) -> Drawn:
    n, k, m = (d.whole(1, 4) for _ in range(3))
    front = d.broadcast(2)
    a, b = (*front[0][:2], n, k), (*front[1][:2], k, m)
    a, b = d.pick((a, b), (a, b), ((k,), b), (a, (k,)), ((k,), (k,)))
    try:
        np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        a, b = (n, k), (k, m)
    return _of_values(d, "MatMul", {"a": d.floats(*a), "b": d.floats(*b)})


def einsum(d: Draw) -> Drawn:
    """Letters in any order in each operand and in the result, which may be left out, and "..." in front of all. Any
    dimension may be 1 in one operand alone."""
    terms = ["".join(d.rng.permutation(list("abcd"))[: d.whole(1, 4)]) for _ in range(d.pick(1, 2, 2))]
    letters = d.rng.permutation(sorted(set("".join(terms))))
    dots, size = d.pick("", "", "..."), {letter: d.whole(1, 3) for letter in "abcd"}
    result = "->" + dots + "".join(letters[: d.whole(0, len(letters))])
    equation = ",".join(dots + term for term in terms) + d.pick(result, result, "")
    front = d.shape(0, 2, 3) if dots else ()
    fronts = [front[d.pick(0, 0, d.whole(0, len(front))) :] for _ in terms]  # that of one operand may be shorter
    shapes = [[*before, *(size[c] for c in term)] for before, term in zip(fronts, terms, strict=True)]
    values = {f"x{i}": d.floats(*(d.pick(n, n, n, n, 1) for n in shape)) for i, shape in enumerate(shapes)}
    return _of_values(d, "Einsum", values, attributes={"equation": equation})


def reduction(d: Draw) -> Drawn:
    ops = "Mean Sum Max Min L1 L2 LogSum LogSumExp SumSquare"
    op = "Reduce" + d.pick(*ops.split())
    kind = d.pick(FLOAT, FLOAT, np.int32) if op in ("ReduceSum", "ReduceMax", "ReduceMin") else FLOAT
    x = d.values(d.shape(1, 4), kind)
    if op in ("ReduceMax", "ReduceMin") and d.chance():
        return Drawn(op, {"x": x > 0}, {"a": np.array([d.axis(x.ndim)])}, d.some(keepdims=(0, 1)), opset=20)
    x = np.abs(x) + FLOAT(0.1) if op == "ReduceLogSum" else x
    some, opset = d.some(keepdims=(0, 1)), d.pick(11, 13, 18)
    axes = [d.axis(x.ndim) for _ in range(d.whole(1, 2))]
    axes = [a for i, a in enumerate(axes) if a % x.ndim not in {b % x.ndim for b in axes[:i]}]
    as_input = opset == 18 or (op == "ReduceSum" and opset == 13)
    if as_input:
        some |= d.some(noop_with_empty_axes=(0, 1))
        given = d.pick(None, axes, [])
        return Drawn(op, {"x": x}, {} if given is None else {"a": np.array(given, np.int64)}, some, opset=opset)
    return Drawn(op, {"x": x}, {}, some | ({"axes": axes} if d.chance() else {}), opset=opset)


def arg(d: Draw) -> Drawn:
    x = d.ints(0, 3, d.shape(1, 4)).astype(d.pick(FLOAT, FLOAT, np.int32))
    some = d.some(axis=range(-x.ndim, x.ndim), keepdims=(0, 1), select_last_index=(0, 1))
    return Drawn(d.pick("ArgMax", "ArgMin"), {"x": x}, {}, some, opset=d.pick(12, 13))


def resize(d: Draw) -> Drawn:
    opset, mode = d.pick(11, 13, 18, 19), d.pick("nearest", "linear", "cubic")
    rank = 4 if mode == "cubic" else d.whole(2, 4)
    x = d.floats(*[1, d.whole(1, 2), d.whole(1, 8), d.whole(1, 8)][4 - rank :])
    lines = [*range(rank)] if mode == "nearest" and d.chance() else [rank - 2, rank - 1]
    places = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    places += ["tf_half_pixel_for_nn"] * (opset < 13) + ["half_pixel_symmetric"] * (opset >= 19)
    some = d.some(coordinate_transformation_mode=places)
    some |= {"mode": mode} if mode != "nearest" or d.chance() else {}
    if mode == "nearest":
        some |= d.some(nearest_mode=("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    else:
        some |= d.some(antialias=(0, 1, 1)) if opset >= 18 else {}
        some |= d.some(exclude_outside=(0, 1, 1) if mode == "cubic" or some.get("antialias") else (0,))
        some |= d.some(cubic_coeff_a=(-0.5, -1.0)) if mode == "cubic" else {}
    axes = list(range(rank))
    if opset >= 18 and d.chance():
        axes = lines if mode == "cubic" else d.rng.permutation(lines)[: d.whole(1, 2)].tolist()
        some["axes"] = axes
    unused = {"roi": np.zeros(0, np.float32)} if opset < 13 else {}
    first = "roi" if unused else ""
    if d.chance():
        sizes = np.array([d.whole(1, 14) if a in lines else x.shape[a] for a in axes])
        if "axes" in some or rank == 2:
            some |= d.some(keep_aspect_ratio_policy=("stretch", "not_smaller")) if opset >= 18 else {}
        unused |= {"scales": np.zeros(0, np.float32)} if opset < 13 else {}
        order = ("x", first, "scales" if opset < 13 else "", "s")
        return Drawn("Resize", {"x": x}, unused | {"s": sizes}, some, order, opset=opset, tolerance=1e-4)
    if "axes" in some and d.chance():
        some["axes"] = [a - rank for a in axes]
    least = {a: 1 / x.shape[a] + 1e-3 for a in axes}
    scales = [
        max(least[a], d.pick(0.5, 0.75, 1.1, 1.1, 1.36, 1.5, 1.95, 2, 2.46, d.rng.uniform(0.3, 3))) if a in lines else 1
        for a in axes
    ]
    s = np.array(scales, np.float32)
    return Drawn("Resize", {"x": x}, unused | {"s": s}, some, ("x", first, "s"), opset=opset, tolerance=1e-4)


def resize_lines(d: Draw) -> Drawn:
    """Some dimensions of any rank to the nearest, by scales or sizes of these or of all; batches and channels, too."""
    x = d.floats(*d.shape(1, 5))
    lines = d.rng.permutation(x.ndim)[: d.whole(1, 2)].tolist()
    new = {a: d.pick(1, 2, 0.5, 1.5, 2.5) if x.shape[a] > 1 else d.pick(1, 2, 2.5) for a in lines}
    opset = d.pick(13, 18)
    axes = lines if opset == 18 and d.chance() else [*range(x.ndim)]
    some = {"axes": [a - d.pick(0, x.ndim) for a in axes]} if axes is lines else {}
    some |= d.some(nearest_mode=("floor", "ceil"), coordinate_transformation_mode=("asymmetric", "align_corners"))
    scales = np.array([new.get(a, 1) for a in axes], np.float32)
    if d.chance():
        sizes = np.array([max(1, int(x.shape[a] * new.get(a, 1))) for a in axes])
        return Drawn("Resize", {"x": x}, {"n": sizes}, some, ("x", "", "", "n"), opset=opset)
    return Drawn("Resize", {"x": x}, {"s": scales}, some, ("x", "", "s"), opset=opset)


def integers(d: Draw) -> Drawn:
    """ConvInteger and MatMulInteger: sums as exact integers, or refused where floats do not hold them."""
    kind: Any = d.pick(np.uint8, np.int8)
    zeros: dict[str, Array] = {}
    depth = d.pick(2, 2, 3, 517, 521, 1031)  # 255 * 127 * 518 passes 2**24; odd sums do not fit
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    least = d.pick(low, high, high)  # the largest sums are those of extremes
    matrix = d.chance() or depth > 3
    shape, weights = ((2, depth), (depth, 2)) if matrix else ((1, 2, 4, 5), (3, 2, 2, 3))
    many = matrix and d.chance()
    shape, weights = ((3, *shape), (3, *weights)) if many else (shape, weights)
    x = d.ints(least, high + 1, shape).astype(np.uint8 if kind == np.uint8 else np.int8)
    w = d.ints(d.pick(-128, 127, 127), 128, weights).astype(np.int8)
    zeros |= {"xz": np.array(d.pick(low, low, 7, high), kind)} if d.pick(0, 1, 1) else {}
    columns = () if many or not matrix else (2,)
    zeros |= {"wz": np.asarray(d.ints(-5, 4, columns, np.int8))} if zeros and d.chance() else {}
    steps = np.abs(w.astype(np.int64) - zeros.get("wz", 0))
    beyond = bool(steps.sum(-2 if matrix else (1, 2, 3)).max() * 255 >= 1 << 24)
    op = "MatMulInteger" if matrix else "ConvInteger"
    some = {} if matrix else d.some(pads=([1, 0, 1, 2],), strides=([2, 1],), auto_pad=("VALID",))
    if "pads" in some:
        some.pop("auto_pad", None)
    return Drawn(op, {"x": x}, {"w": w, **zeros}, some, ("x", "w", *zeros), refused="2**24" * beyond)


#: Activations of recurrent layers that ONNX Runtime has, in its spelling.
ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Elu", "LeakyRelu", "Softsign", "Softplus", "ScaledTanh")
ACTIVATIONS += ("Affine", "ThresholdedRelu")


def recurrent(d: Draw) -> Drawn:
    op, gates, active = d.pick(("LSTM", 4, 3), ("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1))
    time, batch, inputs, h = (d.whole(1, 3) for _ in range(4))
    some = d.some(direction=("forward", "reverse", "bidirectional", "bidirectional"), clip=(0.5,))
    n = 2 if some.get("direction") == "bidirectional" else 1
    if d.chance():
        some["activations"] = [d.pick(*ACTIVATIONS) for _ in range(n * active)]
        stated = d.chance() or not {"Affine", "ScaledTanh", "ThresholdedRelu"}.isdisjoint(some["activations"])
        numbers = {f"activation_{k}": [d.pick(0.3, 0.7, 0.1) for _ in range(6)] for k in ("alpha", "beta")}
        some |= numbers if stated else {}
    own: dict[str, dict[str, Any]] = {"GRU": {"linear_before_reset": (0, 1)}, "LSTM": {"input_forget": (0, 1, 1)}}
    some |= d.some(**own.get(op, {}))
    rest = {"b": d.floats(n, 2 * gates * h), "l": np.full(batch, time, np.int32), "h": d.floats(n, batch, h)}
    rest |= {"c": d.floats(n, batch, h), "p": d.floats(n, 3 * h)} if op == "LSTM" else {}
    if d.chance():
        rest["l"] = np.array([d.whole(1, time) for _ in range(batch)], np.int32)
    rest = {key: value for key, value in rest.items() if d.chance()}
    x = {"x": d.floats(time, batch, inputs)}
    weights = {"w": d.floats(n, gates * h, inputs), "r": d.floats(n, gates * h, h)}
    rest |= weights
    at_run_time = {key: rest.pop(key) for key in "wrblhcp" if key in rest and d.pick(0, 0, 1)}
    order = ("x", "w", "r", *(key if key in rest or key in at_run_time else "" for key in "blhcp"))
    outputs = ("y", "z", "c_last")[: 3 if op == "LSTM" else 2]
    kept = d.whole(0, len(outputs) - 1)
    outputs = tuple(name if i == kept or d.chance() else "" for i, name in enumerate(outputs))
    return Drawn(op, x | at_run_time, rest, {"hidden_size": h, **some}, order, outputs)


def quantised(d: Draw) -> Drawn:
    """QuantizeLinear and DequantizeLinear: zero points and axes absent or there."""
    kind, opset = d.pick(np.uint8, np.int8), d.pick(11, 13, 19, 21)
    x = d.rng.normal(0, 3, d.shape(1, 4)).astype(FLOAT)  # no halves, which TFLite rounds otherwise
    zero = {"z": np.array(d.pick(0, 5, 100), kind)} if d.chance() else {}
    if not zero:
        kind = np.uint8
    s = np.array(d.pick(0.1, 0.05, 1.0), FLOAT)
    if d.chance():
        some = d.some(output_dtype=(2, 3, 5)) if opset == 21 and not zero else {}
        return Drawn("QuantizeLinear", {"x": x}, {"s": s, **zero}, some, ("x", "s", *zero), opset=opset)
    q = d.ints(np.iinfo(kind).min, np.iinfo(kind).max + 1, x.shape, kind)
    if opset >= 13 and d.chance():
        axis = d.axis(q.ndim) if d.chance() else 1
        if axis < q.ndim:
            some = {"axis": axis} if axis != 1 or d.chance() else {}
            s = np.where(d.rng.random(q.shape[axis]) < 0.3, 1, d.rng.random(q.shape[axis]) + 0.1).astype(FLOAT)
            zero = {"z": d.ints(0, 9, s.shape, kind)} if zero else {}
            return Drawn("DequantizeLinear", {"x": q}, {"s": s, **zero}, some, ("x", "s", *zero), opset=opset)
    return Drawn("DequantizeLinear", {"x": q}, {"s": s, **zero}, order=("x", "s", *zero), opset=opset)


DRAWS: dict[Callable[[Draw], Drawn], int] = {
    **{unary(op): 3 for op in UNARY},
    activation: 30, clip: 40, prelu: 12, softmax: 60, arithmetic: 30, power: 80, variadic: 20,
    recurrent: 30, comparison: 20, where: 12, cast: 25, layout: 60, concat: 15, split: 30, slice_: 40, pad: 80,
    indexed: 80, one_hot: 25, trilu: 15, blocks: 15, tile: 6, cum_sum: 15, conv: 60, conv_transpose: 50, pool: 70,
    global_pool: 5, normalization: 90, gemm: 50, matmul: 30, einsum: 50, reduction: 70, arg: 30, resize: 120,
    resize_lines: 60, integers: 50, quantised: 40,
}  # fmt: skip
