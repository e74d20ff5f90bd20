/* SPDX-License-Identifier: Apache-2.0 */
/* MAXIMUM and MINIMUM of the stored values, with broadcasting. The greater is a > b ? a : b as in TFLM, which shows
 * where a float is NaN or a zero has a sign. */
#ifndef TW_MAXIMUM_H
#define TW_MAXIMUM_H

#include "../core/broadcast.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [rows * size]. minimum: 0 or 1. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5], minimum;
} tw_maximum_s8_params;
typedef tw_maximum_s8_params tw_maximum_s16_params;
typedef tw_maximum_s8_params tw_maximum_s32_params;
typedef tw_maximum_s8_params tw_maximum_s64_params;
typedef tw_maximum_s8_params tw_maximum_f32_params;

TW_INLINE void tw_maximum_s8_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                 int32_t b_step, void *y_row) {
    const tw_maximum_s8_params *p = (const tw_maximum_s8_params *)params;
    const int8_t *a = (const int8_t *)a_row, *b = (const int8_t *)b_row;
    int8_t *y = (int8_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int8_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (p->minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s8) {
    const tw_maximum_s8_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_maximum_s8_row, &p);
}

TW_INLINE void tw_maximum_s16_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                  int32_t b_step, void *y_row) {
    const tw_maximum_s16_params *p = (const tw_maximum_s16_params *)params;
    const int16_t *a = (const int16_t *)a_row, *b = (const int16_t *)b_row;
    int16_t *y = (int16_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int16_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (p->minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s16) {
    const tw_maximum_s16_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 2, 2, 2, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_maximum_s16_row, &p);
}

TW_INLINE void tw_maximum_s32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                  int32_t b_step, void *y_row) {
    const tw_maximum_s32_params *p = (const tw_maximum_s32_params *)params;
    const int32_t *a = (const int32_t *)a_row, *b = (const int32_t *)b_row;
    int32_t *y = (int32_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (p->minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s32) {
    const tw_maximum_s32_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_maximum_s32_row, &p);
}

TW_INLINE void tw_maximum_s64_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                  int32_t b_step, void *y_row) {
    const tw_maximum_s64_params *p = (const tw_maximum_s64_params *)params;
    const int64_t *a = (const int64_t *)a_row, *b = (const int64_t *)b_row;
    int64_t *y = (int64_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int64_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (p->minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s64) {
    const tw_maximum_s64_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 8, 8, 8, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_maximum_s64_row, &p);
}

TW_INLINE void tw_maximum_f32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                  int32_t b_step, void *y_row) {
    const tw_maximum_f32_params *p = (const tw_maximum_f32_params *)params;
    const float *a = (const float *)a_row, *b = (const float *)b_row;
    float *y = (float *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const float left = a[i * a_step], right = b[i * b_step];
        y[i] = (p->minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_f32) {
    const tw_maximum_f32_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_maximum_f32_row, &p);
}

#endif
