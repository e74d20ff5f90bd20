"""LiteRT's reference kernels, on one thread."""

from __future__ import annotations

from twinfer.bench.peers.engines import Peer
from twinfer.bench.peers.litert import Litert


class LitertReference(Litert):
    resolver = "BUILTIN_REF"


PEER = Peer(
    name="litert-ref",
    label="LiteRT (reference)",
    heading="LiteRT",
    module="ai_edge_litert",
    package="ai-edge-litert",
    open=LitertReference,
    trust=2,  # it legitimately differs from TFLM (FULLY_CONNECTED)
)
