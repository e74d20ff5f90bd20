/* SPDX-License-Identifier: Apache-2.0 */
/* What all boards without an operating system have in common: from a stack to main, and how a fault is told. */
#include "semihost.h"

/* The linker script's. */
extern uint32_t tw_data_from[], tw_data[], tw_data_end[], tw_bss[], tw_bss_end[];

int main(void);

_Noreturn __attribute__((used)) void tw_begin(void) {
    const uint32_t *from = tw_data_from;
    for (uint32_t *to = tw_data; to < tw_data_end; ++to) *to = *from++;
    for (uint32_t *to = tw_bss; to < tw_bss_end; ++to) *to = 0;
    tw_exit(main());
}

void tw_print_hex(const char *what, uint32_t value) {
    char text[9];
    for (int i = 7; i >= 0; --i, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
    text[8] = 0;
    tw_print(what);
    tw_print(text);
}
