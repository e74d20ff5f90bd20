/* SPDX-License-Identifier: Apache-2.0 */
/* Helium: what 16 neighbouring channels of many int8 pixels add up to, and the largest of them. Bytes go to lanes of
 * int16, where up to 256 of them fit, and from there to sums in int32. */
#ifndef TW_MVE_PIXELS_H
#define TW_MVE_PIXELS_H

#include "mve_s8.h"

/* Pixels of an area: rows and columns, and bytes from one to the next. */
typedef struct {
    int32_t rows, cols, row, col;
} tw_area;

/* Most pixels whose bytes add up in int16. */
#define TW_SHORT_SUM 256

/* Channels 0, 2, 4 and 6; 1, 3, 5 and 7; and the same of the next eight. */
typedef struct {
    tw_v4 part[4];
} tw_sums16;

/* The area as one row, if it is. */
TW_INLINE tw_area tw_area_flat(tw_area a) {
    if (a.row == a.cols * a.col) a.cols *= a.rows, a.rows = 1;
    return a;
}

/* s plus the first lanes (1..16) bytes of the pixels of an area of at most TW_SHORT_SUM. */
TW_INLINE void tw_sums16_add_short(tw_sums16 *s, const int8_t *x, tw_area a, int32_t lanes) {
#if defined(TW_MVE)
    const mve_pred16_t first = vctp16q((uint32_t)lanes), second = vctp16q((uint32_t)tw_max(lanes - 8, 0));
    int16x8_t low = vdupq_n_s16(0), high = vdupq_n_s16(0);
    for (; a.rows > 0; --a.rows, x += a.row - a.cols * a.col)
        for (int32_t k = a.cols; k > 0; --k, x += a.col) {
            low = vaddq_s16(low, lanes == 16 ? vldrbq_s16(x) : vldrbq_z_s16(x, first));
            high = vaddq_s16(high, lanes == 16 ? vldrbq_s16(x + 8) : vldrbq_z_s16(x + 8, second));
        }
    s->part[0] = vaddq_s32(s->part[0], vmovlbq_s16(low)), s->part[1] = vaddq_s32(s->part[1], vmovltq_s16(low));
    s->part[2] = vaddq_s32(s->part[2], vmovlbq_s16(high)), s->part[3] = vaddq_s32(s->part[3], vmovltq_s16(high));
#else
    for (int32_t r = 0; r < a.rows; ++r)
        for (int32_t k = 0; k < a.cols; ++k)
            for (int32_t c = 0; c < lanes; ++c)
                s->part[c / 8 * 2 + c % 2].lane[c % 8 / 2] += x[r * a.row + k * a.col + c];
#endif
}

/* start plus the same of an area of any size. */
TW_INLINE tw_sums16 tw_sums16_of(const int8_t *x, tw_area a, int32_t start, int32_t lanes) {
    const tw_v4 all = tw_v4_all(start);
    const int32_t height = tw_max(TW_SHORT_SUM / a.cols, 1);
    tw_sums16 s = {{all, all, all, all}};
    for (int32_t r = 0; r < a.rows; r += height)
        for (int32_t k = 0; k < a.cols; k += TW_SHORT_SUM) {
            const tw_area part = {tw_min(a.rows - r, height), tw_min(a.cols - k, TW_SHORT_SUM), a.row, a.col};
            tw_sums16_add_short(&s, x + r * a.row + k * a.col, part, lanes);
        }
    return s;
}

/* The first lanes of sums, between low and high, as bytes. */
TW_INLINE void tw_sums16_store(int8_t *y, const tw_sums16 *s, int32_t low, int32_t high, int32_t lanes) {
#if defined(TW_MVE)
    for (int i = 0; i < 2; ++i) {
        int16x8_t v = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), s->part[2 * i]), s->part[2 * i + 1]);
        v = vminq_s16(vmaxq_s16(v, vdupq_n_s16((int16_t)low)), vdupq_n_s16((int16_t)high));
        if (lanes == 16)
            vstrbq_s16(y + 8 * i, v);
        else
            vstrbq_p_s16(y + 8 * i, v, vctp16q((uint32_t)tw_max(lanes - 8 * i, 0)));
    }
#else
    for (int32_t c = 0; c < lanes; ++c) y[c] = (int8_t)tw_clamp(s->part[c / 8 * 2 + c % 2].lane[c % 8 / 2], low, high);
#endif
}

/* The largest of the first lanes bytes of the pixels of an area, least if all are less. */
TW_INLINE tw_b16 tw_b16_most(const int8_t *x, tw_area a, int32_t least, int32_t lanes) {
    tw_b16 most;
#if defined(TW_MVE)
    most = vdupq_n_s8((int8_t)least);
#else
    memset(most.lane, least, sizeof most.lane);
#endif
    for (; a.rows > 0; --a.rows, x += a.row - a.cols * a.col)
        for (int32_t k = a.cols; k > 0; --k, x += a.col) {
            const tw_b16 v = tw_b16_load(x, lanes);
#if defined(TW_MVE)
            most = vmaxq_s8(most, v);
#else
            for (int i = 0; i < 16; ++i) most.lane[i] = most.lane[i] < v.lane[i] ? v.lane[i] : most.lane[i];
#endif
        }
    return most;
}

/* The blocks of 16 that cover channels 0..channels - 1: at: where the next one begins; lanes: how many of it there are.
 * The last one may cover channels of the one before it again, so that all are whole, if there are as many. */
#define TW_EACH_BLOCK16(at, lanes, channels)                                                                           \
    for (int32_t at = 0, lanes = tw_min(channels, 16); at < (channels);                                                \
         at = at + 16 < (channels) && at + 32 > (channels) ? (channels)-16 : at + 16)

#endif
