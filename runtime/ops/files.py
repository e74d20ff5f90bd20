"""Which file of ``runtime/ops`` has which operators, so that a model imports only the files of its own.

Variants stand in the operator's file or in files called after it: ``conv2d_wide`` has variants of what ``conv2d`` has.
A file that neither table knows, and that is called after none of theirs, may have or serve any operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

#: The operators that a file has, if it has any, by the names of its family and its own.
OPERATORS: Mapping[str, Sequence[str]] = {
    "conv.conv2d": ["CONV_2D"],
    "conv.conv_3d": ["CONV_3D", "CONV_3D_TRANSPOSE"],
    "conv.transpose_conv": ["TRANSPOSE_CONV"],
    "conv.transpose_conv_bias": ["CUSTOM:Convolution2DTransposeBias"],
    "dense.batch_matmul": ["BATCH_MATMUL"],
    "dense.fully_connected": ["FULLY_CONNECTED"],
    "depthwise.depthwise_conv2d": ["DEPTHWISE_CONV_2D"],
    "elementwise.add": ["ADD", "SUB"],
    "elementwise.add_n": ["ADD_N"],
    "elementwise.bitwise": ["BITWISE_XOR", "RIGHT_SHIFT"],
    "elementwise.bucketize": ["BUCKETIZE"],
    "elementwise.cast": ["CAST"],
    "elementwise.compare": [
        "LESS", "EQUAL", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "NOT_EQUAL", "LOGICAL_AND", "LOGICAL_OR",
        "LOGICAL_NOT",
    ],
    "elementwise.dequantize": ["DEQUANTIZE"],
    "elementwise.div": ["DIV", "POW", "SQUARED_DIFFERENCE"],
    "elementwise.floor_div": ["FLOOR_DIV", "FLOOR_MOD", "ATAN2"],
    "elementwise.maximum": ["MAXIMUM", "MINIMUM"],
    "elementwise.mul": ["MUL"],
    "elementwise.prelu": ["PRELU"],
    "elementwise.quantize": ["QUANTIZE"],
    "elementwise.select": ["SELECT", "SELECT_V2"],
    "functions.functions": [
        "ABS", "NEG", "SIGN", "SQUARE", "SQRT", "RSQRT", "EXP", "LOG", "SIN", "COS", "FLOOR", "CEIL", "ROUND",
        "ELU", "GELU",
    ],
    "functions.hard_swish": ["HARD_SWISH"],
    "functions.leaky_relu": ["LEAKY_RELU"],
    "functions.logistic": ["LOGISTIC"],
    "functions.relu": ["RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"],
    "functions.tanh": ["TANH"],
    "move.bitcast": ["BITCAST"],
    "move.concatenation": ["CONCATENATION", "PACK"],
    "move.depth_space": ["DEPTH_TO_SPACE", "SPACE_TO_DEPTH"],
    "move.dynamic_update_slice": ["DYNAMIC_UPDATE_SLICE"],
    "move.embedding_lookup": ["EMBEDDING_LOOKUP"],
    "move.fill": ["FILL", "ZEROS_LIKE", "ONE_HOT"],
    "move.gather": ["GATHER"],
    "move.gather_nd": ["GATHER_ND"],
    "move.known": ["BROADCAST_ARGS", "RANGE", "WHERE"],
    "move.matrix_diag": ["MATRIX_DIAG", "MATRIX_SET_DIAG"],
    "move.mirror_pad": ["MIRROR_PAD"],
    "move.pad": ["PAD", "PADV2"],
    "move.reshape": ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"],
    "move.resize": ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"],
    "move.reverse_sequence": ["REVERSE_SEQUENCE"],
    "move.scatter_nd": ["SCATTER_ND"],
    "move.shape": ["SHAPE", "RANK"],
    "move.slice": ["SLICE", "REVERSE_V2"],
    "move.space_batch": ["SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"],
    "move.sparse_to_dense": ["SPARSE_TO_DENSE"],
    "move.split": ["SPLIT", "SPLIT_V", "UNPACK"],
    "move.strided_slice": ["STRIDED_SLICE"],
    "move.tile": ["BROADCAST_TO", "TILE"],
    "move.transpose": ["TRANSPOSE"],
    "pool.max_pool_argmax": ["CUSTOM:MaxPoolingWithArgmax2D"],
    "pool.max_unpool": ["CUSTOM:MaxUnpooling2D", "CUSTOM:LiteRtMaxUnpooling2D"],
    "pool.pool_2d": ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"],
    "recurrent.bidirectional_lstm": ["BIDIRECTIONAL_SEQUENCE_LSTM"],
    "recurrent.lstm": ["UNIDIRECTIONAL_SEQUENCE_LSTM"],
    "recurrent.lstm_step": ["LSTM"],
    "recurrent.rnn": ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"],
    "recurrent.svdf": ["SVDF"],
    "reduce.arg_max": ["ARG_MAX", "ARG_MIN"],
    "reduce.cumsum": ["CUMSUM"],
    "reduce.detection": ["CUSTOM:TFLite_Detection_PostProcess"],
    "reduce.l2_normalization": ["L2_NORMALIZATION"],
    "reduce.log_softmax": ["LOG_SOFTMAX"],
    "reduce.mean": ["MEAN"],
    "reduce.non_max_suppression": ["NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"],
    "reduce.reduce": ["SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"],
    "reduce.segment_sum": ["SEGMENT_SUM"],
    "reduce.softmax": ["SOFTMAX"],
    "reduce.topk": ["TOPK_V2"],
    "reduce.unsorted_segment": [
        "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN",
    ],
    "signal.circular_buffer": ["CUSTOM:CIRCULAR_BUFFER"],
    "signal.decode": ["CUSTOM:TFLM_DECODE"],
    "signal.delay": ["CUSTOM:SignalDelay"],
    "signal.energy": ["CUSTOM:SignalEnergy"],
    "signal.fft_auto_scale": ["CUSTOM:SignalFftAutoScale"],
    "signal.filter_bank": ["CUSTOM:SignalFilterBank"],
    "signal.filter_bank_log": ["CUSTOM:SignalFilterBankLog"],
    "signal.filter_bank_square_root": ["CUSTOM:SignalFilterBankSquareRoot"],
    "signal.framer": ["CUSTOM:SignalFramer"],
    "signal.overlap_add": ["CUSTOM:SignalOverlapAdd"],
    "signal.pcan": ["CUSTOM:SignalPCAN"],
    "signal.rfft": ["CUSTOM:SignalRfft", "CUSTOM:SignalIrfft"],
    "signal.spectral_subtraction": ["CUSTOM:SignalFilterBankSpectralSubtraction"],
    "signal.stacker": ["CUSTOM:SignalStacker"],
    "signal.window": ["CUSTOM:SignalWindow"],
}  # fmt: skip

#: The operators of other files that variants serve, too, by the first words of their files' names.
ALSO: Mapping[str, Sequence[str]] = {
    "conv.conv2d": ["DEPTHWISE_CONV_2D"],
    "conv.conv2d_dsp": ["TRANSPOSE_CONV"],
    "conv.conv2d_hybrid": ["FULLY_CONNECTED"],
    "conv.conv2d_mve": ["TRANSPOSE_CONV"],
    "conv.conv2d_sparse": ["FULLY_CONNECTED"],
    "conv.conv_reference": ["CONV_2D", "DEPTHWISE_CONV_2D"],
    "dense.batch_matmul": ["FULLY_CONNECTED"],
    "dense.fully_connected": ["BATCH_MATMUL"],
}


def may_serve(file: str, operator: str) -> bool:
    """Whether a file may have a variant of an operator."""
    if file in OPERATORS:
        return operator in OPERATORS[file]
    words = file.split("_")
    begins = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    named = [name for begin in begins for name in (*OPERATORS.get(begin, ()), *ALSO.get(begin, ()))]
    return operator in named or not named


def rows_of(module: ModuleType, name: str) -> tuple[Any, ...]:
    """What a module defines as ``name``, or as its plural if there are several."""
    return (getattr(module, name),) if hasattr(module, name) else tuple(getattr(module, f"{name}S", ()))
