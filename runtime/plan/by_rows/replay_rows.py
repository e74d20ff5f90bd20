"""Proves that a chain keeps what it reads: goes through its rows and follows what every byte of memory holds.

Like ``replay.py`` it shares no code with what decided about memory, nor with the order in which rows were counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.program import Chain, Layer
from twinfer.runtime.rows import Feed

#: What gives rows: a layer, or the caller.
Link = Feed | Layer

#: The number of a byte of scratch memory that a part uses.
_SCRATCH = -1

#: Bytes of the one buffer for arena and state, [begin, end).
Span = tuple[int, int]


class RowReplay:
    """One run of a chain; ``spans`` says where tensors lie, ``held`` which of them hold a value before.

    ``faults`` are what it meets; ``lost`` are tensors of ``held`` that are overwritten. Every row that the chain
    computes has a number, and ``memory`` holds for each byte the number that it belongs to. A byte of ``held`` has a
    number of its own, below ``_SCRATCH``: several tensors of ``held`` may be one value, in rows of other sizes.
    """

    def __init__(self, chain: Chain, spans: Mapping[Tensor, Span], held: Mapping[Tensor, Span], who: str) -> None:
        self.chain, self.spans, self.held, self.who = chain, spans, held, who
        self.memory = np.zeros(max((end for _, end in (*spans.values(), *held.values())), default=0), np.int64)
        self.numbers: dict[tuple[Tensor, int], int] = {}
        self.done = {link.out: 0 for link in chain.links}
        self.base = dict(self.done)
        self.height = {t: height for layer in chain.layers for _, t, height in layer.sources}
        self.height |= {link.out: link.height for link in chain.links}
        self.sums = {link.out for link in chain.links if link.rows.sums}
        self.faults: list[str] = []
        progress = [] if chain.progress is None else [chain.progress]
        for begin, end in held.values():
            self.memory[begin:end] = _SCRATCH - 1 - np.arange(begin, end)
        for tensor in progress:
            self._bytes(tensor, 0)[:] = self._number(tensor, 0)
        for tensor, ring in chain.rings.items():
            if ring.capacity * (tensor.nbytes // self._rows(tensor)) > ring.memory.nbytes:
                self.faults.append(f"{who}: {ring.memory} has no room for {ring.capacity} rows of {tensor}")
        self._run()
        self.faults += [f"{who} loses its progress" for tensor in progress if not self._whole(tensor)]
        self.lost = [tensor for tensor in held if not self._whole(tensor)]
        if chain.feed and self.done[chain.feed.out] != chain.feed.wanted:
            self.faults.append(f"{who} needs {self.done[chain.feed.out]} rows of it, not {chain.feed.wanted}")
        outs = [link.out for link in chain.links if link.out not in chain.rings]
        self.faults += [f"{who} leaves {tensor} incomplete" for tensor in outs if not self._whole(tensor)]

    def _number(self, tensor: Tensor, row: int) -> int:
        return self.numbers.setdefault((tensor, row), len(self.numbers) + 1)

    def _rows(self, tensor: Tensor) -> int:
        """The rows of a tensor; one that the chain does not know, or that comes from sums, is a single row."""
        return 1 if tensor in self.sums else self.height.get(tensor, 1)

    def _bytes(self, tensor: Tensor, row: int) -> Array:
        """The bytes where a row lies, or will lie."""
        ring = self.chain.rings.get(tensor)
        size = tensor.nbytes // self._rows(tensor)
        at = self.spans[ring.memory if ring else tensor][0] + (row - self.base.get(tensor, 0)) * size
        return self.memory[at : at + size]

    def _has(self, tensor: Tensor, row: int) -> bool:
        if row < self.base.get(tensor, 0):
            return False
        there = self._bytes(tensor, row)
        if tensor in self.done or tensor not in self.held:
            return bool((there == self._number(tensor, row)).all())
        begin = self.held[tensor][0] + row * len(there)
        return bool((there == _SCRATCH - 1 - np.arange(begin, begin + len(there))).all())

    def _whole(self, tensor: Tensor) -> bool:
        complete = tensor not in self.done or self.done[tensor] == self.height[tensor]
        return complete and all(self._has(tensor, row) for row in range(self._rows(tensor)))

    def _run(self) -> None:
        links = self.chain.links
        for goal in [link for link in reversed(links) if link.out not in self.chain.rings]:
            while self.done[goal.out] < goal.height and not self.faults:
                self._compute(self._ready(goal))

    def _ready(self, layer: Link) -> Link:
        """The layer, or the one that must go on before it can."""
        makers = {each.out: each for each in self.chain.links}
        for tensor, rows in self._reads(layer):
            if tensor in makers and self.done[tensor] < rows.stop:
                return self._ready(makers[tensor])
        return layer

    def _reads(self, layer: Link) -> Iterator[tuple[Tensor, range]]:
        """The rows of every source that the next rows of a layer need: those under its windows."""
        rows, by = self._next(layer), layer.rows
        first, last = rows.start, rows.stop - 1
        for _, tensor, height in layer.sources:
            low, high = first * by.stride - by.pad, last * by.stride - by.pad + by.reach
            yield tensor, range(min(max(low, 0), height - 1), min(max(high, 0), height - 1) + 1)

    def _next(self, layer: Link) -> range:
        """The rows that a layer computes next."""
        done = self.done[layer.out]
        end = min(done + layer.band, layer.height)
        return range(layer.height - end, layer.height - done) if self.chain.backwards else range(done, end)

    def _compute(self, layer: Link) -> None:
        out, rows = layer.out, self._next(layer)
        self._make_room(layer, rows.stop)
        scratch = layer.step.scratch if isinstance(layer, Layer) else None
        begin, end = self.spans[scratch] if scratch is not None else (0, 0)
        used = self._number(scratch, 0) if scratch is not None and layer.rows.sums else _SCRATCH
        if used == _SCRATCH or rows.start == 0:
            self.memory[begin:end] = used
        for row in self._written(layer, rows):
            self._bytes(out, row)[:] = self._number(out, row)
        who = f"{self.who}, {out}, row {rows.start}"
        for tensor, needed in self._reads(layer):
            lacking = [row for row in needed if not self._has(tensor, row)]
            self.faults += [f"{who} reads row {row} of {tensor}, which is not there" for row in lacking[:1]]
        if (self.memory[begin:end] != used).any():
            self.faults.append(f"{who} finds something else in its scratch memory")
        self.done[out] += len(rows)

    def _written(self, layer: Link, rows: range) -> range:
        """The rows of the output that a part writes: sums are written as one, with the last row that they see."""
        return range(rows.stop == layer.height) if layer.rows.sums else rows

    def _make_room(self, layer: Link, end: int) -> None:
        """The last rows of a full ring move to its start."""
        out, ring = layer.out, self.chain.rings.get(layer.out)
        if ring is None or end - self.base[out] <= ring.capacity:
            return
        low = self.done[out] - ring.kept
        if low < self.base[out] or end - low > ring.capacity:
            self.faults.append(f"{self.who}: {ring.memory} has no room for row {end - 1} of {out}")
            return
        kept = [self._bytes(out, row).copy() for row in range(low, self.done[out])]
        self.base[out] = low
        for row, content in zip(range(low, self.done[out]), kept, strict=True):
            self._bytes(out, row)[:] = content
