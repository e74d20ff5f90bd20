/* SPDX-License-Identifier: Apache-2.0 */
/* BITWISE_XOR and RIGHT_SHIFT of integers, with broadcasting. */
#ifndef TW_BITWISE_H
#define TW_BITWISE_H

#include "../core/broadcast.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [walk]. Signed and unsigned integers
 * have the same bits of a ^ b. */
typedef struct {
    tw_walk walk;
} tw_bitwise_xor_s8_params;
typedef tw_bitwise_xor_s8_params tw_bitwise_xor_s16_params;
typedef tw_bitwise_xor_s8_params tw_bitwise_xor_s32_params;
/* y = a >> b, where b is brought into 0..bits - 1; the sign is kept. */
typedef tw_bitwise_xor_s8_params tw_right_shift_s8_params;
typedef tw_bitwise_xor_s8_params tw_right_shift_u8_params;
typedef tw_bitwise_xor_s8_params tw_right_shift_s16_params;
typedef tw_bitwise_xor_s8_params tw_right_shift_u16_params;
typedef tw_bitwise_xor_s8_params tw_right_shift_s32_params;
typedef tw_bitwise_xor_s8_params tw_right_shift_u32_params;

#define TW_XOR(name, type) TW_PAIR(name, type, type, type, a ^ b)
TW_XOR(tw_bitwise_xor_s8, int8_t)
TW_XOR(tw_bitwise_xor_s16, int16_t)
TW_XOR(tw_bitwise_xor_s32, int32_t)

#define TW_SIGNED_SHIFT(name, type, last) TW_PAIR(name, type, type, type, a >> (b < 0 ? 0 : b > last ? last : b))
#define TW_UNSIGNED_SHIFT(name, type, last) TW_PAIR(name, type, type, type, a >> (b > last ? last : b))
TW_SIGNED_SHIFT(tw_right_shift_s8, int8_t, 7)
TW_UNSIGNED_SHIFT(tw_right_shift_u8, uint8_t, 7)
TW_SIGNED_SHIFT(tw_right_shift_s16, int16_t, 15)
TW_UNSIGNED_SHIFT(tw_right_shift_u16, uint16_t, 15)
TW_SIGNED_SHIFT(tw_right_shift_s32, int32_t, 31)
TW_UNSIGNED_SHIFT(tw_right_shift_u32, uint32_t, 31)

TW_KERNEL(tw_bitwise_xor_s8) { TW_EACH_PAIR(tw_bitwise_xor_s8); }
TW_KERNEL(tw_bitwise_xor_s16) { TW_EACH_PAIR(tw_bitwise_xor_s16); }
TW_KERNEL(tw_bitwise_xor_s32) { TW_EACH_PAIR(tw_bitwise_xor_s32); }
TW_KERNEL(tw_right_shift_s8) { TW_EACH_PAIR(tw_right_shift_s8); }
TW_KERNEL(tw_right_shift_u8) { TW_EACH_PAIR(tw_right_shift_u8); }
TW_KERNEL(tw_right_shift_s16) { TW_EACH_PAIR(tw_right_shift_s16); }
TW_KERNEL(tw_right_shift_u16) { TW_EACH_PAIR(tw_right_shift_u16); }
TW_KERNEL(tw_right_shift_s32) { TW_EACH_PAIR(tw_right_shift_s32); }
TW_KERNEL(tw_right_shift_u32) { TW_EACH_PAIR(tw_right_shift_u32); }

#endif
