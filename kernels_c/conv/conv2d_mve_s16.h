/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int16 activations and int8 weights on Helium: two pixels at a time. */
#ifndef TW_CONV2D_MVE_S16_H
#define TW_CONV2D_MVE_S16_H

#include "conv2d_mve.h"
#include "../isa/mve/mve_tile_s16.h"

/* in: x, then fours of channels (mve_tile_s16.h) of k = k_h * k_w * in_c in blocks of 8. chunk: activations after which
 * sums are added to the total. out: y. scratch: int16 [2, 8 * blocks]. No dilation along rows. direct: as in
 * conv2d_mve.h, with in_c >= 4. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t blocks, direct, chunk;
} tw_conv2d_mve_s16_params;

TW_KERNEL(tw_conv2d_mve_s16) {
    const tw_conv2d_mve_s16_params p = *params;
    const tw_window bytes = tw_window_bytes(&p.window, sizeof(int16_t));
    const tw_gather g = {&bytes, bytes.in_c, 0, 0};
    const int32_t n = TW_MVE_BLOCK_S16 * p.blocks, out_c = bytes.out_c;
    const tw_mve_matrix_s16 m = {n, p.blocks, p.chunk, out_c, p.limits};
    const int32_t *fours = (const int32_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    tw_conv2d_mve_next next = tw_conv2d_mve_first(in[0], scratch, TW_MVE_BLOCK * p.blocks, p.direct, &g);
    for (int32_t left = tw_window_count(&bytes); left > 0; left -= 2, y += 2 * out_c) {
        const int32_t both = left > 1;
        const int8_t *first, *second;
        tw_conv2d_mve_windows(&first, &second, both, &next);
        const int16_t *x0 = (const int16_t *)(const void *)first, *x1 = (const int16_t *)(const void *)second;
        tw_mve_pair_s16 pair = {x0, x1, y, y + both * out_c, p.blocks, out_c};
        if (p.chunk >= n) {
            tw_mve_run_pair_s16(&pair, fours, p.limits.low, p.limits.high);
            continue;
        }
        tw_mve_row_s16(x0, fours, pair.y0, &m);
        tw_mve_row_s16(x1, fours, pair.y1, &m);
    }
}

/* CONV_2D with groups, or with gaps between the taps of a row: fours of every group in turn, of k = k_h * k_w * bytes / 2,
 * where bytes of a pixel and out channels belong to a group. All sums fit 32 bits. scratch: as above. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t blocks, bytes, out;
} tw_conv2d_groups_mve_s16_params;

TW_KERNEL(tw_conv2d_groups_mve_s16) {
    const tw_conv2d_groups_mve_s16_params p = *params;
    const tw_window bytes = tw_window_bytes(&p.window, sizeof(int16_t));
    const tw_gather g = {&bytes, p.bytes, 0, 0};
    const int32_t size = TW_MVE_BLOCK * p.blocks, out_c = bytes.out_c;
    const int32_t words = (p.out + 3) / 4 * (4 + tw_mve_four_words_s16(TW_MVE_BLOCK_S16 * p.blocks));
    int16_t *y = (int16_t *)out[0];
    int8_t *columns = (int8_t *)scratch;
    tw_pixel at = tw_pixel_first(in[0], 1, &bytes);
    for (int32_t left = tw_window_count(&bytes); left > 0; left -= 2, y += 2 * out_c) {
        const int32_t both = left > 1;
        const int32_t *fours = (const int32_t *)in[1];
        const int16_t *x0 = (const int16_t *)(const void *)columns, *x1 = x0 + both * size / 2;
        tw_pixel first = at, second = at;
        tw_pixel_next(&second, &bytes);
        at = second;
        tw_pixel_next(&at, &bytes);
        for (int32_t c = 0; c < out_c; c += p.out, fours += words, first.image += p.bytes, second.image += p.bytes) {
            tw_conv2d_groups_mve_window(columns, &first, &g);
            if (both) tw_conv2d_groups_mve_window(columns + size, &second, &g);
            tw_mve_pair_s16 pair = {x0, x1, y + c, y + both * out_c + c, p.blocks, p.out};
            tw_mve_run_pair_s16(&pair, fours, p.limits.low, p.limits.high);
        }
    }
}

#endif
