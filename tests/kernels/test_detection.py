"""TFLite_Detection_PostProcess: its options come from an untrusted file in a format of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import cases_of
from flatbuffers import flexbuffers

from twinfer.runtime.errors import ModelError, TwinferError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.reduce.detection import NAME
from twinfer.runtime.shapes import infer_node

GOOD = next(iter(cases_of(NAME).values())).node
OPTIONS = flexbuffers.Loads(GOOD.extra["custom_options"])


def with_options(content: bytes) -> Node:
    return replace(GOOD, extra={"custom_options": content})


def changed(**options: Any) -> Node:
    """The good node with some options changed; None: left out."""
    mixed = {k: v for k, v in {**OPTIONS, **options}.items() if v is not None}
    return with_options(bytes(flexbuffers.Dumps(mixed)))


def test_options_of_any_kind_of_number() -> None:
    assert infer_node(changed(y_scale=10, use_regular_nms=1, max_detections=10.0)) == [t.shape for t in GOOD.outputs]
    assert infer_node(changed(max_detections=7))[0] == (1, 7, 4)
    assert infer_node(changed(nms_iou_threshold=1.0)) == [t.shape for t in GOOD.outputs], "nothing is suppressed"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (replace(GOOD, extra={}), "damaged"),
        (with_options(b""), "damaged"),
        (with_options(bytes(flexbuffers.Dumps([1, 2, 3]))), "damaged"),
        (changed(max_detections=None), "damaged.*max_detections"),
        (changed(num_classes="five"), "damaged.*num_classes is no number"),
        (changed(x_scale=None), "damaged.*x_scale"),
        (changed(max_detections=0), "max_detections is 0"),
        (changed(max_detections=1 << 31), "max_detections is 2147483648"),
        (changed(max_classes_per_detection=-1), "max_classes_per_detection is -1"),
        (changed(detections_per_class=0), "detections_per_class is 0"),
        (changed(nms_iou_threshold=0.0), "nms_iou_threshold"),
        (changed(nms_iou_threshold=1.01), "nms_iou_threshold"),
        (changed(nms_score_threshold=float("nan")), "not a number"),
        (changed(h_scale=0.0), "h_scale is 0.0"),
        (changed(w_scale=float("inf")), "w_scale is inf"),
        (changed(num_classes=4), r"must be \[1, 40, 4 or 5\]"),
        (changed(num_classes=7), r"must be \[1, 40, 7 or 8\]"),
        (replace(GOOD, inputs=(tensor((1, 40, 3)), *GOOD.inputs[1:])), r"must be \[1, boxes, 4\]"),
        (replace(GOOD, inputs=(tensor((2, 40, 4)), *GOOD.inputs[1:])), r"must be \[1, boxes, 4\]"),
        (replace(GOOD, inputs=(*GOOD.inputs[:2], tensor((39, 4)))), r"must be \[40, 4\]"),
        (replace(GOOD, outputs=GOOD.outputs[:3]), "3 outputs"),
    ],
)
def test_refused(node: Node, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        infer_node(node)


def test_damaged_options_do_no_harm() -> None:
    """Every byte in turn changed, and every end cut off: the node is taken or refused, nothing else."""
    content, refused = GOOD.extra["custom_options"], 0
    rng = np.random.default_rng(7)
    damaged = [content[:end] for end in range(len(content))]
    for at in range(len(content)):
        for value in (0, 255, int(rng.integers(256))):
            damaged.append(content[:at] + bytes([value]) + content[at + 1 :])
    for bytes_ in damaged:
        try:
            infer_node(with_options(bytes_))
        except TwinferError:
            refused += 1
    assert len(content) < refused < len(damaged)
