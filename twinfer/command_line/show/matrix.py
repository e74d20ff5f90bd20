"""What ``twinfer verify`` shows: a matrix of engines by tensors or by models, and the first difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.report import label, table
from twinfer.bench.models.verify import SPECIAL, Difference, Line, Proof
from twinfer.bench.models.zero_division import descriptions
from twinfer.bench.peers.engines import peers
from twinfer.command_line.show.memory import number, title
from twinfer.runtime.op import TOLERANCE

#: Signs of the matrix: the same bits, within the tolerance, different, not computed.
SAME, CLOSE, DIFFERENT, ABSENT = "=", "≈", "≠", "·"

_STYLE = {SAME: "green", CLOSE: "cyan", DIFFERENT: "bold red", ABSENT: "bright_black"}


def sign(line: Line, engine: str) -> str:
    """One cell of the matrix."""
    if engine not in line.differences:
        return ABSENT
    difference = line.differences[engine]
    return SAME if difference is None else CLOSE if difference.within else DIFFERENT


def matrix(proofs: Sequence[Proof], engines: Sequence[str]) -> Iterator[RenderableType]:
    """Every tensor of a single model, or the worst of all tensors of several; each engine against the interpreter."""
    if not proofs:
        return
    single = len(proofs) == 1
    subject = proofs[0].model if single else "All models"
    labels = ("#", "<operator", "<tensor", "<type", "<shape") if single else ("<model", "tensors")
    shown = table(f"{subject}: each engine against the interpreter", *labels, gap=1)
    for engine in engines:
        heading = peers()[engine].heading if engine in peers() else engine.replace(" on cortex-", "\n")
        shown.add_column(heading, justify="center", no_wrap=True)
    for texts, cells in _rows(proofs, engines):
        shown.add_row(*(Text(text) for text in texts), *(Text(cell, style=_STYLE[cell]) for cell in cells))
    yield shown
    close = f"{CLOSE} within {TOLERANCE:g} of the largest value"
    legend = f"{SAME} same bits  {close}  {DIFFERENT} different  {ABSENT} not computed"
    yield Text(legend, style="bright_black")


def _rows(proofs: Sequence[Proof], engines: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    if len(proofs) > 1:
        for proof in proofs:
            worst = [max((sign(line, e) for line in proof.lines), key=_RANK.index, default=ABSENT) for e in engines]
            yield [proof.model, str(len(proof.lines))], worst
        return
    for line in proofs[0].lines:
        tensor = line.tensor
        place, op = (number(line.node), title(line.node)) if line.node else ("", "")
        shape = "×".join(map(str, tensor.shape)) or "()"
        yield [place, op, tensor.name, tensor.type, shape], [sign(line, engine) for engine in engines]


_RANK = (ABSENT, SAME, CLOSE, DIFFERENT)


def findings(proofs: Sequence[Proof]) -> Iterator[Text]:
    """Peers that could not run a model, then a verdict per model, with the first difference where there is one."""
    for proof in proofs:
        for engine, reason in proof.notes.items():
            yield Text(f"{proof.model}: no {label(engine)}: {reason}", style="yellow")
        fault = next(proof.faults(), None)
        if fault is not None:
            yield Text(f"{proof.model}: {describe(*fault)}", style="bold red")
        for said in descriptions(proof.by_zero, _count(proof.samples)):
            yield Text(f"{proof.model}: not proven: {said}", style="bold red")
        if proof.unrun:
            where = ", ".join(proof.unrun)
            yield Text(f"{proof.model}: not proven: it did not run {where}", style="bold red")
        elif proof.proven:
            yield Text(f"{proof.model}: proven on {_count(proof.samples)}{_beside(proof)}", style="green")
        judges = proof.judges
        every = [(line, *each) for line in proof.lines for each in line.differences.items()]
        for line, engine, difference in every:
            if difference is not None and not difference.within and engine not in judges:
                told = f"not counted, since {label(judges[-1])} decides: {describe(line, engine, difference)}"
                yield Text(f"{proof.model}: {told}", style="yellow")


def describe(line: Line, engine: str, difference: Difference) -> str:
    """Which tensor and element differ first, and by how much."""
    name = label(engine)
    if not difference.element and line.tensor.shape:
        return f"{name} differs first in {_where(line)}: it has another type or shape"
    values = f"interpreted {difference.interpreted:.9g}, {name} {difference.other:.9g}"
    sample = "special values" if difference.sample == SPECIAL else f"sample {difference.sample}"
    where = f"element {list(difference.element)} of {sample}"
    return f"{name} differs first in {_where(line)}, {where}: {values}; largest difference {difference.largest:.9g}"


def _where(line: Line) -> str:
    return f"{line.tensor} made by {line.node}" if line.node else str(line.tensor)


def _beside(proof: Proof) -> str:
    """That special values were tried, too, and which engines were not held against them."""
    if not proof.special:
        return ""
    floats = any(t.dtype.kind in "fc" for t in proof.graph.inputs)
    values = "special values (infinities, NaN, zeros, the smallest and largest)" if floats else "the ends of integers"
    unheld = "".join(f"; {label(peer)} not on these: {why}" for peer, why in proof.unheld.items())
    return f" and on {values}{unheld}"


def _count(samples: int) -> str:
    return "one sample" if samples == 1 else f"{samples} samples"
