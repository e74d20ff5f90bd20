/* SPDX-License-Identifier: Apache-2.0 */
/* RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR over height and width. */
#ifndef TW_RESIZE_H
#define TW_RESIZE_H

#include <math.h>

#include "../core/tw.h"

/* Any type; pixel and image: bytes of one position and of one input image. in: x [batches, image], rows [out_h] and
 * cols [out_w] int32: byte offsets of the source row in the image and of the source pixel in its row. out: y [batches,
 * out_h, out_w, pixel]. */
typedef struct {
    int32_t batches, image, out_h, out_w, pixel;
} tw_resize_nearest_neighbor_params;

TW_KERNEL(tw_resize_nearest_neighbor) {
    const tw_resize_nearest_neighbor_params p = *params;
    const uint8_t *TW_RESTRICT x = (const uint8_t *)in[0];
    const int32_t *TW_RESTRICT rows = (const int32_t *)in[1];
    const int32_t *TW_RESTRICT cols = (const int32_t *)in[2];
    uint8_t *TW_RESTRICT y = (uint8_t *)out[0];
    const size_t pixel = (size_t)p.pixel, row = pixel * (size_t)p.out_w;
    for (int32_t b = 0; b < p.batches; ++b, x += p.image) {
        for (int32_t i = 0; i < p.out_h; ++i, y += row) {
            if (i > 0 && rows[i] == rows[i - 1]) {
                memcpy(y, y - row, row);
                continue;
            }
            for (int32_t j = 0; j < p.out_w; ++j) memcpy(y + (size_t)j * pixel, x + rows[i] + cols[j], pixel);
        }
    }
}

/* Positions have 10 fractional bits: output i lies at i * scale + offset of the input, clamped to it. Dimensions are at
 * most 2^20. in: x [batches, in_h, in_w, channels]. out: y [batches, out_h, out_w, channels]. */
typedef struct {
    int32_t batches, in_h, in_w, channels, out_h, out_w;
    int32_t scale_h, offset_h, scale_w, offset_w;
} tw_resize_bilinear_s8_params;
typedef tw_resize_bilinear_s8_params tw_resize_bilinear_s16_params;

/* y [channels] between the pixels at x, x + right, x + down and x + down + right; 10 fractional bits each. */
TW_INLINE void tw_bilinear_pixel_s8(const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y, int32_t channels,
                                    ptrdiff_t down, ptrdiff_t right, int32_t part_h, int32_t part_w) {
    const int32_t w00 = (1024 - part_h) * (1024 - part_w), w01 = (1024 - part_h) * part_w;
    const int32_t w10 = part_h * (1024 - part_w), w11 = part_h * part_w;
    TW_VECTOR
    for (int32_t c = 0; c < channels; ++c) {
        const int32_t sum = x[c] * w00 + x[c + right] * w01 + x[c + down] * w10 + x[c + down + right] * w11;
        y[c] = (int8_t)((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
    }
}

TW_INLINE void tw_bilinear_pixel_s16(const int16_t *TW_RESTRICT x, int16_t *TW_RESTRICT y, int32_t channels,
                                     ptrdiff_t down, ptrdiff_t right, int32_t part_h, int32_t part_w) {
    const int32_t w00 = (1024 - part_h) * (1024 - part_w), w01 = (1024 - part_h) * part_w;
    const int32_t w10 = part_h * (1024 - part_w), w11 = part_h * part_w;
    for (int32_t c = 0; c < channels; ++c) {
        const int64_t above = (int64_t)x[c] * w00 + (int64_t)x[c + right] * w01;
        const int64_t sum = above + (int64_t)x[c + down] * w10 + (int64_t)x[c + down + right] * w11;
        const int32_t half = sum > 0 ? 1 << 19 : -(1 << 19);
        y[c] = (int16_t)((sum + half) / (1 << 20));
    }
}

/* The body of the kernels of integers. */
#define TW_BILINEAR(type, pixel)                                                                                       \
    const tw_resize_bilinear_s8_params p = *params;                                                                    \
    const type *x = (const type *)in[0];                                                                               \
    type *y = (type *)out[0];                                                                                          \
    const ptrdiff_t row = (ptrdiff_t)p.in_w * p.channels;                                                              \
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * row) {                                                       \
        for (int32_t i = 0; i < p.out_h; ++i) {                                                                        \
            const int32_t at_h = tw_clamp(i * p.scale_h + p.offset_h, 0, (p.in_h - 1) * 1024);                         \
            const ptrdiff_t down = at_h & 1023 ? row : 0;                                                              \
            for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {                                                   \
                const int32_t at_w = tw_clamp(j * p.scale_w + p.offset_w, 0, (p.in_w - 1) * 1024);                     \
                const ptrdiff_t right = at_w & 1023 ? p.channels : 0;                                                  \
                const type *at = x + (at_h >> 10) * row + (ptrdiff_t)(at_w >> 10) * p.channels;                        \
                TW_CHANNELS(p.channels, 64, pixel(at + c, y + c, n, down, right, at_h & 1023, at_w & 1023));           \
            }                                                                                                          \
        }                                                                                                              \
    }

TW_KERNEL(tw_resize_bilinear_s8) { TW_BILINEAR(int8_t, tw_bilinear_pixel_s8); }
TW_KERNEL(tw_resize_bilinear_s16) { TW_BILINEAR(int16_t, tw_bilinear_pixel_s16); }

/* Output i lies at (i + centre) * scale - centre of the input; centre is 0 or 0.5.
 * in: x [batches, in_h, in_w, channels]. out: y [batches, out_h, out_w, channels]. */
typedef struct {
    int32_t batches, in_h, in_w, channels, out_h, out_w;
    float scale_h, scale_w, centre;
} tw_resize_bilinear_f32_params;
typedef tw_resize_bilinear_f32_params tw_resize_bilinear_u8_params; /* uint8, in float32, rounded half up */

/* A place between the elements at offsets low and high; part is the distance from low, outside of 0..1 only if both are
 * the same. */
typedef struct {
    ptrdiff_t low, high;
    float part;
} tw_bilinear_place;

/* The place `at` among size elements that lie step apart. */
TW_INLINE tw_bilinear_place tw_bilinear_at(float at, int32_t size, ptrdiff_t step) {
    const int32_t low = tw_clamp((int32_t)floorf(at), 0, size - 1);
    tw_bilinear_place place;
    place.low = low * step;
    place.high = tw_min((int32_t)ceilf(at), size - 1) * step;
    place.part = at - (float)low;
    return place;
}

/* y [channels] between the four pixels around a place; offset is added before the result becomes the type of y. */
#define TW_BILINEAR_PIXEL(name, type, offset)                                                                          \
    TW_INLINE void name(const type *TW_RESTRICT x, type *TW_RESTRICT y, int32_t channels, tw_bilinear_place h,         \
                        tw_bilinear_place w) {                                                                         \
        const float above = 1.0f - h.part, before = 1.0f - w.part;                                                     \
        const type *x00 = x + h.low + w.low, *x10 = x + h.high + w.low;                                                \
        const type *x01 = x + h.low + w.high, *x11 = x + h.high + w.high;                                              \
        for (int32_t c = 0; c < channels; ++c)                                                                         \
            y[c] = (type)((float)x00[c] * above * before + (float)x10[c] * h.part * before +                           \
                          (float)x01[c] * above * w.part + (float)x11[c] * h.part * w.part + (offset));                \
    }

TW_BILINEAR_PIXEL(tw_bilinear_pixel_f32, float, 0.0f) /* as the reference's rounding offset: no negative zero */
TW_BILINEAR_PIXEL(tw_bilinear_pixel_u8, uint8_t, 0.5f)

/* The body of both kernels; the semicolon behind it is an empty statement. */
#define TW_RESIZE_BILINEAR(type, pixel)                                                                                \
    const tw_resize_bilinear_f32_params p = *params;                                                                   \
    const type *x = (const type *)in[0];                                                                               \
    type *y = (type *)out[0];                                                                                          \
    const ptrdiff_t row = (ptrdiff_t)p.in_w * p.channels;                                                              \
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * row) {                                                       \
        for (int32_t i = 0; i < p.out_h; ++i) {                                                                        \
            const float at_h = ((float)i + p.centre) * p.scale_h - p.centre;                                           \
            const tw_bilinear_place h = tw_bilinear_at(at_h, p.in_h, row);                                             \
            for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {                                                   \
                const float at_w = ((float)j + p.centre) * p.scale_w - p.centre;                                       \
                pixel(x, y, p.channels, h, tw_bilinear_at(at_w, p.in_w, p.channels));                                  \
            }                                                                                                          \
        }                                                                                                              \
    }

TW_KERNEL(tw_resize_bilinear_f32) { TW_RESIZE_BILINEAR(float, tw_bilinear_pixel_f32); }

TW_KERNEL(tw_resize_bilinear_u8) { TW_RESIZE_BILINEAR(uint8_t, tw_bilinear_pixel_u8); }

#endif
