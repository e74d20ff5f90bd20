/* SPDX-License-Identifier: Apache-2.0 */
/* A Cortex-M from reset to tw_begin: vector table, floating point and Helium; faults; how it asks the emulator. */
#include <stddef.h>
#include <stdint.h>

#include "semihost.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define CCR REGISTER(0xE000ED14u)   /* configuration and control */
#define CFSR REGISTER(0xE000ED28u)  /* what the fault was */
#define CPACR REGISTER(0xE000ED88u) /* access to coprocessors 10 and 11: FPU, Helium */

/* The linker script's. */
extern uint32_t tw_stack_limit[], tw_stack_top[];

_Noreturn void tw_reset(void);
_Noreturn void tw_fault(void);
_Noreturn void tw_faulted(const uint32_t *frame);
void tw_tick(void);

/* SysTick: for the harness to take. */
__attribute__((weak)) void tw_tick(void) {}

static const struct {
    void *stack;
    void (*handlers[15])(void);
} vectors __attribute__((section(".vectors"), used)) = {
    tw_stack_top,
    {tw_reset, tw_fault, tw_fault, tw_fault, tw_fault, tw_fault, tw_fault, NULL, NULL, NULL, tw_fault, tw_fault, NULL,
     tw_fault, tw_tick},
};

_Noreturn void tw_reset(void) {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= 0xFu << 20;
#endif
#if __ARM_ARCH == 6
    CCR |= 1u << 3; /* trap misaligned accesses: a real ARMv6-M cannot do them, the board's core could */
#elif __ARM_ARCH >= 8
    __asm__ volatile("msr msplim, %0" : : "r"(tw_stack_limit));
#endif
    __asm__ volatile("dsb\n\tisb" : : : "memory");
    tw_begin();
}

/* Every fault: hands the stacked registers to tw_faulted, which does not come back; bl reaches further than b. */
__attribute__((naked)) _Noreturn void tw_fault(void) { __asm__ volatile("mrs r0, msp\n\tbl tw_faulted"); }

_Noreturn __attribute__((used)) void tw_faulted(const uint32_t *frame) {
    tw_print_hex("fault at 0x", frame[6]);
    tw_print_hex(", called from 0x", frame[5]);
    tw_print_hex(", CFSR 0x", CFSR);
    tw_print("\n");
    tw_exit(99);
}

int32_t tw_semihost(uint32_t operation, const void *block) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}
