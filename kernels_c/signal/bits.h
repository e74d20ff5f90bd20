/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of numbers in bits. */
#ifndef TW_BITS_H
#define TW_BITS_H

#include "../core/tw.h"

/* Bits of x without leading zeros; x > 0. */
TW_INLINE int32_t tw_bits(uint32_t x) { return 32 - __builtin_clz(x); }

#endif
