/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8 with groups of channels, on computers: windows of all groups become rows of one panel, of which
 * every group sees some bytes of each tap. */
#ifndef TW_CONV2D_GROUPS_WIDE_H
#define TW_CONV2D_GROUPS_WIDE_H

#include "../core/window.h"
#include "../isa/wide/wide.h"

/* in: x; weights packed (wide.h) of one group after the other, a row of [taps][bytes] an output channel; bias and mult
 * int32 and shift int8 [groups][padded], the input zero point and the +128 of x folded in. bytes: input channels of a
 * group, a multiple of 4; out: its output channels; padded: out rounded up to 16. Padding of images holds in_zero. out:
 * y. scratch: uint8 [8, k_h * k_w * in_c]. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t bytes, out, padded, in_zero, fast;
} tw_conv2d_groups_wide_s8_params;

/* 16 * blocks output channels of a group, from c on, of a panel's rows. x: the group's first byte; blocks: a constant. */
TW_INLINE void tw_conv2d_groups_wide_tile(const uint8_t *x, const int8_t *w, const tw_tile_out *to, int32_t c,
                                          int blocks, const tw_channels_s8 *channels,
                                          const tw_conv2d_groups_wide_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t taps = window->k_h * window->k_w, row = taps * window->in_c, k = taps * p->bytes;
    tw_tile_acc acc;
    tw_tile_start(acc, w, k, c, TW_PANEL_ROWS, blocks, channels);
    for (int32_t tap = 0; tap < taps; ++tap)
        for (int32_t i = 0; i < p->bytes; i += 4)
            for (int b = 0; b < blocks; ++b)
                for (int r = 0; r < TW_PANEL_ROWS; ++r)
                    acc[r][b] = tw_acc_dot4(acc[r][b], x + r * row + tap * window->in_c + i,
                                            w + TW_LANES * (b * k + tap * p->bytes + i));
    tw_tile_finish(to, acc, c, TW_PANEL_ROWS, blocks, channels);
}

/* All output channels of a group; y: its first one of the first row. */
TW_INLINE void tw_conv2d_groups_wide_group(const uint8_t *x, const int8_t *w, int8_t *y, int32_t rows,
                                           const tw_channels_s8 *channels, const tw_conv2d_groups_wide_s8_params *p) {
    const int32_t out_c = p->window.out_c, k = p->window.k_h * p->window.k_w * p->bytes;
    int32_t c = 0;
    for (; c + TW_LANES * (TW_PANEL_BLOCKS - 1) < p->out; c += TW_LANES * TW_PANEL_BLOCKS) {
        const tw_tile_out to = {y + c, out_c, rows, p->out - c};
        tw_conv2d_groups_wide_tile(x, w + c * k, &to, c, TW_PANEL_BLOCKS, channels, p);
    }
    for (; c < p->out; c += TW_LANES) {
        const tw_tile_out to = {y + c, out_c, rows, p->out - c};
        tw_conv2d_groups_wide_tile(x, w + c * k, &to, c, 1, channels, p);
    }
}

TW_KERNEL(tw_conv2d_groups_wide_s8) {
    const tw_conv2d_groups_wide_s8_params p = *params;
    const tw_gather g = {&p.window, p.window.in_c, p.in_zero, 0x80};
    const int32_t k = p.window.k_h * p.window.k_w * p.window.in_c, out_c = p.window.out_c;
    const int32_t size = p.padded * p.window.k_h * p.window.k_w * p.bytes;
    int8_t *y = (int8_t *)out[0], *panel = (int8_t *)scratch;
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; left -= TW_PANEL_ROWS, y += TW_PANEL_ROWS * out_c) {
        const int32_t rows = tw_min(left, TW_PANEL_ROWS);
        const int8_t *w = (const int8_t *)in[1];
        tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
        for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &p.window)) tw_gather_window(panel + r * k, &at, 0, &g);
        for (int32_t first = 0, c = 0; c < out_c; first += p.bytes, c += p.out, w += size) {
            tw_conv2d_groups_wide_group((const uint8_t *)panel + first, w, y + c, rows, &channels, &p);
            channels.bias += p.padded, channels.mult += p.padded, channels.shift += p.padded;
        }
    }
}

#endif
