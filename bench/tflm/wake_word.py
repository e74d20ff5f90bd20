"""A wake word for ESPHome's ``micro_wake_word``: the manifest (version 2) that it wants beside the .tflite.

Sources: ESPHome's ``components/micro_wake_word``: ``__init__.py`` for the manifest, ``streaming_model.cpp`` for what it
takes of a model and which operators it registers.
"""

from __future__ import annotations

import json
from typing import Any

from twinfer.bench.models.source import Source
from twinfer.bench.tflm.arena import arena_size
from twinfer.bench.tflm.resolver import operators
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph

#: What ESPHome 2026.6 registers.
_REGISTERED = """
CALL_ONCE VAR_HANDLE RESHAPE READ_VARIABLE STRIDED_SLICE CONCATENATION ASSIGN_VARIABLE CONV_2D MUL ADD MEAN
FULLY_CONNECTED LOGISTIC QUANTIZE DEPTHWISE_CONV_2D AVERAGE_POOL_2D MAX_POOL_2D PAD PACK SPLIT_V"""

#: Features of a row: bands of the spectrum.
_FEATURES = 40

#: What only the one who trained the model knows: usual values.
_USUAL: dict[str, Any] = {"author": "unknown", "website": "https://example.com", "trained_languages": ["en"]}
_USUAL_MICRO: dict[str, Any] = {"probability_cutoff": 0.97, "sliding_window_size": 5, "feature_step_size": 10}
_USUAL_MICRO |= {"minimum_esphome_version": "2024.7.0"}


def why_none(graph: Graph) -> str:
    """Why ``micro_wake_word`` would not take the model; empty if it does."""
    ends = [*graph.inputs, *graph.outputs]
    forms = [f"{tensor.type} {list(tensor.shape)}" for tensor in ends]
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return f"it has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, wanted is one of each"
    shape = graph.inputs[0].shape
    if graph.inputs[0].type != "INT8" or len(shape) != 3 or (shape[0], shape[2]) != (1, _FEATURES):
        return f"its input is {forms[0]}, wanted is INT8 [1, rows, {_FEATURES}]"
    if graph.outputs[0].type != "UINT8" or graph.outputs[0].shape != (1, 1):
        return f"its output is {forms[1]}, wanted is UINT8 [1, 1]"
    missing = [op for op in operators(graph) if op not in _REGISTERED.split()]
    return f"ESPHome registers no {', '.join(missing)}" if missing else ""


def files(name: str, source: Source) -> dict[str, str | bytes]:
    """NAME.json and NAME.tflite of a wake word; nothing for other models.

    What a MODEL.json beside the model says stays, such as author and cutoff. InvalidArgumentError if that is no JSON.
    """
    if why_none(source.graph):
        return {}
    given: dict[str, Any] = {}
    path = source.path.with_suffix(".json") if source.path else None
    if path is not None and path.is_file():
        try:
            given = dict(json.loads(path.read_text(encoding="utf-8")))
            micro = dict(given.get("micro", {}))
        except (OSError, ValueError, TypeError):
            raise InvalidArgumentError(f"{path} is no manifest of a wake word: repair or move it") from None
    else:
        micro = {}
    words = name.replace("_", " ").strip()
    manifest = {"type": "micro", "wake_word": words, **_USUAL, **given, "model": f"{name}.tflite", "version": 2}
    arena = arena_size(source.graph, source.content).nbytes
    if "sliding_window_average_size" in micro:  # of version 1
        micro.setdefault("sliding_window_size", micro.pop("sliding_window_average_size"))
    manifest["micro"] = {**_USUAL_MICRO, **micro, "tensor_arena_size": arena}
    return {f"{name}.json": json.dumps(manifest, indent=2) + "\n", f"{name}.tflite": source.content}
