"""Layers in parts, which threads compute side by side, as C: a function for a part, and a call of ``NAME_parallel``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from twinfer.aot.print.arguments import NO_SCRATCH, Arguments
from twinfer.aot.print.blocks import parameter
from twinfer.aot.print.literals import braced
from twinfer.aot.print.part import declared, linear, params, variables, with_params, with_pointers
from twinfer.aot.print.place import code, tables
from twinfer.aot.print.row_loops import arrays, at_row
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.split import apart, parts_of, scratch_of, split_of
from twinfer.runtime.program import Layer, Step

#: The pool of POSIX threads.
POOL = "run/pool.h"

#: What a caller may define in place of ``<name>_threads.c``.
ABOUT = (
    "Does the parts of a layer: calls work(context, part) for every part from 0 to before parts, side by side if it "
    "can, and returns when all are done. NAME_threads.c has it over NAME_THREADS POSIX threads, the caller's among "
    "them; a program that defines it itself leaves that file out."
)
DECLARED = "void NAME_parallel(int32_t parts, void (*work)(void *context, int32_t part), void *context);"

_SOURCE = """BANNER
#include "NAME.h"
#include "kernels/run/pool.h"

static tw_pool *NAME_pool;

static void NAME_begin_pool(void) { NAME_pool = (tw_pool *)tw_pool_new(NAME_UPPER_THREADS - 1); }

void NAME_parallel(int32_t parts, void (*work)(void *context, int32_t part), void *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, NAME_begin_pool);
    tw_pool_run(NAME_pool, parts, work, context);
}
"""


def threads_source(name: str, banner: str) -> str:
    """``<name>_threads.c``: the threads begin with the first split layer, and wait from then on."""
    text = _SOURCE.replace("BANNER", banner).replace("NAME_UPPER", name.upper())
    return text.replace("NAME", name)


@dataclass(frozen=True)
class Parts:
    """Prints the split layers of one plan; ``numbers`` and ``invoke`` are those of ``RowLoops``."""

    plan: Plan
    name: str
    arguments: Arguments
    numbers: Mapping[Step, int]
    invoke: Callable[[Step], str]

    @cached_property
    def layers(self) -> Mapping[Step, Layer]:
        """The steps that are split, each as a layer."""
        plan, threads = self.plan, self.plan.options.threads
        if threads == 1:
            return {}
        split = {step: split_of(step, threads) for step in plan.steps if step not in plan.chains}
        return {step: layer for step, layer in split.items() if layer and apart(plan, layer)}

    @property
    def preamble(self) -> str:
        """The type of what a part gets if it needs more than one block of memory."""
        regions = self.arguments.memory.regions
        if not self.layers or len(regions) == 1:
            return ""
        members = "".join(f"    {parameter(region)};\n" for region in regions)
        return f"/* The memory of a run. */\ntypedef struct {{\n{members}}} {self.name}_blocks;\n\n"

    def text(self, step: Step, storage: str, symbol: str) -> str:
        """The functions of a part and of the whole layer, whose name is ``symbol``."""
        i, memory, layer = self.numbers[step], self.arguments.memory, self.layers[step]
        own = f"{self.name}_{i}_part"
        lines = self._lines(step, i)
        used = memory.used(lines)
        context = "context"
        if len(memory.regions) > 1:
            lines = [
                f"const {self.name}_blocks *const blocks = (const {self.name}_blocks *)context;",
                *(f"{_local(parameter(region))} = blocks->{region.value};" for region in used),
                *lines,
            ]
            given = ", ".join(region.value for region in memory.regions)
            whole, context = [f"{self.name}_blocks blocks = {{{given}}};"], "&blocks"
        else:
            lines = [f"{_local(parameter(used[0]))} = (unsigned char *)context;", *lines]
            whole, context = [], used[0].value
        whole.append(f"{self.name}_parallel({parts_of(layer)}, {own}, {context});")
        part = braced(lines, f"static {code(self.name, i)} void {own}(void *context, int32_t part)")
        return "\n".join([*part, *braced(whole, f"{storage} void {symbol}({memory.parameters})")])

    def _lines(self, step: Step, i: int) -> list[str]:
        """The lines that compute the rows of a part."""
        memory, layer, scratch = self.arguments.memory, self.layers[step], NO_SCRATCH
        if step.scratch is not None:
            scratch = f"{memory.address(step.scratch)} + {linear('part', scratch_of(layer))}"
        *head, call = with_params(layer, params(layer), self.invoke(step), tables(self.name, i))
        values = {"y": linear("part", layer.band), **dict(variables(layer))}
        low = "y" if values["low"] == "y" else "low"
        moving = {
            place: at_row(memory.address(tensor), tensor.nbytes // height, low)
            for place, tensor, height in layer.sources
        }
        inputs = [
            moving.get(place) or self.arguments.pointer(argument) for place, argument in enumerate(step.call.inputs)
        ]
        out = at_row(memory.address(layer.out), layer.row_bytes, "y")
        lines = with_pointers([*head, f"{call}{scratch});"], arrays(inputs, out))
        return [f"const int32_t {', '.join(declared(values, lines))};", *lines]


def _local(definition: str) -> str:
    """A block as a constant pointer: ``unsigned char *const arena``."""
    return definition.replace("*", "*const ")
