"""What several models in one program share: instances of kernels, and one arena for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinfer.aot.print.layer_functions import closure, headers_of
from twinfer.aot.print.place import code, place_header


@dataclass(frozen=True)
class Group:
    """The files that models have in common; every symbol in them begins with ``name``.

    ``kernels`` are those with one instance for all models; ``arena_bytes`` is the largest arena, ``alignment`` the
    largest alignment, in bytes; ``models`` are the names of the models.
    """

    name: str
    models: Sequence[str]
    kernels: Sequence[str]
    arena_bytes: int
    alignment: int
    banner: str

    @property
    def header(self) -> str:
        """The header of the instances."""
        return f"{self.name}_kernels.h"

    @property
    def symbols(self) -> Mapping[str, str]:
        """Kernel -> its instance."""
        return {kernel: f"{self.name}_{kernel}" for kernel in self.kernels}

    @property
    def files(self) -> Mapping[str, str]:
        """Path -> text; the instances are left out if there are none."""
        files = {
            f"{self.name}.h": self._header(),
            f"{self.name}_place.h": place_header(self.name, self.banner),
            f"{self.name}_static.c": self._static(),
        }
        return {**files, **self._instances()} if self.kernels else files

    def _instances(self) -> dict[str, str]:
        headers = ("core/tw.h", *headers_of(self.kernels))
        includes = "\n".join(f'#include "kernels/{path}"' for path in headers)
        declared = "\n".join(f"tw_fn {symbol};" for symbol in self.symbols.values())
        defined = "\n".join(
            f"{code(self.name, kernel)} TW_SHARED({kernel}, {symbol})" for kernel, symbol in self.symbols.items()
        )
        guard = f"{self.name.upper()}_KERNELS_H"
        said = "/* Kernels that models share, params read at run time. */"
        return {
            self.header: f"""{self.banner}
#ifndef {guard}
#define {guard}
#include "kernels/core/tw.h"

{said}
{declared}

#endif
""",
            f"{self.name}_kernels.c": f"""{self.banner}
#include "{self.header}"
#include "{self.name}_place.h"
{includes}

{said}
{defined}
""",
            **{f"kernels/{path}": text for path, text in closure(headers).items()},
        }

    def _header(self) -> str:
        up = self.name.upper()
        includes = "\n".join(f'#include "{model}.h"' for model in self.models)
        return f"""{self.banner}
#ifndef {up}_H
#define {up}_H
{includes}

/* The arena that all models take turns in: at least so many bytes, aligned to so many. States are apart. */
#define {up}_ARENA_BYTES {self.arena_bytes}
#define {up}_ARENA_ALIGN {self.alignment}

#ifdef __cplusplus
extern "C" {{
#endif

/* The static arena of {self.name}_static.c. */
void *{self.name}_arena(void);

#ifdef __cplusplus
}}
#endif

#endif
"""

    def _static(self) -> str:
        up = self.name.upper()
        return f"""{self.banner}
#include "{self.name}.h"
#include "{self.name}_place.h"

#include <stdalign.h>

alignas({up}_ARENA_ALIGN) static {up}_SECTION_ARENA unsigned char {self.name}_static_arena[{up}_ARENA_BYTES];

void *{self.name}_arena(void) {{ return {self.name}_static_arena; }}
"""
