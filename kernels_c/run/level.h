/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction-set levels: the same kernels, compiled for one processor each. Only the extension has them. */
#ifndef TW_LEVEL_H
#define TW_LEVEL_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TW_LEVELS 1
#endif

#define TW_JOIN_(a, b) a##_##b
#define TW_JOIN(a, b) TW_JOIN_(a, b)

#endif
