/* SPDX-License-Identifier: Apache-2.0 */
/* What the harness asks of a RISC-V hart: a clock, functions to gauge counts on, and the stack's mark. */
#include "harness.h"

/* The linker script's: where the stack ends, which grows downwards. */
extern uint32_t tw_stack_limit[];

/* What the clock goes by: instructions or, in mcycle, cycles. Bits of mcountinhibit stop them. */
#ifndef TW_CLOCK
#define TW_CLOCK minstret
#endif
#define IN_QUOTES(x) #x
#define QUOTED(x) IN_QUOTES(x)
#define CLOCK QUOTED(TW_CLOCK)

void tw_start_clock(void) {
#ifdef TW_CLOCK_INHIBITED
    __asm__ volatile(".option push\n.option arch, +zicsr\n\tcsrw mcountinhibit, zero\n.option pop");
#endif
}

uint64_t tw_clock(void) {
    unsigned long low;
#if __riscv_xlen == 32
    unsigned long high, again;
    do {
        __asm__ volatile(".option push\n.option arch, +zicsr\n\tcsrr %0, " CLOCK "h\n\tcsrr %1, " CLOCK "\n"
                         "\tcsrr %2, " CLOCK "h\n.option pop"
                         : "=r"(high), "=r"(low), "=r"(again));
    } while (high != again);
    return (uint64_t)high << 32 | low;
#else
    __asm__ volatile(".option push\n.option arch, +zicsr\n\tcsrr %0, " CLOCK "\n.option pop" : "=r"(low));
    return low;
#endif
}

/* The empty function and the loop that the counts are gauged on; 2 + 2 * 999,999 + 2 instructions or, where each takes
 * long to simulate, 1 + 2 * 999 + 2. */
#ifdef TW_SHORT_LOOP
#define TURNS "999"
#else
#define TURNS "999999"
#endif
__asm__(".text\n.balign 4\n"
        ".globl tw_nothing\n.type tw_nothing, %function\ntw_nothing:\n"
        ".globl tw_no_step\n.type tw_no_step, %function\ntw_no_step:\n\tret\n"
        ".globl tw_loop\n.type tw_loop, %function\ntw_loop:\n"
        "\tli a0, " TURNS "\n1:\taddi a0, a0, -1\n\tbnez a0, 1b\n\tnop\n\tret\n");

#define PAINTED 0x5EC0DE5Au

/* In assembly, because nothing here may use the stack itself. */
void tw_paint(void) {
    const uint32_t *word = tw_stack_limit;
    __asm__ volatile("1:\tbgeu %0, sp, 2f\n\tsw %1, 0(%0)\n\taddi %0, %0, 4\n\tj 1b\n2:"
                     : "+r"(word)
                     : "r"(PAINTED)
                     : "memory");
}

/* Bytes from the deepest word that is not as painted to the caller's stack pointer. */
uint32_t tw_unpainted(void) {
    const uint32_t *word = tw_stack_limit;
    uintptr_t value, bytes;
    __asm__ volatile("1:\tbgeu %0, sp, 2f\n\tlw %1, 0(%0)\n\tbne %1, %3, 2f\n\taddi %0, %0, 4\n\tj 1b\n"
                     "2:\tsub %2, sp, %0"
                     : "+r"(word), "=&r"(value), "=&r"(bytes)
                     : "r"((intptr_t)(int32_t)PAINTED)
                     : "memory");
    return (uint32_t)bytes;
}
