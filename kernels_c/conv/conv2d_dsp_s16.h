/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int16 activations and int8 weights on the DSP extension: the windows of three pixels at a time become
 * columns of a panel. */
#ifndef TW_CONV2D_DSP_S16_H
#define TW_CONV2D_DSP_S16_H

#include "conv2d_dsp.h"
#include "../isa/dsp/dsp_tile_s16.h"

/* in: x, then weights and ends (dsp_tile_s16.h) for k = k_h * k_w * in_c. out: y. words: k / 2, rounded up to an even
 * number; chunk: words after which sums are added to the total. scratch: the panel, 12 * words bytes, then a window,
 * 4 * words bytes. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t words, chunk;
} tw_conv2d_dsp_s16_params;

TW_KERNEL(tw_conv2d_dsp_s16) {
    const tw_conv2d_dsp_s16_params p = *params;
    const tw_window bytes = tw_window_bytes(&p.window, sizeof(int16_t));
    const tw_dsp_matrix_s16 m = {
        (const uint32_t *)in[1], (const int32_t *)in[2], p.words, p.chunk, bytes.out_c, bytes.out_c, p.limits};
    uint32_t *panel = (uint32_t *)scratch;
    const tw_conv2d_dsp_gather g = {
        {&bytes, bytes.in_c, 0, 0}, (int8_t *)(panel + TW_DSP_PIXELS_S16 * p.words), 4 * p.words, 1, 0};
    int16_t *y = (int16_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], 1, &bytes);
    for (int32_t left = tw_window_count(&bytes); left > 0; left -= TW_DSP_PIXELS_S16) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS_S16);
        for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &bytes)) tw_conv2d_dsp_window(panel + r, &at, &g);
        tw_dsp_panel_s16(panel, y, rows, &m);
        y += rows * bytes.out_c;
    }
}

/* CONV_2D with groups: k = k_h * k_w * bytes / 2; group by group, whose numbers of bytes of a pixel and of output channels
 * are bytes and out. ends have 2 * ((out + 1) / 2) channels of a group. All sums fit 32 bits. scratch: as above. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t words, bytes, out;
} tw_conv2d_groups_dsp_s16_params;

TW_KERNEL(tw_conv2d_groups_dsp_s16) {
    const tw_conv2d_groups_dsp_s16_params p = *params;
    const tw_window bytes = tw_window_bytes(&p.window, sizeof(int16_t));
    const tw_gather g = {&bytes, p.bytes, 0, 0};
    const int32_t pairs = (p.out + 1) / 2, out_c = bytes.out_c;
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *column = (int8_t *)(panel + TW_DSP_PIXELS_S16 * p.words);
    int16_t *y = (int16_t *)out[0];
    tw_pixel next = tw_pixel_first(in[0], 1, &bytes);
    for (int32_t left = tw_window_count(&bytes); left > 0; left -= TW_DSP_PIXELS_S16) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS_S16);
        tw_dsp_matrix_s16 m = {
            (const uint32_t *)in[1], (const int32_t *)in[2], p.words, p.words, p.out, out_c, p.limits};
        tw_pixel at = next;
        for (int32_t first = 0, c = 0; c < out_c; first += p.bytes, c += p.out) {
            at = next;
            for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &bytes)) {
                tw_gather_window(column, &at, first, &g);
                tw_dsp_gather(panel + r, column, 4 * p.words);
            }
            tw_dsp_panel_s16(panel, y + c, rows, &m);
            m.weights += pairs * p.words;
            m.ends += pairs * TW_DSP_ENDS_S16;
        }
        next = at;
        y += rows * out_c;
    }
}

#endif
