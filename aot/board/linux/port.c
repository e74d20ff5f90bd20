/* SPDX-License-Identifier: Apache-2.0 */
/* What the harness asks of a board, had of Linux. The stack is not measured, and there is no clock. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "semihost.h"

void tw_print(const char *text) { fputs(text, stderr); }
_Noreturn void tw_exit(int status) { exit(status); }

int32_t tw_open(const char *name, uint32_t mode) {
    return open(name, mode == TW_READ_FILE ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
}

int tw_read(int32_t file, void *to, size_t size) { return size != 0 && read(file, to, size) != (ssize_t)size; }
int tw_write(int32_t file, const void *from, size_t size) { return write(file, from, size) != (ssize_t)size; }

void tw_start_clock(void) {}
uint64_t tw_clock(void) { return 0; }
void tw_paint(void) {}
uint32_t tw_unpainted(void) { return 0; }

/* Two functions that return at once, and a loop of 2,000,002 instructions. */
#if defined(__aarch64__)
#define LOOP "\tldr w0, =1000000\n1:\tsubs w0, w0, #1\n\tb.ne 1b\n\tret\n"
#else
#define LOOP "\tmovl $1000000, %eax\n1:\tsubl $1, %eax\n\tjne 1b\n\tret\n"
#endif
__asm__(".text\n.globl tw_nothing\n.globl tw_no_step\n.globl tw_loop\n"
        "tw_nothing:\ntw_no_step:\n\tret\ntw_loop:\n" LOOP);
