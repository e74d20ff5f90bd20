/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D of int8 with SIMD128 of WebAssembly: two taps of a row at once, for 16 channels. */
#ifndef TW_DEPTHWISE_CONV2D_SIMD128_H
#define TW_DEPTHWISE_CONV2D_SIMD128_H

#include "../core/window.h"
#include "../isa/wide/pairs.h"

/* Multiplier 1. A ring has the last rows of the image, 16 channels of them, less the zero point and with their padding:
 * each column beside the one that a window's next tap is in. in: x, w int8 [blocks of 16][k_h][k_w / 2 rounded up][16][2],
 * bias and mult int32 and shift int8 [channels padded to 16]. in_zero: the zero point. columns: of the ring. out: y.
 * scratch: int16 [rows that a window covers][columns][16][2]. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t in_zero, fast, columns;
} tw_depthwise_conv2d_simd128_s8_params;

/* Outputs side by side that share weights. */
#define TW_TWINS 4

/* Values of a column of the ring. */
#define TW_TWIN_VALUES (2 * TW_LANES)

/* Column ix of a row of the image, lanes channels of it, as halves less the zero point; padding beside the image. */
TW_INLINE tw_halves16 tw_twins_column(const int8_t *x, int32_t ix, int32_t lanes,
                                      const tw_depthwise_conv2d_simd128_s8_params *p) {
    int8_t few[TW_LANES] = {0};
    if (!tw_is_inside(ix, p->window.in_w)) return tw_halves16_zero();
    x += ix * p->window.in_c;
    if (lanes < TW_LANES) x = (const int8_t *)memcpy(few, x, (size_t)lanes);
    return tw_halves16_load(x, p->in_zero);
}

/* A row of the ring from row x of the image, or of padding if x is NULL. */
TW_INLINE void tw_twins_fill(int16_t *to, const int8_t *x, int32_t lanes,
                             const tw_depthwise_conv2d_simd128_s8_params *p) {
    const int32_t first = -p->window.pad_w, apart = p->window.dilation_w;
    if (x == NULL) {
        memset(to, 0, (size_t)p->columns * TW_TWIN_VALUES * sizeof *to);
        return;
    }
    tw_halves16 column = tw_twins_column(x, first, lanes, p);
    for (int32_t j = 0; j < p->columns; ++j, to += TW_TWIN_VALUES) {
        const tw_halves16 other = tw_twins_column(x, first + j + apart, lanes, p);
        tw_halves16_pair(to, column, other);
        column = apart == 1 ? other : tw_twins_column(x, first + j + 1, lanes, p);
    }
}

/* count outputs (1 or TW_TWINS, a constant) side by side; at: values from a row's beginning to the first window's. */
TW_INLINE void tw_twins_of(int8_t *y, int32_t at, int count, const int16_t *const *rows, const int8_t *w,
                           const int32_t *bias, const tw_ends *ends, int ending, int32_t lanes,
                           const tw_depthwise_conv2d_simd128_s8_params *p) {
    const tw_window *window = &p->window;
    tw_acc acc[TW_TWINS];
    for (int i = 0; i < count; ++i) acc[i] = tw_acc_load(bias);
    /* Four lanes at a time: sums of all lanes fill more registers than there are. */
    for (int j = 0; j < 4; ++j) {
        const int8_t *taps = w;
        if (j == 2 && lanes <= TW_LANES / 2) break;
        for (int32_t ky = 0; ky < window->k_h; ++ky)
            for (int32_t kx = 0; kx < window->k_w; kx += 2, taps += TW_TWIN_VALUES)
                tw_pairs_add(acc, count, rows[ky] + at + kx * window->dilation_w * TW_TWIN_VALUES,
                             window->stride_w * TW_TWIN_VALUES, taps, j);
    }
    for (int i = 0; i < count; ++i) tw_acc_end(y + i * window->in_c, acc[i], ends, ending, lanes);
}

/* The most rows of a window. */
#define TW_TWIN_ROWS 32

/* An image, 16 channels from the first of x and y on. */
TW_INLINE void tw_twins_image(int16_t *ring, const int8_t *x, int8_t *y, const int8_t *w, const int32_t *bias,
                              const tw_ends *ends, int ending, int32_t lanes,
                              const tw_depthwise_conv2d_simd128_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t covered = (window->k_h - 1) * window->dilation_h + 1, row = p->columns * TW_TWIN_VALUES;
    const int32_t step = window->stride_w * TW_TWIN_VALUES;
    int32_t next = 0;
    for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->in_c) {
        const int32_t top = oy * window->stride_h;
        const int16_t *rows[TW_TWIN_ROWS];
        int32_t ox = 0;
        for (next = tw_max(next, top); next < top + covered; ++next) {
            const int32_t iy = next - window->pad_h;
            const int8_t *from = tw_is_inside(iy, window->in_h) ? x + iy * window->in_w * window->in_c : NULL;
            tw_twins_fill(ring + next % covered * row, from, lanes, p);
        }
        for (int32_t ky = 0; ky < window->k_h; ++ky) rows[ky] = ring + (top + ky * window->dilation_h) % covered * row;
        for (; ox + TW_TWINS <= window->out_w; ox += TW_TWINS)
            tw_twins_of(y + ox * window->in_c, ox * step, TW_TWINS, rows, w, bias, ends, ending, lanes, p);
        for (; ox < window->out_w; ++ox)
            tw_twins_of(y + ox * window->in_c, ox * step, 1, rows, w, bias, ends, ending, lanes, p);
    }
}

TW_KERNEL(tw_depthwise_conv2d_simd128_s8) {
    const tw_depthwise_conv2d_simd128_s8_params p = *params;
    const tw_window *window = &p.window;
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    const int32_t block = window->k_h * ((window->k_w + 1) / 2) * TW_TWIN_VALUES;
    for (int32_t b = 0; b < window->batches; ++b)
        for (int32_t c = 0; c < window->in_c; c += TW_LANES) {
            const int8_t *x = (const int8_t *)in[0] + b * tw_window_image(window) + c;
            int8_t *y = (int8_t *)out[0] + b * window->out_h * window->out_w * window->in_c + c;
            const tw_ends ends = tw_ends_load(&channels, c);
            tw_twins_image((int16_t *)scratch, x, y, (const int8_t *)in[1] + c / TW_LANES * block, channels.bias + c,
                           &ends, tw_ending(&channels), tw_min(window->in_c - c, TW_LANES), &p);
        }
}

#endif
