"""``<name>_test.c``: a program that runs a model on golden inputs and compares the outputs.

Floats are compared within ``TOLERANCE``: libraries differ in the last bits of exp or tanh and in a NaN's sign. All else
is compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from twinfer.aot.print.blocks import Memory, in_run
from twinfer.aot.print.emit import Project
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.literals import c_type, elements, wrapped
from twinfer.aot.print.slow import slow_memory
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.op import TOLERANCE
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import POISONS, poison
from twinfer.runtime.run.session import Session

#: The second way to run a model: over inputs in place or, if it takes them row by row, so.
_SECOND = ("in_place", "by_rows")

#: Runs of the self-test of a model with variables, without a reset between them.
SEQUENCE = 3
_EXACT = """
/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int NAME_test_differs(const char *what, int run, const void *got, const void *want, size_t bytes,
                             size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("NAME: %s: run %d, element %lu, byte %lu: got 0x%02x, want 0x%02x\\n", what, run,
                   (unsigned long)(i / item), (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}
"""
_CLOSE = """
/* Compares floats, each within TOLERANCE of the largest magnitude there is, and says where the first is that differs by
 * more: 1 if there is one, else 0. One NaN is as good as another. */
static int NAME_test_far(const char *what, int run, const void *got, const float *want, size_t bytes) {
    float most = 0.0f;
    for (size_t i = 0; i < bytes / sizeof *want; ++i) {
        const float size = want[i] < 0.0f ? -want[i] : want[i];
        if (size > most && size <= FLT_MAX) most = size;
    }
    for (size_t i = 0; i < bytes / sizeof *want; ++i) {
        const float w = want[i];
        float g;
        memcpy(&g, (const unsigned char *)got + i * sizeof g, sizeof g);
        if (g == w || (g != g && w != w) || (g > w ? g - w : w - g) <= TOLERANCEf * most) continue;
        printf("NAME: %s: run %d, element %lu: got %.9g, want %.9g\\n", what, run, (unsigned long)i, (double)g,
               (double)w);
        return 1;
    }
    return 0;
}
"""


@dataclass(frozen=True)
class Vector:
    """One run of the self-test: what goes in and what must come out."""

    inputs: Sequence[Array]
    outputs: Sequence[Array]


def vectors(plan: Plan, inputs: Sequence[Array]) -> list[Vector]:
    """Runs of the interpreter, from an arena full of rubbish: nothing may lean on zeroed memory.

    One run, or several of a model with variables: each goes on from the one before, the later ones on random inputs.
    """
    session = Session(plan)
    later = range(1, SEQUENCE if plan.variables else 1)
    return [_vector(session, fed) for fed in (inputs, *(random_inputs(plan.graph, seed) for seed in later))]


def _vector(session: Session, inputs: Sequence[Array]) -> Vector:
    poison(session)
    session.feed(inputs)
    session.run()
    return Vector(inputs, session.outputs())


def test_source(project: Project, vectors: Sequence[Vector]) -> str:
    """The self-test: all runs over the caller's buffers, all again in place or by rows, and arenas to be refused."""
    name, graph = project.name, project.plan.graph
    fed = [i for i, tensor in enumerate(graph.inputs) if tensor.data is None]
    second = _by_rows(project, fed[0]) if project.plan.fed else _in_place(project, fed)
    parts = [
        project.banner,
        f'#include "{name}.h"\n{_data(project)}',
        "#include <float.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n",
        *([slow_memory(name)] if project.constants.paged else []),
        *(_array(f"{name}_test_input_{i}", graph.inputs[i], [v.inputs[i] for v in vectors]) for i in fed),
        *(_array(f"{name}_test_want_{i}", t, [v.outputs[i] for v in vectors]) for i, t in enumerate(graph.outputs)),
        *(_buffer(f"{name}_test_got_{i}", t) for i, t in enumerate(graph.outputs)),
        *InputInPlace(project.plan, name).memory(),
        *_comparisons(graph.outputs, name),
        *_function(project, "buffers", POISONS[0], _over_buffers(project, fed), len(vectors)),
        *_function(project, _SECOND[project.plan.fed is not None], POISONS[1], second, len(vectors)),
        "int main(void) {",
        *_main(project),
        "}",
        "",
    ]
    return "\n".join(parts)


def _data(project: Project) -> str:
    """The header of weights that are no part of the program."""
    return f'#include "{project.name}_data.h"\n' if project.constants.blob else ""


def _address(name: str, region: Region) -> str:
    """A block in a function that runs the model."""
    return f"{name}_weights" if region == Region.WEIGHTS else in_run(region)


def _array(symbol: str, tensor: Tensor, values: Sequence[Array]) -> str:
    """An array with one row per run."""
    rows = [elements(value) or ["0"] for value in values]
    text = ",\n".join(f"    {{\n{wrapped(row, ' ' * 8)},\n    }}" for row in rows)
    return f"static const {c_type(tensor.dtype)} {symbol}[{len(rows)}][{len(rows[0])}] = {{\n{text},\n}};"


def _buffer(symbol: str, tensor: Tensor) -> str:
    return f"static {c_type(tensor.dtype)} {symbol}[{tensor.size or 1}];"


def _comparisons(outputs: Sequence[Tensor], name: str) -> Iterator[str]:
    """The functions that compare, only those that the outputs need: compilers warn of unused ones."""
    types = {_is_float(tensor) for tensor in outputs}
    if False in types:
        yield _EXACT.replace("NAME", name)
    if True in types:
        yield _CLOSE.replace("NAME", name).replace("TOLERANCE", str(TOLERANCE))


def _is_float(tensor: Tensor) -> bool:
    return c_type(tensor.dtype) == "float"


def _function(project: Project, what: str, rubbish: int, run: Iterable[str], runs: int) -> Iterator[str]:
    """A C function that does all runs, from an arena full of ``rubbish``, and returns whether one was wrong."""
    name, plan = project.name, project.plan
    yield f"static int {name}_test_{what}(void) {{"
    memory = Memory(plan)
    yield from _blocks(name, plan.arenas)
    yield "    int bad = 0;"
    if plan.state_bytes:
        yield from _blocks(name, (Region.STATE,))
        yield from (f"    memset({in_run(r)}, {rubbish:#x}, {name.upper()}_{r.name}_BYTES);" for r in memory.blocks)
        yield f"    {name}_reset({', '.join(_address(name, region) for region in memory.start_regions)});"
    yield f"    for (int run = 0; run < {runs}; ++run) {{"
    for region in plan.arenas:
        size = f"{name.upper()}_{region.name}_BYTES"
        yield f"        memset({in_run(region)}, {rubbish:#x}, {size}); /* what a run before has left */"
    yield from (f"        {line}" for line in run)
    yield from ("    }", "    return bad;", "}", "")


def _blocks(name: str, regions: Iterable[Region]) -> Iterator[str]:
    """Static memory as variables."""
    for region in regions:
        yield f"    unsigned char *const {in_run(region)} = (unsigned char *){name}_{region.value}();"


def _over_buffers(project: Project, fed: Sequence[int]) -> Iterator[str]:
    name, graph, in_place = project.name, project.plan.graph, InputInPlace(project.plan, project.name)
    yield from in_place.filled()
    outputs = [f"{name}_test_got_{i}" for i in range(len(graph.outputs))]
    yield f"const void *const inputs[] = {{{in_place.inputs(fed)}}};"
    yield f"void *const outputs[] = {{{', '.join(outputs or ['NULL'])}}};"
    yield from (f"memset({got}, {POISONS[0]:#x}, sizeof {got});" for got in outputs)
    if project.constants.paged:
        yield f"{name}_fetched = 0;"
    given = (*Memory(project.plan).blocks, *Memory(project.plan).weights)
    yield f"bad |= {name}_run({', '.join(_address(name, region) for region in given)}, inputs, outputs) != TW_OK;"
    yield from in_place.unchanged()
    if project.constants.paged and project.plan.straight:
        yield f"bad |= {name}_fetched != {name.upper()}_FETCHED_BYTES;"
    for i in range(len(graph.outputs)):
        yield _compare(project, i, f"{name}_test_got_{i}", "")


def _in_place(project: Project, fed: Sequence[int]) -> Iterator[str]:
    name, up, in_place = project.name, project.name.upper(), InputInPlace(project.plan, project.name)
    yield from in_place.filled()
    for i in fed if project.plan.borrowed is None else ():
        at = Memory(project.plan).block(project.plan.graph.inputs[i])
        yield f"memcpy({at} + {up}_INPUT_{i}_OFFSET, {name}_test_input_{i}[run], {up}_INPUT_{i}_BYTES);"
    if project.plan.borrowed:
        yield f"const void *const inputs[] = {{{in_place.inputs(fed)}}};"
    weights = f"{name}_weights, " if Memory(project.plan).weights else ""
    yield f"bad |= {name}_run_static({weights}{'inputs' if project.plan.borrowed else 'NULL'}, NULL) != TW_OK;"
    yield from in_place.unchanged()
    for i, tensor in enumerate(project.plan.graph.outputs):
        if tensor.data is None:
            at = Memory(project.plan).block(tensor)
            yield _compare(project, i, f"{at} + {up}_OUTPUT_{i}_OFFSET", " in place")


def _by_rows(project: Project, source: int) -> Iterator[str]:
    """Row by row: too early and too late calls must be told."""
    name, up, memory = project.name, project.name.upper(), Memory(project.plan)
    outputs = ", ".join(f"{name}_test_got_{i}" for i in range(len(project.plan.graph.outputs)))
    yield f"const unsigned char *rows = (const unsigned char *){name}_test_input_{source}[run];"
    yield f"void *const outputs[] = {{{outputs or 'NULL'}}};"
    base = Feeding(project.plan, name).base
    yield f"bad |= {name}_push_row({base}, rows) != -TW_NOT_BEGUN;"
    yield f"bad |= {name}_finish({memory.given}, outputs) != TW_NOT_BEGUN;"
    yield f"bad |= {name}_begin({base}) != TW_OK;"
    yield f"bad |= {name}_finish({memory.given}, outputs) != TW_NO_INPUT;"
    yield f"bad |= {name}_push_row({base} + 1, rows) != -TW_MISALIGNED;"
    yield f"bad |= {name}_push_row({base}, NULL) != -TW_NO_MEMORY;"
    yield f"for (int row = 1; row <= {up}_INPUT_{source}_ROWS; ++row, rows += {up}_INPUT_{source}_ROW_BYTES)"
    yield f"    bad |= {name}_push_row({base}, rows) != {up}_INPUT_{source}_ROWS - row;"
    yield f"bad |= {name}_push_row({base}, {base}) != -TW_NO_INPUT;"
    yield f"bad |= {name}_finish({memory.given}, outputs) != TW_OK;"
    for i in range(len(project.plan.graph.outputs)):
        yield _compare(project, i, f"{name}_test_got_{i}", " by rows")


def _compare(project: Project, i: int, got: str, where: str) -> str:
    name, want, size = project.name, f"{project.name}_test_want_{i}", f"{project.name.upper()}_OUTPUT_{i}_BYTES"
    if _is_float(project.plan.graph.outputs[i]):
        check, sizes = f"{name}_test_far", size
    else:
        check, sizes = f"{name}_test_differs", f"{size}, sizeof **{want}"
    return f'bad |= {check}("output {i}{where}", run, {got}, {want}[run],\n                {sizes});'


def _main(project: Project) -> Iterator[str]:
    name = project.name
    first, *others = Memory(project.plan).blocks
    yield from _blocks(name, [first])
    rest = "".join(f", {name}_{region.value}()" for region in others)
    blob = project.constants.blob
    rest += f", {name}_weights" if Memory(project.plan).weights else ""
    yield f"    int bad = {name}_run(NULL{rest}, NULL, NULL) != TW_NO_MEMORY;"
    yield f"    bad |= {name}_run({in_run(first)} + 1{rest}, NULL, NULL) != TW_MISALIGNED;"
    yield from InputInPlace(project.plan, name).refused(f"{in_run(first)}{rest}")
    given = in_run(first) if project.constants.paged else f"{name}_weights" if blob else ""
    yield f"    bad |= {name}_check({given}) != TW_OK;"
    yield f"    bad |= {name}_test_buffers();"
    yield f"    bad |= {name}_test_{_SECOND[project.plan.fed is not None]}();"
    yield f'    printf("{name}: %s\\n", bad ? "FAILED" : "ok");'
    yield "    return bad != 0;"


class InputInPlace:
    """The C of a self-test about an input that is read in place, whose memory must stay as it is; else nothing."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan, self.name = plan, name
        self._place = None if plan.borrowed is None else plan.graph.inputs.index(plan.borrowed)
        self._kept = f"{name}_test_kept"
        self._bytes, self._align = (f"{name.upper()}_INPUT_{self._place}_{what}" for what in ("BYTES", "ALIGN"))

    def memory(self) -> Iterator[str]:
        """Its memory, with a byte more."""
        if self._place is not None:
            yield f"static _Alignas({self._align}) unsigned char {self._kept}[{self._bytes} + 1];"

    def filled(self) -> Iterator[str]:
        """The statements that fill it for a run."""
        if self._place is not None:
            yield f"memcpy({self._kept}, {self.name}_test_input_{self._place}[run], {self._bytes});"

    def unchanged(self) -> Iterator[str]:
        """The check that nothing has written there."""
        if self._place is not None:
            yield f"bad |= memcmp({self._kept}, {self.name}_test_input_{self._place}[run], {self._bytes}) != 0;"

    def inputs(self, fed: Sequence[int]) -> str:
        """What a run gets, in C; ``fed`` are the inputs that are no constants."""
        at = {i: f"{self.name}_test_input_{i}[run]" for i in fed}
        at |= {} if self._place is None else {self._place: self._kept}
        return ", ".join(at.get(i, "NULL") for i in range(len(self.plan.graph.inputs))) or "NULL"

    def refused(self, blocks: str) -> Iterator[str]:
        """The checks that a run over ``blocks`` refuses to do without it, and one that is misaligned."""
        if self._place is None:
            return
        odd = [f"{self._kept} + 1" if i == self._place else "NULL" for i in range(len(self.plan.graph.inputs))]
        yield f"    const void *const odd[] = {{{', '.join(odd)}}};"
        yield f"    bad |= {self.name}_run({blocks}, NULL, NULL) != TW_NO_INPUT;"
        yield f"    if ({self._align} > 1) bad |= {self.name}_run({blocks}, odd, NULL) != TW_MISALIGNED;"
