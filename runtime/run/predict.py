"""``run``, ``predict`` and ``evaluate`` of an interpreter: real numbers in and out, one sample or many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from twinfer.runtime.affine import quantised, real, stored
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.run.batch import Runner
from twinfer.runtime.run.subgraph import as_array

if TYPE_CHECKING:
    from twinfer.runtime.op import Shape

#: The most threads that share samples.
MOST_WORKERS = 64

Values = Any  # an array, arrays in the inputs' order, or arrays by name


def by_input(inputs: Sequence[Tensor], values: Values) -> list[Array]:
    """An array for every input that is no constant, in their order; InvalidArgumentError for names and numbers that do
    not fit."""
    free = [tensor for tensor in inputs if tensor.data is None]
    names = ", ".join(repr(tensor.name) for tensor in free)
    if isinstance(values, Mapping):
        if {*values} != {tensor.name for tensor in free}:
            raise InvalidArgumentError(f"the model's inputs are {names}, not {', '.join(map(repr, values))}")
        given = [values[tensor.name] for tensor in free]
    elif len(free) == 1 and not (isinstance(values, tuple) and len(values) == 1):
        given = [values]
    elif isinstance(values, list | tuple) and len(values) == len(free):
        given = [*values]
    else:
        raise InvalidArgumentError(f"the model has {len(free)} inputs: give arrays in the order {names}, or a dict")
    return [as_array(value, tensor) for tensor, value in zip(free, given, strict=True)]


def ends(tensors: Sequence[Tensor], values: Sequence[Array], integers: bool) -> Any:
    """The outputs as the caller gets them: one alone, or a list."""
    shown = [np.array(v) if integers else real(v, t) for t, v in zip(tensors, values, strict=True)]
    return shown[0] if len(shown) == 1 else shown


@dataclass(frozen=True)
class Job:
    """``samples`` as ``runs`` of a model whose inputs have these ``shapes``. ``block`` samples are one run, along the
    first axis; 0: a run is one sample, whose axes are all the input's."""

    arrays: Sequence[Array]
    shapes: Sequence[Shape]
    samples: int
    block: int

    @property
    def runs(self) -> int:
        return -(-self.samples // self.block) if self.block else self.samples

    def part(self, tensor: Tensor, i: int, first: int, last: int) -> Array:
        """Input ``i`` of runs ``first`` to ``last``, in the tensor's type; the last sample fills up the last run."""
        low, high = (first * self.block, last * self.block) if self.block else (first, last)
        value = stored(self.arrays[i][low:high], tensor)
        if len(value) < high - low:
            value = np.concatenate([value, np.repeat(value[-1:], high - low - len(value), axis=0)])
        return value.reshape(last - first, *self.shapes[i])


def job_of(tensors: Sequence[Tensor], present: Sequence[Shape], arrays: Sequence[Array], batch: int | None) -> Job:
    """The samples of ``arrays`` for inputs of the ``present`` shapes; InvalidArgumentError where they do not fit."""
    if batch is not None and (not isinstance(batch, int) or batch < 1):
        raise InvalidArgumentError(f"batch_size must be a positive integer, not {batch!r}")
    whole = {array.ndim - len(shape) for array, shape in zip(arrays, present, strict=True)}
    counts = {len(array) if array.ndim else -1 for array in arrays}
    if not whole <= {0, 1} or len(whole) != 1 or len(counts) != 1 or -1 in counts:
        raise _misfit(tensors, present, arrays)
    (extra,), (samples,) = whole, counts
    blocks = {shape[0] for shape in present} if not extra else {0}
    if len(blocks) != 1 or (not extra and 0 in blocks):
        raise _misfit(tensors, present, arrays)
    block = batch if batch and not extra else blocks.pop()
    shapes = []
    for tensor, array, shape in zip(tensors, arrays, present, strict=True):
        wanted = (*([block] if block else []), *array.shape[1:])
        signature = tensor.shape_signature or tensor.shape
        fixed = zip(wanted[bool(block) :], shape[bool(block) :], signature[bool(block) :], strict=True)
        if any(new != old and open_ != -1 for new, old, open_ in fixed):
            raise _misfit(tensors, present, arrays)
        shapes.append(wanted)
    return Job(arrays, shapes, samples, block)


def _misfit(tensors: Sequence[Tensor], present: Sequence[Shape], arrays: Sequence[Array]) -> InvalidArgumentError:
    given = ", ".join(str(list(array.shape)) for array in arrays)
    takes = ", ".join(f"{t.name!r} {list(shape)}" for t, shape in zip(tensors, present, strict=True))
    wanted = " or ".join(
        ", ".join(str(["N", *shape[cut:]]).replace("'N'", "N") for shape in present)
        for cut in (1, 0)
        if all(len(shape) >= cut for shape in present)
    )
    return InvalidArgumentError(f"samples {given} do not fit the inputs {takes}: give {wanted} for N samples")


def predicted(runners: Sequence[Runner], job: Job, integers: bool) -> Any:
    """The outputs of all samples; every runner takes the next runs that nobody has taken yet."""
    graph = runners[0].session.plan.graph
    results = [_room(tensor, job, integers) for tensor in graph.outputs]
    step = min(runner.size for runner in runners)
    todo, failed, lock = iter(range(0, job.runs, step)), list[BaseException](), Lock()

    def work(runner: Runner) -> None:
        try:
            while not failed and (first := _next(todo, lock)) is not None:
                last = min(first + step, job.runs)
                inputs = [job.part(tensor, i, first, last) for i, tensor in enumerate(runner.inputs)]
                for tensor, value, result in zip(graph.outputs, runner.run(inputs), results, strict=True):
                    result[first:last] = value if integers else real(value, tensor)
        except BaseException as error:  # what a thread raises, the caller shall see
            failed.append(error)

    others = [Thread(target=work, args=(runner,), daemon=True) for runner in runners[1:]]
    for thread in others:
        thread.start()
    work(runners[0])
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]
    shown = [_samples(result, tensor, job) for tensor, result in zip(graph.outputs, results, strict=True)]
    return shown[0] if len(shown) == 1 else shown


def _next(todo: Iterator[int], lock: Lock) -> int | None:
    with lock:
        return next(todo, None)


def _room(tensor: Tensor, job: Job, integers: bool) -> Array:
    if job.block and tensor.shape[:1] != (job.block,):
        raise InvalidArgumentError(
            f"{tensor} has no row for each of {job.block} samples along its first axis: give each sample all axes of "
            "the input, [N, 1, ...], without batch_size"
        )
    dtype = np.dtype(np.float32) if quantised(tensor) and not integers else tensor.dtype
    return np.empty((job.runs, *tensor.shape), dtype)


def _samples(result: Array, tensor: Tensor, job: Job) -> Array:
    if not job.block:
        return result
    return result.reshape(job.runs * job.block, *tensor.shape[1:])[: job.samples]


def scores(output: Tensor, y: Array, wanted: Any) -> dict[str, float]:
    """How good predictions are, [samples, ...]: of classes the accuracy, of targets the errors.

    ``wanted`` are whole numbers for classes, one per answer, or one-hot rows; floats are targets. An answer is the
    arg-max along the last axis; of one value a sample whether it is above 0.5, if 0 and 1 are wanted; of integers the
    value. InvalidArgumentError where the numbers of both differ.
    """
    truth = as_array(wanted, "the right answers")
    if truth.dtype.kind not in "fiub":
        raise InvalidArgumentError(f"right answers of dtype {truth.dtype}: give whole numbers (classes) or floats")
    if not len(y) or not truth.ndim or len(truth) != len(y):
        raise InvalidArgumentError(f"there are {len(y)} samples, right answers {list(truth.shape)}: give one a sample")
    bits = bool(((truth == 0) | (truth == 1)).all())
    if bits and truth.shape == y.shape and y.shape[-1] > 1 and (truth.sum(-1) == 1).all():
        truth = truth.argmax(-1)  # one-hot
    classes = truth.dtype.kind in "iub"
    alone = y.size == len(y)
    if classes and alone and y.dtype.kind == "f":  # anything but 0 and 1 are targets that are whole numbers
        classes = bits
        y = (y > 0.5).astype(np.int64) if classes else y
    elif classes and not (y.dtype.kind in "iub" and not quantised(output) and truth.size == y.size):
        y = y.argmax(-1)
    if truth.size != y.size:
        raise InvalidArgumentError(f"right answers {list(truth.shape)} do not fit answers {list(y.shape)}")
    truth = truth.reshape(y.shape)
    if classes:
        return {"samples": len(y), "accuracy": float((y == truth).mean())}
    error = y.astype(np.float64) - truth
    spread = float(np.square(truth - truth.mean(0, dtype=np.float64)).sum())
    squares = float(np.square(error).sum())
    return {
        "samples": len(y),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt(squares / error.size)),
        "max_error": float(np.abs(error).max()),
        "r2": 1 - squares / spread if spread else float("nan"),
    }
