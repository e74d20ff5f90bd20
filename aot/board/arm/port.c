/* SPDX-License-Identifier: Apache-2.0 */
/* What the harness asks of a Cortex-M: a clock, functions to gauge counts on, and the stack's mark. */
#include "harness.h"

/* The linker script's: where the stack ends, which grows downwards. */
extern uint32_t tw_stack_limit[];

#define SYSTICK ((volatile uint32_t *)0xE000E010u) /* control, reload, value */
#define SYSTICK_BITS 24

static volatile uint32_t wraps;

void tw_tick(void);
void tw_tick(void) { ++wraps; }

void tw_start_clock(void) {
    SYSTICK[1] = (1u << SYSTICK_BITS) - 1;
    SYSTICK[2] = 0;
    SYSTICK[0] = 7; /* core clock, interrupt, on */
}

uint64_t tw_clock(void) {
    uint32_t before, value;
    do {
        before = wraps;
        value = SYSTICK[2];
    } while (before != wraps);
    return ((uint64_t)(before + 1) << SYSTICK_BITS) - value;
}

/* The empty function and the loop that the counts are gauged on; 2 * 1,000,000 + 2 instructions. */
__asm__(".text\n.syntax unified\n.thumb\n"
        ".globl tw_nothing\n.type tw_nothing, %function\n.thumb_func\ntw_nothing:\n"
        ".globl tw_no_step\n.type tw_no_step, %function\n.thumb_func\ntw_no_step:\n\tbx lr\n"
        ".globl tw_loop\n.type tw_loop, %function\n.thumb_func\ntw_loop:\n"
        "\tldr r0, 2f\n1:\tsubs r0, #1\n\tbne 1b\n\tbx lr\n.balign 4\n2:\t.word 1000000\n");

#define PAINTED 0x5EC0DE5Au

/* In assembly, because nothing here may use the stack itself. */
void tw_paint(void) {
    const uint32_t *word = tw_stack_limit;
    __asm__ volatile(".syntax unified\n1:\tcmp %0, sp\n\tbhs 2f\n\tstr %1, [%0]\n\tadds %0, #4\n\tb 1b\n2:"
                     : "+l"(word)
                     : "l"(PAINTED)
                     : "cc", "memory");
}

/* Bytes from the deepest word that is not as painted to the caller's stack pointer. */
uint32_t tw_unpainted(void) {
    const uint32_t *word = tw_stack_limit, *value;
    uint32_t bytes;
    __asm__ volatile(".syntax unified\n1:\tcmp %0, sp\n\tbhs 2f\n\tldr %1, [%0]\n\tcmp %1, %3\n\tbne 2f\n"
                     "\tadds %0, #4\n\tb 1b\n2:\tmov %2, sp\n\tsubs %2, %2, %0"
                     : "+l"(word), "=&l"(value), "=&l"(bytes)
                     : "l"(PAINTED)
                     : "cc", "memory");
    return bytes;
}
