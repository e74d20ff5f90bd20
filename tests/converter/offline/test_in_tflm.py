"""TFLM runs models by the plan that we store: the same bits, in the bytes that we say."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases_of, graph_of
from needs import needs
from tflm_arena import in_tflm, same

from twinfer.converter.facts import Moves
from twinfer.converter.offline.stored import stored_plan, with_plan
from twinfer.converter.table import ROWS
from twinfer.runtime.read.tflite import read_file

needs("tflite_micro")

#: Models whose kernels ask for scratch, which is not in the plan.
SCRATCH = {"tflm_keyword_scrambled_8bit", "tflm_trained_lstm_int8"}

#: Bytes that TFLM's own planner takes for tensors and scratch, and takes by our plan.
HEADS = {
    "mlp_kws_int8": (16_000, 16_000),
    "mlp_vww_int8": (73_728, 55_296),
    "mlp_ic_int8": (49_152, 49_152),
    "mlp_ad01_int8": (768, 768),
    "tflm_person_detect": (55_296, 55_296),
    "mlon_qnn_model": (6_272, 3_920),
    "mww_vad": (1_536, 1_456),
    "lrt_nested_while": (112, 112),
    "tflm_keyword_scrambled_8bit": (672, 672),
    "tflm_trained_lstm_int8": (1_536, 1_536),
}


@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("name", HEADS)
def test_real_models(name: str, corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The plan changes no bit and takes the bytes that it says, never more than TFLM's own planner takes."""
    graph = read_file(corpus / "models" / f"{name}.tflite")
    planned = with_plan(graph)
    want, head = in_tflm(graph, capfd)
    got, less = in_tflm(planned, capfd)
    assert same(want, got)
    assert (head, less) == HEADS[name]
    stored = stored_plan(planned)
    assert stored is not None
    assert stored.bytes == less or (name in SCRATCH and stored.bytes < less)


#: The cases of all operators that only change the shape, in types that TFLM takes.
IN_PLACE = {
    name: graph_of(case.node)
    for op, row in ROWS.items()
    if row.moves is Moves.RESHAPES
    for name, case in cases_of(op).items()
    if case.oracle == "tflm"
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_only_changes_the_shape_works_in_place(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """TFLM's kernels may have their output where the input is: the only sharing that the plan has."""
    graph = IN_PLACE[name]
    want, _ = in_tflm(graph, capfd)
    got, head = in_tflm(with_plan(graph), capfd)
    assert same(want, got)
    assert head == -(-graph.inputs[0].nbytes // 16) * 16
