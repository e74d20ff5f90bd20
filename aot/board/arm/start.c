/* SPDX-License-Identifier: Apache-2.0 */
/* From reset to main: vector table, floating point and Helium, .data and .bss. Nothing of newlib's start-up. */
#include <stddef.h>
#include <stdint.h>

#include "semihost.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define CCR REGISTER(0xE000ED14u)   /* configuration and control */
#define CFSR REGISTER(0xE000ED28u)  /* what the fault was */
#define CPACR REGISTER(0xE000ED88u) /* access to coprocessors 10 and 11: FPU, Helium */

/* The linker script's. */
extern uint32_t tw_stack_limit[], tw_stack_top[], tw_data_from[], tw_data[], tw_data_end[], tw_bss[], tw_bss_end[];

int main(void);
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

static __attribute__((noinline)) void set_up_memory(void) {
    const uint32_t *from = tw_data_from;
    for (uint32_t *to = tw_data; to < tw_data_end; ++to) *to = *from++;
    for (uint32_t *to = tw_bss; to < tw_bss_end; ++to) *to = 0;
}

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
    set_up_memory();
    tw_exit(main());
}

/* Every fault: hands the stacked registers to tw_faulted, which does not come back; bl reaches further than b. */
__attribute__((naked)) _Noreturn void tw_fault(void) { __asm__ volatile("mrs r0, msp\n\tbl tw_faulted"); }

static void print_hex(const char *what, uint32_t value) {
    char text[9];
    for (int i = 7; i >= 0; --i, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
    text[8] = 0;
    tw_print(what);
    tw_print(text);
}

_Noreturn __attribute__((used)) void tw_faulted(const uint32_t *frame) {
    print_hex("fault at 0x", frame[6]);
    print_hex(", called from 0x", frame[5]);
    print_hex(", CFSR 0x", CFSR);
    tw_print("\n");
    tw_exit(99);
}
