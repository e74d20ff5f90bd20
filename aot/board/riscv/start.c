/* SPDX-License-Identifier: Apache-2.0 */
/* A RISC-V hart from reset to tw_begin, in machine mode; traps; how it asks the emulator. */
#include <stdint.h>

#include "semihost.h"

_Noreturn void tw_reset(void);
_Noreturn void tw_trap(void);
_Noreturn void tw_trapped(uint32_t cause, uint32_t at, uint32_t value);

/* Sets the global pointer, the stack, the trap handler, and floats and vectors where the core has them. */
__attribute__((naked, section(".reset"))) _Noreturn void tw_reset(void) {
    __asm__ volatile(".option push\n"
                     ".option arch, +zicsr\n"
                     ".option norelax\n\tla gp, __global_pointer$\n\tla sp, tw_stack_top\n\tla t0, tw_trap\n"
                     "\tcsrw mtvec, t0\n"
#if defined(__riscv_flen) || defined(__riscv_vector)
                     "\tli t0, 0x2200\n\tcsrs mstatus, t0\n" /* FS and VS: initial */
#endif
                     "\tj tw_begin\n"
                     ".option pop");
}

/* Every trap; it does not come back. Some cores take no address that is not a multiple of 256. */
__attribute__((naked, aligned(256))) _Noreturn void tw_trap(void) {
    __asm__ volatile(".option push\n"
                     ".option arch, +zicsr\n"
                     "\tcsrr a0, mcause\n\tcsrr a1, mepc\n\tcsrr a2, mtval\n\tla sp, tw_stack_top\n\tj tw_trapped\n"
                     ".option pop");
}

_Noreturn __attribute__((used)) void tw_trapped(uint32_t cause, uint32_t at, uint32_t value) {
    tw_print_hex("trap at 0x", at);
    tw_print_hex(", mcause 0x", cause);
    tw_print_hex(", mtval 0x", value);
    tw_print("\n");
    tw_exit(99);
}

/* tw_semihost: RISC-V's semihosting call is three words that are not compressed, and may not cross a page. Its arguments
 * and the answer lie in a0 and a1, as those of a function do. */
__asm__(".text\n.option push\n.option norvc\n.balign 16\n"
        ".globl tw_semihost\n.type tw_semihost, %function\ntw_semihost:\n"
        "\tslli x0, x0, 0x1f\n\tebreak\n\tsrai x0, x0, 7\n\tret\n.option pop\n");
