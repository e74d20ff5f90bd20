"""``from_torch`` over random arguments: modules and functions of PyTorch, each argument by default or at random, many
in one exported program, against what PyTorch itself computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from needs import ALL_CASES, needs

torch = needs("torch", "onnxscript")

from onnx_tools import compare, run  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import twinfer  # noqa: E402

#: PyTorch's remark on how it pads.
pytestmark = [
    pytest.mark.usefixtures("planned_once"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning"),
]

Draw = Callable[[Any], Any]


BOOL = st.booleans()
SMALL = st.integers(1, 3)
PLAIN = (
    "Hardsigmoid", "Hardswish", "Hardtanh", "LogSigmoid", "Mish", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
    "Softplus", "Softsign", "Tanh", "Tanhshrink", "Identity", "ELU", "CELU", "GELU", "LeakyReLU", "PReLU", "Softmin",
)  # fmt: skip


def some(draw: Draw, **strategies: Any) -> dict[str, Any]:
    return draw(st.fixed_dictionaries({}, optional=strategies))  # type: ignore[no-any-return]


def sizes(draw: Draw, rank: int, low: int, high: int) -> Any:
    each = st.integers(low, high)
    return draw(each | st.tuples(*[each] * rank))


def conv(draw: Draw, rank: int) -> Any:
    groups = draw(st.sampled_from([1, 2, 4]))
    own = some(draw, bias=BOOL)
    for name, low, high in (("stride", 1, 3), ("dilation", 1, 2), ("padding", 0, 2)):
        if draw(BOOL):
            own[name] = sizes(draw, rank, low, high)
    if draw(BOOL) and "stride" not in own:
        own["padding"] = draw(st.sampled_from(["same", "valid"]))
    if draw(BOOL) and "padding" in own:
        own["padding_mode"] = draw(st.sampled_from(["zeros", "reflect", "replicate"]))
    kernel = sizes(draw, rank, 1, 3)
    return getattr(nn, f"Conv{rank}d")(4, groups * draw(SMALL), kernel, groups=groups, **own)


def transposed(draw: Draw, rank: int) -> Any:
    own = some(draw, bias=BOOL, dilation=SMALL)
    own["stride"] = draw(SMALL)
    if draw(BOOL):
        own["output_padding"] = draw(st.integers(0, own["stride"] - 1))
    kernel = draw(st.integers(2, 4))
    own["padding"] = draw(st.integers(0, 1))
    return getattr(nn, f"ConvTranspose{rank}d")(4, draw(SMALL), kernel, **own)


def pool(draw: Draw, kind: str, rank: int) -> Any:
    kernel = draw(st.integers(2, 3))
    own = some(draw, stride=SMALL, padding=st.integers(0, 1), ceil_mode=BOOL)
    if kind == "Avg":
        own |= some(draw, count_include_pad=BOOL)
    elif "padding" not in own:
        own |= some(draw, dilation=st.integers(1, 2))
    return getattr(nn, f"{kind}Pool{rank}d")(kernel, **own)


def images(draw: Draw, which: str) -> Any:
    if which in ("conv", "transposed"):
        return (conv if which == "conv" else transposed)(draw, 2)
    if which in ("Max", "Avg"):
        return pool(draw, which, 2)
    edges = draw(st.integers(0, 2) | st.tuples(*[st.integers(0, 2)] * 4))
    side = st.sampled_from([1, 3, (3, 1), (9, 7)])
    scale = st.sampled_from([2, 3, (2, 3)])
    affine = some(draw, eps=st.sampled_from([1e-5, 0.1, 1.0]))
    free = some(draw, affine=BOOL)
    make: dict[str, Callable[[], Any]] = {
        "AdaptiveAvg": lambda: nn.AdaptiveAvgPool2d(draw(side)),
        "BatchNorm": lambda: nn.BatchNorm2d(4, **affine, **free, **some(draw, momentum=st.just(0.3))),
        "InstanceNorm": lambda: nn.InstanceNorm2d(4, **affine, **free),
        "GroupNorm": lambda: nn.GroupNorm(draw(st.sampled_from([1, 2, 4])), 4, **affine, **free),
        "LayerNorm": lambda: nn.LayerNorm(
            draw(st.sampled_from([7, (9, 7), (4, 9, 7)])), **affine, **some(draw, elementwise_affine=BOOL)
        ),
        "RMSNorm": lambda: nn.RMSNorm(draw(st.sampled_from([7, (9, 7)])), **affine),
        "ZeroPad": lambda: nn.ZeroPad2d(edges), "ConstantPad": lambda: nn.ConstantPad2d(edges, 1.5),
        "ReflectionPad": lambda: nn.ReflectionPad2d(edges), "ReplicationPad": lambda: nn.ReplicationPad2d(edges),
        "UpNearest": lambda: nn.Upsample(scale_factor=draw(scale)),
        "UpBilinear": lambda: nn.Upsample(scale_factor=draw(scale), mode="bilinear", **some(draw, align_corners=BOOL)),
        "UpSize": lambda: nn.Upsample(size=draw(st.sampled_from([(18, 14), (5, 6), 9])), mode="bilinear"),
        "PixelShuffle": lambda: nn.PixelShuffle(2), "ChannelShuffle": lambda: nn.ChannelShuffle(2),
        "Softmax2d": lambda: nn.Softmax2d(), "Flatten": lambda: nn.Flatten(**some(draw, start_dim=SMALL)),
        "Dropout": lambda: nn.Dropout2d(0.5), "Linear": lambda: nn.Linear(7, draw(SMALL), **some(draw, bias=BOOL)),
        "PReLU": lambda: nn.PReLU(draw(st.sampled_from([1, 4]))),
    }  # fmt: skip
    return make[which]()


IMAGES = (
    "conv", "transposed", "Max", "Avg", "AdaptiveAvg", "BatchNorm", "InstanceNorm", "GroupNorm",
    "LayerNorm", "RMSNorm", "ZeroPad", "ConstantPad", "ReflectionPad", "ReplicationPad", "UpNearest",
    "UpBilinear", "UpSize", "PixelShuffle", "ChannelShuffle", "Softmax2d", "Flatten", "Dropout", "Linear",
    "PReLU",
)  # fmt: skip


def activation(draw: Draw, name: str) -> Any:
    alpha = st.sampled_from([0.0, 0.3, 1.0, 1.5])
    options: dict[str, dict[str, Any]] = {
        "ELU": {"alpha": alpha}, "CELU": {"alpha": st.sampled_from([0.5, 1.0, 2.0])},
        "GELU": {"approximate": st.sampled_from(["none", "tanh"])}, "LeakyReLU": {"negative_slope": alpha},
        "Hardtanh": {"min_val": st.sampled_from([-2.0, -0.5, 0.0]), "max_val": st.sampled_from([0.5, 1.0, 6.0])},
        "Softplus": {"beta": st.sampled_from([1.0, 2.0])}, "PReLU": {"init": alpha},
    }  # fmt: skip
    own = some(draw, **options.get(name, {}))
    if name == "Softmin":
        own["dim"] = draw(st.integers(-3, 2))
    return getattr(nn, name)(**own)


class Many(nn.Module):
    """All modules over the same inputs."""

    def __init__(self, modules: list[Any]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return [part(*inputs) for part in self.parts]


def flat(values: Any) -> list[Any]:
    return [v for value in values for v in flat(value)] if isinstance(values, list | tuple) else [values]


def check(modules: list[Any], *inputs: Any) -> None:
    torch.manual_seed(1)
    net = Many(modules).eval()
    for name, value in [*net.named_parameters(), *net.named_buffers()]:
        if value.dtype == torch.float32:
            positive = "running_var" in name
            nn.init.uniform_(value.data, 0.5 if positive else -1, 1.5 if positive else 1)
    with torch.no_grad():
        want = [v.numpy() for v in flat(net(*inputs))]
    graph = twinfer.from_torch(net, inputs)
    feeds = {t.name: x.numpy() for t, x in zip(graph.inputs, inputs, strict=True)}
    for each in (graph, twinfer.convert(graph)):
        compare(run(each, feeds), want, 1e-5)


def floats(*shape: int, seed: int = 1) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32))


#: Every one has a layer of each kind; exporting it takes seconds.
EXAMPLES = 3 if os.environ.get(ALL_CASES) else 1


def random(examples: int) -> Any:
    health, phases = list(HealthCheck), [Phase.generate]
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=health,
        phases=phases,
    )  # fmt: skip


@random(EXAMPLES)
@given(data=st.data())
def test_over_images(data: Any) -> None:
    modules = [images(data.draw, which) for which in (*IMAGES, "conv", "conv", "transposed", "Max", "Avg")]
    note("\n".join(map(str, modules)))
    check(modules, floats(2, 4, 9, 7))


def series(draw: Draw, which: str) -> Any:
    if which in ("conv", "transposed"):
        return (conv if which == "conv" else transposed)(draw, 1)
    if which in ("Max", "Avg"):
        return pool(draw, which, 1)
    make: dict[str, Callable[[], Any]] = {
        "AdaptiveAvg": lambda: nn.AdaptiveAvgPool1d(draw(st.sampled_from([1, 3, 9]))),
        "BatchNorm": lambda: nn.BatchNorm1d(4, **some(draw, affine=BOOL, eps=st.just(0.1))),
        "InstanceNorm": lambda: nn.InstanceNorm1d(4, **some(draw, affine=BOOL, eps=st.just(0.1))),
        "GroupNorm": lambda: nn.GroupNorm(2, 4, **some(draw, affine=BOOL, eps=st.just(0.1))),
        "Pad": lambda: nn.ReflectionPad1d(draw(st.integers(0, 2) | st.tuples(SMALL, SMALL))),
        "Upsample": lambda: nn.Upsample(scale_factor=draw(SMALL), mode=draw(st.sampled_from(["nearest", "linear"]))),
        "Unflatten": lambda: nn.Unflatten(draw(st.sampled_from([1, -2])), (2, 2)),
    }
    return make[which]()


class Function(nn.Module):
    """A function of x, y [2, 4, 9], integers i of the same shape, and b (whether)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def functions(draw: Draw) -> list[Callable[..., Any]]:
    dim, other, keep = draw(st.integers(-3, 2)), draw(st.integers(-3, 2)), draw(BOOL)
    dims = draw(st.sampled_from([(0, 1), (-1, 1), (2,), (0, 1, 2)]))
    order = draw(st.permutations(range(3)))
    begin, step = draw(st.integers(-3, 3)), draw(SMALL)
    correction, start = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    return [
        lambda x, y, i, b: x.sum(dim, keepdim=keep),
        lambda x, y, i, b: x.mean(dims, keepdim=keep),
        lambda x, y, i, b: x.amax(dims, keepdim=keep),
        lambda x, y, i, b: x.max(dim, keepdim=keep)[0],
        lambda x, y, i, b: x.argmax(dim, keepdim=keep),
        lambda x, y, i, b: y.argmin(other, keepdim=keep),
        lambda x, y, i, b: x.min(dim)[1],
        lambda x, y, i, b: x.var(dim, correction=correction, keepdim=keep),
        lambda x, y, i, b: x.std(dims, unbiased=keep),
        lambda x, y, i, b: x.norm(dim=dim, keepdim=keep),
        lambda x, y, i, b: x.cumsum(dim),
        lambda x, y, i, b: F.softmax(x, dim),
        lambda x, y, i, b: F.log_softmax(x, other),
        lambda x, y, i, b: F.normalize(x, dim=dim, eps=1e-12),
        lambda x, y, i, b: F.normalize(x, p=1.0, dim=other),
        lambda x, y, i, b: torch.cat([x, y, x], dim),
        lambda x, y, i, b: torch.stack([x, y], other),
        lambda x, y, i, b: x.permute(order),
        lambda x, y, i, b: x.transpose(dim, other),
        lambda x, y, i, b: x.flip(dims),
        lambda x, y, i, b: x.roll(begin, dim),
        lambda x, y, i, b: x[:, begin:, ::step],
        lambda x, y, i, b: x[..., :-step, None],
        lambda x, y, i, b: x[:, -1],
        lambda x, y, i, b: x.narrow(2, step, 4),
        lambda x, y, i, b: list(x.split([1, 3], 1)),
        lambda x, y, i, b: list(x.chunk(2, -1)),
        lambda x, y, i, b: x.unsqueeze(dim),
        lambda x, y, i, b: x.reshape(-1, 6),
        lambda x, y, i, b: x.flatten(start),
        lambda x, y, i, b: x[:1].expand(3, 4, 9),
        lambda x, y, i, b: x.repeat(1, 2, step),
        lambda x, y, i, b: x.index_select(1, torch.tensor([3, 0])),
        lambda x, y, i, b: x[:, [0, -1]],
        lambda x, y, i, b: torch.where(b, x, y),
        lambda x, y, i, b: torch.where(x > y, x, 0.5),
        lambda x, y, i, b: x.masked_fill(b, -1.5),
        lambda x, y, i, b: x.clamp(-1.0, 0.5),
        lambda x, y, i, b: x.clamp(min=0.3),
        lambda x, y, i, b: x @ y.transpose(1, 2),
        lambda x, y, i, b: torch.bmm(x.transpose(1, 2), y),
        lambda x, y, i, b: torch.einsum("nct,ndt->ncd", x, y),
        lambda x, y, i, b: F.pad(x, (1, 2, 0, step), value=1.5),
        lambda x, y, i, b: F.pad(x, (1, 2), mode="circular"),
        lambda x, y, i, b: x.abs() ** 1.5,
        lambda x, y, i, b: x**2,
        lambda x, y, i, b: 2.0 - x / 3,
        lambda x, y, i, b: i * 3 - i,
        lambda x, y, i, b: i / 2 + x,
        lambda x, y, i, b: torch.maximum(x, y) - torch.minimum(x, y),
        lambda x, y, i, b: (x > y) & b | (i == 2),
        lambda x, y, i, b: (x != y).float(),
        lambda x, y, i, b: x.int() + i,
        lambda x, y, i, b: torch.addmm(x[0, 0], x[0].T, y[0], beta=0.5, alpha=2.0),
        lambda x, y, i, b: F.scaled_dot_product_attention(x[:, None], y[:, None], y[:, None], is_causal=keep),
        lambda x, y, i, b: x.tril(begin),
        lambda x, y, i, b: x.triu(begin),
        lambda x, y, i, b: x.sin() * x.cos() + x.exp().log1p(),
        lambda x, y, i, b: (x.abs() + 0.1).rsqrt(),
        lambda x, y, i, b: x.sign(),
    ]


SERIES = (
    "conv", "transposed", "Max", "Avg", "AdaptiveAvg", "BatchNorm", "InstanceNorm", "GroupNorm", "Pad", "Upsample",
    "Unflatten",
)  # fmt: skip


@random(EXAMPLES)
@given(data=st.data())
def test_over_series(data: Any) -> None:
    modules = [series(data.draw, which) for which in (*SERIES, "conv", "conv", "transposed")]
    modules += [*(activation(data.draw, name) for name in PLAIN), Function(lambda x: x.floor() + x.ceil() + x.round())]
    note("\n".join(map(str, modules)))
    check(modules, floats(2, 4, 9))


@random(EXAMPLES)
@given(data=st.data())
def test_functions(data: Any) -> None:
    i = torch.from_numpy(np.random.default_rng(3).integers(-4, 5, (2, 4, 9)).astype(np.int32))
    check([Function(f) for f in functions(data.draw)], floats(2, 4, 9), floats(2, 4, 9, seed=2), i, i > 1)


class Recurrent(nn.Module):
    """A recurrent layer, from zeros or from states that are made of its input."""

    def __init__(self, layer: Any, given: bool) -> None:
        super().__init__()
        self.layer, self.given = layer, given

    def forward(self, x: Any) -> Any:
        if not self.given:
            return self.layer(x)
        layer = self.layer
        n = layer.num_layers * (2 if layer.bidirectional else 1)
        batch = x.shape[0 if layer.batch_first else 1]
        first = x.flatten()[: n * batch * layer.hidden_size].reshape(n, batch, layer.hidden_size)
        return layer(x, (first, first * 0.5) if isinstance(layer, nn.LSTM) else first)


@random(EXAMPLES)
@given(data=st.data())
def test_recurrent(data: Any) -> None:
    modules = []
    for kind in ("LSTM", "GRU", "RNN"):
        own = some(data.draw, bias=BOOL, batch_first=BOOL, bidirectional=BOOL, num_layers=st.integers(1, 2))
        if kind == "RNN":
            own |= some(data.draw, nonlinearity=st.sampled_from(["tanh", "relu"]))
        modules.append(Recurrent(getattr(nn, kind)(4, data.draw(SMALL), **own), data.draw(BOOL)))
    note("\n".join(map(str, modules)))
    check(modules, floats(3, 5, 4))
