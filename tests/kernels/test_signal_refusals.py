"""What the audio front end's operators refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import cases_of, refused
from flatbuffers import flexbuffers

from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.signal._custom import custom, whole
from twinfer.runtime.shapes import infer_node


def changed(name: str, **options: int) -> Node:
    """The first case of an operator with other options."""
    node = next(iter(cases_of(f"CUSTOM:{name}").values())).node
    known = flexbuffers.Loads(node.extra["custom_options"])
    return replace(node, extra=custom(**(known | options)))


@pytest.mark.parametrize(
    ("name", "options", "error", "part"),
    [
        ("SignalWindow", {"shift": 32}, ModelError, "'shift' is 32, it must be 0 to 31"),
        ("SignalWindow", {"shift": -1}, ModelError, "'shift' is -1"),
        ("SignalRfft", {"fft_length": 5}, ModelError, "it must be even"),
        ("SignalRfft", {"fft_length": 2}, ModelError, "'fft_length' is 2, it must be 4"),
        ("SignalRfft", {"fft_length": 14}, UnsupportedOperatorError, "no factors but 2, 3 and 5, it has 7"),
        ("SignalRfft", {"fft_length": 1 << 30}, ModelError, "'fft_length'"),
        ("SignalRfft", {"T": 0}, ModelError, "'T' is 0"),
        ("SignalIrfft", {"fft_length": 8}, ModelError, "fft_length 8 + 2"),
        ("SignalEnergy", {"end_index": 2}, ModelError, "0 to 2"),
        ("SignalEnergy", {"start_index": 2}, ModelError, "2 to 1"),
        ("SignalFilterBank", {"num_channels": 3}, ModelError, "must have 4 elements"),
        ("SignalFilterBank", {"num_channels": 0}, ModelError, "'num_channels' is 0"),
        ("SignalFilterBankLog", {"input_correction_bits": 32}, ModelError, "'input_correction_bits'"),
        ("SignalPCAN", {"snr_shift": 64}, ModelError, "'snr_shift'"),
        ("SignalFilterBankSpectralSubtraction", {"num_channels": 2}, ModelError, "num_channels is 2"),
        ("SignalFilterBankSpectralSubtraction", {"smoothing_bits": 32}, ModelError, "'smoothing_bits'"),
        ("SignalDelay", {"delay_length": -1}, ModelError, "'delay_length'"),
        ("SignalDelay", {"delay_length": (1 << 31) - 1}, ModelError, "'delay_length'"),
        ("SignalFramer", {"frame_step": 3}, ModelError, "no multiple of frame_step 3"),
        ("SignalFramer", {"frame_step": 0}, ModelError, "'frame_step'"),
        ("SignalFramer", {"frame_size": 2}, ModelError, "with prefill"),
        ("SignalFramer", {"frame_size": (1 << 31) - 1}, ModelError, "'frame_size'"),
        ("SignalOverlapAdd", {"frame_step": 9}, ModelError, "'frame_step' is 9, it must be 1 to 8"),
        ("SignalStacker", {"stacker_step": 4}, ModelError, "more than the 3 frames"),
        ("SignalStacker", {"stacker_step": 0}, ModelError, "'stacker_step'"),
        ("SignalStacker", {"stacker_left_context": (1 << 31) - 1}, ModelError, "'stacker_left_context'"),
        ("SignalStacker", {"num_channels": 4}, ModelError, "num_channels is 4"),
        ("CIRCULAR_BUFFER", {"cycles_max": 2}, UnsupportedOperatorError, "ends the run in all but every 2th"),
        ("CIRCULAR_BUFFER", {"cycles_max": 0}, UnsupportedOperatorError, "state a cycles_max"),
    ],
)
def test_refused_options(name: str, options: dict[str, int], error: type[TwinferError], part: str) -> None:
    refused(changed(name, **options), error, part)


def test_rows_that_are_longer_than_the_transform() -> None:
    node = changed("SignalRfft", fft_length=8)
    refused(replace(node, inputs=(replace(node.input(0), shape=(9,)),)), ModelError, "longer than fft_length 8")


@pytest.mark.parametrize("size", [3, 7, 257])
def test_energy_needs_two_numbers_for_each_complex_value(size: int) -> None:
    node = changed("SignalEnergy", start_index=0, end_index=size)
    node = replace(node, outputs=(replace(node.output, shape=(size,)),))
    for given in (2 * size, 2 * size + 1):
        assert infer_node(replace(node, inputs=(replace(node.input(0), shape=(given,)),))) == [(size,)]
    for given in (1, size, 2 * size - 1):
        short = replace(node, inputs=(replace(node.input(0), shape=(given,)),))
        refused(short, ModelError, f"has no {size} complex values")


def test_bands_stay_within_their_tensors() -> None:
    """Of each constant of a filter bank, one element too large or below zero is enough."""
    node = next(iter(cases_of("CUSTOM:SignalFilterBank").values())).node
    for i, value, part in ((3, 14, "'x'"), (3, -1, "'x'"), (4, 14, "'weights'"), (4, -1, "'weights'"), (5, 99, "'x'")):
        given = node.input(i)
        inputs = list(node.inputs)
        inputs[i] = replace(given, data=np.array([*node.constant(i)[:-1], value], np.int16))
        refused(replace(node, inputs=tuple(inputs)), ModelError, "a band reaches outside of", part)
        inputs[i] = replace(given, data=None)
        refused(replace(node, inputs=tuple(inputs)), UnsupportedOperatorError, "must be a constant")


@pytest.mark.parametrize("name", ["SignalWindow", "SignalFramer", "SignalRfft"])
def test_damaged_options(name: str) -> None:
    """No byte of the options can be changed or cut off so that anything but a TwinferError comes of it."""
    node = next(iter(cases_of(f"CUSTOM:{name}").values())).node
    data = node.extra["custom_options"]
    cut = [data[:end] for end in range(len(data))]
    bent = [data[:i] + bytes([v]) + data[i + 1 :] for i in range(len(data)) for v in (0, 1, 3, 0x7F, 0x80, 0xFF)]
    errors = 0
    for options in (*cut, *bent):
        try:
            infer_node(replace(node, extra={"custom_options": options}))
        except TwinferError:
            errors += 1
    assert errors > len(cut)


def test_options_are_whole_numbers() -> None:
    node = changed("SignalWindow")
    for given in ({"shift": "12"}, {"shift": 1.5}, {"other": 1}, [12], 12):
        options = bytes(flexbuffers.Dumps(given))
        with pytest.raises(ModelError, match="'shift' is no whole number"):
            whole(replace(node, extra={"custom_options": options}), "shift")
