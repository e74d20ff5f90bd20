"""TFLite_Detection_PostProcess: boxes from encodings and anchors, of which those stay that overlap no better one.

Source: LiteRT and TFLM detection_postprocess.cc. Both leave rows without a detection unwritten; they are 0 here. Both
stop with an error at a box whose height or width is negative (TFLM: or 0); here such a box overlaps none.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.move._move import check_arity
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

NAME = "CUSTOM:TFLite_Detection_PostProcess"

#: What the flexbuffers module raises for damaged bytes, and what a number of another kind leads to.
_DAMAGE = (struct.error, ValueError, IndexError, TypeError, KeyError, OverflowError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Options:
    """The custom options, by the names that they have in the file."""

    max_detections: int
    max_classes_per_detection: int
    num_classes: int
    nms_score_threshold: float
    nms_iou_threshold: float
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float
    detections_per_class: int = 100
    use_regular_nms: bool = False


def options(node: Node) -> Options:
    """The node's options; ModelError where they are damaged, missing or contradict themselves."""
    try:
        content = flexbuffers.GetRoot(bytes(node.extra.get("custom_options", b""))).AsMap
        o = Options(**dict(_read(content)))
    except _DAMAGE as error:
        raise ModelError(f"{node}: its custom options are damaged ({type(error).__name__}: {error})") from error
    for name in ("max_detections", "max_classes_per_detection", "num_classes", "detections_per_class"):
        need(0 < getattr(o, name) < 1 << 31, node, f"its option {name} is {getattr(o, name)}, it must be positive")
    need(0 < o.nms_iou_threshold <= 1, node, f"its option nms_iou_threshold is {o.nms_iou_threshold}, not in (0, 1]")
    for name in ("y_scale", "x_scale", "h_scale", "w_scale"):
        scale = getattr(o, name)
        need(math.isfinite(scale) and scale != 0, node, f"its option {name} is {scale}; it is divided by")
    need(not math.isnan(o.nms_score_threshold), node, "its option nms_score_threshold is not a number")
    return o


def _read(content: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of every option that the map has. Nothing else in it is read: a file may nest without end."""
    for field in fields(Options):
        try:
            value = content[field.name]
        except KeyError:
            continue
        if not (value.IsNumeric or value.IsBool):
            raise TypeError(f"{field.name} is no number")
        number = value.AsFloat if value.IsFloat else value.AsInt
        yield field.name, _float32(number) if field.type == "float" else int(number)


def _float32(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def infer(node: Node) -> list[Shape]:
    check_arity(node, 3, 4)
    o, (codes, scores, anchors) = options(node), (node.input(i) for i in range(3))
    for t in (codes, scores, anchors, *node.outputs):
        need_type(node, t, "FLOAT32")
    need(len(codes.shape) == 3 and codes.shape[0] == 1 and codes.shape[2] >= 4, node, f"{codes} must be [1, boxes, 4]")
    boxes = codes.shape[1]
    columns = (o.num_classes, o.num_classes + 1)  # with a background before the classes
    fits = scores.shape in [(1, boxes, n) for n in columns]
    need(fits, node, f"{scores} must be [1, {boxes}, {columns[0]} or {columns[1]}]")
    need(anchors.shape == (boxes, 4), node, f"{anchors} must be [{boxes}, 4]")
    need(24 * boxes + 4 * min(boxes, max(_limits(o))) < 1 << 31, node, f"{codes} has too many boxes")
    rows = o.max_detections * o.max_classes_per_detection
    return [(1, rows, 4), (1, rows), (1, rows), (1,)]


def _limits(o: Options) -> tuple[int, int]:
    """How many boxes a pass of either kind chooses at most."""
    return o.max_detections, o.detections_per_class


def _decoded(o: Options, codes: Array, anchors: Array) -> Array:
    """Boxes [n, 4] as top, left, bottom, right. In float64, rounded to float32 before halves are added."""
    c, a = codes[:, :4].astype(np.float64), anchors.astype(np.float64)
    centre = (c[:, :2] / [o.y_scale, o.x_scale] * a[:, 2:] + a[:, :2]).astype(np.float32)
    powers = np.vectorize(_exp, otypes=[np.float64])(c[:, 2:] / [o.h_scale, o.w_scale])
    half = (0.5 * powers * a[:, 2:]).astype(np.float32)
    return np.concatenate([centre - half, centre + half], 1)


def _exp(x: float) -> float:
    return math.inf if x >= 709 else math.exp(x)


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of a box with others, in float32."""
    area, areas = ((b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1]) for b in (box, others))
    low = np.where(others[:, :2] < box[:2], box[:2], others[:, :2])  # of what is no number, the chosen box's counts
    high = np.where(box[2:] < others[:, 2:], box[2:], others[:, 2:])
    shared = np.where(high - low < 0, np.float32(0), high - low)
    both = shared[:, 0] * shared[:, 1]
    return np.where((area <= 0) | (areas <= 0), np.float32(0), both / (area + areas - both))


def _chosen(o: Options, boxes: Array, scores: Array, most: int) -> list[int]:
    """Boxes in falling order of scores, without those that overlap a better one too much."""
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] >= np.float32(o.nms_score_threshold)]
    chosen: list[int] = []
    for i in order:
        if len(chosen) < most and not (_overlaps(boxes[i], boxes[chosen]) > np.float32(o.nms_iou_threshold)).any():
            chosen.append(int(i))
    return chosen


def _ranked(scores: Array, most: int) -> list[int]:
    """Classes in falling order of scores; a class goes in front of those that are less, which no NaN is."""
    ranked: list[int] = []
    for c, score in enumerate(scores):
        at = len(ranked)
        while at and scores[ranked[at - 1]] < score:
            at -= 1
        ranked = [*ranked[:at], c, *ranked[at:]][:most]
    return ranked


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    o = options(node)
    codes, scores, anchors = inputs[0][0], inputs[1][0], inputs[2]
    scores = scores[:, scores.shape[1] - o.num_classes :]
    rows: list[tuple[int, int, int]] = []  # row, box, class
    with np.errstate(all="ignore"):
        boxes = _decoded(o, codes, anchors)
        if o.use_regular_nms:
            picks = [
                (i, c) for c in range(o.num_classes) for i in _chosen(o, boxes, scores[:, c], o.detections_per_class)
            ]
            best = sorted(picks, key=lambda pick: -scores[pick])[: o.max_detections]
            rows = [(row, i, c) for row, (i, c) in enumerate(best)]
            count = len(best)
        else:
            best_scores = scores[:, 0]
            for values in scores[:, 1:].T:
                best_scores = np.where(values > best_scores, values, best_scores)
            chosen = _chosen(o, boxes, best_scores, o.max_detections)
            used, count = min(o.max_classes_per_detection, o.num_classes), len(chosen)
            for k, i in enumerate(chosen):
                rows += [(k * o.max_classes_per_detection + j, i, c) for j, c in enumerate(_ranked(scores[i], used))]
    return [*_outputs(node, boxes, scores, rows), np.array([count], np.float32)]


def _outputs(node: Node, boxes: Array, scores: Array, rows: list[tuple[int, int, int]]) -> list[Array]:
    places, classes, values = (np.zeros(t.shape, np.float32) for t in node.outputs[:3])
    for row, box, kind in rows:
        places[0, row], classes[0, row], values[0, row] = boxes[box], kind, scores[box, kind]
    return [places, classes, values]


def lower(node: Node, target: Target) -> Call:
    o, (codes, scores, anchors) = options(node), (node.input(i) for i in range(3))
    boxes = codes.shape[1]
    params = {
        "boxes": boxes, "coords": codes.shape[2], "classes": o.num_classes,
        "offset": scores.shape[2] - o.num_classes, "rows": node.outputs[1].size,
        "detections": o.max_detections, "per_class": o.detections_per_class, "per_box": o.max_classes_per_detection,
        "used": min(o.max_classes_per_detection, o.num_classes), "regular": int(o.use_regular_nms),
        "y_scale": o.y_scale, "x_scale": o.x_scale, "h_scale": o.h_scale, "w_scale": o.w_scale,
        "least": o.nms_score_threshold, "overlap": o.nms_iou_threshold,
    }  # fmt: skip
    scratch = 24 * boxes + 4 * min(boxes, _limits(o)[o.use_regular_nms])
    return Call("tw_detection", params, (codes, scores, anchors), node.outputs, scratch)


_PLAIN: Mapping[str, Any] = {
    "max_detections": 10, "max_classes_per_detection": 1, "num_classes": 5, "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.6, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def _case(rng: np.random.Generator, boxes: int, coords: int = 4, background: int = 1, **options: Any) -> Case:
    """Anchors in a grid that is dense enough for overlaps, and scores among which some are equal."""
    o = {**_PLAIN, **options}
    centres = rng.uniform(0, 1, (boxes, 2))
    anchors = np.concatenate([centres, rng.uniform(0.1, 0.5, (boxes, 2))], 1).astype(np.float32)
    inputs = (
        tensor((1, boxes, coords), name="codes"),
        tensor((1, boxes, o["num_classes"] + background), name="scores"),
        tensor((boxes, 4), data=anchors, name="anchors"),
    )
    rows = o["max_detections"] * o["max_classes_per_detection"]
    outputs = tuple(tensor(s, name=f"y{i}") for i, s in enumerate(((1, rows, 4), (1, rows), (1, rows), (1,))))
    scores = (rng.integers(0, 64, inputs[1].shape) / 64).astype(np.float32)
    values = (rng.normal(size=inputs[0].shape).astype(np.float32), scores)
    return Case(Node(NAME, inputs, outputs, extra={"custom_options": bytes(flexbuffers.Dumps(o))}), values)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 40)
    yield _case(rng, 40, coords=6, background=0)
    yield _case(rng, 300, nms_iou_threshold=0.3, max_detections=25)
    yield _case(rng, 40, use_regular_nms=True, detections_per_class=3)
    yield _case(rng, 300, use_regular_nms=True, max_detections=50, background=0)
    yield _case(rng, 60, use_regular_nms=True, max_detections=1, detections_per_class=1)
    unwritten = "rows without a detection are not written by the references"
    few = _case(rng, 3, nms_score_threshold=0.9)
    yield Case(few.node, few.inputs, "none", unwritten)
    yield _case(rng, 3, use_regular_nms=True, nms_score_threshold=0.9)
    several = _case(rng, 80, max_classes_per_detection=3, max_detections=4)
    yield Case(several.node, several.inputs, "none", "TFLM writes beyond its outputs, LiteRT sorts equal scores anyhow")
    distinct = np.asarray(rng.permutation(80 * 6).reshape(1, 80, 6) / 512, np.float32)
    yield Case(several.node, (several.inputs[0], distinct) if several.inputs else None, "litert")
    wide = _case(rng, 30, max_classes_per_detection=7, max_detections=4)
    yield Case(wide.node, wide.inputs, "none", "rows for classes that are not there are not written by LiteRT")
    yield Case(several.node, None, "none", "boxes of negative size: the references refuse to run")
    for regular in (False, True):
        yield _byte_case(_case(rng, 90, use_regular_nms=regular, max_detections=25), rng)
    yield _case(rng, 40, nms_score_threshold=0.5, max_detections=40, use_regular_nms=True)  # some scores are the least
    fast = _case(rng, 40, nms_score_threshold=0.5, max_detections=40)
    yield Case(fast.node, fast.inputs, "none", unwritten)


def _byte_case(case: Case, rng: np.random.Generator) -> Case:
    """The case with uint8 for codes, scores and anchors, as in detectors of 2018."""
    codes, scores, anchors = (case.node.input(i) for i in range(3))
    stored = np.clip(np.round(case.node.constant(2) * 200) + 7, 0, 255)
    inputs = (
        tensor(codes.shape, "UINT8", 0.05, 128, name="codes"),
        tensor(scores.shape, "UINT8", 1 / 256, name="scores"),
        tensor(anchors.shape, "UINT8", 1 / 200, 7, stored, name="anchors"),
    )
    fed = (rng.integers(60, 196, codes.shape).astype(np.uint8), rng.integers(0, 256, scores.shape).astype(np.uint8))
    return Case(replace(case.node, inputs=inputs), fed, "litert")


OP = Op(NAME, infer, reference, lower, cases, uint8="floats")
