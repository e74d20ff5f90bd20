"""Custom operators: TFLM's audio front end, ring buffer and decoder of weights, and TFLite's detections.

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
}
