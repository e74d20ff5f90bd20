/* SPDX-License-Identifier: Apache-2.0 */
/* Files, a console and a way out by a port in memory, for simulated cores without semihosting (rtl/machine.cpp). Its
 * registers are words: the next byte of inputs.bin, and 0xFFFFFFFF at its end; where bytes go of outputs.bin, of
 * ticks.bin and of the console; and the exit status. */
#include "semihost.h"

static volatile uint32_t *const port = (volatile uint32_t *)(uintptr_t)0xF0000000u;

enum { INPUTS, OUTPUTS, TICKS, CONSOLE, STATUS };

void tw_print(const char *text) {
    while (*text) port[CONSOLE] = (unsigned char)*text++;
}

_Noreturn void tw_exit(int status) {
    for (;;) port[STATUS] = (uint32_t)status;
}

int32_t tw_open(const char *name, uint32_t mode) {
    if (mode == TW_READ_FILE) return INPUTS;
    return *name == 'o' ? OUTPUTS : TICKS;
}

int tw_read(int32_t file, void *to, size_t size) {
    for (unsigned char *byte = to; size != 0; --size) {
        const uint32_t value = port[file];
        if (value > 0xFF) return 1;
        *byte++ = (unsigned char)value;
    }
    return 0;
}

int tw_write(int32_t file, const void *from, size_t size) {
    for (const unsigned char *byte = from; size != 0; --size) port[file] = *byte++;
    return 0;
}
