"""Inputs whose dimensions a model leaves open: which they are, and sizes that it can be read with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

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
    words = [f"--shape {name}={_example(dims, (found or {}).get(name))}" for name, dims in inputs.items()]
    how = "for example" if found else "with the extents that it was made for"
    return f"{'; '.join(parts)}: say the shape, {how}: {' '.join(words)}"


def _listed(dims: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _example(dims: Dims, found: Sequence[int] | None) -> str:
    if found is not None:
        return ",".join(map(str, found))
    return "D,D,…" if dims is None else ",".join(str(d) if isinstance(d, int) else "D" for d in dims)


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
    batches = {dims[0] for dims in known.values() if dims} - {"?"}  # states have it elsewhere
    image = any(len(dims) == 4 for dims in known.values())
    seen = []
    for size in (*IMAGES, *OTHERS) if image else OTHERS:
        shapes = {
            name: tuple(d if isinstance(d, int) else 1 if i == 0 or d in batches else size for i, d in enumerate(dims))
            for name, dims in known.items()
        }
        if shapes not in seen:
            seen.append(shapes)
            yield shapes
