"""Keras 3.15: every class of ``keras.layers`` in several configurations, and every function of ``keras.ops``.

Expected values are what Keras itself predicts. Weights are random. The backend is PyTorch, unless ``KERAS_BACKEND``
says another.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

from twinfer.bench.lab.suites import keras_layers, keras_ops
from twinfer.bench.lab.suites.suite import Case, Trial
from twinfer.converter.convert import convert
from twinfer.converter.keras import from_keras
from twinfer.runtime.graph import Array


def cases() -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, rows in (("layers", keras_layers.rows()), ("ops", keras_ops.rows())):
            for name, made, specs in rows:
                arrays = [s if isinstance(s, np.ndarray) else _array(s) for s in specs]
                fixed = kind == "ops"  # functions have no batch
                subject = f"{'ops.' if fixed else ''}{name.split()[0]}"
                yield Case(f"{kind}/{name}", subject, partial(_convert, made, arrays, fixed))


def _array(shape: Sequence[int]) -> Array:
    return np.random.default_rng(3).normal(0, 1, (2, *shape)).astype(np.float32)


def _model(made: Any, arrays: Sequence[Array], fixed: bool) -> tuple[Any, list[Array]]:
    """The model, and what it predicts."""
    kinds = [str(x.dtype) for x in arrays]
    if fixed:
        inputs = [keras.Input(batch_shape=x.shape, dtype=kind) for x, kind in zip(arrays, kinds, strict=True)]
    else:
        inputs = [keras.Input(x.shape[1:], dtype=kind) for x, kind in zip(arrays, kinds, strict=True)]
    model = keras.Model(inputs, keras.tree.flatten(made(*inputs)))
    rng = np.random.default_rng(4)
    for weight in model.weights:
        if weight.dtype == "float32":
            values = rng.normal(0, 0.4, weight.shape)
            spread = "variance" in weight.path or "stddev" in weight.path
            weight.assign((np.abs(values) + 0.5 if spread else values).astype(np.float32))
    outputs = keras.tree.flatten(model(list(arrays), training=False))
    return model, [np.asarray(keras.ops.convert_to_numpy(output)) for output in outputs]


def _convert(made: Any, arrays: Sequence[Array], fixed: bool) -> Trial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, expected = _model(made, arrays, fixed)
        batch = arrays[0].shape[0] if arrays[0].ndim else 1
        graph = convert(from_keras(model, batch=batch))
    feeds = {t.name: x.astype(t.dtype) for t, x in zip(graph.inputs, arrays, strict=True)}
    return Trial(graph, feeds, expected)
