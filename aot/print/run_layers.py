"""``NAME_run_layers``, which runs some layers of a model, and ``<name>_layers.c``, the table that describes all.

A program that does not ask for them does not pay: the function is there with the macro TW_RUN_LAYERS, the table has a
file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from twinfer.aot.print.blocks import in_run
from twinfer.aot.print.literals import braced, comment, wrapped
from twinfer.aot.print.place import hooked
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Part, Program
from twinfer.runtime.walks import steps_of

#: The macro that asks for the function.
MACRO = "TW_RUN_LAYERS"


def more(plan: Plan) -> str:
    """The parameters of the function behind the blocks of memory, in C."""
    return f"{', const void *in' if plan.borrowed else ''}, int32_t from, int32_t to"


def ends(plan: Plan) -> Iterator[tuple[int, Part]]:
    """The parts of the program that have layers, each with the number of its last one: with that all of them run."""
    count = 0
    for part in plan.program:
        before, count = count, count + len(list(steps_of((part,))))
        if count > before:
            yield count - 1, part


def with_layer(plan: Plan) -> list[int]:
    """For every layer the one that it runs with."""
    last = [end for end, _ in ends(plan)]
    return [min(end for end in last if end >= i) for i in range(len(plan.steps))]


def body(plan: Plan, name: str, lines: Callable[[Program], Iterator[str]], layer: Sequence[str]) -> list[str]:
    """The lines of the function after it has checked its memory.

    ``lines`` gives the statements of a part of the program; ``layer`` those of layer i if the same serve all.
    """
    up, count = name.upper(), len(plan.steps)
    checks = [f"if (from < 0 || to > {count} || from > to) return TW_NO_LAYER;"]
    if plan.borrowed:
        local, i = in_run(Region.INPUT), plan.graph.inputs.index(plan.borrowed)
        checks += [
            f"const unsigned char *const {local} = (const unsigned char *)in;",
            f"if ({local} == NULL) return TW_NO_INPUT;",
            f"if ((uintptr_t){local} % {up}_INPUT_{i}_ALIGN != 0) return TW_MISALIGNED;",
        ]
    if not count:
        return [*checks, "return TW_OK;"]
    if layer:
        return [*checks, *braced(layer, "for (int32_t i = from; i < to; ++i)"), "return TW_OK;"]
    cases = list[str]()
    for end, part in ends(plan):
        own = [] if part is plan.fed else [*lines((part,))]
        if plan.straight and len(own) == 2:  # the hook, then the call
            cases.append(f"case {end}: {own[1]} break;")
        elif own:
            cases += [f"case {end}:", *(f"    {line}" for line in own), "    break;"]
    cases.append("default: break; /* it runs with a later layer */")
    hook = [hooked(plan, name, "i")] if plan.straight else []
    loop = braced([*hook, "switch (i) {", *cases, "}"], "for (int32_t i = from; i < to; ++i)")
    return [*checks, *loop, "return TW_OK;"]


def layers_source(plan: Plan, name: str, banner: str) -> str:
    """``<name>_layers.c``: a row for every layer; a model without layers has no table."""
    shapes, at, rows = list[str](), 0, list[str]()
    for step, last in zip(plan.steps, with_layer(plan), strict=True):
        out = step.call.written[0]
        words = [step.node.op, step.call.kernel, comment(out.name).replace('"', "'").replace("\\", "/")]
        texts = ", ".join(f'"{comment(word)}"' for word in words)
        rows.append(
            f'    {{{texts}, {step.call.macs}u, "{out.type}", {name}_shapes + {at}, {len(out.shape)}, {last}}},'
        )
        shapes += [str(d) for d in out.shape]
        at += len(out.shape)
    if not rows:
        return f'{banner}\n#include "{name}.h"\n'
    table = "\n".join(rows)
    return f"""{banner}
#include "{name}.h"

static const int32_t {name}_shapes[] = {{
{wrapped(shapes or ["0"])},
}};
/* Operator, kernel, output, multiply-accumulates, type and shape of the output, the layer that it runs with. */
const tw_layer {name}_layers[{name.upper()}_LAYER_COUNT] = {{
{table}
}};
"""
