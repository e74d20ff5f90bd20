"""A memory without addresses for tests: what is fetched arrives when the code waits for it, and not before."""

from __future__ import annotations

#: The functions that a program with paged constants asks for. Before the wait the page holds rubbish.
_SLOW = """static struct {
    void *to;
    const unsigned char *from;
    uint32_t bytes;
} NAME_coming;
static uint32_t NAME_fetched; /* bytes in all */

void NAME_fetch(void *to, uint32_t from, uint32_t bytes) {
    memset(to, 0xA5, bytes);
    NAME_coming.to = to;
    NAME_coming.from = NAME_weights + from;
    NAME_coming.bytes = bytes;
    NAME_fetched += bytes;
}

void NAME_wait(void) {
    if (NAME_coming.bytes != 0) memcpy(NAME_coming.to, NAME_coming.from, NAME_coming.bytes);
    NAME_coming.bytes = 0;
}
"""


def slow_memory(name: str) -> str:
    """The functions over the array of weights of a model."""
    return _SLOW.replace("NAME", name)


def no_memory(name: str) -> str:
    """Functions that fetch nothing, of which the compiler assumes nothing: for a program that is not run."""
    return f"""TW_NOINLINE void {name}_fetch(void *to, uint32_t from, uint32_t bytes) {{
    (void)to, (void)from, (void)bytes;
}}
TW_NOINLINE void {name}_wait(void) {{}}
"""
