"""Dense layers, embeddings, and layers that do nothing when a model runs."""

from __future__ import annotations

from twinfer.converter.emit.dense import linear
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.keras.call import Call, cast
from twinfer.runtime.graph import Tensor


def dense(g: Emitter, call: Call) -> Tensor:
    call.need(not getattr(call.layer, "quantization_mode", None), "quantised weights; convert the float model")
    return call.activated(linear(g, call.input(), call.weight("kernel"), call.optional("bias")))


def embedding(g: Emitter, call: Call) -> Tensor:
    """Rows of the table by integer inputs, which may come as floats."""
    call.need(not getattr(call.layer, "quantization_mode", None), "quantised weights; convert the float model")
    x, table = call.input(), constant(call.weight("embeddings"), f"{call.name}/embeddings")
    x = x if x.type in ("INT32", "INT64") else cast(g, x, "INT32")
    return g.gather(table, x, 0)


def identity(g: Emitter, call: Call) -> Tensor:
    return call.input()


#: Layers that act in training alone.
IDENTITIES = (
    "ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "Identity",
    "SpatialDropout1D", "SpatialDropout2D", "RandomBrightness", "RandomContrast", "RandomFlip", "RandomHue",
    "RandomRotation", "RandomSaturation", "RandomTranslation", "RandomZoom",
)  # fmt: skip

IMPORTERS = {**dict.fromkeys(IDENTITIES, identity), "Dense": dense, "Embedding": embedding}
