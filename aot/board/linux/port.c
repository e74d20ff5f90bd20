/* SPDX-License-Identifier: Apache-2.0 */
/* What hosted.c leaves to the machine under Linux: there is no clock, and counts are gauged on assembly. */
#include "harness.h"

uint64_t tw_clock(void) { return 0; }

/* Two functions that return at once, and a loop of 2,000,002 instructions. */
#if defined(__aarch64__)
#define LOOP "\tldr w0, =1000000\n1:\tsubs w0, w0, #1\n\tb.ne 1b\n\tret\n"
#else
#define LOOP "\tmovl $1000000, %eax\n1:\tsubl $1, %eax\n\tjne 1b\n\tret\n"
#endif
__asm__(".text\n.globl tw_nothing\n.globl tw_no_step\n.globl tw_loop\n"
        "tw_nothing:\ntw_no_step:\n\tret\ntw_loop:\n" LOOP);
