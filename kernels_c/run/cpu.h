/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction-set levels, which this CPU runs, and what it offers to kernels. setup.py asks, too. */
#ifndef TW_CPU_H
#define TW_CPU_H

#include <string.h>

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

/* Whether kernels of a level may use a feature of runtime/target.py: from which level on, and what the CPU says of it
 * that the level does not imply. */
static int tw_has(int level, const char *feature) {
#define TW_FEATURE(name, from, cpu)                                                                                    \
    if (strcmp(feature, #name) == 0) return level >= (from) && (cpu)
#ifdef TW_LEVELS_X86
    TW_FEATURE(avx2, 1, 1);
    TW_FEATURE(avx512_vnni, 2, 1);
#endif
#ifdef TW_SET_AVX_VNNI
    __builtin_cpu_init();
    TW_FEATURE(avx_vnni, 1, __builtin_cpu_supports("avxvnni"));
#endif
#if defined(__aarch64__) && !defined(__ARM_BIG_ENDIAN) && !defined(__ARM_FEATURE_DOTPROD)
    TW_FEATURE(neon, 0, level == 0);
#endif
#ifdef TW_LEVELS_ARM
    TW_FEATURE(neon_dotprod, 1, 1);
    TW_FEATURE(neon_i8mm, 2, 1);
#endif
#undef TW_FEATURE
    return (void)level, (void)feature, 0;
}

/* The set whose kernels this CPU takes before those of a level; empty if there is none. */
static const char *tw_set(int level) { return level == 1 && tw_has(level, "avx_vnni") ? "avx_vnni" : ""; }

#endif
