"""What decoders of weights take of the flash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Bytes of a decoder on Cortex-M4 with the helpers that it shares, of every other decoder, and of a call of one.
#: Measured by ``twinfer bench --weights lut,huffman,bitmap --layers``.
DECODER_BYTES: Mapping[str, int] = {
    "tw_decode_lut_pairs": 90,
    "tw_decode_huffman_table": 190,
    "tw_decode_huffman": 340,
    "tw_decode_bitmap": 340,
}
USUAL_BYTES, CALL_BYTES = 200, 50


def decoder_bytes(kernels: Iterable[str]) -> int:
    """Estimated bytes of flash of these decoders on a Cortex-M4; each counts once."""
    return sum(DECODER_BYTES.get(name, USUAL_BYTES) for name in set(kernels))
