"""``<name>_test.c``: a program that runs a model on golden inputs and compares every byte of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from twinfer.aot.emit import Project
from twinfer.aot.literals import c_type, elements, wrapped
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array
from twinfer.runtime.plan import Plan
from twinfer.runtime.session import Session

_COMPARE = """
/* Compares bytes and says where the first difference is: 1 if there is one, else 0. */
static int NAME_test_differs(const char *what, const void *got, const void *want, size_t bytes, size_t item) {
    for (size_t i = 0; i < bytes; ++i) {
        const unsigned g = ((const unsigned char *)got)[i];
        const unsigned w = ((const unsigned char *)want)[i];
        if (g != w) {
            printf("NAME: %s: element %lu, byte %lu: got 0x%02x, want 0x%02x\\n", what, (unsigned long)(i / item),
                   (unsigned long)(i % item), g, w);
            return 1;
        }
    }
    return 0;
}
"""


def golden(plan: Plan, inputs: Sequence[Array]) -> list[Array]:
    """The interpreter's outputs, from an arena full of rubbish: nothing may lean on zeroed memory."""
    session = Session(plan)
    session.arena[:] = 0xA5
    session.reset_variables()
    for tensor, value in zip(plan.graph.inputs, inputs, strict=True):
        if tensor.data is None:
            session.view(tensor)[...] = value
    session.run()
    return [session.view(tensor).copy() for tensor in plan.graph.outputs]


def test_source(project: Project, inputs: Sequence[Array], outputs: Sequence[Array]) -> str:
    """The self-test: once over the caller's buffers, once in place in the static arena, and the refused arenas."""
    name, plan = project.name, project.plan
    up = name.upper()
    fed = [i for i, tensor in enumerate(plan.graph.inputs) if tensor.data is None]
    parts = [
        project.banner,
        f'#include "{name}.h"\n\n#include <stdalign.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n',
        *(_array(f"{name}_test_input_{i}", plan.graph.inputs[i], inputs[i]) for i in fed),
        *(_array(f"{name}_test_want_{i}", t, outputs[i]) for i, t in enumerate(plan.graph.outputs)),
        *(f"static {c_type(t.dtype)} {name}_test_got_{i}[{len(elements(outputs[i])) or 1}];"
          for i, t in enumerate(plan.graph.outputs)),
        f"alignas({up}_ARENA_ALIGN) static unsigned char {name}_test_arena[{up}_ARENA_BYTES + 1];",
        _COMPARE.replace("NAME", name),
        "int main(void) {",
        "    int bad = 0;",
        *_pointers(project, fed),
        *_body(project, fed),
        f'    printf("{name}: %s\\n", bad ? "FAILED" : "ok");',
        "    return bad != 0;",
        "}",
        "",
    ]  # fmt: skip
    return "\n".join(parts)


def _array(symbol: str, tensor: Tensor, value: Array) -> str:
    texts = elements(value) or ["0"]
    return f"static const {c_type(tensor.dtype)} {symbol}[{len(texts)}] = {{\n{wrapped(texts)},\n}};"


def _pointers(project: Project, fed: Sequence[int]) -> Iterator[str]:
    name, graph = project.name, project.plan.graph
    inputs = [f"{name}_test_input_{i}" if i in fed else "NULL" for i in range(len(graph.inputs))]
    outputs = [f"{name}_test_got_{i}" for i in range(len(graph.outputs))]
    yield f"    const void *const inputs[] = {{{', '.join(inputs or ['NULL'])}}};"
    yield f"    void *const outputs[] = {{{', '.join(outputs or ['NULL'])}}};"
    yield f"    unsigned char *const base = (unsigned char *){name}_arena();"


def _body(project: Project, fed: Sequence[int]) -> Iterator[str]:
    name, plan = project.name, project.plan
    up = name.upper()
    arena = f"{name}_test_arena"
    yield f"    memset({arena}, 0xA5, sizeof {arena});"
    yield f"    memset(base, 0x5A, {up}_ARENA_BYTES);"
    if plan.variables:
        yield f"    {name}_reset({arena});"
        yield f"    {name}_reset(base);"
    yield f"    bad |= {name}_run(NULL, inputs, outputs) != 1;"
    yield f"    bad |= {name}_run({arena} + 1, inputs, outputs) != 2;"
    yield f"    bad |= {name}_run({arena}, inputs, outputs) != 0;"
    yield from _compare(project, lambda i: f"{name}_test_got_{i}", "", range(len(plan.graph.outputs)))
    for i in fed:
        yield f"    memcpy(base + {up}_INPUT_{i}_OFFSET, inputs[{i}], {up}_INPUT_{i}_BYTES);"
    yield f"    bad |= {name}_run_static(NULL, NULL) != 0;"
    placed = [i for i, tensor in enumerate(plan.graph.outputs) if tensor.data is None]
    yield from _compare(project, lambda i: f"base + {up}_OUTPUT_{i}_OFFSET", " in place", placed)


def _compare(project: Project, got: Callable[[int], str], where: str, outputs: Iterable[int]) -> Iterator[str]:
    name = project.name
    for i in outputs:
        want = f"{name}_test_want_{i}"
        sizes = f"{name.upper()}_OUTPUT_{i}_BYTES, sizeof *{want}"
        yield f'    bad |= {name}_test_differs("output {i}{where}", {got(i)}, {want}, {sizes});'
