"""What ``converter/torch/rules`` spells out, against torch itself: many expressions in one exported program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from needs import needs

torch = needs("torch", "onnxscript")

from onnx_tools import compare, run  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import twinfer  # noqa: E402
from twinfer.converter.torch import compare as comparison  # noqa: E402
from twinfer.runtime.errors import ModelError, ModelWarning  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("planned_once"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning"),
    pytest.mark.filterwarnings(r"ignore:index_reduce\(\) is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated:UserWarning"),
]


def tensors() -> dict[str, Any]:
    torch.manual_seed(5)
    lower = torch.randn(2, 4, 4).tril() + 3 * torch.eye(4)
    return {
        "x": torch.randn(2, 3, 4), "y": torch.randn(2, 3, 4), "p": torch.rand(2, 3, 4) * 3 + 0.2,
        "n": -torch.rand(2, 3, 4) * 3 - 0.1, "u": torch.rand(2, 3, 4) * 0.98 + 0.01, "wide": torch.randn(2, 3, 4) * 9,
        "s": torch.randn(2, 4, 4), "lower": lower, "spd": lower @ lower.mT, "tall": torch.randn(2, 5, 3),
        "image": torch.randn(2, 3, 9, 7), "volume": torch.randn(1, 2, 5, 6, 7), "b": torch.randn(2, 3, 4) > 0,
        "i": torch.randint(0, 4, (2, 3, 4)), "holes": torch.where(torch.randn(2, 3, 4) > 0.7, torch.nan, 1.0),
        "flat": torch.randint(0, 6, (7,)), "offsets": torch.tensor([0, 3, 3]), "tokens": torch.randint(0, 6, (2, 3)),
        "heads": torch.randn(1, 4, 5, 6), "mask": torch.tensor([[True] * 3, [False] * 3, [True, False, True]]),
    }  # fmt: skip


attend = F.scaled_dot_product_attention
TABLE = torch.linspace(-1, 1, 24).reshape(6, 4)
EDGES = torch.tensor([-1.0, 0.0, 0.5])

#: By what they are of; each group is one exported program.
EXPRESSIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "pools": (
        lambda image: F.avg_pool2d(image, 3, 2, 1, divisor_override=4),
        lambda image: F.avg_pool2d(image, 3, 2, 1, ceil_mode=True, divisor_override=5),
        lambda volume: F.avg_pool3d(volume, 2, 1, divisor_override=3),
        lambda image: F.adaptive_avg_pool2d(image, (4, 5)),
        lambda volume: F.adaptive_avg_pool3d(volume, (2, 6, 1)),
        lambda image: F.adaptive_max_pool2d(image, (4, 5), return_indices=True),
        lambda image: F.adaptive_max_pool1d(image[0], 5),
        lambda volume: F.adaptive_max_pool3d(volume, (2, 4, 3)),
        lambda image: F.interpolate(image, scale_factor=0.5, mode="bilinear", antialias=True),
        lambda image: F.interpolate(image, size=(12, 5), mode="bicubic", antialias=True, align_corners=True),
    ),
    "elements": (
        lambda x: torch.clamp(x, -1, 0.5),
        lambda x, y: torch.copysign(x, y),
        lambda x: torch.copysign(x, -1),
        lambda holes, y: (torch.fmax(holes, y), torch.fmin(y, holes)),
        lambda p: torch.frexp(p * 7),
        lambda x, y: torch.hypot(x * 1e20, y * 1e20) / 1e20,
        lambda x, u: torch.special.xlog1py(x.round(), u),
        lambda x: F.rrelu(x, 0.1, 0.3),
        lambda x: (1 / (x.abs() * -1e30 * 1e30)).signbit(),
    ),
    "order": (
        lambda x: torch.cumprod(x, 1),
        lambda x: torch.cummax(x.round(), 2),
        lambda i: torch.cummin(i, 1),
        lambda i: torch.mode(i, 2),
        lambda x: (torch.bucketize(x, EDGES), torch.searchsorted(EDGES, x.round(), right=True)),
        lambda x, y: torch.searchsorted(torch.cumsum(x.abs(), -1), y, side="right", out_int32=True),
        lambda x, b, y: x.masked_scatter(b, y),
        lambda i: torch.isin(i, torch.tensor([1, 3]), invert=True),
    ),
    "shapes": (
        lambda x, y: (torch.hstack([x, y]), torch.vstack([x[0], y[0]]), torch.dstack([x[0], y[0]])),
        lambda x: torch.column_stack([x[0, :, 0], x[0]]),
        lambda s, x: torch.diagonal_scatter(s, x[:, :, 0], 1, 1, 2),
        lambda x, y: torch.as_strided_scatter(x, y[0, :2, :3], (2, 3), (4, 1), 2),
        lambda x: torch.repeat_interleave(x, torch.tensor([2, 0, 3]), 1),
        lambda x: (torch.cov(x[0]), torch.corrcoef(x[1]), torch.combinations(x[0, 0], 3)),
        lambda x, y: (x.put(torch.tensor([3, 0]), y[0, 0, :2]), torch.fft.ihfft(x, norm="ortho").imag),
        lambda x, i, y: torch.scatter_reduce(x, 2, i, y, "mean"),
        lambda x, i, y: torch.scatter_reduce(x, 2, i, y, "mean", include_self=False),
        lambda x, i: (x.scatter(2, i, 1.5), torch.index_reduce(x, 2, i[0, 0], x.flip(2), "amax")),
        lambda x: torch.conv_tbc(x, TABLE[:, :2].reshape(1, 4, 3), torch.ones(3), 1),
    ),
    "bags": (
        lambda flat, offsets: F.embedding_bag(flat, TABLE, offsets),
        lambda flat, offsets: F.embedding_bag(flat, TABLE, offsets, mode="max"),
        lambda flat, offsets: F.embedding_bag(flat, TABLE, offsets, mode="sum", include_last_offset=True),
        lambda flat, offsets: F.embedding_bag(flat, TABLE, offsets, padding_idx=2),
        lambda tokens: F.embedding_bag(tokens, TABLE, padding_idx=-1),
        lambda tokens, u: F.embedding_bag(tokens, TABLE, mode="sum", per_sample_weights=u[:, :, 0]),
        lambda tokens: F.embedding(tokens, TABLE.clone(), max_norm=1.5),
    ),
    "linear": (
        lambda s: (torch.det(s), *torch.linalg.slogdet(s)),
        lambda spd: torch.logdet(spd),
        lambda s: torch.inverse(s),
        lambda s, x: torch.linalg.solve(s, x.mT),
        lambda s, x: torch.linalg.solve(s, x, left=False),
        lambda s: torch.linalg.lu(s),
        lambda s: torch.linalg.lu_factor(s),
        lambda tall: torch.linalg.qr(tall),
        lambda tall: torch.linalg.qr(tall.mT, mode="complete"),
        lambda spd: (torch.linalg.cholesky(spd), torch.linalg.cholesky(spd, upper=True)),
        lambda lower, x: torch.cholesky_solve(x.mT, lower),
        lambda lower, x: torch.linalg.solve_triangular(lower.mT, x, upper=True, left=False),
        lambda lower, x: torch.triangular_solve(x.mT, lower, upper=False, transpose=True)[0],
        lambda s: torch.matrix_exp(s),
        lambda s: torch.linalg.tensorinv(s[0].reshape(2, 2, 4), ind=2),
        lambda x: torch.linalg.vander(x, N=3),
        lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1), F.pdist(x[0])),
    ),
    "special": (
        lambda x: [getattr(torch.special, f"chebyshev_polynomial_{k}")(x, int(n)) for k, n in ("t0", "u1", "v4", "w3")],
        lambda x: (torch.special.hermite_polynomial_h(x, 3), torch.special.hermite_polynomial_he(x, 4)),
        lambda x: (torch.special.laguerre_polynomial_l(x, 3), torch.special.legendre_polynomial_p(x, 4)),
        lambda u: torch.special.shifted_chebyshev_polynomial_t(u, 3),
        lambda p, n: (torch.lgamma(p), torch.lgamma(n)),
        lambda p, n: (torch.digamma(p), torch.polygamma(2, p), torch.digamma(n.clamp(-0.9, -0.2))),
        lambda p: (torch.mvlgamma(p + 2, 3), torch.special.zeta(p + 1, p)),
        lambda u: (torch.erfinv(2 * u - 1), torch.special.ndtri(u)),
        lambda wide: (torch.special.i0e(wide), torch.special.i1e(wide), torch.i0(wide / 3), torch.special.i1(wide / 3)),
        lambda p: (torch.special.modified_bessel_k0(p), torch.special.scaled_modified_bessel_k1(p * 3)),
        lambda x: torch.special.spherical_bessel_j0(x),
        lambda wide, p: (torch.special.bessel_j0(wide), torch.special.bessel_y0(p * 5)),
        lambda wide, p: (torch.special.bessel_j1(wide), torch.special.bessel_y1(p * 5)),
    ),
    "attention": (
        lambda x, y: attend(x, y, y, is_causal=True),
        lambda x, y, mask: attend(x, y, y, attn_mask=mask),
        lambda x, y, mask: attend(x[None], y[None], y[None], attn_mask=mask, scale=0.3),
        lambda heads: attend(heads, heads[:, :2], heads[:, 2:], is_causal=True, enable_gqa=True),
        lambda x, i: F.multilabel_margin_loss(x[0], i[0] - 1, reduction="none"),
        lambda x, y, p: F.gaussian_nll_loss(x, y, p, full=True),
        lambda x, i: F.cross_entropy(x, i[:, 0].clamp_max(2), torch.tensor([0.5, 1.0, 2.0]), label_smoothing=0.1),
        lambda x, i: F.cross_entropy(x[0], i[0, :, 0], ignore_index=1, label_smoothing=0.2, reduction="sum"),
        lambda x, u: F.cross_entropy(x, u, torch.tensor([0.5, 1.0, 2.0]), label_smoothing=0.1),
        lambda x, u: F.cross_entropy(x, u, reduction="none"),
    ),
}  # fmt: skip


class All(nn.Module):
    """Many expressions, by the names of their arguments."""

    def __init__(self, expressions: tuple[Callable[..., Any], ...]) -> None:
        super().__init__()
        self.expressions = expressions

    def names(self) -> list[str]:
        codes = [each.__code__ for each in self.expressions]
        return list(dict.fromkeys(name for code in codes for name in code.co_varnames[: code.co_argcount]))

    def forward(self, given: Mapping[str, Any]) -> Any:
        codes = [each.__code__ for each in self.expressions]
        return [
            f(*(given[n] for n in c.co_varnames[: c.co_argcount])) for f, c in zip(self.expressions, codes, strict=True)
        ]


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_spelled_out(group: str) -> None:
    module = All(EXPRESSIONS[group]).eval()
    given = {name: tensors()[name] for name in module.names()}
    want = comparison.results_of(module, ((given,), {}))
    graph = twinfer.from_torch(module, (given,), check=False)
    feeds = {t.name: v.numpy() for t, v in zip(graph.inputs, given.values(), strict=True)}
    compare(run(twinfer.convert(graph), feeds), want, 1e-4)


def test_projected_lstm() -> None:
    torch.manual_seed(2)
    net, x = nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True, batch_first=True), torch.randn(2, 3, 3)
    want = comparison.results_of(net.eval(), ((x,), {}))
    graph = twinfer.from_torch(net, x)
    compare(run(twinfer.convert(graph), {graph.inputs[0].name: x.numpy()}), want, 1e-5)


class Orthogonal(nn.Module):
    """A function of weights that is computed once, ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))

    def forward(self, x: Any) -> Any:
        return self.linear(x)


def test_functions_of_weights_are_computed_ahead() -> None:
    graph = twinfer.convert(twinfer.from_torch(Orthogonal(), torch.randn(2, 4)))
    assert [node.op for node in graph.nodes] == ["FULLY_CONNECTED"]


@pytest.mark.parametrize(("error", "says"), [(0, ""), (1e-3, "off by 0.1 %"), (0.5, "off by 50 %.*check=False")])
def test_the_result_is_compared(error: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the example is one of zeros, on which many errors do not show."""
    net = nn.Linear(3, 2)
    true_run = comparison._run
    monkeypatch.setattr(comparison, "_run", lambda *given: [v * (1 + error) for v in true_run(*given)])
    with torch.no_grad():
        net.weight.fill_(1.0)
        net.bias.zero_()
    example = torch.zeros(1, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not says:
            twinfer.from_torch(net, example)
            return
    with pytest.raises(ModelError if error > 0.1 else ModelWarning, match=f"random input|{says}"):
        twinfer.from_torch(net, example)
    assert twinfer.from_torch(net, example, check=False).outputs[0].shape == (1, 2)


def test_constants_are_compared_with_themselves() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Any, factor: Any) -> Any:
            return x * factor

    x, factor = torch.randn(2, 3), torch.tensor(1.0)
    graph = twinfer.from_torch(Scaled(), (x, factor), constants={"factor": np.float32(7)})
    compare(run(twinfer.convert(graph), {"x": x.numpy()}), [7 * x.numpy()], 1e-6)


class Counting(nn.Module):
    """Adds up what it is given: every run gives something else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.total = self.total * 0.5 + x
        return self.total * 2


def test_modules_that_remember_are_not_compared() -> None:
    twinfer.from_torch(Counting(), torch.ones(3))
