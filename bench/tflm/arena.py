"""How many bytes TFLM's arena takes for a model: measured by tflite-micro, or estimated from a plan of its tensors."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from twinfer.bench.peers.engines import installed, version
from twinfer.converter.offline.place import bytes_in_tflm, places_in_tflm
from twinfer.runtime.graph import Graph, walk

#: Of an estimate, by the structs of TFLM on a machine with pointers of 64 bits, and what its kernels keep on average.
_BYTES_PER_NODE, _BYTES_PER_TENSOR, _BYTES_PER_CHANNEL, _BYTES = 160, 24, 8, 1600

#: Opens the model in a large arena, then in the smallest one in which it can be opened; ends with that number.
_CHILD = """
import sys
from tflite_micro import runtime
model = open(sys.argv[1], "rb").read()
def opens(size):
    try:
        runtime.Interpreter.from_bytes(model, arena_size=size)
    except RuntimeError:
        return False
    return True
low, high = 0, 1 << 10
while not opens(16 * high):
    low, high = high, 2 * high
    if high > 1 << 26:
        sys.exit(1)
while high - low > 1:
    middle = (low + high) // 2
    low, high = (low, middle) if opens(16 * middle) else (middle, high)
print(16 * high)
"""


@dataclass(frozen=True)
class ArenaSize:
    """Bytes of TFLM's arena, ``how``: measured or estimated, in words."""

    nbytes: int
    how: str


def arena_size(graph: Graph, content: bytes) -> ArenaSize:
    """The smallest arena in which tflite-micro can open the model or, if it is not there or refuses it, an estimate.

    On a microcontroller pointers have 32 bits, so that TFLM's own structs are smaller; kernels of other libraries
    (CMSIS-NN, ESP-NN) may take more scratch memory than the reference kernels.
    """
    if installed("tflm"):
        with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
            (Path(folder) / "model").write_bytes(content)
            command = [sys.executable, "-c", _CHILD, str(Path(folder) / "model")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode == 0:
            how = f"the least in which tflite-micro {version('tflm')} opens it on this computer, with reference kernels"
            return ArenaSize(int(done.stdout.split()[-1]), how)
        why = "tflite-micro does not open this model"
    else:
        why = "tflite-micro is not installed"
    nodes = [node for each in walk(graph) for node in each.nodes]
    tensors = sum(len(each.tensors) for each in walk(graph))
    channels = sum(node.output.shape[-1] for node in nodes if "CONV" in node.op and node.outputs and node.output.shape)
    own = _BYTES_PER_NODE * len(nodes) + _BYTES_PER_TENSOR * tensors + _BYTES_PER_CHANNEL * channels + _BYTES
    tensor_bytes = bytes_in_tflm(places_in_tflm(graph))
    rounded = -(-(tensor_bytes + own) // 16) * 16
    return ArenaSize(rounded, f"an estimate: {tensor_bytes:,} of tensors, the rest is TFLM's own; {why}")
