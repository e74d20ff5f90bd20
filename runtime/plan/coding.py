"""Weights stored coded: which layer gets which coding, and the calls that decode them.

Coding acts on the arrays that ``lower`` packed, so every kernel keeps its own layout; ``Call.weights`` says which parts
of an array are weights. Decoded weights are a tensor in the arena. It lives while its layer runs or, decoded at the
start, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from twinfer.runtime.constant import Constant
from twinfer.runtime.options import Options
from twinfer.runtime.plan.codes import CODINGS, for_helium
from twinfer.runtime.plan.decoders import CALL_BYTES, decoder_bytes
from twinfer.runtime.plan.decoding import decoded_at_start, decoded_before, reading
from twinfer.runtime.plan.lower import Lowered
from twinfer.runtime.plan.weights import CodedWeights, PackedWeights
from twinfer.runtime.program import Step
from twinfer.runtime.target import Target
from twinfer.runtime.walks import steps_of, with_steps

#: A coding that decodes slower than a table of values must be smaller by this share of the layer's bytes.
SLOWER: Mapping[str, float] = {"tw_decode_huffman": 0.05, "tw_decode_bitmap": 0.025}


def store(lowered: Lowered, target: Target, options: Options) -> Lowered:
    """The steps with their weights stored as ``options`` say."""
    layers, pool = list(_layers(steps_of(lowered.program))), lowered.pool
    chosen = {coded.layer.step: coded for coded in _chosen(layers, target, options)}
    if options.decode == "layer":
        after = {step: decoded_before(coded, pool) for step, coded in chosen.items()}
        start: tuple[Step, ...] = ()
    else:
        start = decoded_at_start(list(chosen.values()), pool)
        after = {step: reading(step, decoders) for step, decoders in zip(chosen, start, strict=True)}
    program = with_steps(lowered.program, lambda step: after.get(step, step))
    return replace(lowered, program=program, start=(*lowered.start, *start))


def _layers(steps: Iterable[Step]) -> Iterator[PackedWeights]:
    for step in steps:
        weights, layout = (step.call.inputs[1] if step.call.weights else None), step.call.weights
        if layout is not None and isinstance(weights, Constant) and weights.array.size:
            yield PackedWeights(step, weights, layout)


def _chosen(layers: Sequence[PackedWeights], target: Target, options: Options) -> list[CodedWeights]:
    """Which layers are coded, and how."""
    whole = options.decode == "start"
    if options.weights == "auto":
        return _smallest(layers, CODINGS, target, whole)
    if options.weights in CODINGS:
        return _candidates(layers, options.weights, target, whole)
    if not options.codes(target.flash_is_dear):
        return []
    packed = [layer for layer in layers if layer.step.node.input(1).type in ("INT4", "INT2")]
    return _smallest(packed, ["lut"], target, whole)


def _candidates(layers: Iterable[PackedWeights], coding: str, target: Target, whole: bool) -> list[CodedWeights]:
    """Every layer whose weights the coding can hold; in slices where it can be cut, unless ``whole``."""
    candidates = []
    for layer in layers:
        channels = 0 if whole else layer.channels()
        blocks = layer.blocks(channels)
        code = CODINGS[coding](blocks, layer.layout.halves) if blocks.shape[2] % 8 == 0 else None
        if code is not None:
            candidates.append(CodedWeights(layer, for_helium(code) if target.has("mve") else code, channels))
    return candidates


def _smallest(
    layers: Sequence[PackedWeights], codings: Iterable[str], target: Target, whole: bool
) -> list[CodedWeights]:
    """The layers to code, and how, for the fewest bytes in all, decoders included. Every set of decoders is tried."""
    every = [c for coding in codings for c in _candidates(layers, coding, target, whole) if _saved(c) > 0]
    decoders = sorted({candidate.code.kernels for candidate in every}, key=sorted)
    sets = (there for count in range(len(decoders) + 1) for there in combinations(decoders, count))
    return max((_best(every, there) for there in sets), key=_gain)


def _best(candidates: Iterable[CodedWeights], decoders: Sequence[frozenset[str]]) -> list[CodedWeights]:
    """The smallest candidate per layer that these decoders serve."""
    best: dict[Step, CodedWeights] = {}
    for candidate in candidates:
        rival = best.get(candidate.layer.step)
        if candidate.code.kernels in decoders and (rival is None or _saved(candidate) > _saved(rival)):
            best[candidate.layer.step] = candidate
    return list(best.values())


def _saved(candidate: CodedWeights) -> int:
    """Bytes of flash that a candidate saves, without its decoder, less what a slow decoder has to save."""
    plain = candidate.layer.constant.nbytes
    calls = CALL_BYTES * len(candidate.code.kernels)
    return plain - candidate.nbytes - calls - int(plain * SLOWER.get(candidate.code.kernel, 0))


def _gain(chosen: Sequence[CodedWeights]) -> int:
    """Bytes of flash that these candidates save, their decoders included."""
    return sum(map(_saved, chosen)) - decoder_bytes(name for coded in chosen for name in coded.code.kernels)
