"""Writes digits.tflite, and retrained.tflite: the same network after another training (here: with random weights)."""

from pathlib import Path

import twinfer
from twinfer.bench.models.builtin import assemble, builtin, quantize, ranges, samples, seeded

graph = assemble("digits", seeded("another training"))
Path("digits.tflite").write_bytes(twinfer.write(builtin()["digits_int8"]()))
Path("retrained.tflite").write_bytes(twinfer.write(quantize(graph, ranges(graph, samples("digits")), (-0.9, 0.8))))
