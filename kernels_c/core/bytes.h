/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of bytes, copied and filled at the width of the machine's bus. Where C's library is made for any microcontroller,
 * it moves a word in two instructions; these move 64 bytes in two on Helium, and 32 on other cores of Armv7-M on. */
#ifndef TW_BYTES_H
#define TW_BYTES_H

#include "tw.h"

/* Assembly as in mve.h and dsp.h: it takes registers that debug builds do not have. */
#if defined(__ARM_ARCH) && __ARM_ARCH >= 7 && __ARM_ARCH_PROFILE == 'M' && defined(__thumb2__) && defined(__GNUC__) && \
    defined(__OPTIMIZE__) && !defined(TW_NO_ASM)
#define TW_LONG_MOVES 1
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#define TW_VECTOR_MOVES 1
#endif
#endif

#if defined(TW_VECTOR_MOVES)
#define TW_COPY_SHORT(to, from, count)                                                                                 \
    __asm volatile("dlstp.8 lr, %[size]\n"                                                                             \
                   "1:\n\tvldrb.8 q0, [%[y]], #16\n\tvstrb.8 q0, [%[x]], #16\n\tletp lr, 1b"                           \
                   : [x] "+&r"(to), [y] "+&r"(from)                                                                    \
                   : [size] "r"(count)                                                                                 \
                   : "lr", "q0", "memory")
/* Blocks of 64 bytes between addresses that are multiples of 4, then 16 and fewer. */
static TW_NOINLINE void tw_copy_run(void *to, const void *from, uint32_t count) {
    uint32_t blocks;
    __asm volatile("orr %[blocks], %[to], %[from]\n\tlsls %[blocks], %[blocks], #30\n\tbne 2f\n\t"
                   "lsr %[blocks], %[count], #6\n\twls lr, %[blocks], 2f\n"
                   "1:\n\tvldmia %[from]!, {d0-d7}\n\tvstmia %[to]!, {d0-d7}\n\tle lr, 1b\n\t"
                   "and %[count], %[count], #63\n"
                   "2:\n\twlstp.8 lr, %[count], 4f\n"
                   "3:\n\tvldrb.8 q0, [%[from]], #16\n\tvstrb.8 q0, [%[to]], #16\n\tletp lr, 3b\n"
                   "4:"
                   : [to] "+&r"(to), [from] "+&r"(from), [count] "+&r"(count), [blocks] "=&r"(blocks)
                   :
                   : "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}
#elif defined(TW_LONG_MOVES)
static TW_NOINLINE void tw_copy_run(void *to, const void *from, uint32_t count) {
    if ((((uintptr_t)to | (uintptr_t)from) & 3U) == 0)
        for (; count >= 32; count -= 32)
            __asm volatile("ldmia %[from]!, {r3-r6, r8-r10, r12}\n\tstmia %[to]!, {r3-r6, r8-r10, r12}"
                           : [to] "+r"(to), [from] "+r"(from)
                           :
                           : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "memory");
    if (count) memcpy(to, from, count);
}
#endif

/* Copies count bytes between memory that does not overlap. Known short counts take no call. */
TW_INLINE void tw_copy_bytes(void *TW_RESTRICT to, const void *TW_RESTRICT from, int32_t count) {
#if defined(TW_VECTOR_MOVES)
    if (!__builtin_constant_p(count) || count > 64)
        tw_copy_run(to, from, (uint32_t)count);
    else if (count > 16)
        TW_COPY_SHORT(to, from, count);
    else
        memcpy(to, from, (size_t)count);
#elif defined(TW_LONG_MOVES)
    if (!__builtin_constant_p(count) || count > 32)
        tw_copy_run(to, from, (uint32_t)count);
    else
        memcpy(to, from, (size_t)count);
#else
    memcpy(to, from, (size_t)count);
#endif
}

/* Fills count bytes with one value. */
TW_INLINE void tw_fill_bytes(void *to, int32_t value, int32_t count) {
#if defined(TW_VECTOR_MOVES)
    __asm volatile("vdup.8 q0, %[value]\n\twlstp.8 lr, %[count], 2f\n"
                   "1:\n\tvstrb.8 q0, [%[to]], #16\n\tletp lr, 1b\n"
                   "2:"
                   : [to] "+&r"(to)
                   : [value] "r"(value), [count] "r"(count)
                   : "lr", "q0", "memory");
#else
    memset(to, value, (size_t)count);
#endif
}

#endif
