"""Makes the files of a new operator: ``make new-op NAME=DILATE FAMILY=move``.

They work at once: the operator copies float32. What is to be written stands in them as TODO.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEADER = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* {name}: TODO what it computes. */
#ifndef TW_{guard}_H
#define TW_{guard}_H

#include "../core/each.h"

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {{
    int32_t size;
}} tw_{stem}_f32_params;

/* TODO the value of an element x; another loop where it is not element by element. */
TW_KERNEL(tw_{stem}_f32) {{ TW_EACH(tw_{stem}_f32, float, float, x); }}

#endif
"""

MODULE = '''\
"""{name}: TODO what it computes, in which types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    """TODO all that is not so in an untrusted file: numbers of inputs, ranks, types, quantisation, options."""
    need(len(node.inputs) == 1, node, f"it has {{len(node.inputs)}} inputs, not 1")
    x, y = node.input(0), node.output
    need_type(node, x, "FLOAT32")
    need(x.type == y.type, node, f"{{x}} and {{y}} differ in type")
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """TODO plain numpy, which rounds as TFLM's reference kernel does."""
    (x,) = inputs
    return [x]


def lower(node: Node, target: Target) -> Call:
    """TODO rows=ELEMENTS and inplace=(0,) go where the kernel is not element by element."""
    x, y = node.input(0), node.output
    return Call("tw_{stem}_f32", {{"size": y.size}}, (x,), (y,), inplace=(0,), rows=ELEMENTS)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """TODO odd sizes, one element, batches, extreme values; ``oracle``: whose output counts."""
    for shape in ((), (1,), (3, 5), (2, 7, 3)):
        node = Node("{name}", (tensor(shape),), (tensor(shape, name="y"),))
        yield Case(node, oracle="none", why="TODO which runtime has it")


OP = Op("{name}", infer, reference, lower, cases)
'''

ROW = '    "{name}": Row(),  # TODO columns: converter/facts.py\n'


def make(name: str, family: str, root: Path) -> list[Path]:
    """Writes a header and a module, and adds a row to a table; ValueError if the name or the family is wrong."""
    stem = name.removeprefix("CUSTOM:").lower()
    header, module = root / f"kernels_c/{family}/{stem}.h", root / f"runtime/ops/{family}/{stem}.py"
    table = root / f"converter/operators/{family}.py"
    if not stem.isidentifier():
        raise ValueError(f"{name}: it needs TFLite's name of an operator, as HARD_SWISH")
    families = sorted(path.stem for path in table.parent.glob("[a-z]*.py") if (module.parents[1] / path.stem).is_dir())
    if family not in families:
        raise ValueError(f"there is no family {family}; there are: {', '.join(families)}")
    rows = table.read_text("utf-8")
    if header.exists() or module.exists() or f'"{name}"' in rows:
        raise ValueError(f"{name} is there already")
    header.write_text(HEADER.format(name=name, stem=stem, guard=stem.upper()), "utf-8")
    module.write_text(MODULE.format(name=name, stem=stem), "utf-8")
    table.write_text(rows.rstrip().removesuffix("}") + ROW.format(name=name) + "}\n", "utf-8")
    return [header, module, table]


if __name__ == "__main__":
    try:
        made = make(sys.argv[1], sys.argv[2], ROOT)
    except ValueError as error:
        sys.exit(str(error))
    print(*(path.relative_to(ROOT) for path in made), sep="\n")  # noqa: T201
