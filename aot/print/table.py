"""The interpreted mode: the steps of a plan as a table of constants that ``kernels/run.h`` runs.

Where weights are coded, what decodes them has rows of its own, and ``kernels/run_coded.h`` runs the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.aot.print.choice import cold, share_all
from twinfer.aot.print.data import Constants
from twinfer.aot.print.decoding import decoders
from twinfer.aot.print.layers import Layers
from twinfer.aot.print.literals import wrapped
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array, Call
from twinfer.runtime.plan.planner import Plan, Step


def _rows(step: Step) -> tuple[Call, ...]:
    """The calls of a step that have a row: one for the channels that remain is the last."""
    decode = step.call.decode
    return (*step.call.calls, decode.rest) if decode is not None and decode.rest is not None else step.call.calls


class Table:
    """Prints the table of one plan: ``text`` defines ``symbol(arena, i)``, which runs step ``i``.

    ``header`` is what that needs; ``start`` defines what decodes weights at the start.
    """

    def __init__(self, plan: Plan, name: str, constants: Constants) -> None:
        self._plan, self._name = plan, name
        self._layers = Layers(plan, name, constants, share_all(plan), cold(plan))
        self._constants = constants
        self._numbers: dict[str, int] = {}
        self._calls = [(i, call) for i, step in enumerate(plan.steps) for call in _rows(step)]
        self._codes = [self._pointers(call) for _, call in self._calls]
        self._coded = len(self._calls) > len(plan.steps)
        self.symbol = f"{name}_layer"
        self.header = "run/run_coded.h" if self._coded else "run/run.h"
        self.start = self._layers.start

    @property
    def text(self) -> str:
        """All definitions, none for a plan without steps."""
        if self._plan.steps:
            return "\n".join(self._parts())
        return ""

    def _parts(self) -> Iterator[str]:
        name, calls = self._name, [call for _, call in self._calls]
        yield self._layers.preamble.rstrip()
        for i in range(len(self._plan.steps)):
            yield f"\n{self._layers.declarations(i)}"
        constants = wrapped(list(self._numbers) or ["NULL"])
        codes = ",\n".join(wrapped([str(n) for n in line]) for line in self._codes)
        rows = ",\n".join(f"    {row}" for row in self._rows())
        yield f"""
static const void *const {name}_constants[] = {{
{constants},
}};
/* Of every layer the inputs, then the outputs: bytes of the arena, below 0 constants. */
static const int32_t {name}_pointers[] = {{
{codes},
}};
/* Kernel, params, pointers, scratch, how many inputs and outputs. */
static const tw_step {name}_table[] = {{
{rows},
}};
{self._slices if self._coded else ""}
static TW_NOINLINE void {self.symbol}(unsigned char *arena, int32_t i) {{
    const void *in[{max(1, *(len(call.inputs) for call in calls))}];
    void *out[{max(len(call.outputs) for call in calls)}];
    {self._run}
}}
"""

    @property
    def _run(self) -> str:
        """The statement that runs step i."""
        if self._coded:
            return f"tw_run_layer(&{self._name}_rows, &{self._name}_layers[i], arena, in, out);"
        return f"tw_run_step(&{self._name}_table[i], {self._name}_constants, arena, in, out);"

    @property
    def _slices(self) -> str:
        """What is beside the rows where weights are coded."""
        name = self._name
        strides = ",\n".join(wrapped([str(n) for n in call.strides or [0] * width]) for call, width in self._widths())
        layers = wrapped([f"{{{', '.join(map(str, span))}}}" for span in self._spans()])
        return f"""/* By how many bytes the pointers move from slice to slice. */
static const int32_t {name}_strides[] = {{
{strides},
}};
/* Of every layer the first row, how many run once, for how many slices the next two do, whether there is a rest. */
static const tw_layer {name}_layers[] = {{
{layers},
}};
static const tw_table {name}_rows = {{{name}_table, {name}_pointers, {name}_strides, {name}_constants}};
"""

    def _widths(self) -> Iterator[tuple[Call, int]]:
        """Every row's call, and how many pointers it has."""
        return ((call, len(codes)) for (_, call), codes in zip(self._calls, self._codes, strict=True))

    def _spans(self) -> Iterator[tuple[int, ...]]:
        first = 0
        for step in self._plan.steps:
            rows, decode = len(step.call.calls), step.call.decode
            sliced = decode is not None and bool(step.call.strides)
            rest = int(decode is not None and decode.rest is not None)
            yield first, rows - 2 * sliced, decode.slices if decode is not None and sliced else 0, rest
            first += rows + rest

    def _rows(self) -> Iterator[str]:
        at = 0
        for (i, call), codes in zip(self._calls, self._codes, strict=True):
            yield self._row(i, call, at)
            at += len(codes)

    def _row(self, i: int, call: Call, at: int) -> str:
        step, kernel = self._plan.steps[i], f"{self._name}_{call.kernel}"
        words = [word for word, decoder in decoders(step) if decoder is call]
        own = "rest" if call is not step.call and not words else "".join(words)
        params = self._layers.decoder_params(i, own) if own else self._layers.params(i)
        counts = f"{len(call.inputs)}, {len(call.outputs)}"
        scratch = 0 if words else step.scratch
        return f"{{{kernel}, &{params}, {self._name}_pointers + {at}, {scratch}, {counts}}}"

    def _pointers(self, call: Call) -> list[int]:
        return [self._code(arg) for arg in (*call.inputs, *call.outputs)]

    def _code(self, arg: Tensor | Array | None) -> int:
        """The arena's byte, or below 0 a number of ``constants``, which is given out at first use."""
        if isinstance(arg, Tensor) and arg.data is None:
            return self._plan.offsets[arg]
        array = arg.data if isinstance(arg, Tensor) else arg
        symbol = "NULL" if array is None else self._constants.symbol(array)
        return 0 if symbol is None else ~self._numbers.setdefault(symbol, len(self._numbers))
