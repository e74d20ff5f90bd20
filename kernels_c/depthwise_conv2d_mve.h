/* DEPTHWISE_CONV_2D over Helium, int8, multiplier 1, dilation 1: 16 channels of a pixel at a time, or 8 of two
 * neighbours. Rows of the image go to scratch with their padding, so that no window has a border. */
#ifndef TW_DEPTHWISE_CONV2D_MVE_H
#define TW_DEPTHWISE_CONV2D_MVE_H

#include "mve_s8.h"

/* in: x [batches, in_h, in_w, in_c], constants int8 [blocks][TW_BLOCK_TAPS + 16 * k_h * k_w] (mve_s8.h) with the input
 * zero point folded into the bias; blocks: in_c / 16 rounded up. No two weights of a lane are -128; no sum and no result
 * before it is clamped is beyond int32. row: bytes of a row in scratch, a multiple of 16. out: y [batches, out_h, out_w,
 * in_c]. scratch: int8 [k_h][row]. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, k_h, k_w, stride_h, stride_w, pad_h, pad_w;
    int32_t row, in_zero, out_zero, act_min, act_max;
} tw_depthwise_conv2d_mve_s8_params;

/* The same for windows of 3 x 3; and for those over 8 channels with stride_w 1, whose constants are there twice. */
typedef tw_depthwise_conv2d_mve_s8_params tw_depthwise_conv2d_nine_mve_s8_params;
typedef tw_depthwise_conv2d_mve_s8_params tw_depthwise_conv2d_twice_mve_s8_params;

/* Which of them. */
typedef enum { TW_DEPTHWISE_ANY, TW_DEPTHWISE_NINE, TW_DEPTHWISE_TWICE } tw_depthwise_form;

/* Row i of the image to its place in scratch, between its padding; x: the image at the first of channels. */
TW_INLINE void tw_depthwise_keep(int8_t *to, const int8_t *x, int32_t i, int32_t channels, tw_depthwise_form form,
                                 const tw_depthwise_conv2d_mve_s8_params *p) {
    if ((uint32_t)i >= (uint32_t)p->in_h) {
        tw_b16_fill(to, p->in_zero, p->row);
        return;
    }
    x += i * p->in_w * p->in_c;
    if (form == TW_DEPTHWISE_TWICE) {
        to += p->pad_w * 8;
        for (int32_t left = p->in_w * 8; left > 0; left -= 16, x += 16, to += 16)
            tw_b16_store(to, tw_b16_load(x, left), left);
    } else {
        to += p->pad_w * 16;
        for (int32_t j = 0; j < p->in_w; ++j, x += p->in_c, to += 16) tw_b16_store(to, tw_b16_load(x, channels), 16);
    }
}

/* Sums of a window; x: its first row in scratch, k: the constants. */
TW_INLINE tw_sum16 tw_depthwise_window(const int8_t *rows, const int8_t *x, const int8_t *k,
                                       const tw_depthwise_conv2d_mve_s8_params *p) {
    const int8_t *w = k + TW_BLOCK_TAPS, *end = rows + p->k_h * p->row;
    tw_sum16 s = tw_sum16_bias(k);
    for (int32_t ky = 0; ky < p->k_h; ++ky, x += p->row) {
        if (x >= end) x -= p->k_h * p->row;
        const int8_t *tap = x;
        for (int32_t left = p->k_w; left > 1; left -= 2, tap += 32, w += 32) tw_sum16_pair(&s, tap, tap + 16, w);
        if (p->k_w % 2) {
            tw_sum16_tap(&s, tap, w);
            w += 16;
        }
    }
    return s;
}

/* A row of outputs, whose windows' first row in scratch is x. */
TW_INLINE void tw_depthwise_across(const int8_t *rows, const int8_t *x, const int8_t *k, int8_t *y, int32_t channels,
                                   tw_depthwise_form form, const tw_depthwise_conv2d_mve_s8_params *p) {
    const int32_t twice = form == TW_DEPTHWISE_TWICE, pitch = twice ? 8 : 16;
    const int32_t step = twice ? 16 : 16 * p->stride_w, jump = twice ? 16 : p->in_c;
    const int8_t *end = rows + 3 * p->row;
    const int8_t *b = x + p->row < end ? x + p->row : rows, *c = b + p->row < end ? b + p->row : rows;
    const int32_t clamped = p->act_min > INT8_MIN || p->act_max < INT8_MAX;
    int32_t left = twice ? 8 * p->out_w : channels;
    for (int32_t i = twice ? (p->out_w + 1) / 2 : p->out_w; i > 0; --i, x += step, y += jump) {
        tw_sum16 s;
        if (form == TW_DEPTHWISE_ANY) {
            s = tw_depthwise_window(rows, x, k, p);
        } else {
            s = tw_sum16_bias(k);
            tw_sum16_nine(&s, x, b, c, k, pitch);
            b += step;
            c += step;
        }
        tw_b16 v = tw_sum16_requantize(s, k, p->out_zero);
        if (clamped) v = tw_b16_clamp(v, p->act_min, p->act_max);
        tw_b16_store(y, v, left);
        if (twice) left -= 16;
    }
}

/* All outputs of one block; x and y at its first channel. */
TW_INLINE void tw_depthwise_block(const int8_t *x, const int8_t *k, int8_t *y, int8_t *rows, int32_t channels,
                                  tw_depthwise_form form, const tw_depthwise_conv2d_mve_s8_params *p) {
    int32_t kept = -p->pad_h; /* the first row of the image that is not in scratch */
    int8_t *oldest = rows;    /* its place to be */
    for (int32_t oy = 0, top = -p->pad_h; oy < p->out_h; ++oy, top += p->stride_h, y += p->out_w * p->in_c) {
        for (kept = tw_max(kept, top); kept < top + p->k_h; ++kept) {
            tw_depthwise_keep(oldest, x, kept, channels, form, p);
            oldest += p->row;
            if (oldest == rows + p->k_h * p->row) oldest = rows;
        }
        tw_depthwise_across(rows, oldest, k, y, channels, form, p);
    }
}

TW_INLINE void tw_depthwise_mve(const tw_depthwise_conv2d_mve_s8_params *p, const void *const *in, void *const *out,
                                void *scratch, tw_depthwise_form form) {
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0], *rows = (int8_t *)scratch;
    tw_b16_fill(rows, p->in_zero, p->k_h * p->row);
    for (int32_t b = 0; b < p->batches; ++b, x += p->in_h * p->in_w * p->in_c, y += p->out_h * p->out_w * p->in_c) {
        const int8_t *k = (const int8_t *)in[1];
        for (int32_t c = 0; c < p->in_c; c += 16, k += TW_BLOCK_TAPS + 16 * p->k_h * p->k_w)
            tw_depthwise_block(x + c, k, y + c, rows, tw_min(p->in_c - c, 16), form, p);
    }
}

TW_KERNEL(tw_depthwise_conv2d_mve_s8) {
    const tw_depthwise_conv2d_mve_s8_params p = *params;
    tw_depthwise_mve(&p, in, out, scratch, TW_DEPTHWISE_ANY);
}

TW_KERNEL(tw_depthwise_conv2d_nine_mve_s8) {
    const tw_depthwise_conv2d_nine_mve_s8_params p = *params;
    tw_depthwise_mve(&p, in, out, scratch, TW_DEPTHWISE_NINE);
}

TW_KERNEL(tw_depthwise_conv2d_twice_mve_s8) {
    const tw_depthwise_conv2d_twice_mve_s8_params p = *params;
    tw_depthwise_mve(&p, in, out, scratch, TW_DEPTHWISE_TWICE);
}

#endif
