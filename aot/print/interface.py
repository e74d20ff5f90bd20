"""``<name>.h``, which callers include, and ``<name>_static.c``, the variant that owns its arena."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from twinfer.aot.print.arguments import span
from twinfer.aot.print.data import Constants
from twinfer.aot.print.literals import block_comment, c_type, comment, scalar, wrapped
from twinfer.aot.print.quantization import helpers
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region


def header(plan: Plan, name: str, banner: str, sizes: Iterable[tuple[str, object]]) -> str:
    """The public header: sizes, offsets, shapes, types and quantisation as macros, then the functions."""
    up = name.upper()
    lines = [banner, f"#ifndef {up}_H", f"#define {up}_H", "", "#include <stdint.h>", ""]
    lines += [f"#define {up}_{key} {value}" for key, value in sizes]
    for kind, tensors in (("INPUT", plan.graph.inputs), ("OUTPUT", plan.graph.outputs)):
        for i, tensor in enumerate(tensors):
            place = span(plan, tensor) if tensor.data is None else "a constant, not in the arena"
            lines += ["", block_comment([f'{kind.capitalize()} {i}: "{comment(tensor.name)}" {tensor.type}, {place}'])]
            lines += [f"#define {up}_{kind}_{i}_{key} {value}" for key, value in _tensor(plan, tensor)]
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *_functions(plan, name), *helpers(plan, name)]
    lines += ["#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def sizes(plan: Plan, constants: Constants, version: str, stack_bytes: int | None) -> Iterator[tuple[str, object]]:
    """Macros of the whole model. ``stack_bytes``: the most that a run takes, without its caller's; None: unknown."""
    yield "TWINFER_VERSION", f'"{version}"'
    yield "ARENA_BYTES", plan.arena_bytes
    yield "ARENA_ALIGN", plan.target.alignment
    yield "LOWER_BOUND_BYTES", f"{plan.lower_bound_bytes} /* no placement of these tensors needs less */"
    state = plan.regions[Region.STATE]
    yield "STATE_OFFSET", state.offset
    yield "STATE_BYTES", f"{state.nbytes} /* of the arena that have to last from run to run */"
    if stack_bytes is not None:
        yield "STACK_BYTES", f"{stack_bytes} /* the most that a run needs */"
    yield "CONSTANT_BYTES", f"{constants.nbytes} /* weights and everything else in the constants' file, read only */"
    yield "MACS", f"{plan.macs} /* multiply-accumulates of a run */"
    yield "INPUT_COUNT", len(plan.graph.inputs)
    yield "OUTPUT_COUNT", len(plan.graph.outputs)


def _tensor(plan: Plan, tensor: Tensor) -> Iterator[tuple[str, object]]:
    if tensor.data is None:
        yield "OFFSET", plan.offsets[tensor]
    yield "BYTES", tensor.nbytes
    yield "TYPE", c_type(tensor.dtype)
    yield "SIZE", tensor.size
    yield "RANK", len(tensor.shape)
    if tensor.shape:
        yield "SHAPE", "{" + wrapped([str(d) for d in tensor.shape], "") + "}"
    if tensor.quant is not None and not tensor.quant.per_channel and tensor.quant.scale.size:
        yield "SCALE", scalar(float(np.float32(tensor.scale)), "float")
        yield "ZERO_POINT", tensor.zero


def _functions(plan: Plan, name: str) -> Iterator[str]:
    up = name.upper()
    yield f"""/* One inference. Returns 0; 1 if arena is NULL, 2 if it is misaligned.
 * arena: {up}_ARENA_BYTES bytes at a multiple of {up}_ARENA_ALIGN, the caller's.
 * inputs, outputs: pointers to {up}_INPUT_COUNT and {up}_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output stays
 * there until the next. inputs or outputs as a whole may be NULL: all in place.
{_sharing(plan, up)} */
int {name}_run(void *arena, const void *const *inputs, void *const *outputs);
"""
    if plan.start:
        yield f"""/* Decodes weights into the arena, and sets the variables there to their first values: before the
 * first run, and to start anew. What outputs hold then is lost. */
void {name}_reset(void *arena);
"""
    elif plan.variables:
        yield f"""/* Sets the variables in the arena to their first values: before the first run, and to start anew. */
void {name}_reset(void *arena);
"""
    yield f"""/* The same over an arena of {name}_static.c; only a program that uses them pays for it. Not reentrant. */
int {name}_run_static(const void *const *inputs, void *const *outputs);
void *{name}_arena(void);
"""
    yield f"""/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char {name}_model_sha256[65];
"""


def _sharing(plan: Plan, up: str) -> str:
    """Lines of the comment that say whether other models may use the arena between two runs."""
    if not plan.lasting:
        return " * Nothing in the arena has to last from one run to the next: models may take turns in one arena."
    return f""" * The {up}_STATE_BYTES bytes of the arena from {up}_STATE_OFFSET on are the model's state: variables
 * and weights that the reset decoded. They have to last from run to run. While they matter, no other model may use the
 * arena, unless the caller copies them away after every run and back before the next, before inputs are written
 * in place."""


def static_source(plan: Plan, name: str, banner: str) -> str:
    """``<name>_static.c``: a static arena and the functions over it."""
    up = name.upper()
    size = f"{up}_ARENA_BYTES" if plan.arena_bytes else "1"
    return f"""{banner}
#include "{name}.h"

#include <stdalign.h>

alignas({up}_ARENA_ALIGN) static unsigned char {name}_static_arena[{size}];

void *{name}_arena(void) {{ return {name}_static_arena; }}

int {name}_run_static(const void *const *inputs, void *const *outputs) {{
    return {name}_run({name}_static_arena, inputs, outputs);
}}
"""
