"""TFLM's resolver: the ``Add…`` call of every operator, and whether a firmware's calls suffice for a model.

The names are those of tflite-micro's ``micro_mutable_op_resolver.h``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from twinfer.runtime.graph import Graph, walk

#: The built-in operators that the resolver can register.
_BUILTIN = """
ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_ARGS
BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION CONV_2D COS CUMSUM DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV
DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER
GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND
LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2
PRELU QUANTIZE READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE
SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF TANH TRANSPOSE TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK
VAR_HANDLE WHILE ZEROS_LIKE"""

#: Those whose call is not the name with a capital for each word.
_ODD = {
    "BATCH_MATMUL": "BatchMatMul",
    "CUMSUM": "CumSum",
    "PADV2": "PadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
    "CUSTOM:TFLite_Detection_PostProcess": "DetectionPostprocess",
    "CUSTOM:CIRCULAR_BUFFER": "CircularBuffer",
    "CUSTOM:ethos-u": "EthosU",
    "CUSTOM:TFLM_DECODE": "Decode",
}

#: Custom operators of TFLM's signal library, without ``Signal``.
_SIGNAL = """
Delay Energy FftAutoScale FilterBank FilterBankLog FilterBankSpectralSubtraction FilterBankSquareRoot Framer
Irfft OverlapAdd PCAN Rfft Stacker Window"""


def _camel(op: str) -> str:
    words = (word if re.fullmatch(r"\dD", word) else word.capitalize() for word in op.split("_"))
    return _ODD.get(op, "".join(words))


#: Operator -> what follows ``Add``.
CALLS = {op: _camel(op) for op in [*_BUILTIN.split(), *(op for op in _ODD if op.startswith("CUSTOM:"))]}
CALLS |= {f"CUSTOM:Signal{name}": name for name in _SIGNAL.split()}


def operators(graph: Graph) -> dict[str, int]:
    """The operators that a resolver needs for a model, subgraphs included, and how often each is there; by name."""
    names = [node.op for each in walk(graph) for node in each.nodes]
    return {op: names.count(op) for op in sorted(set(names))}


def call(op: str) -> str:
    """The call that registers an operator; of an operator that TFLM lacks a comment that says so."""
    if op in CALLS:
        return f"resolver.Add{CALLS[op]}();"
    if op.startswith("CUSTOM:"):
        return f'resolver.AddCustom("{op.removeprefix("CUSTOM:")}", /* your registration */);'
    return f"/* TFLM has no {op}: the model cannot run there */"


def registered(text: str) -> frozenset[str]:
    """The operators that a firmware's text registers.

    That is a source with ``Add…`` calls of a resolver, or a list of names such as CONV_2D or Conv2D; # begins a
    comment, as C's marks do.
    """
    text = re.sub(r"//.*|#.*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    called = re.findall(r"\bAdd(\w+)\s*(?:<[^>]*>)?\(", text)
    custom = re.findall(r'\bAddCustom\s*\(\s*"([^"]+)"', text)
    named = re.findall(r"\bBuiltinOperator_(\w+)", text)
    if not called:
        named = re.findall(r"[\w:-]+", text)
    by_call = {name.lower(): op for op, name in CALLS.items()}
    found = {by_call[name.lower()] for name in called if name.lower() in by_call}
    for name in named:
        op = by_call.get(name.lower(), by_call.get(name.lower().removeprefix("add"), name))
        found.add(op)
    return frozenset({*found, *(f"CUSTOM:{name}" for name in custom)})


def lacking(graph: Graph, text: str) -> Sequence[str]:
    """The model's operators that the firmware does not register."""
    there = registered(text)
    return [op for op in operators(graph) if op not in there]
