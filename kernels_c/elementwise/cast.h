/* SPDX-License-Identifier: Apache-2.0 */
/* CAST between numbers and bool. */
#ifndef TW_CAST_H
#define TW_CAST_H

#include "../core/half.h"

TW_NEED(DBL_MANT_DIG == 53, TW_NEED_DOUBLE);

/* in: x [size]. out: y [size]. from and to: kind * 16 + bytes of an element; kind 0 signed, 1 unsigned, 2 float, 3 bool.
 * Integers wrap; a float is truncated towards zero and clamped to the range, NaN is 0; anything but 0 is true. float16
 * is rounded from float32. */
typedef struct {
    int32_t size, from, to;
} tw_cast_params;

TW_INLINE int64_t tw_load(const void *x, int32_t i, int32_t type) {
    switch (type) {
    case 0x01: return ((const int8_t *)x)[i];
    case 0x02: return ((const int16_t *)x)[i];
    case 0x04: return ((const int32_t *)x)[i];
    case 0x12: return ((const uint16_t *)x)[i];
    case 0x14: return ((const uint32_t *)x)[i];
    case 0x11:
    case 0x31: return ((const uint8_t *)x)[i];
    default: return ((const int64_t *)x)[i];
    }
}

TW_INLINE void tw_store(void *y, int32_t i, int32_t type, int64_t value) {
    switch (type & 15) {
    case 1: ((uint8_t *)y)[i] = type == 0x31 ? value != 0 : (uint8_t)value; break;
    case 2: ((uint16_t *)y)[i] = (uint16_t)value; break;
    case 4: ((uint32_t *)y)[i] = (uint32_t)value; break;
    default: ((uint64_t *)y)[i] = (uint64_t)value; break;
    }
}

/* x truncated towards zero and clamped to the type. */
#define TW_TRUNCATED(name, real)                                                                                       \
    TW_INLINE int64_t name(real x, int32_t type) {                                                                     \
        const int32_t bits = (type & 15) * 8;                                                                          \
        const int64_t all = bits < 64 ? (INT64_C(1) << bits) - 1 : -1;                                                 \
        const int64_t most = type >> 4 == 1 && bits < 64 ? all : (int64_t)((uint64_t)all >> 1);                        \
        const int64_t least = type >> 4 == 1 ? 0 : -most - 1;                                                          \
        if (type == 0x31) return x != (real)0;                                                                         \
        if (!(x > (real)least)) return x <= (real)least ? least : 0;                                                   \
        return x >= (real)most ? most : (int64_t)x;                                                                    \
    }

TW_TRUNCATED(tw_from_float, float)
TW_TRUNCATED(tw_from_double, double)

TW_INLINE void tw_store_float(void *y, int32_t i, int32_t type, float value) {
    if (type == 0x22)
        ((uint16_t *)y)[i] = tw_to_half(value);
    else if (type == 0x28)
        ((double *)y)[i] = (double)value;
    else
        ((float *)y)[i] = value;
}

TW_INLINE void tw_cast_integer(void *y, int32_t i, int32_t type, int64_t value) {
    if (type == 0x28)
        ((double *)y)[i] = (double)value;
    else if (type >> 4 == 2)
        tw_store_float(y, i, type, (float)value);
    else
        tw_store(y, i, type, value);
}

TW_INLINE void tw_cast_float(void *y, int32_t i, int32_t type, float value) {
    if (type >> 4 == 2)
        tw_store_float(y, i, type, value);
    else
        tw_store(y, i, type, tw_from_float(value, type));
}

TW_INLINE void tw_cast_double(void *y, int32_t i, int32_t type, double value) {
    if (type >> 4 == 2)
        tw_store_float(y, i, type, (float)value);
    else
        tw_store(y, i, type, tw_from_double(value, type));
}

TW_KERNEL(tw_cast) {
    const tw_cast_params p = *params;
    for (int32_t i = 0; i < p.size; ++i) {
        if (p.from == 0x24)
            tw_cast_float(out[0], i, p.to, ((const float *)in[0])[i]);
        else if (p.from == 0x22)
            tw_cast_float(out[0], i, p.to, tw_from_half(((const uint16_t *)in[0])[i]));
        else if (p.from == 0x28)
            tw_cast_double(out[0], i, p.to, ((const double *)in[0])[i]);
        else
            tw_cast_integer(out[0], i, p.to, tw_load(in[0], i, p.from));
    }
}

#endif
