"""PyTorch: modules of torch.nn, and functions of torch and what belongs to it, each as a small exported module."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from twinfer.bench.lab.suites.suite import Case, Trial
from twinfer.converter.convert import convert
from twinfer.converter.torch import from_torch
from twinfer.converter.torch.compare import results_of

#: Beginnings of the names of tensors that are weights of a function.
WEIGHTS = ("kernel", "table")

DATA = Path(__file__).parents[1] / "data"


def cases() -> Iterator[Case]:
    """Modules, then functions. The name of a module says what it is called with, unless that is one tensor."""
    torch.set_num_threads(1)
    from_torch(nn.ReLU(), torch.zeros(1))  # what torch imports on the way need not be imported in every case's process
    given, arguments = inputs(), ""
    for line in _lines("torch_modules.txt"):
        if line.startswith("["):
            arguments = line[1:-1]
            continue
        called = f" of {arguments}" if "," in arguments else ""
        subject = f"nn.{re.split(r'[(]', line)[0]}"
        yield Case(f"nn.{line}{called}", subject, partial(_convert, _module, line, arguments, given))
    for line in _lines("torch_functions.txt"):
        found = re.match(r"[\w.]*", line)
        subject = "indexing" if "[" in line.partition("(")[0] else found[0] if found else line
        yield Case(line, re.sub(r"^[xm]\.", "Tensor.", subject), partial(_convert, _function, line, "", given))


def _lines(name: str) -> list[str]:
    return [line for line in (DATA / name).read_text().splitlines() if line and not line.startswith("#")]


class Function(nn.Module):  # type: ignore[misc]
    """An expression as a module of the tensors in it. Those called weights are a part of it."""

    def __init__(self, code: CodeType, names: list[str], given: Mapping[str, Any]) -> None:
        super().__init__()
        self.code, self.names = code, [name for name in names if not name.startswith(WEIGHTS)]
        self.weights = [name for name in names if name.startswith(WEIGHTS)]
        for name in self.weights:
            self.register_buffer(name, given[name])

    def forward(self, *tensors: torch.Tensor) -> Any:
        weights = {name: getattr(self, name) for name in self.weights}
        return eval(self.code, {"torch": torch, "F": F, **weights, **dict(zip(self.names, tensors, strict=True))})


def _function(text: str, _: str, given: Mapping[str, Any]) -> tuple[nn.Module, tuple[Any, ...]]:
    code = compile(text, "case", "eval")
    names = [name for name in code.co_names if name in given and re.search(rf"(?<![.\w]){name}\b(?!=)", text)]
    function = Function(code, names, given)
    return function, tuple(given[name] for name in function.names)


def _module(text: str, arguments: str, given: Mapping[str, Any]) -> tuple[nn.Module, tuple[Any, ...]]:
    """The module with weights of its own, which are not all equal, as after training."""
    torch.manual_seed(3)
    module = eval(f"nn.{text}", {"nn": nn, "torch": torch})
    called = eval(f"({arguments},)", {**given})
    if any(isinstance(weight, nn.parameter.UninitializedParameter) for weight in module.parameters()):
        module(*called)
    with torch.no_grad():
        for part in module.modules():
            if getattr(part, "running_mean", None) is not None:
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
        for weight in module.parameters():
            if weight.numel() and bool((weight == weight.flatten()[0]).all()):
                weight.add_(torch.randn(weight.shape) * 0.2)
    return module, called


def _convert(make: Any, text: str, arguments: str, given: Mapping[str, Any]) -> Trial:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable()
        module, called = make(text, arguments, given)
        results = results_of(module.eval(), (called, {}))
        graph = convert(from_torch(module, called, check=False))
    values = [value.numpy() for value in tree_leaves(called) if isinstance(value, torch.Tensor)]
    feeds = {t.name: value.astype(t.dtype) for t, value in zip(graph.inputs, values, strict=True)}
    return Trial(graph, feeds, results)


def inputs() -> dict[str, Any]:
    """Tensors by the names that cases call them."""
    torch.manual_seed(7)
    r, u = torch.randn, torch.rand

    def i(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape)

    made = {
        "x": r(2, 3, 4), "y": r(2, 3, 4), "z3": r(2, 3, 4), "z": r(2, 5, 4), "u": u(2, 3, 4) * 0.9 + 0.05,
        "p": u(2, 3, 4) * 2 + 0.3, "b": r(2, 3, 4) > 0, "c": r(2, 3, 4) > 0, "xt": r(2, 4, 3), "mm": r(3, 5),
        "i": i(-6, 7, 2, 3, 4), "j": i(0, 5, 2, 3, 4), "t": (r(2, 3, 4) > 0).float(), "sign": r(2, 3, 4).sign(),
        "zeros": torch.zeros(2, 3, 4), "long": r(2, 48), "hann": torch.hann_window(16), "pairs": r(2, 3, 2),
        "squares": r(2, 3, 3),
        "m": r(3, 4), "m2": r(3, 4), "m3": r(3, 4), "n": r(4, 5), "nt": r(5, 4), "p2": u(3, 4) + 0.5, "s": r(4, 4),
        "sq": r(2, 4, 4), "square3": r(3, 3), "v": r(6), "w": r(6), "v2": r(2), "v3": r(3), "v4": r(4), "v6": r(6),
        "p3": u(3) + 0.1, "p4": u(4) + 0.5, "flat6": r(6), "signs": r(6).sign(), "side": torch.tensor([1.0, -1, 1]),
        "line": r(1, 4, 12), "image": r(1, 4, 9, 7), "even": r(1, 3, 8, 4), "volume": r(1, 4, 5, 6, 7),
        "columns": r(1, 24, 20), "state": r(1, 3, 5), "hidden": r(3, 5), "heads": r(1, 4, 5, 6),
        "tokens": i(0, 10, 2, 3), "weights": r(2, 3), "flat": i(0, 10, 7), "offsets": torch.tensor([0, 2, 5]),
        "table": r(10, 4), "classes": i(0, 4, 3), "labels": i(0, 4, 1, 9, 7), "labels6": i(0, 4, 6),
        "ranks": torch.tensor([[1, 3, -1, 0], [2, -1, 0, 1], [0, 1, 2, 3]]), "index": i(0, 3, 2, 3, 4),
        "once": r(2, 3, 4).argsort(1),
        "places2": torch.tensor([1, 0]), "places3": torch.tensor([2, 0, 1]), "quarters": torch.tensor([0.25, 0.5]),
        "edges": torch.tensor([-1.0, -0.2, 0.3, 1.2]),
        "padding": torch.tensor([[False] * 3, [False, False, True]]),
        "causal": torch.ones(3, 3).triu(1) > 0, "theta": r(1, 2, 3), "grid": r(1, 5, 6, 2) * 0.7,
        "grid3": r(1, 2, 3, 4, 3) * 0.6, "kernel1": r(6, 4, 3), "kernel2": r(6, 4, 3, 3), "kernel3": r(6, 4, 2, 2, 2),
        "logs": r(6, 2, 5).log_softmax(-1), "targets": i(1, 5, 2, 3), "lengths": torch.tensor([6, 5]),
        "target_lengths": torch.tensor([3, 2]),
    }  # fmt: skip
    made["lower"] = r(4, 4).tril() + 3 * torch.eye(4)
    made["spd"] = made["lower"] @ made["lower"].T
    made["holes"] = torch.where(r(2, 3, 4) > 1, torch.nan, made["x"])
    for d, name in ((1, "line"), (2, "image"), (3, "volume")):
        pool = getattr(F, f"max_pool{d}d")
        even = made[name][tuple(slice(n - n % 2) if i > 1 else slice(None) for i, n in enumerate(made[name].shape))]
        made[f"pooled{d}"], made[f"spots{d}"] = pool(even, 2, return_indices=True)
    return made
