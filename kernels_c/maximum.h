/* MAXIMUM and MINIMUM of the stored values, with broadcasting. The greater is a > b ? a : b as in TFLM, which shows
 * where a float is NaN or a zero has a sign. */
#ifndef TW_MAXIMUM_H
#define TW_MAXIMUM_H

#include "broadcast.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [rows * size]. minimum: 0 or 1. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5], minimum;
} tw_maximum_s8_params;
typedef tw_maximum_s8_params tw_maximum_s16_params;
typedef tw_maximum_s8_params tw_maximum_s32_params;
typedef tw_maximum_s8_params tw_maximum_s64_params;
typedef tw_maximum_s8_params tw_maximum_f32_params;

TW_INLINE void tw_maximum_s8_row(int32_t size, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step,
                                 int8_t *y, int32_t minimum) {
    for (int32_t i = 0; i < size; ++i) {
        const int8_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s8) {
    const tw_maximum_s8_params p = *params;
    const int8_t *a = (const int8_t *)in[0];
    const int8_t *b = (const int8_t *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *b, p.tile, scratch);
    int8_t *y = (int8_t *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_maximum_s8_row(p.size, a + at.a, 0, b + at.b, 1, y, p.minimum);
        else if (p.b_step == 0)
            tw_maximum_s8_row(p.size, a + at.a, 1, b + at.b, 0, y, p.minimum);
        else
            tw_maximum_s8_row(p.size, a + at.a, 1, b + at.b, 1, y, p.minimum);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

TW_INLINE void tw_maximum_s16_row(int32_t size, const int16_t *a, int32_t a_step, const int16_t *b, int32_t b_step,
                                  int16_t *y, int32_t minimum) {
    for (int32_t i = 0; i < size; ++i) {
        const int16_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s16) {
    const tw_maximum_s16_params p = *params;
    const int16_t *a = (const int16_t *)in[0];
    const int16_t *b = (const int16_t *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *b, p.tile, scratch);
    int16_t *y = (int16_t *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_maximum_s16_row(p.size, a + at.a, 0, b + at.b, 1, y, p.minimum);
        else if (p.b_step == 0)
            tw_maximum_s16_row(p.size, a + at.a, 1, b + at.b, 0, y, p.minimum);
        else
            tw_maximum_s16_row(p.size, a + at.a, 1, b + at.b, 1, y, p.minimum);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

TW_INLINE void tw_maximum_s32_row(int32_t size, const int32_t *a, int32_t a_step, const int32_t *b, int32_t b_step,
                                  int32_t *y, int32_t minimum) {
    for (int32_t i = 0; i < size; ++i) {
        const int32_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s32) {
    const tw_maximum_s32_params p = *params;
    const int32_t *a = (const int32_t *)in[0];
    const int32_t *b = (const int32_t *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *b, p.tile, scratch);
    int32_t *y = (int32_t *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_maximum_s32_row(p.size, a + at.a, 0, b + at.b, 1, y, p.minimum);
        else if (p.b_step == 0)
            tw_maximum_s32_row(p.size, a + at.a, 1, b + at.b, 0, y, p.minimum);
        else
            tw_maximum_s32_row(p.size, a + at.a, 1, b + at.b, 1, y, p.minimum);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

TW_INLINE void tw_maximum_s64_row(int32_t size, const int64_t *a, int32_t a_step, const int64_t *b, int32_t b_step,
                                  int64_t *y, int32_t minimum) {
    for (int32_t i = 0; i < size; ++i) {
        const int64_t left = a[i * a_step], right = b[i * b_step];
        y[i] = (minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_s64) {
    const tw_maximum_s64_params p = *params;
    const int64_t *a = (const int64_t *)in[0];
    const int64_t *b = (const int64_t *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *b, p.tile, scratch);
    int64_t *y = (int64_t *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_maximum_s64_row(p.size, a + at.a, 0, b + at.b, 1, y, p.minimum);
        else if (p.b_step == 0)
            tw_maximum_s64_row(p.size, a + at.a, 1, b + at.b, 0, y, p.minimum);
        else
            tw_maximum_s64_row(p.size, a + at.a, 1, b + at.b, 1, y, p.minimum);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

TW_INLINE void tw_maximum_f32_row(int32_t size, const float *a, int32_t a_step, const float *b, int32_t b_step,
                                  float *y, int32_t minimum) {
    for (int32_t i = 0; i < size; ++i) {
        const float left = a[i * a_step], right = b[i * b_step];
        y[i] = (minimum ? left < right : left > right) ? left : right;
    }
}

TW_KERNEL(tw_maximum_f32) {
    const tw_maximum_f32_params p = *params;
    const float *a = (const float *)in[0];
    const float *b = (const float *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *b, p.tile, scratch);
    float *y = (float *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_maximum_f32_row(p.size, a + at.a, 0, b + at.b, 1, y, p.minimum);
        else if (p.b_step == 0)
            tw_maximum_f32_row(p.size, a + at.a, 1, b + at.b, 0, y, p.minimum);
        else
            tw_maximum_f32_row(p.size, a + at.a, 1, b + at.b, 1, y, p.minimum);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

#endif
