"""If, Loop and Scan: read in place, or as TFLite's IF and WHILE; and operators that ONNX defines by others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_tools import by_litert, by_onnxruntime, by_ours

import twinfer
from twinfer.runtime.errors import UnsupportedOperatorError

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)

#: What a step does: name -> ONNX's text. ``x`` is a value around the graph, ``h`` a state [4].
IF = """
agraph (float[3, 4] x, bool c) => (y) {{
  a = Abs (x)
  y = If (c) <then_branch = then () => (float[{then}] t) {{ b = Mul (a, x) t = Neg (b) }},
              else_branch = orelse () => (float[{orelse}] e) {{ {more} }}>
}}
"""
LOOP = """
agraph (float[3, 4] x, float[4] h {more}) => ({outputs}) {{
  n = Constant <value_int = {count}> ()
  {before}
  {outputs} = Loop ({inputs}) <body = step (int64 i, bool go, float[4] s) => ({body_outputs}) {{
    two = Constant <value_int = 2> ()
    at = Min (i, two)
    row = Gather <axis = 0> (x, at)
    sum = Add (s, row)
    t = Tanh (sum)
    limit = Constant <value_float = 0.9> ()
    first_ = ReduceMax <keepdims = 0> (t)
    {last}
  }}>
}}
"""
SCAN = """
agraph (float[{rows}, 4] x, float[4] h) => (y, z) {{
  y, z = Scan <num_scan_inputs = 1, scan_input_directions = [{back}], scan_output_directions = [{back}],
               scan_output_axes = [{axis}], body = step (float[4] s, float[4] r) => (float[4] t, float[4] u) {{
    m = Add (s, r)
    t = Tanh (m)
    u = Sub (t, r)
  }}> (h, x)
}}
"""


def model(text: str, opset: int = 19) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(head + text)


def check(proto: onnx.ModelProto, feeds: dict[str, Any], *ops: str, tolerance: float = 1e-5) -> Any:
    """Converts, compares with ONNX Runtime, in LiteRT too; the main graph has these control operators."""
    graph = twinfer.convert(proto)
    assert [node.op for node in graph.nodes if node.op in ("IF", "WHILE")] == list(ops)
    expected = by_onnxruntime(proto, feeds)
    for got in (by_ours(graph, feeds), by_litert(graph, feeds)):
        for y, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(y, e, atol=tolerance)
    return graph


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool) -> None:
    text = IF.format(then="3,4", orelse="3,4", more="f = Exp (x) e = Add (f, a)")
    check(model(text), {"x": X, "c": np.array(condition)}, "IF")


def test_branches_of_two_shapes() -> None:
    text = IF.format(then="3,4", orelse="1,4", more="ax = Constant <value_ints = [0]> () e = ReduceSum (x, ax)")
    with pytest.raises(UnsupportedOperatorError, match=r"FLOAT32\[3, 4\] and FLOAT32\[1, 4\].*--constant"):
        twinfer.convert(model(text))
    graph = twinfer.convert(model(text), constants={"c": False})
    np.testing.assert_allclose(by_ours(graph, {"x": X})[0], X.sum(0, keepdims=True), rtol=1e-6)


def loop(count: int, inputs: str, outputs: str, last: str, before: str = "", more: str = "", rows: str = "") -> str:
    body = f"bool go_on, float[4] t{rows}"
    return LOOP.format(
        count=count, inputs=inputs, outputs=outputs, last=last, before=before, more=more, body_outputs=body
    )


ON = "go_on = Identity (go)"


@pytest.mark.parametrize("count", [1, 5, 400])
@pytest.mark.parametrize("rows", ["", ", float[4] u"])
def test_loop_of_a_known_number_of_steps(count: int, rows: str) -> None:
    """Short ones are written out; rows of all steps may be joined."""
    last = ON + (" u = Sub (t, row)" if rows else "")
    text = loop(count, "n, , h", "y, z" if rows else "y", last, rows=rows)
    check(model(text), {"x": X, "h": np.ones(4, np.float32)}, *(["WHILE"] if count == 400 else []))


def test_loop_until_a_condition() -> None:
    last = "small = Less (first_, limit) go_on = Identity (small)"
    text = loop(7, "n, yes, h", "y", last, before="yes = Constant <value = bool {1}> ()")
    check(model(text), {"x": X, "h": np.zeros(4, np.float32)}, "WHILE")


def test_loop_while_an_input_says_so() -> None:
    text = loop(1, ", c, h", "y", "go_on = Less (first_, limit)", more=", bool c")
    for going in (True, False):
        check(model(text), {"x": X, "h": np.zeros(4, np.float32), "c": np.array(going)}, "WHILE")


def test_steps_that_an_input_counts() -> None:
    text = loop(1, "m, , h", "y", ON, more=", int64 m")
    for count in (0, 4):
        check(model(text), {"x": X, "h": np.ones(4, np.float32), "m": np.array(count)}, "WHILE")
    joined = loop(1, "m, , h", "y, z", ON + " u = Sub (t, row)", more=", int64 m", rows=", float[4] u")
    with pytest.raises(UnsupportedOperatorError, match="number of steps is known at run time only"):
        twinfer.convert(model(joined))


@pytest.mark.parametrize(("rows", "back", "axis"), [(3, 0, 0), (3, 1, 1), (200, 0, 0), (200, 1, 1)])
def test_scan(rows: int, back: int, axis: int) -> None:
    text = SCAN.format(rows=rows, back=back, axis=axis)
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    check(model(text), {"x": x, "h": np.ones(4, np.float32)}, *(["WHILE"] if rows == 200 else []))


def test_states_that_grow_are_written_out() -> None:
    text = """
agraph (float[3] x) => (y) {
  n = Constant <value_int = 300> ()
  y = Loop (n, , x) <body = step (int64 i, bool go, float[k] s) => (bool g, float[l] t) {
    g = Identity (go) r = Slice (s, zero, one) t = Concat <axis = 0> (s, r)
  }>
}"""
    proto = model(
        text.replace("  n = ", "  zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () n = ")
    )
    check(proto, {"x": np.ones(3, np.float32)})
