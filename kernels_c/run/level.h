/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction-set levels: all kernels, compiled once per level; and sets, for which a few kernels are compiled once
 * more. Only the extension has them. */
#ifndef TW_LEVEL_H
#define TW_LEVEL_H

#if defined(__GNUC__) && !defined(__clang__)
#if defined(__x86_64__)
#define TW_LEVELS_X86 1
#if __GNUC__ >= 11
#define TW_SET_AVX_VNNI 1
#endif
#elif defined(__aarch64__) && __GNUC__ >= 10
#define TW_LEVELS_ARM 1
#endif
#endif

#define TW_JOIN_(a, b) a##_##b
#define TW_JOIN(a, b) TW_JOIN_(a, b)

#endif
