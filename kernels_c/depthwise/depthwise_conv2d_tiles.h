/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, int8, for cores with 32 registers: channel by channel along a row of outputs, straight from
 * the image. */
#ifndef TW_DEPTHWISE_CONV2D_TILES_H
#define TW_DEPTHWISE_CONV2D_TILES_H

#include "../core/window.h"
#include "../isa/tiles/tile_s8.h"

/* in: x, weights int8 [k_h][k_w][out_c], and the channels' ends (tile_s8.h) with the input zero point folded in;
 * padding holds in_zero. out: y. out_c = in_c. */
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

/* Windows of 3 x 3 taps without gaps: their weights, in registers, and the rows of one in column 0. Rows outside the
 * image have weights of 0; what they would add is in the bias. */
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

#if defined(TW_TILES_LOOPS)
/* Outputs of a row, left of them, at least 1, whose windows have all their columns; the first begins at an offset from
 * the rows. For shared instances: 46 instructions an output, where gcc takes 54 or more if it does not know how far
 * the taps are apart, and 41 if it does. */
TW_INLINE void tw_depthwise_nine_row(int8_t *y, int32_t offset, int32_t left, const tw_depthwise_nine *nine,
                                     const tw_tiles_channel *channel, const tw_tiles_end *end,
                                     const tw_window *window) {
    const intptr_t tap = window->in_c, back = (window->stride_w - 2) * tap, y_column = window->out_c;
    const int8_t *x0 = nine->row[0] + offset, *x1 = nine->row[1] + offset, *x2 = nine->row[2] + offset;
    const int32_t *w = nine->w;
#define TW_TAPS(w0, w1, w2, next)                                                                                      \
    "lb t2, 0(%[x0])\n lb t3, 0(%[x1])\n mul t2, t2, %[" w0 "]\n add %[x0], %[x0], %[" next "]\n"                      \
    "mul t3, t3, %[" w1 "]\n add t1, t1, t2\n lb t2, 0(%[x2])\n add t1, t1, t3\n add %[x1], %[x1], %[" next "]\n"      \
    "mul t2, t2, %[" w2 "]\n add %[x2], %[x2], %[" next "]\n add t1, t1, t2\n"
    __asm volatile(
        "1:\n mv t1, %[bias]\n" TW_TAPS("w0", "w3", "w6", "tap") TW_TAPS("w1", "w4", "w7", "tap")
            TW_TAPS("w2", "w5", "w8",
                    "back") "sll t1, t1, %[up]\n"
#if __riscv_xlen == 32
                            "mulh t1, t1, %[mult]\n"
#else
                            "mul t1, t1, %[mult]\n srai t1, t1, 32\n"
#endif
                            "addi %[left], %[left], -1\n add t1, t1, %[rounding]\n sra t1, t1, %[right]\n"
                            "bge t1, %[low], 2f\n mv t1, %[low]\n2: bge %[high], t1, 2f\n mv t1, %[high]\n2:\n"
                            "sb t1, 0(%[y])\n add %[y], %[y], %[y_column]\n bnez %[left], 1b\n"
        : [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [y] "+r"(y), [left] "+r"(left)
        : [w0] "r"(w[0]), [w1] "r"(w[1]), [w2] "r"(w[2]), [w3] "r"(w[3]), [w4] "r"(w[4]), [w5] "r"(w[5]),
          [w6] "r"(w[6]), [w7] "r"(w[7]), [w8] "r"(w[8]), [tap] "r"(tap), [back] "r"(back), [y_column] "r"(y_column),
          [bias] "r"(nine->bias), [up] "r"(end->up), [mult] "r"(channel->mult), [rounding] "r"(channel->rounding),
          [right] "r"(end->right), [low] "r"(end->low), [high] "r"(end->high)
        : "memory", "t1", "t2", "t3");
#undef TW_TAPS
}
#endif

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
        tw_depthwise_span inside = span;
        if (!loaded || !all) tw_depthwise_nine_load(&nine, &line, p->in_zero, w);
        loaded = all;
        for (int32_t ky = 0; ky < 3; ++ky)
            nine.row[ky] = line.image + (all || tw_row_inside(line.y + ky, w) ? line.y + ky : 0) * w->in_w * w->in_c;
#if defined(TW_TILES_LOOPS)
        if (!__builtin_constant_p(w->in_c) && !p->end.dips && span.first < span.end) {
            const int32_t offset = (span.first * w->stride_w - w->pad_w) * w->in_c;
            tw_depthwise_nine_row(y + span.first * w->out_c, offset, span.end - span.first, &nine, channel, &p->end, w);
            inside.first = inside.end;
        }
#endif
        TW_ROLLED
        for (int32_t i = inside.first; i < inside.end; ++i) {
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
