"""The interpreted mode: the steps of a plan as a table of constants that ``kernels/run.h`` runs."""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.aot.choice import cold, share_all
from twinfer.aot.data import Constants
from twinfer.aot.layers import Layers
from twinfer.aot.literals import wrapped
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array, Call
from twinfer.runtime.plan import Plan, Step


class Table:
    """Prints the table of one plan: ``text`` defines ``symbol(arena, i)``, which runs step ``i``."""

    def __init__(self, plan: Plan, name: str, constants: Constants) -> None:
        self._plan, self._name = plan, name
        self._layers = Layers(plan, name, constants, share_all(plan), cold(plan))
        self._constants = constants
        self._numbers: dict[str, int] = {}
        self._codes = [self._pointers(step.call) for step in plan.steps]
        self.symbol = f"{name}_layer"

    @property
    def text(self) -> str:
        """All definitions, none for a plan without steps."""
        return "\n".join(self._parts()) if self._plan.steps else ""

    def _parts(self) -> Iterator[str]:
        name, calls = self._name, [step.call for step in self._plan.steps]
        yield self._layers.preamble.rstrip()
        for i in range(len(calls)):
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

static TW_NOINLINE void {self.symbol}(unsigned char *arena, int32_t i) {{
    const void *in[{max(1, *(len(call.inputs) for call in calls))}];
    void *out[{max(len(call.outputs) for call in calls)}];
    tw_run_step(&{name}_table[i], {name}_constants, arena, in, out);
}}
"""

    def _rows(self) -> Iterator[str]:
        at = 0
        for i, step in enumerate(self._plan.steps):
            yield self._row(i, step, at)
            at += len(self._codes[i])

    def _row(self, i: int, step: Step, at: int) -> str:
        kernel, params = self._layers.instance(i), f"&{self._layers.params(i)}"
        counts = f"{len(step.call.inputs)}, {len(step.call.outputs)}"
        return f"{{{kernel}, {params}, {self._name}_pointers + {at}, {step.scratch}, {counts}}}"

    def _pointers(self, call: Call) -> list[int]:
        return [self._code(arg) for arg in (*call.inputs, *call.outputs)]

    def _code(self, arg: Tensor | Array | None) -> int:
        """The arena's byte, or below 0 a number of ``constants``, which is given out at first use."""
        if isinstance(arg, Tensor) and arg.data is None:
            return self._plan.offsets[arg]
        array = arg.data if isinstance(arg, Tensor) else arg
        symbol = "NULL" if array is None else self._constants.symbol(array)
        return 0 if symbol is None else ~self._numbers.setdefault(symbol, len(self._numbers))
