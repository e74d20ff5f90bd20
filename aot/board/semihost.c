/* SPDX-License-Identifier: Apache-2.0 */
/* Semihosting as Arm has it: ARM IHI 0095, "Semihosting for AArch32 and AArch64". */
#include "semihost.h"

#include <string.h>

enum { SYS_OPEN = 0x01, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { APPLICATION_EXIT = 0x20026 };

void tw_print(const char *text) { tw_semihost(SYS_WRITE0, text); }

_Noreturn void tw_exit(int status) {
    const uintptr_t block[] = {APPLICATION_EXIT, (uintptr_t)status};
    for (;;) tw_semihost(SYS_EXIT_EXTENDED, block);
}

int32_t tw_open(const char *name, uint32_t mode) {
    const uintptr_t block[] = {(uintptr_t)name, mode, strlen(name)};
    return tw_semihost(SYS_OPEN, block);
}

int tw_read(int32_t file, void *to, size_t size) {
    const uintptr_t block[] = {(uintptr_t)file, (uintptr_t)to, size};
    return size != 0 && tw_semihost(SYS_READ, block) != 0;
}

int tw_write(int32_t file, const void *from, size_t size) {
    const uintptr_t block[] = {(uintptr_t)file, (uintptr_t)from, size};
    return size != 0 && tw_semihost(SYS_WRITE, block) != 0;
}
