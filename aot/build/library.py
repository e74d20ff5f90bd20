"""Any number of emitted models as sources for one run of a compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twinfer.aot.build.toolchain import INCLUDED
from twinfer.aot.print.emit import Project

#: The files of ``library_sources`` to compile; they include the rest.
LIBRARY = ("library.c", "library_data.c")


#: Files that only a program which uses them needs.
_APART = ("_static.c", "_layers.c", "_check.c", "_threads.c")


def library_sources(
    projects: Sequence[Project], entries: Callable[[Project], str], included: str = INCLUDED
) -> dict[str, str | bytes]:
    """The projects' code, their constants, and ``library.c``, which includes the code and adds ``entries`` of each.

    Constants come from a binary file by the assembler, in the form ``included``: as C text they would be most of the
    compile time (2.7 s per megabyte).
    """
    files: dict[str, str | bytes] = {}
    common = {path: text for project in projects for path, text in project.common.items()}
    files.update({path: text for path, text in common.items() if not path.endswith("_static.c")})
    code = [f'#include "{path}"' for path in files if path.endswith(".c")]
    data, blob = ["typedef int never_empty;"], bytearray()
    for project in projects:
        apart = {f"{project.name}{end}" for end in _APART}
        files.update({path: text for path, text in project.code.items() if path not in apart})
        code += [f'#include "{project.name}.c"', entries(project)]
        arrays = [(c.symbol, c.array.tobytes(), c.array.itemsize) for c in project.constants.linked]
        if whole := project.constants.blob:
            arrays.append((f"{project.name}_weights", project.weights, max(16, whole.alignment)))
        for symbol, content, item in arrays:
            alignment = max(project.plan.target.constant_alignment, item)
            data.append(included.format(symbol=symbol, size=len(content), alignment=alignment, at=len(blob)))
            blob += content
    return {
        **files,
        "library.c": "\n".join(code),
        "library_data.c": "\n".join(data) + "\n",
        "constants.bin": bytes(blob),
    }
