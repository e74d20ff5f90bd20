"""Custom operators: TFLM's audio front end, ring buffer and decoder of weights, TFLite's detections, and those of
MediaPipe that ``passes/custom_operators.py`` has no other form for.

Most are integer arithmetic of their own kind. Nothing quantises them, and they stay as they are.
"""

from __future__ import annotations

from twinfer.converter.facts import Row

_SIGNAL = (
    "Window", "FftAutoScale", "Rfft", "Irfft", "Energy", "FilterBank", "FilterBankSquareRoot", "FilterBankLog", "PCAN",
    "FilterBankSpectralSubtraction", "Delay", "Framer", "OverlapAdd", "Stacker",
)  # fmt: skip

ROWS = {
    **{f"CUSTOM:Signal{name}": Row() for name in _SIGNAL},
    "CUSTOM:CIRCULAR_BUFFER": Row(),
    "CUSTOM:TFLM_DECODE": Row(),
    "CUSTOM:TFLite_Detection_PostProcess": Row(),
    "CUSTOM:Convolution2DTransposeBias": Row(),
    "CUSTOM:MaxPoolingWithArgmax2D": Row(),
    "CUSTOM:MaxUnpooling2D": Row(),
    "CUSTOM:LiteRtMaxUnpooling2D": Row(),
}
