"""Plan -> C: ``<name>.c`` with one function per layer, ``<name>_data.c`` with the constants, ``<name>.h`` for callers.

Nothing is planned here; the only choice is which layers share a body (``choice.py``). The text depends only on the
plan, the name and the tool's version: same model and options, same bytes.

Weights, biases, the multipliers of their scales, tables and the model's hash are only in ``<name>_data.c``. All else is
structure: the graph with its shapes, types, options and shared buffers, and scale and zero point of every tensor except
the weights of convolutions and fully connected layers. A model that is trained anew with the same structure changes
only that file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata

import numpy as np

from twinfer.aot.print import guard as guards
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.chain_tables import empty_layer
from twinfer.aot.print.check import HEADER, check_source
from twinfer.aot.print.data import Constants, data_header, data_source
from twinfer.aot.print.group import Group
from twinfer.aot.print.interface import API, Stack, header, sizes, static_source
from twinfer.aot.print.layer_functions import NONE_COMMON, Layers, closure, headers_of, kernel_counts
from twinfer.aot.print.literals import braced, check_name, comment
from twinfer.aot.print.place import hooked, place_header
from twinfer.aot.print.run import RunFunctions, reset_function
from twinfer.aot.print.run_layers import layers_source
from twinfer.aot.print.statements import Statements
from twinfer.aot.print.structure import number_of, structure
from twinfer.aot.print.table import Table
from twinfer.aot.print.threads import POOL, threads_source
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.options import Mode
from twinfer.runtime.plan.by_rows.schedule import straight
from twinfer.runtime.plan.choice import Policy, cold, default_policy, share_all, with_rest
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Chain
from twinfer.runtime.run.guard import spread
from twinfer.runtime.stages import tell

LOW_FIRST = """\
TW_NEED(TW_LOW_FIRST, "packed constants need the lowest byte of a word first: compile with --target generic");
"""

#: Of a model with floats.
EXACT_FLOATS = "TW_NEED_FLOATS;\n"


@cache
def version() -> str:
    """This tool's version, as installed."""
    try:
        return metadata.version("twinfer")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def banner_of(plan: Plan, name: str) -> str:
    """The first line of every emitted file: what made it, and for whom."""
    return f"/* {name}: made by twinfer {version()} for target {comment(_wanted(plan), 300)}. Do not edit. */"


def _wanted(plan: Plan) -> str:
    """Target and options in words."""
    options = plan.options
    words = [plan.target.name, *([] if options.mode == "compiled" else [options.mode])]
    words += [] if options.weights == "file" else [f"weights {options.weights}, decoded at the {options.decode}"]
    words += [] if options.memory == "auto" else [f"memory by {options.memory}"]
    words += [f"at most {options.ram} bytes of RAM"] if options.ram else []
    words += ["input by rows"] if options.input_rows else []
    words += ["input in place"] if options.input_in_place else []
    words += [f"{options.threads} threads"] if options.threads > 1 else []
    return ", ".join(words if options.optimize == "balanced" else [*words, f"for {options.optimize}"])


@dataclass(frozen=True)
class Project:
    """Emitted sources: ``code`` maps paths in the project's folder to texts, all except the constants' values.

    ``layers`` are the static C functions of ``plan.steps``, each called with the arena. In interpreted mode a program
    that calls them has to append ``wrappers``, which defines them, to ``<name>.c``. ``shared`` are the steps that call
    the shared instance of their kernel, ``instances`` those kernels. ``structure`` is what the code asks of constants.
    ``common`` are the files
    that several models share.
    """

    name: str
    plan: Plan
    code: Mapping[str, str]
    layers: tuple[str, ...]
    shared: frozenset[int]
    wrappers: str
    constants: Constants
    banner: str
    sha256: str
    structure: str
    stack: Stack | None = None
    instances: tuple[str, ...] = ()
    common: Mapping[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        return self.plan.options.mode

    def with_stack(self, stack: Stack | None) -> Project:
        """The same with the stack of a run, where it is known, in the header. No other file names it."""
        return replace(self, stack=stack, code={**self.code, **self._header(stack)})

    def _header(self, stack: Stack | None) -> dict[str, str]:
        return _header(self.plan, self.constants, self.banner, self.structure, stack)

    @property
    def files(self) -> dict[str, str]:
        """All sources."""
        alignment, structure = self.plan.target.constant_alignment, number_of(self.structure)
        data = data_source(self.constants, self.name, self.banner, self.sha256, alignment, structure)
        return {**self.code, **self.common, f"{self.name}_data.c": data}

    @property
    def weights(self) -> bytes:
        """The content of the file of weights, if they are no part of the program."""
        return self.constants.blob.content(number_of(self.structure)) if self.constants.blob else b""


def emit(
    plan: Plan, name: str, *, sha256: str = "", policy: Policy | None = None, group: Group | None = None
) -> Project:
    """The C sources of a plan, as its options say; every symbol and file name begins with ``name``.

    ``sha256`` is the model file's; ``policy`` says which layers of compiled code share kernels (None: the usual one);
    With ``guard`` the plan is spread out and every layer watched. ``group`` is what models share (None: it stands
    alone). In interpreted mode a plan with several arenas has functions that call the shared kernels, and no table, as
    that has bytes of one arena; so has one that reads its input in place. Raises InvalidArgumentError if ``name`` is
    no C identifier.
    """
    check_name(name)
    compiled, guard = plan.options.mode == "compiled", plan.options.guard
    by_table = not compiled and len(plan.arenas) == 1 and not plan.borrowed and plan.options.weights_as == "linked"
    plan = spread(plan) if guard else plan
    constants = Constants(plan, name)
    shared = ((policy or default_policy) if compiled else share_all)(plan) | with_rest(plan)
    common = group.symbols if group else NONE_COMMON
    steps = (
        _interpreted(plan, name, constants, common) if by_table else _compiled(plan, name, constants, shared, common)
    )
    if guard and plan.steps:
        text = f"{steps.text}\n{guards.tables(plan, name)}"
        steps = replace(steps, text=text, headers=(guards.HEADER, *steps.headers))
    banner, threaded = banner_of(plan, name), [POOL] * (plan.options.threads > 1)
    asked = structure(plan, constants, version())
    code = {
        **_header(plan, constants, banner, asked),
        f"{name}.c": _source(plan, name, constants, steps, banner, group),
        f"{name}_data.h": data_header(constants, name, banner, plan.target.constant_alignment),
        f"{name}_place.h": place_header(name, banner),
        f"{name}_layers.c": layers_source(plan, name, banner),
        f"{name}_static.c": static_source(plan, name, banner, group.name if group else None),
        f"{name}_check.c": check_source(constants, banner),
        **({f"{name}_threads.c": threads_source(name, banner)} if threaded else {}),
        **{f"kernels/{file}": text for file, text in closure([API, *steps.headers, HEADER, *threaded]).items()},
    }
    project = Project(name, plan, code, steps.layers, shared, steps.wrappers, constants, banner, sha256, asked)
    project = replace(project, instances=steps.instances, common=group.files if group else {})
    tell("C", "What the compiler prints.", plan, project)
    return project


def _header(
    plan: Plan, constants: Constants, banner: str, structure: str, stack: Stack | None = None
) -> dict[str, str]:
    macros = [*sizes(plan, constants, version(), stack), *([guards.MACRO] if plan.options.guard else [])]
    macros.append(("STRUCTURE", f"0x{number_of(structure):08X}u /* of the constants that the code is for */"))
    return {f"{constants.name}.h": header(plan, constants, banner, macros)}


@dataclass(frozen=True)
class _Steps:
    """All steps as C: definitions (``text``), how a layer is called, the kernel headers; the rest as in Project.

    With ``looped`` a call takes a row of the table, which may be an expression. ``start`` defines what comes before the
    first run, ``feed`` the chain that takes the rows of the input.
    """

    text: str
    call: Callable[[int | str], str]
    headers: tuple[str, ...]
    layers: tuple[str, ...]
    wrappers: str = ""
    looped: bool = False
    start: str = ""
    feed: str = ""
    instances: tuple[str, ...] = ()


def _compiled(plan: Plan, name: str, constants: Constants, shared: frozenset[int], common: Mapping[str, str]) -> _Steps:
    printer = Layers(plan, name, constants, shared, cold(plan), common)
    layers, memory = tuple(printer.printed()), Memory(plan)
    text = printer.preamble + "\n\n".join(layer.text for layer in layers) + ("\n" if layers else "")
    symbols = tuple(layer.symbol for layer in layers)
    wrappers = empty_layer(plan, name) if plan.chains else ""
    headers = (
        "core/tw.h",
        *(["run/chain.h"] if any(not straight(chain) for chain in plan.chains.values()) else []),
        *(["run/feed.h"] if plan.fed else []),
        *headers_of(kernel_counts(plan)),
    )
    return _Steps(
        text,
        lambda i: f"{symbols[int(i)]}({memory.arguments});",
        headers,
        symbols,
        wrappers,
        start=printer.start,
        feed=printer.feed,
        instances=printer.instances,
    )


def _interpreted(plan: Plan, name: str, constants: Constants, common: Mapping[str, str]) -> _Steps:
    table, memory = Table(plan, name, constants, common), Memory(plan)
    headers = (*table.headers, *headers_of(kernel_counts(plan)))
    blocks = ", ".join(region.value for region in memory.regions)
    wrappers = [
        f"static void {table.symbol}_{i}({memory.parameters}) {{ {table.symbol}({blocks}, {i}); }}"
        for i in range(len(table.loose))
    ]
    numbers = {step: i for i, step in enumerate(table.loose)}
    symbols = [f"{table.symbol}_{numbers[step]}" if step in numbers else table.chains[step] for step in plan.steps]
    wrappers += [empty_layer(plan, name)] if plan.chains else []
    return _Steps(
        table.text,
        lambda row: f"{table.symbol}({memory.arguments}, {row});",
        headers,
        tuple(symbols),
        "\n".join(wrappers),
        looped=True,
        start=table.start,
        feed=table.feed,
        instances=table.instances,
    )


def _layer(plan: Plan, name: str, call: str, i: int | str) -> list[str]:
    """The lines that run layer ``i``, under watch if the plan's options say so."""
    return [hooked(plan, name, i), *(guards.watched(plan, name, call, str(i)) if plan.options.guard else [call])]


def _statements(plan: Plan, name: str, steps: _Steps) -> Statements:
    """What prints the lines that run the program or a part of it."""
    loose = [step for step in plan.steps if not (steps.looped and step in plan.chains)]
    number = {step: i for i, step in enumerate(plan.steps)}
    row = {number[step]: i for i, step in enumerate(loose)}

    def run(numbers: range) -> Iterator[str]:
        first = row[numbers[0]]
        if not steps.looped or len(numbers) == 1:
            yield from (line for i in numbers for line in _layer(plan, name, steps.call(row[i]), i))
        else:
            i = f"i + {numbers[0] - first}" if numbers[0] > first else "i"
            head = f"for (int32_t i = {first}; i < {first + len(numbers)}; ++i)"
            yield from braced(_layer(plan, name, steps.call("i"), i), head)

    def chain(part: Chain) -> Iterator[str]:
        last = number[part.layers[-1].step]
        yield hooked(plan, name, last)
        yield f"{steps.layers[last]}({Memory(plan).arguments});"

    return Statements(number, run, Memory(plan).address_in_run, chain)


def has_floats(plan: Plan) -> bool:
    """Whether kernels compute with floats, or take some."""
    touched = any(tensor.dtype.kind == "f" for step in plan.steps for tensor in step.touched)
    return touched or any(constant.array.dtype.kind == "f" for constant in plan.constants)


def reads_words(plan: Plan) -> bool:
    """Whether kernels may read, as words, what lies in memory as bytes or halves.

    Those of constants in a block do, those for SMLAD and Helium, those of computers whose weights are words but decoded
    byte by byte, and copies of constants that lie as bytes to wider outputs.
    """
    coded = any(constant.role is Role.CODES for constant in plan.constants)
    widened = any(
        value.array.dtype == np.uint8 and any(y.dtype.itemsize > 1 for y in step.node.outputs)
        for step in plan.steps
        for value in step.read
        if isinstance(value, Constant) and {*step.kernels} & {"tw_copy", "tw_split", "tw_split_ragged"}
    )
    return (
        plan.options.weights_as != "linked"
        or plan.target.has("dsp")
        or (coded and not plan.target.has("words"))
        or widened
    )


def _source(plan: Plan, name: str, constants: Constants, steps: _Steps, banner: str, group: Group | None) -> str:
    kernels = [group.header] if group and group.symbols else []
    includes = [
        f"{name}.h",
        f"{name}_place.h",
        f"{name}_data.h",
        *kernels,
        *(f"kernels/{header}" for header in steps.headers),
    ]
    statements = _statements(plan, name, steps)
    layer = _layer(plan, name, steps.call("i"), "i") if steps.looped and plan.straight and not plan.chains else []
    parts = [
        banner,
        "\n".join(f'#include "{path}"' for path in dict.fromkeys(includes)),
        "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n",
        LOW_FIRST if reads_words(plan) else "",
        EXACT_FLOATS if has_floats(plan) else "",
        steps.text,
        steps.feed,
        *RunFunctions(plan, constants, statements.of, layer).printed(),
        steps.start,
        reset_function(plan, name) if plan.state_bytes else "",
    ]
    return "\n".join(part for part in parts if part)
