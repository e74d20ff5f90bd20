/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction-set levels, and which this CPU runs. setup.py asks, too. */
#ifndef TW_CPU_H
#define TW_CPU_H

#include "level.h"

#ifdef TW_LEVELS_ARM
#include <sys/auxv.h>
#endif

const char *const tw_levels[] = {"base",
#if defined(__x86_64__)
                                 "v3", "v4"
#elif defined(__aarch64__)
                                 "dotprod", "i8mm"
#endif
};
const int tw_level_count = sizeof tw_levels / sizeof tw_levels[0];

/* The highest level that this CPU runs, an index of tw_levels. */
static int tw_level(void) {
#ifdef TW_LEVELS_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return 1;
#endif
#ifdef TW_LEVELS_ARM
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? 2 : 1;
#endif
    return 0;
}

#endif
