"""What may run by rows: every run of consecutive steps as a chain, with the bytes that it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import gcd
from typing import NamedTuple

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.layers import MOST_ROWS, layer_of
from twinfer.runtime.plan.by_rows.price import more
from twinfer.runtime.plan.by_rows.ring_sizes import Kept, Over, kept
from twinfer.runtime.plan.by_rows.schedule import Link
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.program import Chain, Layer, Program, Step
from twinfer.runtime.rows import Feed
from twinfer.runtime.target import Target

#: The most links of a chain.
LONGEST = 24

#: Numbers of rows at once that are tried, the best first.
WIDE = (64, 32, 16, 12, 8, 6, 4, 3, 2)

#: Stand for one row at once, though kernels then compute pixels in vain, and for the fewest of which they do not.
NARROW, EXACT = 0, -1

#: Bytes of memory in which a chain with a feed keeps how far a link is.
PROGRESS_BYTES = 12


class Candidate(NamedTuple):
    """Consecutive places of a program as a chain (``links`` and what they keep), or one step by itself.

    ``cost`` is its peak in bytes, ``extra`` about how many more instructions it takes than steps by themselves.
    ``over`` are an output and the input that it may lie over, once for each direction; ``views`` copies that it saves.
    """

    first: int
    end: int
    cost: int
    extra: float = 0
    links: tuple[Link, ...] = ()
    kept: Kept | None = None
    over: tuple[Over, ...] = ()
    views: tuple[Step, ...] = ()


class Candidates:
    """All candidates of a straight program, in whose first place there may be a feed. ``ends``: the graph's outputs."""

    def __init__(self, program: Program, lifetimes: Lifetimes, ends: Collection[Tensor], target: Target) -> None:
        self._ends, self._target = ends, target
        self._borrowed, apart = lifetimes.borrowed, {*lifetimes.state, lifetimes.borrowed}
        self._lives = {t: life for t, life in lifetimes.lives.items() if t not in apart}
        self.parts = list(_parts(program))
        self._at = [part.position if isinstance(part, Step) else -1 for part in self.parts]
        self._heights: dict[Tensor, int] = {}
        self._links = [self._link(part) for part in self.parts]
        self.chain = cache(self._chain)

    def __len__(self) -> int:
        return len(self.parts)

    def _link(self, part: Step | Feed) -> Link | None:
        """A place of the program as a link of a chain, if it does not work on the state."""
        if isinstance(part, Feed):
            self._heights[part.out] = part.height
            return part
        known = all(tensor in self._lives or tensor is self._borrowed for tensor in part.touched)
        link = layer_of(part, self._heights)
        if not known or isinstance(link, str):
            return None
        if link.rows.flat:
            self._heights[link.out] = link.height
        return link

    def of(self, i: int) -> Iterator[Candidate]:
        """All that begin at place ``i``, the shortest first."""
        part = self.parts[i]
        if isinstance(part, Step):
            yield self.whole(i, part)
        for j in range(i, min(i + LONGEST, len(self))):
            if self._links[j] is None:
                return
            candidate = self.chain(i, j)
            if candidate:
                yield candidate
                others = [NARROW] if any(link.band > link.rows.tall for link in candidate.links) else []
                others += [EXACT] if any(map(_loses, candidate.links)) else []
                yield from filter(None, (self.chain(i, j, band) for band in others))

    def whole(self, i: int, step: Step) -> Candidate:
        """The step of place ``i`` as it is."""
        return Candidate(i, i + 1, self._live(i, i) - self._in_place(step))

    def _live(self, i: int, j: int, without: Collection[Tensor] = ()) -> int:
        """Bytes of the tensors that hold a value at places ``i`` to ``j``, but for some."""
        low, high = self._at[i], self._at[j]
        live = (t for t, (first, last) in self._lives.items() if first <= high and last >= low)
        return sum(tensor.nbytes for tensor in live if tensor not in without)

    def _in_place(self, step: Step) -> int:
        """Bytes saved because output 0 lies on an input that dies."""
        out = next(iter(step.call.written), None)
        inputs = [step.call.inputs[place] for place in step.call.inplace]
        fit = [t for t in inputs if isinstance(t, Tensor) and self._lives.get(t, (0, -1))[1] == step.position]
        return max((t.nbytes for t in fit if out is not None and t.nbytes == out.nbytes), default=0)

    def _chain(self, i: int, j: int, band: int = 1) -> Candidate | None:
        """Places ``i`` to ``j`` as a chain, about ``band`` rows at once; None if they cannot run so."""
        every = [link for link in self._links[i : j + 1] if link is not None]
        links, views = _without_views(every)
        if len(every) != j + 1 - i or not _agree(links) or all(link.rows.sums for link in links):
            return None
        planes = len(links) == 1 and links[0].rows.planes > 0
        links = links if planes else tuple(_widened(link, band) for link in links)
        high = self._at[j]
        outs = [link.out for link in every]
        used = [tensor for tensor in outs if self._lives[tensor][1] > high or tensor in self._ends]
        if any(out in used for view in views for out in view.call.written):
            return None
        made = set(outs)
        sources = dict.fromkeys(t for link in links for _, t, _ in link.sources if t not in made)  # in a fixed order
        if self._borrowed in sources and len(sources) > 1:
            return None
        dying = [tensor for tensor in sources if tensor in self._lives and self._lives[tensor][1] <= high]
        keeps = kept(links, used, dying)
        if any(room.capacity > MOST_ROWS for room in keeps.rooms.values()):
            return None
        rings = sum(keeps.rooms[link.out].capacity * link.row_bytes for link in links if link.out in keeps.rooms)
        scratch = Scratch(links)
        absent = {*keeps.rooms, *scratch.every, *(out for view in views for out in view.call.written)}
        plain = self._live(i, j, absent) + rings + scratch.nbytes
        extra = 0.0 if planes else more(links, keeps, self._target)
        if planes:
            keeps = keeps._replace(over=tuple(over for over in keeps.over if not over.backwards))
        best = max(keeps.over, key=lambda over: over.saved, default=None)
        if best is None or best.saved <= 0:
            return Candidate(i, j + 1, plain, extra, links, keeps, (), views)
        over = tuple(each for each in keeps.over if (each.over, each.under) == (best.over, best.under))
        return Candidate(i, j + 1, plain - best.saved, extra, links, keeps, over, views)

    def widest(self, chain: Candidate, peak: int) -> Candidate:
        """A chain with as many rows at once as the peak allows, which makes fewer calls; the chain itself if that one
        computes pixels in vain and takes more."""
        for band in WIDE:
            wide = self.chain(chain.first, chain.end - 1, band)
            if wide is not None and wide.cost <= peak:
                return chain if chain.extra < wide.extra and any(map(_loses, wide.links)) else wide
        return chain


def _loses(link: Link) -> bool:
    """Whether its kernel takes four pixels or more at once, and computes some of them in vain."""
    pixels = link.rows.pixels
    return pixels > 3 and link.band * link.out.shape[2] % pixels > 0


def _widened(link: Link, band: int) -> Link:
    """The link with the most rows up to ``band``, or its own, for which its kernel computes no more lost pixels."""
    if isinstance(link, Feed):
        return link
    if band == NARROW:
        return replace(link, band=min(link.rows.tall, link.height))
    if band == EXACT:
        rows = link.rows.pixels // gcd(link.rows.pixels, link.out.shape[2]) if link.rows.pixels > 1 else 1
        return replace(link, band=min(-(-rows // link.rows.tall) * link.rows.tall, link.height))
    return replace(link, band=min(link.band * max(1, band // link.band), link.height))


def _parts(program: Program) -> Iterator[Step | Feed]:
    """The places of a program of steps, behind a chain that only takes rows of the input if there is one."""
    for part in program:
        match part:
            case Chain(feed=Feed() as feed):
                yield feed
            case Step():
                yield part


def _agree(links: Sequence[Link]) -> bool:
    """Whether what reads rows of a link counts them as that does."""
    height = {link.out: link.height for link in links}
    read = (source for link in links for source in link.sources)
    return all(height.get(tensor, rows) == rows for _, tensor, rows in read)


def height_of(links: Sequence[Link], tensor: Tensor) -> int:
    """The rows of the output of a link."""
    return next(link.height for link in links if link.out is tensor)


def _without_views(links: Iterable[Link]) -> tuple[tuple[Link, ...], tuple[Step, ...]]:
    """The links without copies, in whose place they read what is copied; and the copies."""
    source: dict[Tensor, Tensor] = {}
    others, views = list[Link](), list[Step]()
    for link in links:
        if isinstance(link, Layer):
            link = _over(link, source)
        if isinstance(link, Layer) and link.rows.flat:
            source[link.out] = link.sources[0][1]
            views.append(link.step)
        else:
            others.append(link)
    return tuple(others), tuple(views)


def _over(layer: Layer, source: Mapping[Tensor, Tensor]) -> Layer:
    """The layer that reads other tensors with the same bytes."""
    if not any(tensor in source for _, tensor, _ in layer.sources):
        return layer
    call = layer.step.call
    inputs = tuple(source.get(each, each) if isinstance(each, Tensor) else each for each in call.inputs)
    call = replace(call, inputs=inputs)
    sources = tuple((place, source.get(tensor, tensor), height) for place, tensor, height in layer.sources)
    return replace(layer, step=replace(layer.step, call=call, body=(call,)), sources=sources)


class Scratch:
    """The scratch memory of a chain: ``shared`` is the largest that serves one layer after the other.

    ``own`` are those that keep sums from part to part.
    """

    def __init__(self, links: Iterable[Link]) -> None:
        layers = [link for link in links if isinstance(link, Layer) and link.step.scratch is not None]
        self.own = [layer.step.scratch for layer in layers if layer.rows.sums and layer.step.scratch]
        self.every = [layer.step.scratch for layer in layers if layer.step.scratch]
        brief = [tensor for tensor in self.every if tensor not in self.own]
        self.shared = max(brief, key=lambda tensor: tensor.nbytes, default=None)

    @property
    def nbytes(self) -> int:
        """Bytes of all that a chain has."""
        return sum(tensor.nbytes for tensor in self.own) + (self.shared.nbytes if self.shared else 0)

    def of(self, layer: Layer) -> Layer:
        """The layer with the scratch memory that it has in the chain."""
        if layer.step.scratch is None or layer.rows.sums:
            return layer
        return replace(layer, step=replace(layer.step, scratch=self.shared))
