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

/* The weight there, of int8 or with w16, a constant, of int16. */
TW_INLINE int32_t tw_depthwise_weight(const int8_t *w, int32_t w16) {
    return w16 ? *(const int16_t *)(const void *)w : *w;
}

/* One channel of a row of outputs: the image's channel, its weights, the row of the first taps, and bias. */
typedef struct {
    const int8_t *image, *w;
    int32_t y, bias, w16;
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
        for (int32_t kx = 0; kx < w->k_w; ++kx, tap += w->out_c << line->w16, x += w->dilation_w * w->in_c) {
            const int32_t seen = inside || (tw_row_inside(y, w) && tw_column_inside(x0 + kx * w->dilation_w, w));
            sum = tw_add(sum, (seen ? *x : in_zero) * tw_depthwise_weight(tap, line->w16));
        }
    }
    return sum;
}

/* Windows of 3 x 3 taps without gaps, a stride of 1 or 2, and at most one column of padding on each side, of rows that
 * have the same rows of taps in the image. First what channels have of their own: where their rows and outputs begin,
 * weights, what a column of padding adds to the first and the last column of taps. Then what they share: how many rows,
 * step apart, whether padding follows the last column (last), the bytes of all other outputs (span), and rows of taps
 * as masks. Rows outside the image have weights of 0; what they would add is in the bias. */
typedef struct {
    const int8_t *row[3];
    int8_t *y;
    int32_t w[9], bias, before, behind;
    tw_tiles_channel channel;
    int32_t rows, left, step, pad, stride, last, tap, span, seen[3], in_zero;
    tw_tiles_end end;
} tw_depthwise_nine;

/* Weights and what follows from them, and the end of channel c. */
TW_INLINE void tw_depthwise_nine_load(tw_depthwise_nine *nine, int32_t c, const int8_t *w,
                                      const tw_tiles_channels *channels, int32_t w16) {
    int32_t bias = channels->bias[c];
    for (int32_t ky = 0; ky < 3; ++ky)
        for (int32_t kx = 0; kx < 3; ++kx) {
            const int32_t tap = tw_depthwise_weight(w + ((c + (3 * ky + kx) * nine->tap) << w16), w16);
            nine->w[3 * ky + kx] = tap & nine->seen[ky];
            if (!nine->seen[ky]) bias = tw_add(bias, nine->in_zero * tap);
        }
    nine->bias = bias;
    nine->before = nine->in_zero * (nine->w[0] + nine->w[3] + nine->w[6]);
    nine->behind = nine->in_zero * (nine->w[2] + nine->w[5] + nine->w[8]);
    nine->channel = tw_tiles_channel_of(c, channels);
    nine->left = nine->rows;
}

/* A column of the image by the taps of column kx of a window. */
TW_INLINE int32_t tw_depthwise_nine_add(int32_t sum, const int32_t *x, int32_t kx, const tw_depthwise_nine *nine) {
    return tw_add(tw_add(tw_add(sum, x[0] * nine->w[kx]), x[1] * nine->w[3 + kx]), x[2] * nine->w[6 + kx]);
}

/* Rows of outputs of one channel. Every column of the image is loaded once, and added to all windows that it is in. */
TW_INLINE void tw_depthwise_nine_plain(const tw_depthwise_nine *nine) {
    const int8_t *x0 = nine->row[0], *x1 = nine->row[1], *x2 = nine->row[2];
    int8_t *y = nine->y;
#define TW_COLUMN x[0] = *x0, x[1] = *x1, x[2] = *x2, x0 += nine->tap, x1 += nine->tap, x2 += nine->tap
#define TW_FIRST tw_depthwise_nine_add(nine->bias, x, 0, nine)
#define TW_SECOND tw_depthwise_nine_add(b, x, 1, nine)
    TW_ROLLED
    for (int32_t row = 0; row < nine->left; ++row, x0 += nine->step, x1 += nine->step, x2 += nine->step) {
        int32_t a = 0, b = tw_add(nine->bias, nine->before), x[3]; /* the sums of the next two windows, so far */
        if (!nine->pad) TW_COLUMN, b = TW_FIRST;
        if (nine->stride == 1) TW_COLUMN, a = TW_SECOND, b = TW_FIRST;
        TW_ROLLED
        for (const int8_t *const stop = y + nine->span; y != stop; y += nine->tap) {
            if (nine->stride == 2) TW_COLUMN, a = TW_SECOND;
            TW_COLUMN;
            const int32_t sum = tw_depthwise_nine_add(a, x, 2, nine);
            if (nine->stride == 1) a = TW_SECOND;
            b = TW_FIRST;
            *y = tw_tiles_output(sum, &nine->channel, &nine->end);
        }
        if (!nine->last) continue;
        if (nine->stride == 2) TW_COLUMN, a = TW_SECOND;
        *y = tw_tiles_output(tw_add(a, nine->behind), &nine->channel, &nine->end);
        y += nine->tap;
    }
#undef TW_COLUMN
#undef TW_FIRST
#undef TW_SECOND
}

/* The same. In assembly, as gcc does not keep all in registers where it does not know params: 35 instructions an output
 * with a stride of 1, where gcc takes 50, and 41 with one of 2. */
TW_INLINE void tw_depthwise_nine_fast(tw_depthwise_nine *nine) {
#if defined(TW_TILES_LOOPS)
    if (nine->end.dips) {
        tw_depthwise_nine_plain(nine);
        return;
    }
    /* clang-format off */
#if __riscv_xlen == 32
#define TW_NINE_POINTER "lw "
#define TW_NINE_UPPER "mulh t2, t2, a7\n"
#else
#define TW_NINE_POINTER "ld "
#define TW_NINE_UPPER "mul t2, t2, a7\n srai t2, t2, 32\n"
#endif
#define TW_NINE_GET(to, at) "lw " to ", %[" at "](ra)\n"
#define TW_NINE_WEIGHT(to, at) "lw " to ", %[w]+" at "(ra)\n"
#define TW_NINE_LOAD(row) "lb t0, 0(" row ")\n add " row ", " row ", a5\n"
#define TW_NINE_ADD(to, sum, w) "mul t1, t0, " w "\n add " to ", " sum ", t1\n"
#define TW_NINE_THREE(first, second, third)                                                                            \
    TW_NINE_LOAD("a0") first TW_NINE_LOAD("a1") second TW_NINE_LOAD("a2") third
#define TW_NINE_SECOND                                                                                                 \
    TW_NINE_THREE(TW_NINE_ADD("s0", "s1", "s3"), TW_NINE_ADD("s0", "s0", "s6"), TW_NINE_ADD("s0", "s0", "s9"))
#define TW_NINE_OUTPUT                                                                                                 \
    "sll t2, t2, t3\n" TW_NINE_UPPER "add t2, t2, s11\n sra t2, t2, t4\n"                                              \
    "bge t2, t5, 9f\n mv t2, t5\n9: bge t6, t2, 9f\n mv t2, t6\n9: sb t2, 0(a3)\n add a3, a3, a5\n"
    /* ra: nine; s2 to s10: weights; a0 to a2: the image's rows; a3, a4: the next output and the end of the loop; s0, s1:
     * sums of the next two windows; t0 to t2: a pixel, its product, the sum that is ready. */
    register tw_depthwise_nine *at __asm("ra") = nine;
    __asm volatile(
        TW_NINE_WEIGHT("s2", "0") TW_NINE_WEIGHT("s3", "4") TW_NINE_WEIGHT("s4", "8") TW_NINE_WEIGHT("s5", "12")
        TW_NINE_WEIGHT("s6", "16") TW_NINE_WEIGHT("s7", "20") TW_NINE_WEIGHT("s8", "24") TW_NINE_WEIGHT("s9", "28")
        TW_NINE_WEIGHT("s10", "32") TW_NINE_GET("a5", "tap") TW_NINE_GET("a6", "bias") TW_NINE_GET("a7", "mult")
        TW_NINE_GET("s11", "rounding") TW_NINE_GET("t3", "up") TW_NINE_GET("t4", "right") TW_NINE_GET("t5", "low")
        TW_NINE_GET("t6", "high") TW_NINE_POINTER "a0, %[row](ra)\n" TW_NINE_POINTER "a1, %[row]+%[size](ra)\n"
        TW_NINE_POINTER "a2, %[row]+2*%[size](ra)\n" TW_NINE_POINTER "a3, %[y](ra)\n"
        "1:\n" TW_NINE_GET("a4", "span") TW_NINE_GET("t0", "pad") TW_NINE_GET("s1", "before")
        "add a4, a4, a3\n add s1, s1, a6\n bnez t0, 2f\n"
        TW_NINE_THREE(TW_NINE_ADD("s1", "a6", "s2"), TW_NINE_ADD("s1", "s1", "s5"), TW_NINE_ADD("s1", "s1", "s8"))
        "2:\n" TW_NINE_GET("t0", "stride") "addi t0, t0, -1\n bnez t0, 5f\n"
        TW_NINE_THREE(TW_NINE_ADD("s0", "s1", "s3") TW_NINE_ADD("s1", "a6", "s2"),
                      TW_NINE_ADD("s0", "s0", "s6") TW_NINE_ADD("s1", "s1", "s5"),
                      TW_NINE_ADD("s0", "s0", "s9") TW_NINE_ADD("s1", "s1", "s8"))
        "beq a3, a4, 6f\n"
        "3:\n"
        TW_NINE_THREE(TW_NINE_ADD("t2", "s0", "s4") TW_NINE_ADD("s0", "s1", "s3") TW_NINE_ADD("s1", "a6", "s2"),
                      TW_NINE_ADD("t2", "t2", "s7") TW_NINE_ADD("s0", "s0", "s6") TW_NINE_ADD("s1", "s1", "s5"),
                      TW_NINE_ADD("t2", "t2", "s10") TW_NINE_ADD("s0", "s0", "s9") TW_NINE_ADD("s1", "s1", "s8"))
        TW_NINE_OUTPUT "bne a3, a4, 3b\n j 6f\n"
        "4:\n" TW_NINE_SECOND
        TW_NINE_THREE(TW_NINE_ADD("t2", "s0", "s4") TW_NINE_ADD("s1", "a6", "s2"),
                      TW_NINE_ADD("t2", "t2", "s7") TW_NINE_ADD("s1", "s1", "s5"),
                      TW_NINE_ADD("t2", "t2", "s10") TW_NINE_ADD("s1", "s1", "s8"))
        TW_NINE_OUTPUT "5: bne a3, a4, 4b\n"
        "6:\n" TW_NINE_GET("t0", "last") TW_NINE_GET("t2", "behind") "beqz t0, 8f\n"
        TW_NINE_GET("t0", "stride") "addi t0, t0, -1\n beqz t0, 7f\n" TW_NINE_SECOND
        "7: add t2, t2, s0\n" TW_NINE_OUTPUT
        "8:\n" TW_NINE_GET("t0", "left") TW_NINE_GET("t1", "step")
        "addi t0, t0, -1\n sw t0, %[left](ra)\n add a0, a0, t1\n add a1, a1, t1\n add a2, a2, t1\n bnez t0, 1b\n"
        : "+r"(at)
        : [size] "i"(sizeof(void *)), [row] "i"(offsetof(tw_depthwise_nine, row)),
          [y] "i"(offsetof(tw_depthwise_nine, y)), [w] "i"(offsetof(tw_depthwise_nine, w)),
          [bias] "i"(offsetof(tw_depthwise_nine, bias)), [before] "i"(offsetof(tw_depthwise_nine, before)),
          [behind] "i"(offsetof(tw_depthwise_nine, behind)), [left] "i"(offsetof(tw_depthwise_nine, left)),
          [step] "i"(offsetof(tw_depthwise_nine, step)), [pad] "i"(offsetof(tw_depthwise_nine, pad)),
          [stride] "i"(offsetof(tw_depthwise_nine, stride)), [last] "i"(offsetof(tw_depthwise_nine, last)),
          [tap] "i"(offsetof(tw_depthwise_nine, tap)), [span] "i"(offsetof(tw_depthwise_nine, span)),
          [mult] "i"(offsetof(tw_depthwise_nine, channel.mult)),
          [rounding] "i"(offsetof(tw_depthwise_nine, channel.rounding)),
          [up] "i"(offsetof(tw_depthwise_nine, end.up)), [right] "i"(offsetof(tw_depthwise_nine, end.right)),
          [low] "i"(offsetof(tw_depthwise_nine, end.low)), [high] "i"(offsetof(tw_depthwise_nine, end.high))
        : "memory", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s0",
          "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
#undef TW_NINE_POINTER
#undef TW_NINE_UPPER
#undef TW_NINE_GET
#undef TW_NINE_WEIGHT
#undef TW_NINE_LOAD
#undef TW_NINE_ADD
#undef TW_NINE_THREE
#undef TW_NINE_SECOND
#undef TW_NINE_OUTPUT
    /* clang-format on */
#else
    tw_depthwise_nine_plain(nine);
#endif
}

/* All channels of some rows; w16 and fast are constants. */
TW_INLINE void tw_depthwise_nine_channels(tw_depthwise_nine *nine, const int8_t *w, const tw_tiles_channels *channels,
                                          int32_t w16, int32_t fast) {
    TW_ROLLED
    for (int32_t c = 0; c < nine->tap; ++c) {
        tw_depthwise_nine_load(nine, c, w, channels, w16);
        if (fast)
            tw_depthwise_nine_fast(nine);
        else
            tw_depthwise_nine_plain(nine);
        ++nine->row[0], ++nine->row[1], ++nine->row[2], ++nine->y;
    }
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

/* All channels, one after the other. */
TW_INLINE void tw_depthwise_tiles(const tw_depthwise_conv2d_tiles_s8_params *p, const void *const *in, int8_t *y,
                                  int32_t w16) {
    const tw_window *w = &p->window;
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p->mults, &p->end);
    const int8_t *image = (const int8_t *)in[0];
    for (int32_t b = 0; b < w->batches; ++b, image += tw_window_image(w), y += w->out_h * w->out_w * w->out_c)
        for (int32_t c = 0; c < w->out_c; ++c) {
            const tw_depthwise_line line = {image + c, (const int8_t *)in[1] + (c << w16), -w->pad_h, channels.bias[c],
                                            w16};
            const tw_tiles_channel channel = tw_tiles_channel_of(c, &channels);
            tw_depthwise_tiles_channel(y + c, line, &channel, p);
        }
}

TW_KERNEL(tw_depthwise_conv2d_tiles_s8) {
    const tw_depthwise_conv2d_tiles_s8_params p = *params;
    tw_depthwise_tiles(&p, in, (int8_t *)out[0], 0);
}

/* Windows of 3 x 3 taps without gaps: rows whose taps all lie in the image at once, the others one by one; all channels
 * of them. */
TW_INLINE void tw_depthwise_nine_tiles(const tw_depthwise_conv2d_tiles_s8_params *p, const void *const *in, int8_t *y,
                                       int32_t w16) {
    const tw_window *w = &p->window;
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p->mults, &p->end);
    const int32_t columns = (w->out_w - 1) * w->stride_w + 3 - w->pad_w, last = columns > w->in_w;
    const int32_t pitch = w->in_w * w->in_c, step = w->stride_h * pitch - (columns - last) * w->in_c;
    const int8_t *image = (const int8_t *)in[0];
    tw_depthwise_nine nine = {{0, 0, 0}, y,          {0, 0, 0, 0, 0, 0, 0, 0, 0},
                              0,         0,          0,
                              {0, 0, 0}, 0,          0,
                              step,      w->pad_w,   w->stride_w,
                              last,      w->in_c,    (w->out_w - last) * w->in_c,
                              {0, 0, 0}, p->in_zero, p->end};
    for (int32_t b = 0; b < w->batches; ++b, image += w->in_h * pitch)
        for (int32_t row = 0, top = -w->pad_h; row < w->out_h; row += nine.rows, top += nine.rows * w->stride_h) {
            const int32_t whole = (w->in_h - 3 - top + w->stride_h) / w->stride_h; /* rows before one leaves below */
            nine.rows = top < 0 ? 1 : tw_max(1, tw_min(w->out_h - row, whole));
            for (int32_t ky = 0; ky < 3; ++ky) {
                nine.seen[ky] = -tw_row_inside(top + ky, w);
                nine.row[ky] = image + (nine.seen[ky] ? top + ky : 0) * pitch;
            }
            nine.y = y;
            tw_depthwise_nine_channels(&nine, (const int8_t *)in[1], &channels, w16, !__builtin_constant_p(w->in_c));
            y += nine.rows * w->out_w * w->out_c;
        }
}

typedef tw_depthwise_conv2d_tiles_s8_params tw_depthwise_conv2d_nine_tiles_s8_params;

TW_KERNEL(tw_depthwise_conv2d_nine_tiles_s8) {
    const tw_depthwise_conv2d_nine_tiles_s8_params p = *params;
    tw_depthwise_nine_tiles(&p, in, (int8_t *)out[0], 0);
}

/* Both with weights of int16: those that were uint8 less their zero point. */
typedef tw_depthwise_conv2d_tiles_s8_params tw_depthwise_conv2d_w16_tiles_s8_params;
typedef tw_depthwise_conv2d_tiles_s8_params tw_depthwise_conv2d_nine_w16_tiles_s8_params;

TW_KERNEL(tw_depthwise_conv2d_w16_tiles_s8) {
    const tw_depthwise_conv2d_w16_tiles_s8_params p = *params;
    tw_depthwise_tiles(&p, in, (int8_t *)out[0], 1);
}

TW_KERNEL(tw_depthwise_conv2d_nine_w16_tiles_s8) {
    const tw_depthwise_conv2d_nine_w16_tiles_s8_params p = *params;
    tw_depthwise_nine_tiles(&p, in, (int8_t *)out[0], 1);
}

#endif
