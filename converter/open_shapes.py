"""Inputs whose dimensions a model leaves open: which they are, and sizes that it can be read with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote

from twinfer.runtime.errors import InvalidArgumentError, TwinferError, UnsupportedOperatorError

#: Extents, or what an open one is called; None where the rank is open, too.
Dims = Sequence[int | str] | None

#: Sizes that are tried for open dimensions behind the batch: of images, and of others.
IMAGES, OTHERS = (224, 96, 640, 64, 320, 32), (32, 64, 128, 512, 256, 16, 1000, 16000, 1)

#: Models with more bytes of constants are not tried: reading them takes long.
MOST_BYTES = 30_000_000


class OpenShapes(InvalidArgumentError):
    """Inputs need a shape; ``inputs`` has what the model says of them, ``found`` shapes that work."""

    def __init__(self, inputs: Mapping[str, Dims], found: Mapping[str, Sequence[int]] | None = None) -> None:
        super().__init__(_needed(inputs, found))
        self.inputs, self.found = inputs, found


def _needed(inputs: Mapping[str, Dims], found: Mapping[str, Sequence[int]] | None) -> str:
    """What is asked of the user."""
    parts = []
    for name, dims in inputs.items():
        parts.append(f"input {name!r} " + ("has no shape in the model" if dims is None else f"{_listed(dims)} is open"))
    words = options({name: _example(dims, (found or {}).get(name)) for name, dims in inputs.items()})
    how = "for example" if found else "with the extents that it was made for"
    return f"{'; '.join(parts)}: say the shape, {how}: {words}"


def options(shapes: Mapping[str, Sequence[int | str]]) -> str:
    """The options of the command line that give inputs these shapes, for a shell."""
    return " ".join("--shape " + quote(f"{name}={','.join(map(str, dims))}") for name, dims in shapes.items())


def _listed(dims: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _example(dims: Dims, found: Sequence[int] | None) -> Sequence[int | str]:
    if found is not None:
        return found
    return ["D", "D", "…"] if dims is None else [d if isinstance(d, int) else "D" for d in dims]


def workable(
    inputs: Mapping[str, Dims], read: Callable[[Mapping[str, Sequence[int]]], object]
) -> Mapping[str, Sequence[int]] | None:
    """Shapes with which ``read`` does not fail, or only for operators; None if there are none among those tried."""
    for shapes in _candidates(inputs):
        try:
            read(shapes)
        except UnsupportedOperatorError:
            return shapes
        except TwinferError:
            continue
        return shapes
    return None


def _candidates(inputs: Mapping[str, Dims]) -> Iterator[Mapping[str, Sequence[int]]]:
    if any(dims is None for dims in inputs.values()):
        return
    known = {name: dims for name, dims in inputs.items() if dims is not None}
    image = any(len(dims) == 4 for dims in known.values())
    seen = []
    for batch in (_is_batch, _is_first):
        named = {d for dims in known.values() for i, d in enumerate(dims) if batch(dims, i)} - {"?"}
        for size in (*IMAGES, *OTHERS) if image else OTHERS:
            shapes = {
                name: tuple(
                    d if isinstance(d, int) else 1 if batch(dims, i) or d in named else size for i, d in enumerate(dims)
                )
                for name, dims in known.items()
            }
            if shapes not in seen:
                seen.append(shapes)
                yield shapes


def _is_first(dims: Sequence[int | str], i: int) -> bool:
    return not i


def _is_batch(dims: Sequence[int | str], i: int) -> bool:
    """Whether an open extent is the batch: the first one, or in a state [layers, batch, units] the only open one."""
    others = all(isinstance(d, int) for j, d in enumerate(dims) if j != i)
    return not i or (others and dims[0] != 1 and i < len(dims) - 1)
