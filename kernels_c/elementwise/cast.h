/* SPDX-License-Identifier: Apache-2.0 */
/* CAST between numbers and bool. */
#ifndef TW_CAST_H
#define TW_CAST_H

#include "../core/tw.h"

/* in: x [size]. out: y [size]. from and to: kind * 16 + bytes of an element; kind 0 signed, 1 unsigned, 2 float32, 3
 * bool. Integers wrap; a float is truncated towards zero and clamped to the range, NaN is 0; anything but 0 is true. */
typedef struct {
    int32_t size, from, to;
} tw_cast_params;

TW_INLINE int64_t tw_load(const void *x, int32_t i, int32_t type) {
    switch (type) {
    case 0x01:
        return ((const int8_t *)x)[i];
    case 0x02:
        return ((const int16_t *)x)[i];
    case 0x04:
        return ((const int32_t *)x)[i];
    case 0x12:
        return ((const uint16_t *)x)[i];
    case 0x14:
        return ((const uint32_t *)x)[i];
    case 0x11:
    case 0x31:
        return ((const uint8_t *)x)[i];
    default:
        return ((const int64_t *)x)[i];
    }
}

TW_INLINE void tw_store(void *y, int32_t i, int32_t type, int64_t value) {
    switch (type & 15) {
    case 1:
        ((uint8_t *)y)[i] = type == 0x31 ? value != 0 : (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)y)[i] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)y)[i] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)y)[i] = (uint64_t)value;
        break;
    }
}

/* x truncated towards zero and clamped to the type; of uint64, to what int64 holds. */
TW_INLINE int64_t tw_from_float(float x, int32_t type) {
    const int32_t bits = (type & 15) * 8;
    const int64_t most = type >> 4 == 1 && bits < 64 ? (INT64_C(1) << bits) - 1 : (int64_t)(UINT64_MAX >> (65 - bits));
    const int64_t least = type >> 4 == 1 ? 0 : -most - 1;
    if (type == 0x31) return x != 0.0f;
    if (!(x > (float)least)) return x <= (float)least ? least : 0;
    return x >= (float)most ? most : (int64_t)x;
}

TW_KERNEL(tw_cast) {
    const tw_cast_params p = *params;
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        if (p.from != 0x24)
            if (p.to != 0x24)
                tw_store(out[0], i, p.to, tw_load(in[0], i, p.from));
            else
                ((float *)out[0])[i] = (float)tw_load(in[0], i, p.from);
        else if (p.to != 0x24)
            tw_store(out[0], i, p.to, tw_from_float(((const float *)in[0])[i], p.to));
        else
            ((float *)out[0])[i] = ((const float *)in[0])[i];
    }
}

#endif
