"""The codings of weights alone: decoders give back what was coded, and the codes are the shortest."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer import kernels_c
from twinfer.kernels_c import ffi
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.codes import CODINGS, LONGEST, MOST_BITS, Blocks, Code, code_lengths, huffman
from twinfer.runtime.run import isa


def call(
    kernel: str, params: dict[str, int], inputs: Sequence[Array | None], strides: Sequence[int], part: int
) -> None:
    """Calls one kernel on arrays, all moved to the slice; it writes the last one."""
    pointers = [
        ffi.NULL if a is None else ffi.cast("char *", ffi.from_buffer(a.data)) + part * stride
        for a, stride in zip(inputs, [*strides, *[0] * len(inputs)], strict=False)
    ]
    function = kernels_c.kernel(kernel, isa.level())
    function(
        ffi.new(f"{kernel}_params *", params),
        ffi.new("void *[]", pointers[:-1]),
        ffi.new("void *[]", pointers[-1:]),
        ffi.NULL,
    )


def decoded(code: Code, slices: int, rows: int, body: int, ends: Array | None = None, head: int = 0) -> Array:
    """The decoded slices, int8 [slices, rows, bytes]; ``ends`` int8 [rows, head and tail]."""
    table = np.zeros(code.table.nbytes if code.table else 0, np.int8)
    if code.table is not None:
        call(code.table.kernel, dict(code.table.params), [*code.table.inputs, table], (), 0)
    tail = 0 if ends is None else ends.shape[1] - head
    params = {"rows": rows, "head": head, "body": body, "tail": tail, **code.params}
    inputs = [table if array is None else array for array in code.inputs]
    decoded = np.full((slices, rows, head + body + tail), 85, np.int8)  # memory holds anything before
    for part in range(slices):
        call(code.kernel, params, [*inputs, ends, decoded[part]], code.strides, part)
    return decoded


@pytest.mark.parametrize("bits", range(1, MOST_BITS + 1))
def test_decoders_read_what_is_there(bits: int) -> None:
    """The last eight numbers are read as words that begin at byte 0 and, of more than 4 bits, at byte bits / 2."""
    blocks = np.resize(np.arange(1 << bits, dtype=np.uint8), (1, 1, 128)).view(np.int8)
    code = CODINGS["lut"](blocks, False)
    assert code is not None
    assert code.inputs[0] is not None
    last = 128 // 8 * bits - bits
    assert code.inputs[0].size >= last + (4 if bits <= 4 else bits // 2 + 4)


def blocks_of(rng: np.random.Generator, values: int, skew: float) -> Blocks:
    """Slices of rows with ``values`` different values. The greater the skew, the more frequent the first ones."""
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 4)), 8 * int(rng.integers(1, 30)))
    palette = rng.permutation(np.arange(-128, 128))[:values].astype(np.int8)
    share = np.exp(-skew * np.arange(values))
    return palette[rng.choice(values, shape, p=share / share.sum())]


seeds = st.integers(0, (1 << 32) - 1)
counts = st.one_of(st.sampled_from([1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 65, 127, 128, 129, 255, 256]), st.integers(1, 256))


@pytest.mark.parametrize("coding", CODINGS)
@settings(max_examples=150, deadline=None)
@given(seed=seeds, values=counts, skew=st.sampled_from([0.0, 0.02, 0.3, 2.0]))
def test_what_is_coded_comes_out(coding: str, seed: int, values: int, skew: float) -> None:
    rng = np.random.default_rng(seed)
    blocks = blocks_of(rng, values, skew)
    slices, rows, body = blocks.shape
    code = CODINGS[coding](blocks, False)
    if code is None:
        assert coding == "lut"
        assert np.unique(blocks).size > 1 << MOST_BITS
        return
    np.testing.assert_array_equal(decoded(code, slices, rows, body), blocks)
    many, own = np.unique(blocks, return_counts=True)
    if coding == "bitmap":
        assert code.about == f"a bitmap and {np.count_nonzero(blocks):,} values that are not zero"
    elif coding == "lut":
        assert code.about == f"{max(1, math.ceil(math.log2(many.size)))} bits in a table of {many.size} values"
    elif slices == 1 and many.size > 1 and unlimited(own.tolist())[1] <= LONGEST:
        bits = 8 * math.ceil(unlimited(own.tolist())[0] / 8) / blocks.size
        assert code.about == f"Huffman codes of {many.size} values, {bits:.2f} bits each"
    if slices == 1:
        ends = rng.integers(-128, 128, (rows, 12)).astype(np.int8)
        want = np.concatenate([ends[:, :8], blocks[0], ends[:, 8:]], axis=1)
        np.testing.assert_array_equal(decoded(code, 1, rows, body, ends, 8)[0], want)


@pytest.mark.parametrize("coding", CODINGS)
@settings(max_examples=60, deadline=None)
@given(seed=seeds, values=counts)
def test_halves_of_two_weights(coding: str, seed: int, values: int) -> None:
    """Bytes (a, b) are decoded as 256 * b + a, the form for SMLAD's kernels."""
    blocks = blocks_of(np.random.default_rng(seed), values, 0.1)
    blocks = np.maximum(blocks, -127)  # beside a negative one -128 does not fit
    code = CODINGS[coding](blocks, True)
    if code is not None:
        slices, rows, body = blocks.shape
        pairs = blocks.reshape(slices, rows, -1, 2).astype(np.int32)
        want = (256 * pairs[..., 1] + pairs[..., 0]).astype("<i2")
        np.testing.assert_array_equal(decoded(code, slices, rows, body).view("<i2"), want)


def unlimited(counts: Sequence[int]) -> tuple[int, int]:
    """Bits of a Huffman code by the textbook, and the length of its longest code."""
    heap = [(count, i, 0) for i, count in enumerate(counts)]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        (a, i, deep), (b, _, other) = heapq.heappop(heap), heapq.heappop(heap)
        total += a + b
        heapq.heappush(heap, (a + b, i, max(deep, other) + 1))
    return total, heap[0][2]


@settings(max_examples=100, deadline=None)
@given(counts=st.lists(st.integers(1, 10_000), min_size=2, max_size=256), longest=st.integers(8, 15))
def test_code_lengths(counts: list[int], longest: int) -> None:
    lengths = code_lengths(counts, longest)
    assert sum(2**-length for length in lengths) == 1
    assert 1 <= min(lengths) <= max(lengths) <= longest
    bits, deepest = unlimited(counts)
    total = sum(count * length for count, length in zip(counts, lengths, strict=True))
    assert total == bits if deepest <= longest else total >= bits


def test_long_codes_are_bounded() -> None:
    """Fibonacci's numbers make the longest codes; bounded ones cost little more."""
    counts = [1, 1]
    while len(counts) < 20:
        counts.append(counts[-1] + counts[-2])
    assert unlimited(counts)[1] == 19
    blocks = np.repeat(np.arange(20), counts).astype(np.int8)[: sum(counts) // 8 * 8].reshape(1, 1, -1)
    code = huffman(blocks, False)
    assert code.params["bits"] == LONGEST
    assert code.table is not None
    assert code.table.nbytes == 2 << LONGEST
    np.testing.assert_array_equal(decoded(code, 1, 1, blocks.size), blocks)
