"""Custom operators: TFLM's audio front end, ring buffer and decoder of weights, and TFLite's detections.

Most are integer arithmetic of their own kind. Nothing quantises them, and they stay as they are.
"""

from __future__ import annotations

from twinfer.converter.facts import Row

ROWS = {
    "CUSTOM:SignalWindow": Row(),
    "CUSTOM:SignalFftAutoScale": Row(),
    "CUSTOM:SignalRfft": Row(),
    "CUSTOM:SignalIrfft": Row(),
    "CUSTOM:SignalEnergy": Row(),
    "CUSTOM:SignalFilterBank": Row(),
    "CUSTOM:SignalFilterBankSquareRoot": Row(),
    "CUSTOM:SignalFilterBankLog": Row(),
    "CUSTOM:SignalPCAN": Row(),
    "CUSTOM:SignalFilterBankSpectralSubtraction": Row(),
    "CUSTOM:SignalDelay": Row(),
    "CUSTOM:SignalFramer": Row(),
    "CUSTOM:SignalOverlapAdd": Row(),
    "CUSTOM:SignalStacker": Row(),
    "CUSTOM:CIRCULAR_BUFFER": Row(),
    "CUSTOM:TFLM_DECODE": Row(),
    "CUSTOM:TFLite_Detection_PostProcess": Row(),
}
