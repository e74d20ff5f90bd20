"""Recurrent layers of Keras: any cells, masks, states and directions, as Keras computes them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from needs import needs

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = needs("keras", os.environ["KERAS_BACKEND"])

from keras import layers as L  # noqa: E402

import twinfer  # noqa: E402
from twinfer.converter.convert import convert  # noqa: E402
from twinfer.runtime.run.interpreter import Interpreter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


class Own(L.Layer):
    """A cell whose output is not its state."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = self.state_size = units

    def build(self, shape: Any) -> None:
        self.w = self.add_weight(shape=(shape[-1], self.units))
        self.r = self.add_weight(shape=(self.units, self.units))

    def call(self, x: Any, states: Any) -> Any:
        y = keras.ops.matmul(x, self.w) + keras.ops.matmul(states[0], self.r)
        return keras.ops.relu(y), [keras.ops.tanh(y)]


ROWS, IMAGES = (7, 3), (4, 5, 6, 2)
CASES: dict[str, tuple[Any, tuple[int, ...], bool]] = {
    "last": (lambda: L.LSTM(5), ROWS, False),
    "states": (lambda: L.LSTM(5, return_state=True), ROWS, False),
    "backwards": (lambda: L.LSTM(5, return_sequences=True, go_backwards=True), ROWS, False),
    "both": (lambda: L.Bidirectional(L.LSTM(5, return_sequences=True, return_state=True)), ROWS, False),
    "mean": (lambda: L.Bidirectional(L.GRU(5), merge_mode="ave"), ROWS, False),
    "activations": (lambda: L.LSTM(5, activation="relu", recurrent_activation="hard_sigmoid"), ROWS, False),
    "cells": (
        lambda: L.RNN([L.LSTMCell(5), L.GRUCell(4), Own(3)], return_sequences=True, return_state=True),
        ROWS,
        False,
    ),
    "images": (lambda: L.ConvLSTM2D(3, 3, strides=2, padding="same", go_backwards=True), IMAGES, False),
    "lines": (lambda: L.Bidirectional(L.ConvLSTM1D(3, 3, return_sequences=True)), (4, 6, 2), False),
    "masked": (lambda: L.LSTM(5, return_sequences=True), ROWS, True),
    "masked zeros": (lambda: L.GRU(5, return_sequences=True, zero_output_for_mask=True), ROWS, True),
    "masked both": (lambda: L.Bidirectional(L.GRU(5, return_sequences=True)), ROWS, True),
    "masked cell": (lambda: L.RNN(Own(5), return_sequences=True, go_backwards=True), ROWS, True),
}


@pytest.mark.parametrize("name", CASES)
def test_as_keras(name: str) -> None:
    make, shape, masked = CASES[name]
    keras.utils.set_random_seed(1)
    given = keras.Input(shape, batch_size=2)
    net = keras.Model(given, make()(L.Masking()(given) if masked else given))
    x = np.random.default_rng(2).normal(size=(2, *shape)).astype(np.float32)
    if masked:
        x[0, 3:5] = x[1, :2] = x[1, 6:] = 0
    want = [keras.ops.convert_to_numpy(value) for value in keras.tree.flatten(net(x, training=False))]
    run = Interpreter.from_graph(convert(twinfer.from_keras(net)))
    run.allocate_tensors()
    for value in (2 * x, x):  # a second run begins anew
        run.set_tensor(run.get_input_details()[0]["index"], value)
        run.invoke()
    got = [run.get_tensor(each["index"]) for each in run.get_output_details()]
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-5)
