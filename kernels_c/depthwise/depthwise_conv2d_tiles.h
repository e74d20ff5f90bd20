/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, int8, for cores with 32 registers: channel by channel along a row of outputs, straight from the
 * image. */
#ifndef TW_DEPTHWISE_CONV2D_TILES_H
#define TW_DEPTHWISE_CONV2D_TILES_H

#include "../core/window.h"
#include "../isa/tiles/tile_s8.h"

/* in: x, weights int8 [k_h][k_w][out_c], and the channels' ends (tile_s8.h) with the input zero point folded in; padding
 * holds in_zero. out: y. out_c = in_c. */
typedef struct {
    tw_window window;
    tw_tiles_end end;
    int32_t mults, in_zero;
} tw_depthwise_conv2d_tiles_s8_params;

/* One channel of a row of outputs: the image's channel, its weights, the row of the first taps, and bias. */
typedef struct {
    const int8_t *image, *w;
    int32_t y, bias;
} tw_depthwise_line;

/* Outputs of a row whose windows have all their columns. */
typedef struct {
    int32_t first, end;
} tw_depthwise_span;

TW_INLINE tw_depthwise_span tw_depthwise_whole(const tw_window *w) {
    const int32_t last = w->in_w + w->pad_w - (w->k_w - 1) * w->dilation_w - 1; /* where the last of them may begin */
    const tw_depthwise_span whole = {(w->pad_w + w->stride_w - 1) / w->stride_w,
                                     last < 0 ? 0 : tw_min(last / w->stride_w + 1, w->out_w)};
    const tw_depthwise_span none = {0, 0};
    return whole.first < whole.end ? whole : none;
}

/* Whether all rows of its windows lie in the image. */
TW_INLINE int32_t tw_depthwise_rows_inside(const tw_depthwise_line *line, const tw_window *w) {
    return tw_rows_fit(w) || (line->y >= 0 && line->y + (w->k_h - 1) * w->dilation_h < w->in_h);
}

/* The sum of a window whose first tap lies in column x0; inside: none of its taps is padding. */
TW_INLINE int32_t tw_depthwise_taps(const tw_depthwise_line *line, int32_t x0, int32_t inside, int32_t in_zero,
                                    const tw_window *w) {
    int32_t sum = line->bias;
    const int8_t *tap = line->w, *row = line->image + (line->y * w->in_w + x0) * w->in_c;
    for (int32_t ky = 0, y = line->y; ky < w->k_h; ++ky, y += w->dilation_h, row += w->dilation_h * w->in_w * w->in_c) {
        const int8_t *x = row;
#pragma GCC unroll 4
        for (int32_t kx = 0; kx < w->k_w; ++kx, tap += w->out_c, x += w->dilation_w * w->in_c) {
            const int32_t seen = inside || (tw_row_inside(y, w) && tw_column_inside(x0 + kx * w->dilation_w, w));
            sum = tw_add(sum, (seen ? *x : in_zero) * *tap);
        }
    }
    return sum;
}

/* Windows of 3 x 3 taps without gaps: their weights, in registers, and the rows of one in column 0. Rows outside the image
 * have weights of 0; what they would add is in the bias. */
typedef struct {
    const int8_t *row[3];
    int32_t w[9], bias;
} tw_depthwise_nine;

TW_INLINE void tw_depthwise_nine_load(tw_depthwise_nine *nine, const tw_depthwise_line *line, int32_t in_zero,
                                      const tw_window *w) {
    nine->bias = line->bias;
    for (int32_t ky = 0; ky < 3; ++ky)
        for (int32_t kx = 0; kx < 3; ++kx) {
            const int32_t tap = line->w[(3 * ky + kx) * w->out_c], inside = tw_row_inside(line->y + ky, w);
            nine->w[3 * ky + kx] = inside ? tap : 0;
            if (!inside) nine->bias = tw_add(nine->bias, in_zero * tap);
        }
}

/* The sum of the window that begins in column x0. */
TW_INLINE int32_t tw_depthwise_nine_sum(const tw_depthwise_nine *nine, int32_t x0, int32_t inside, int32_t in_zero,
                                        const tw_window *w) {
    int32_t sum = nine->bias;
    for (int32_t kx = 0; kx < 3; ++kx) {
        const int32_t at = (x0 + kx) * w->in_c, seen = inside || tw_column_inside(x0 + kx, w);
        for (int32_t ky = 0; ky < 3; ++ky)
            sum = tw_add(sum, (seen ? nine->row[ky][at] : in_zero) * nine->w[3 * ky + kx]);
    }
    return sum;
}

/* One channel of all rows of outputs. */
TW_INLINE void tw_depthwise_tiles_channel(int8_t *y, tw_depthwise_line line, const tw_tiles_channel *channel,
                                          const tw_depthwise_conv2d_tiles_s8_params *p) {
    const tw_window *w = &p->window;
    for (int32_t row = 0; row < w->out_h; ++row, line.y += w->stride_h, y += w->out_w * w->out_c) {
        const tw_depthwise_span none = {0, 0}, span = tw_depthwise_rows_inside(&line, w) ? tw_depthwise_whole(w) : none;
        TW_ROLLED
        for (int32_t i = span.first; i < span.end; ++i) {
            const int32_t sum = tw_depthwise_taps(&line, i * w->stride_w - w->pad_w, 1, p->in_zero, w);
            y[i * w->out_c] = tw_tiles_output(sum, channel, &p->end);
        }
        TW_ROLLED
        for (int32_t i = span.first > 0 ? 0 : span.end; i < w->out_w; i = i + 1 == span.first ? span.end : i + 1) {
            const int32_t sum = tw_depthwise_taps(&line, i * w->stride_w - w->pad_w, 0, p->in_zero, w);
            y[i * w->out_c] = tw_tiles_output(sum, channel, &p->end);
        }
    }
}

/* The same for windows of 3 x 3 taps. */
TW_INLINE void tw_depthwise_nine_channel(int8_t *y, tw_depthwise_line line, const tw_tiles_channel *channel,
                                         const tw_depthwise_conv2d_tiles_s8_params *p) {
    const tw_window *w = &p->window;
    const tw_depthwise_span span = tw_depthwise_whole(w);
    tw_depthwise_nine nine = {{0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, 0};
    int32_t loaded = 0;
    for (int32_t row = 0; row < w->out_h; ++row, line.y += w->stride_h, y += w->out_w * w->out_c) {
        const int32_t all = tw_depthwise_rows_inside(&line, w);
        if (!loaded || !all) tw_depthwise_nine_load(&nine, &line, p->in_zero, w);
        loaded = all;
        for (int32_t ky = 0; ky < 3; ++ky)
            nine.row[ky] = line.image + (all || tw_row_inside(line.y + ky, w) ? line.y + ky : 0) * w->in_w * w->in_c;
        TW_ROLLED
        for (int32_t i = span.first; i < span.end; ++i) {
            const int32_t sum = tw_depthwise_nine_sum(&nine, i * w->stride_w - w->pad_w, 1, p->in_zero, w);
            y[i * w->out_c] = tw_tiles_output(sum, channel, &p->end);
        }
        TW_ROLLED
        for (int32_t i = span.first > 0 ? 0 : span.end; i < w->out_w; i = i + 1 == span.first ? span.end : i + 1) {
            const int32_t sum = tw_depthwise_nine_sum(&nine, i * w->stride_w - w->pad_w, 0, p->in_zero, w);
            y[i * w->out_c] = tw_tiles_output(sum, channel, &p->end);
        }
    }
}

/* Both kernels, channel by channel; nine is a constant. */
TW_INLINE void tw_depthwise_tiles(const tw_depthwise_conv2d_tiles_s8_params *p, const void *const *in, int8_t *y,
                                  int32_t nine) {
    const tw_window *w = &p->window;
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p->mults, &p->end);
    const int8_t *image = (const int8_t *)in[0];
    for (int32_t b = 0; b < w->batches; ++b, image += tw_window_image(w), y += w->out_h * w->out_w * w->out_c)
        for (int32_t c = 0; c < w->out_c; ++c) {
            const tw_depthwise_line line = {image + c, (const int8_t *)in[1] + c, -w->pad_h, channels.bias[c]};
            const tw_tiles_channel channel = tw_tiles_channel_of(c, &channels);
            if (nine)
                tw_depthwise_nine_channel(y + c, line, &channel, p);
            else
                tw_depthwise_tiles_channel(y + c, line, &channel, p);
        }
}

TW_KERNEL(tw_depthwise_conv2d_tiles_s8) {
    const tw_depthwise_conv2d_tiles_s8_params p = *params;
    tw_depthwise_tiles(&p, in, (int8_t *)out[0], 0);
}

/* The same for windows of 3 x 3 taps without gaps. */
typedef tw_depthwise_conv2d_tiles_s8_params tw_depthwise_conv2d_nine_tiles_s8_params;

TW_KERNEL(tw_depthwise_conv2d_nine_tiles_s8) {
    const tw_depthwise_conv2d_nine_tiles_s8_params p = *params;
    tw_depthwise_tiles(&p, in, (int8_t *)out[0], 1);
}

#endif
