"""``<name>_check.c``: the function that says whether constants are whole, and for this code."""

from __future__ import annotations

from twinfer.aot.print.blob import CRC_AT, HEAD, MAGIC
from twinfer.aot.print.data import Constants
from twinfer.aot.print.literals import wrapped

HEADER = "run/crc.h"

#: The function of every model; what it takes depends on where its constants lie.
_ABOUT = """Looks at the constants: TW_OK, TW_OTHER_WEIGHTS if they are for another code, or TW_BAD_WEIGHTS if a bit of
them has changed. It reads all of them; a program that never calls it pays nothing."""


def declaration(constants: Constants) -> tuple[str, str]:
    """What the function does, and its declaration."""
    about = " ".join(_ABOUT.split())
    if constants.paged:
        about += f" It fetches them, in pieces of {constants.name.upper()}_PAGE_BYTES, to the arena."
    taken = "void *arena" if constants.paged else "const void *weights" if constants.blob else "void"
    return about, f"int {constants.name}_check({taken});"


def check_source(constants: Constants, banner: str) -> str:
    """The file."""
    name, up = constants.name, constants.name.upper()
    head = "\n".join([banner, *(f'#include "{path}"' for path in (f"{name}.h", f"{name}_data.h", f"kernels/{HEADER}"))])
    text = _of_pages(name, up) if constants.paged else _of_blob(name, up) if constants.blob else ""
    return f"{head}\n\n{text or _of_arrays(constants, up)}"


def _of_blob(name: str, up: str) -> str:
    return f"""{up}_SECTION_CODE int {name}_check(const void *weights) {{
    const uint32_t *const head = (const uint32_t *)weights; /* what it is, for which code, bytes, CRC */
    const unsigned char *const bytes = (const unsigned char *)weights;
    const tw_stored first = {{head, {CRC_AT}, 1}}, rest = {{bytes + {HEAD}, {up}_WEIGHTS_BYTES - {HEAD}, 1}};
    if (head == NULL || (uintptr_t)weights % {up}_WEIGHTS_ALIGN != 0) return TW_OTHER_WEIGHTS;
    if (head[0] != 0x{MAGIC:08X}u || head[1] != {up}_STRUCTURE) return TW_OTHER_WEIGHTS;
    if (head[2] != {up}_WEIGHTS_BYTES) return TW_OTHER_WEIGHTS;
    return tw_crc(tw_crc(0, &first), &rest) == head[3] ? TW_OK : TW_BAD_WEIGHTS;
}}
"""


def _of_pages(name: str, up: str) -> str:
    return f"""{up}_SECTION_CODE int {name}_check(void *arena) {{
    uint32_t crc = 0, head[{HEAD // 4}]; /* what it is, for which code, bytes, CRC */
    const tw_stored first = {{head, {CRC_AT}, 1}};
    tw_stored page = {{arena, 0, 1}};
    {name}_fetch(head, 0, sizeof head);
    {name}_wait();
    if (head[0] != 0x{MAGIC:08X}u || head[1] != {up}_STRUCTURE) return TW_OTHER_WEIGHTS;
    if (head[2] != {up}_WEIGHTS_BYTES) return TW_OTHER_WEIGHTS;
    crc = tw_crc(crc, &first);
    for (uint32_t at = {HEAD}; at < {up}_WEIGHTS_BYTES; at += page.bytes) {{
        const uint32_t rest = {up}_WEIGHTS_BYTES - at;
        page.bytes = rest < {up}_PAGE_BYTES ? rest : {up}_PAGE_BYTES;
        {name}_fetch(arena, at, page.bytes);
        {name}_wait();
        crc = tw_crc(crc, &page);
    }}
    return crc == head[3] ? TW_OK : TW_BAD_WEIGHTS;
}}
"""


def _of_arrays(constants: Constants, up: str) -> str:
    name = constants.name
    rows = [f"{{{each.symbol}, sizeof {each.symbol}, sizeof *{each.symbol}}}" for each in constants.linked]
    table = f"static {up}_ADDRESSES const tw_stored {name}_stored[] = {{\n{wrapped(rows)},\n}};\n\n" if rows else ""
    loop = f"    for (int32_t i = 0; i < {len(rows)}; ++i) crc = tw_crc(crc, {name}_stored + i);\n" if rows else ""
    return f"""{table}{up}_SECTION_CODE int {name}_check(void) {{
    uint32_t crc = 0;
    if ({name}_structure != {up}_STRUCTURE) return TW_OTHER_WEIGHTS;
{loop}    return crc == {name}_crc ? TW_OK : TW_BAD_WEIGHTS;
}}
"""
