"""Constants that are stored in fewer bits become floats, which quantisation starts from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, rewrite
from twinfer.converter.passes.constant_folding import results
from twinfer.converter.table import row_of
from twinfer.runtime.affine import dequantize
from twinfer.runtime.graph import Graph, Node, Quant, Tensor
from twinfer.runtime.read.packed import unpack

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (1,)


def float_weights(graph: Graph) -> Graph:
    """DEQUANTIZE of constants (float16 weights, int8 weights) becomes float constants, and hybrid operators get float
    weights. Hybrid operators take float values and int8 weights; LiteRT quantises their values at run time.

    ``convert`` runs it first where it quantises: calibration then sees the float network, and no rule has to look
    through a DEQUANTIZE. A model that stays float keeps its small constants: folded float16 would take twice the bytes.
    """
    return rewrite(graph, _widen)


def _widen(view: View, node: Node) -> Change | None:
    if node.op == "DEQUANTIZE":
        return _fold(view, node)
    weights = [t for t in map(node.optional, row_of(node).hybrid) if t is not None and _is_small(t)]
    small = {t: _float(t, t.quant) for t in weights if t.quant is not None}
    if not small or node.input(0).type != "FLOAT32":
        return None
    inputs = tuple(None if t is None else small.get(t, t) for t in node.inputs)
    options = {k: False if k == "asymmetric_quantize_inputs" else v for k, v in node.options.items()}
    return Change((node,), (replace(node, inputs=inputs, options=options),))


def _fold(view: View, node: Node) -> Change | None:
    tensor = node.input(0)
    if tensor.data is None or not _is_plain(tensor) or node.output in view.public:
        return None
    values = results(node)
    return None if values is None else Change((node,), (), {node.output: constant(values[0], node.output.name)})


def _is_plain(tensor: Tensor) -> bool:
    """Whether the tensor is neither sparse nor quantised with one scale per block."""
    return "sparsity" not in tensor.extra and "details" not in tensor.extra


def _is_small(tensor: Tensor) -> bool:
    """Whether it is an int8 or int4 constant with one scale, or one per channel."""
    quant = tensor.quant
    if tensor.data is None or tensor.type not in ("INT8", "INT4") or not _is_plain(tensor) or quant is None:
        return False
    channels = tensor.shape[quant.axis] if 0 <= quant.axis < len(tensor.shape) else 1
    usable = np.isfinite(quant.scale) & (quant.scale >= 0)
    return quant.scale.size == quant.zero_point.size and quant.scale.size in (1, channels) and bool(usable.all())


def _float(tensor: Tensor, quant: Quant) -> Tensor:
    data = np.asarray(tensor.data)
    whole = unpack(data, 4, tensor.shape) if tensor.type == "INT4" else data
    return constant(dequantize(whole, quant).astype(np.float32), tensor.name)
