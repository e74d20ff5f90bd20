"""``<name>.h``, which callers include, and ``<name>_static.c``, the variant that owns its arena."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinfer.aot.print import run_layers
from twinfer.aot.print.blob import HEAD, ends_of, quantized
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.check import declaration
from twinfer.aot.print.data import Constants
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.literals import WIDTH, block_comment, c_type, comment, scalar, wrapped
from twinfer.aot.print.run import block_parameter
from twinfer.aot.print.threads import ABOUT, DECLARED
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.pages import fetches_of
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.stream import METADATA, steps_of

#: What the headers of all models have in common.
API = "run/api.h"


@dataclass(frozen=True)
class Stack:
    """The most bytes of stack that a call needs, without its caller's; ``built``: the compiler, and its flags.

    ``others`` are those of builds that ``_BUILDS`` knows.
    """

    nbytes: int
    built: tuple[str, str] | None = None
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def about(self) -> list[str]:
        """What it is, in lines of a comment."""
        most = "the most that a call needs; interrupts come on top"
        if not self.built:
            return [most]
        compiler, flags = self.built
        level = _BUILDS[""] if self.others else "at the level of its Makefile"
        return [f"{most},", f"if {compiler} builds it with", flags, f"{level}; make stack tells that of other builds"]


#: Where a bound of the stack holds, by the end of the macro's name.
_BUILDS = {
    "": "at -O2, -O3 or -Os, with -flto or without",
    "NO_ASM": "the same with -DTW_NO_ASM",
    "OG": "at -Og, with -DTW_NO_ASM or without",
    "O0": "at -O0",
}


def header(plan: Plan, constants: Constants, banner: str, sizes: Iterable[tuple[str, object]]) -> str:
    """The public header: sizes, offsets, shapes, types and quantisation as macros, then the functions."""
    name = constants.name
    up = name.upper()
    lines = [banner, f"#ifndef {up}_H", f"#define {up}_H", f'#include "kernels/{API}"', ""]
    lines += ["#include <stdalign.h>", "#include <stdint.h>", ""]
    lines += [f"#define {up}_{key} {value}" for key, value in sizes]
    for kind, tensors in (("INPUT", plan.graph.inputs), ("OUTPUT", plan.graph.outputs)):
        for i, tensor in enumerate(tensors):
            place = Memory(plan).span(tensor) if tensor.data is None else "a constant, not in the arena"
            lines += ["", block_comment([f'{kind.capitalize()} {i}: "{comment(tensor.name)}" {tensor.type}, {place}'])]
            lines += [f"#define {up}_{kind}_{i}_{key} {value}" for key, value in _tensor(plan, tensor)]
    lines += [
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *_functions(plan, constants),
        *quantizers(plan, name),
    ]
    lines += ["#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def sizes(plan: Plan, constants: Constants, version: str, stack: Stack | None) -> Iterator[tuple[str, object]]:
    """Macros of the whole model; ``stack`` is None where it is not known."""
    yield "TWINFER_VERSION", f'"{version}"'
    memory = Memory(plan)
    yield from ((f"{region.name}_BYTES", memory.nbytes(region)) for region in plan.arenas)
    yield "ARENA_ALIGN", plan.target.alignment
    yield "LOWER_BOUND_BYTES", f"{plan.lower_bound_bytes} /* no placement of these tensors needs less */"
    yield "STATE_BYTES", f"{memory.nbytes(Region.STATE)} /* that last from run to run */"
    if plan.state_bytes and not plan.target.banks:
        yield "MEMORY_BYTES", f"{memory.in_ram} /* of one buffer for both */"
        yield "STATE_OFFSET", f"{memory.nbytes(Region.ARENA)} /* in that buffer, the arena before it */"
    if stack is not None:
        yield "STACK_BYTES", f"{stack.nbytes} {block_comment(stack.about)}"
        yield from ((f"STACK_BYTES_{key}", f"{nbytes} /* {_BUILDS[key]} */") for key, nbytes in stack.others.items())
    if constants.blob:
        yield "WEIGHTS_BYTES", constants.blob.nbytes
        if plan.options.weights_as == "blob":
            yield "WEIGHTS_ALIGN", constants.blob.alignment
        else:
            sizes = [fetch.nbytes for fetch in fetches_of(plan.program)]
            yield (
                "HEAD_BYTES",
                f"{HEAD + 8 * len(constants.blob.ends)} /* with the scales of inputs and outputs */",
            )
            yield "PAGE_BYTES", f"{max(sizes, default=4)} /* the most that is fetched at a time */"
            if plan.straight:
                yield "FETCHED_BYTES", f"{sum(sizes)} /* in a run */"
    yield "CONSTANT_BYTES", f"{constants.nbytes} /* weights and everything else in the constants' file, read only */"
    yield "MACS", f"{plan.macs} /* multiply-accumulates of a run */"
    yield "LAYER_COUNT", len(plan.steps)
    if plan.options.threads > 1:
        yield "THREADS", f"{plan.options.threads} /* over which large layers are split */"
    yield "INPUT_COUNT", len(plan.graph.inputs)
    yield "OUTPUT_COUNT", len(plan.graph.outputs)


def _tensor(plan: Plan, tensor: Tensor) -> Iterator[tuple[str, object]]:
    if tensor is plan.borrowed:
        yield "IN_PLACE", "1 /* it is read where it is, and never written */"
        yield "ALIGN", max(plan.target.block_alignment, tensor.dtype.itemsize)
    elif tensor in plan.places:
        yield "OFFSET", plan.places[tensor].offset
    yield "BYTES", tensor.nbytes
    yield "TYPE", c_type(tensor.dtype)
    yield "SIZE", tensor.size
    yield "RANK", len(tensor.shape)
    if tensor.shape:
        yield "SHAPE", "{" + wrapped([str(d) for d in tensor.shape], "") + "}"
    if plan.fed and plan.fed.feed and tensor is plan.fed.feed.out:
        yield "ROWS", f"{plan.fed.feed.wanted} /* that are wanted, from the first on */"
        yield "ROW_BYTES", tensor.nbytes // plan.fed.feed.height
    in_blob = plan.options.weights_as != "linked" and quantized(tensor)
    if tensor.quant is not None and not tensor.quant.per_channel and tensor.quant.scale.size and not in_blob:
        yield "SCALE", scalar(float(np.float32(tensor.scale)), "float")
        yield "ZERO_POINT", tensor.zero


def _of_run(plan: Plan, name: str) -> str:
    """The declaration of the function for one inference."""
    up, memory = name.upper(), Memory(plan)
    given = (*memory.blocks, *memory.weights)
    blocks = "".join(f"{block_parameter(r)}, " for r in given)
    refused = "one of the blocks" if plan.target.banks else " or ".join(r.value for r in given)
    number = Feeding(plan, name).place if plan.fed else None
    if plan.borrowed:
        number = plan.graph.inputs.index(plan.borrowed)
    missing = "" if number is None else f", TW_NO_INPUT without input {number}"
    about = [
        "One inference. Returns a tw_status: TW_OK, TW_NO_MEMORY if "
        f"{refused} is NULL, TW_MISALIGNED{missing}, or TW_CANCELLED by the hook."
    ]
    for arena in plan.arenas:
        about.append(f"{arena.value}: {up}_{arena.name}_BYTES bytes at a multiple of {up}_ARENA_ALIGN, the caller's.")
    which, them = ("these", "them") if plan.target.banks else ("it", "one arena")
    about[-1] += f" Nothing in {which} has to last from one run to the next: models may take turns in {them}."
    if plan.state_bytes:
        own = "bytes, aligned likewise, that hold what the model keeps from run to run: no other model may write them."
        about.append(f"state: {up}_STATE_BYTES {own}")
        if not plan.target.banks:
            buffer = f"One buffer of {up}_MEMORY_BYTES bytes has room for both"
            about[-1] += f" {buffer}, the state at {up}_STATE_OFFSET."
    if memory.weights:
        about.append(
            f"weights: {up}_WEIGHTS_BYTES bytes at a multiple of {up}_WEIGHTS_ALIGN, wherever they lie: the content of "
            f"{name}_weights.bin, or of a file that twinfer weights has made for this code. {name}_check says whether "
            "they are whole and for this code; a run does not look."
        )
    if plan.borrowed:
        about.append(
            f"Input {number} is read where it is, at a multiple of {up}_INPUT_{number}_ALIGN, and never written."
        )
    ends = [t for t in (*plan.graph.inputs, *plan.graph.outputs) if t in plan.places and t is not plan.borrowed]
    home = "the arena"
    if plan.target.banks:
        home = "its block (above)"
    elif any(plan.places[t].region == Region.STATE for t in ends):  # an input that the model writes, or keeps
        home = "arena or state (see above)"
    if plan.fed or plan.borrowed:
        when = "an output stays there until the next run. outputs as a whole may be NULL: all in place."
    else:
        when = (
            "an input was written there before the run, an output stays there until the next. inputs or outputs as a "
            "whole may be NULL: all in place."
        )
    about.append(
        f"inputs, outputs: pointers to {up}_INPUT_COUNT and {up}_OUTPUT_COUNT values, of any alignment. A value that "
        f"is NULL, or that is {home} plus its _OFFSET, is in place: {when}"
    )
    return _declared(about, f"int {name}_run({blocks}const void *const *inputs, void *const *outputs);")


def _functions(plan: Plan, constants: Constants) -> Iterator[str]:
    """The declarations of the functions, each behind a comment on it."""
    name = constants.name
    regions, weights = Memory(plan).blocks, Memory(plan).weights
    blocks = "".join(f"void *{r.value}, " for r in regions)
    yield from _types(plan, name)
    yield _of_run(plan, name)
    yield from _of_run_1(plan, name)
    if plan.fed:
        feed = Feeding(plan, name)
        own_arena, rows = feed.region.value, f"{name.upper()}_INPUT_{feed.place}_ROWS"
        about = [
            f"The same with input {feed.place} row by row: begin, push_row for the first {rows} rows, "
            f"then finish. Between these calls nothing else may write the {own_arena}.",
            "begin returns what a run does; so does finish, but TW_NO_INPUT while rows are wanted, and TW_NOT_BEGUN "
            "without a begin before. push_row returns how many rows are still wanted. Less than 0 is an error, which "
            f"changes nothing: -TW_NO_MEMORY if {own_arena} or row is NULL, -TW_MISALIGNED, -TW_NO_INPUT if no row is "
            "wanted any more, -TW_NOT_BEGUN without a begin before, -TW_CANCELLED.",
        ]
        yield _declared(
            about,
            f"int {name}_begin(void *{own_arena});",
            f"int32_t {name}_push_row(void *{own_arena}, const void *row);",
            f"int {name}_finish({blocks}void *const *outputs);",
        )
    if plan.options.weights_as == "paged":
        yield _declared(
            [
                f"Yours to define. {name}_fetch brings bytes of {name}_weights.bin, from byte from on, to to, and may "
                f"return before they are there; {name}_wait returns when they are. Between the two nothing else is "
                "fetched, and the run touches none of these bytes."
            ],
            f"void {name}_fetch(void *to, uint32_t from, uint32_t bytes);",
            f"void {name}_wait(void);",
        )
    if plan.state_bytes:
        yield _of_reset(plan, name)
    if plan.state_bytes and len(plan.graph.inputs) == len(plan.graph.outputs) == 1:
        yield _of_push(plan, name)
    if plan.options.threads > 1:
        told = ABOUT.replace("NAME_THREADS", f"{name.upper()}_THREADS").replace("NAME", name)
        yield _declared([told], DECLARED.replace("NAME", name))
    yield _of_run_layers(plan, name)
    if plan.steps:
        about = [f"Every layer, in {name}_layers.c; only a program that uses it pays for it."]
        yield _declared(about, f"extern const tw_layer {name}_layers[{name.upper()}_LAYER_COUNT];")
    yield _declared(
        [f"The same over memory of {name}_static.c; only a program that uses them pays for it. Not reentrant."],
        f"int {name}_run_static({_taken(weights)}const void *const *inputs, void *const *outputs);",
        *(f"void *{name}_{region.value}(void);" for region in regions),
    )
    looks, declared = declaration(constants)
    yield _declared([looks], declared)
    about = ["SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights."]
    yield _declared(about, f"extern const char {name}_model_sha256[65];")


def _types(plan: Plan, name: str) -> Iterator[str]:
    """Types for the blocks of memory, aligned and as large as they must be."""
    up = name.upper()
    lines = [
        f"typedef struct {{\n    alignas({up}_ARENA_ALIGN) unsigned char bytes[{up}_{region.name}_BYTES];\n}} "
        f"{name}_{region.value}_t;"
        for region in Memory(plan).blocks
    ]
    yield _declared(["Memory for a run."], *lines)


def one_to_one(plan: Plan) -> bool:
    """Whether the model has one input that is fed, and one output, each of at least one element."""
    ends = (*plan.graph.inputs, *plan.graph.outputs)
    single = len(plan.graph.inputs) == len(plan.graph.outputs) == 1
    return single and plan.graph.inputs[0].data is None and all(tensor.size for tensor in ends)


def _of_run_1(plan: Plan, name: str) -> Iterator[str]:
    """The function for one inference of a model with one input and one output, with their types."""
    if not one_to_one(plan):
        return
    (x,), (y,) = plan.graph.inputs, plan.graph.outputs
    up, blocks, weights = name.upper(), [region.value for region in Memory(plan).blocks], Memory(plan).weights
    taken = [*(f"{name}_{block}_t *{block}" for block in blocks), *map(block_parameter, weights)]
    sizes = [f"const {c_type(x.dtype)} in[{up}_INPUT_0_SIZE]", f"{c_type(y.dtype)} out[{up}_OUTPUT_0_SIZE]"]
    head = f"static inline int {name}_run_1("
    yield f"""/* The same with types, of a model with one input and one output. */
{_wrapped(head, [*taken, *sizes])} {{
    const void *const inputs[] = {{in}};
    void *const outputs[] = {{out}};
    return {name}_run({", ".join([*blocks, *(region.value for region in weights)])}, inputs, outputs);
}}
"""


def _wrapped(head: str, parameters: Sequence[str]) -> str:
    """The head of a function: on one line if that fits, else with a line for each parameter."""
    line = f"{head}{', '.join(parameters)})"
    if len(line) + 2 <= WIDTH:
        return line
    below = ",\n" + " " * len(head)
    return f"{head}{below.join(parameters)})"


def _of_run_layers(plan: Plan, name: str) -> str:
    """The declaration of the function for some layers, with what must last between its calls."""
    blocks = _taken([*Memory(plan).blocks, *Memory(plan).weights])
    parameters = f"{blocks}{run_layers.more(plan).removeprefix(', ')}"
    up = name.upper()
    inputs = (
        "All rows of the input were pushed before." if plan.fed else f"Inputs lie at {up}_INPUT_0_OFFSET and so on."
    )
    if plan.borrowed:
        inputs = "in is the input in place, the same in all calls."
    about = [
        f"Layers from to before to, in order; {name}.c has it with -D{run_layers.MACRO}. All layers, from 0 to "
        f"{up}_LAYER_COUNT, are a run; between the calls of one run nothing else may write the memory given. {inputs} "
        "Outputs stay in place. Layers that run together, row by row or in a branch or loop, all run with the last of "
        "them. Returns what a run does, or TW_NO_LAYER.",
    ]
    return _declared(about, f"int {name}_run_layers({parameters});")


def _taken(regions: Iterable[Region]) -> str:
    """Blocks as the first parameters of a function."""
    return "".join(f"{block_parameter(region)}, " for region in regions)


def _declared(about: Sequence[str], *declarations: str) -> str:
    """Declarations behind a comment, whose paragraphs each begin a line."""
    lines = [
        line
        for paragraph in about
        for line in textwrap.wrap(paragraph, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    ]
    return "\n".join([block_comment(lines), *declarations, ""])


def _of_reset(plan: Plan, name: str) -> str:
    """The declaration of the function that begins anew."""
    regions = Memory(plan).start_regions
    moved = [region for region in regions if region != Region.WEIGHTS]
    does = ["sets variables to their first values"] * bool(plan.variables) + ["decodes weights"] * bool(plan.decodes)
    text = " and ".join(does)
    lost = " What outputs hold in the arena is lost." if len(moved) > 1 else ""
    needed = {1: "The block", 2: "Both blocks"}.get(len(regions), "All blocks")
    about = f"{text[0].upper()}{text[1:]}: before the first run, and to start anew.{lost} {needed} must be there."
    return _declared([about], f"void {name}_reset({', '.join(map(block_parameter, regions))});")


def _of_push(plan: Plan, name: str) -> str:
    """The function for one step of a stream, of a model with one input and one output."""
    first = steps_of(plan.graph).first if METADATA in plan.graph.metadata else 1
    steps = f"#define {name.upper()}_STREAM_STEPS {first}\n" if first > 1 else ""
    text = ["One step of a stream: rows are the next of input 0, out gets output 0. Returns what the run does."]
    text += ["No window is full before the _STREAM_STEPS-th step: ignore out until then."] if first > 1 else []
    given = (*Memory(plan).blocks, *Memory(plan).weights)
    return f"""{steps}{block_comment(text)}
static inline int {name}_push({_taken(given)}const void *rows, void *out) {{
    const void *const inputs[] = {{rows}};
    void *const outputs[] = {{out}};
    return {name}_run({", ".join(block.value for block in given)}, inputs, outputs);
}}
"""


def static_source(plan: Plan, name: str, banner: str, group: str | None = None) -> str:
    """``<name>_static.c``: static memory and the functions over it; the arena is that of the group, if there is one."""
    up, regions = name.upper(), Memory(plan).blocks
    own = [region for region in regions if not (group and region == Region.ARENA)]
    places = {r: f"&{name}_static_{r.value}" if r in own else f"{group}_arena()" for r in regions}
    blocks = "\n".join(
        f"static {_section(up, r)} {name}_{r.value}_t {place.removeprefix('&')};"
        for r, place in places.items()
        if r in own
    )
    sections = _SECTIONS.replace("NAME", up) if plan.target.banks else ""
    getters = "\n".join(f"void *{name}_{r.value}(void) {{ return {place}; }}" for r, place in places.items())
    shared = f'#include "{group}.h"\n' if group else ""
    weights = Memory(plan).weights
    arguments = [*places.values(), *(region.value for region in weights)]
    return f"""{banner}
#include "{name}.h"
#include "{name}_place.h"
{shared}
{sections}{blocks}

{getters}

int {name}_run_static({_taken(weights)}const void *const *inputs, void *const *outputs) {{
    return {name}_run({"".join(f"{place}, " for place in arguments)}inputs, outputs);
}}
"""


#: Of a target with several memories: what puts an array into one of them.
_SECTIONS = """/* Each arena has a section of its own: the linker script says in which memory it lies. */
#ifdef __ELF__
#define NAME_IN(name) __attribute__((section(name)))
#else
#define NAME_IN(name)
#endif

"""


def _section(up: str, region: Region) -> str:
    if region.bank:
        return f'{up}_IN(".{region.value}")'
    return f"{up}_SECTION_{'STATE' if region == Region.STATE else 'ARENA'}"


# -- real values -------------------------------------------------------------------------------------------------------


_SATURATE = """/* scaled + zero, rounded half away from zero and saturated to [low, high]; NaN gives low. */
static inline int32_t NAME_saturate(float scaled, int32_t zero, int32_t low, int32_t high) {
    int32_t whole;
    float rest;
    if (!(scaled > (float)(low - zero))) return low;
    if (scaled >= (float)(high - zero)) return high;
    whole = (int32_t)scaled;
    rest = scaled - (float)whole; /* exact, unlike scaled + 0.5 */
    return zero + whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}
"""


def quantizers(plan: Plan, name: str) -> Iterator[str]:
    """Functions that quantise real values of inputs and outputs, and dequantise; none if these are not quantised."""
    pairs = list(_pairs(plan, name))
    if pairs:
        yield _SATURATE.replace("NAME", name)
        yield "/* One value, by its tensor's scale and zero point; what dequantize gives is quantized to the same. */"
        if plan.options.weights_as == "paged":
            yield "/* Of the weights the first HEAD_BYTES are enough. */"
        yield from pairs


def _pairs(plan: Plan, name: str) -> Iterator[str]:
    for kind, tensors in (("input", plan.graph.inputs), ("output", plan.graph.outputs)):
        for i, tensor in enumerate(tensors):
            if quantized(tensor):
                at = ends_of(plan)[tensor] // 4 if plan.options.weights_as != "linked" else None
                yield _pair(name, f"{kind}_{i}", c_type(tensor.dtype), at)


def _pair(name: str, place: str, type: str, at: int | None) -> str:
    """The functions of one tensor; its scale is a macro, or word ``at`` of the weights."""
    up, limit = f"{name}_{place}".upper(), type.removesuffix("_t").upper()
    low = "0" if type.startswith("u") else f"{limit}_MIN"
    scale, zero, given = f"{up}_SCALE", f"{up}_ZERO_POINT", ""
    if at is not None:
        scale, zero = f"((const float *)weights)[{at}]", f"((const int32_t *)weights)[{at + 1}]"
        given = "const void *weights, "
    return f"""static inline {type} {name}_quantize_{place}({given}float real) {{
    return ({type}){name}_saturate(real / {scale}, {zero}, {low}, {limit}_MAX);
}}
static inline float {name}_dequantize_{place}({given}{type} value) {{
    return (float)(value - ({zero})) * {scale};
}}
"""
