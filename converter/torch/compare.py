"""A graph beside the PyTorch program that it was made of, on the program's own example."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from twinfer.converter.quantize.compare import share_of_range
from twinfer.runtime.errors import ModelError, ModelWarning
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: The largest error, as a part of an output's range, that nothing is said about, and the largest that is no refusal.
GOOD, WRONG = 1e-4, 1e-2

#: The same where integers are inside: a value that rounds the other way is a step off, and moves those behind it.
GOOD_STEPS, WRONG_STEPS = 0.05, 0.2


def compare(
    graph: Graph,
    module: Callable[..., Any],
    inputs: tuple[Any, Any],
    names: Sequence[str],
    constants: Mapping[str, Any],
) -> None:
    """Runs both on the example, and on random numbers as well if the example's floats are all the same, which says
    little. ``inputs``: positional and named arguments; ``names``: of the tensors in them.

    ModelWarning for an output that is off by more than ``GOOD``, ModelError if by more than ``WRONG``. What cannot
    run here is not compared.
    """
    leaves, spec = tree_flatten(inputs)
    tensors = [i for i, value in enumerate(leaves) if isinstance(value, torch.Tensor)]
    for i, name in zip(tensors, names, strict=True):
        if name in constants:
            leaves[i] = torch.from_numpy(np.array(constants[name])).to(leaves[i].dtype).reshape(leaves[i].shape)
    free = [i for i, name in zip(tensors, names, strict=True) if name not in constants]
    if [tuple(leaves[i].shape) for i in free] != [t.shape for t in graph.inputs]:
        return
    samples, floats = {"the example input": leaves}, [i for i in free if leaves[i].is_floating_point()]
    if floats and all(_is_uniform(leaves[i]) for i in floats):
        seed = torch.Generator().manual_seed(1)
        noise = {i: torch.randn(leaves[i].shape, generator=seed, dtype=leaves[i].dtype) for i in floats}
        samples["a random input"] = [noise.get(i, value) for i, value in enumerate(leaves)]
    for what, sample in samples.items():
        try:
            wanted = results_of(module, tree_unflatten(sample, spec))
            results = _run(graph, [_array(sample[i]) for i in free])
        except Exception:  # a module may refuse random numbers; kernels may be missing here
            return
        try:
            _judge(graph, results, wanted, what)
        except ModelError:
            again = results_of(module, tree_unflatten(sample, spec))
            if all(np.array_equal(a, b, equal_nan=True) for a, b in zip(again, wanted, strict=True)):
                raise
            return  # a module that remembers: every run gives something else


def _run(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    session = Session(make_plan(graph))
    session.feed([value.astype(t.dtype) for value, t in zip(inputs, session.plan.graph.inputs, strict=True)])
    session.run()
    return session.outputs()


def results_of(module: Callable[..., Any], inputs: tuple[Any, Any]) -> list[Array]:
    """What a module gives, in evaluation mode. Without torch's fast path for attention, which puts zeros where a
    padding mask says that nobody looks."""
    args, kwargs = inputs
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            results = tree_leaves(module(*args, **kwargs))
            return [_array(torch.as_tensor(value)) for value in results if value is not None]
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _array(value: torch.Tensor) -> Array:
    value = value.detach().cpu().resolve_conj().resolve_neg()
    array: Array = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return array


def _is_uniform(value: torch.Tensor) -> bool:
    return value.numel() < 2 or bool((value == value.flatten()[0]).all())


def _judge(graph: Graph, results: Sequence[Array], wanted: Sequence[Array], what: str) -> None:
    if len(results) != len(wanted):
        return
    quantised = any(node.op == "QUANTIZE" for node in graph.nodes)
    good, wrong = (GOOD_STEPS, WRONG_STEPS) if quantised else (GOOD, WRONG)
    for tensor, got, want in zip(graph.outputs, results, wanted, strict=True):
        if got.size != want.size or want.dtype.kind == "c":
            continue
        share = _share(got.reshape(want.shape), want)
        said = f"output {tensor.name!r} is off by {100 * share:.2g} % of its range beside PyTorch on {what}"
        if share > wrong and want.dtype.kind == "f":
            raise ModelError(
                f"{said}, so it would be wrong: please report it; from_torch(..., check=False) converts all the same"
            )
        if share > good:
            warnings.warn(said, ModelWarning, stacklevel=4)


def _share(got: Array, want: Array) -> float:
    """The largest error as a part of the range; of integers, the part that differs."""
    if want.dtype.kind != "f":
        return float(np.mean(got != want)) if want.size else 0.0
    return share_of_range(got, want)
