/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int16 activations and int8 weights [out_c][k_h][k_w][in_c / groups]. */
#ifndef TW_CONV2D_S16_H
#define TW_CONV2D_S16_H

#include "../core/inside.h"
#include "../core/sums_s16.h"

/* in: x [batches, in_h, in_w, in_c], w, bias int64 [out_c], mult int32 [out_c], shift int8 [out_c]. out: y [batches,
 * out_h, out_w, out_c]. pad_h, pad_w: rows and columns of padding before the first. depth: in_c / groups. narrow: see
 * tw_ends_s16. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, depth;
    int32_t narrow, act_min, act_max;
} tw_conv2d_s16_params;

/* sum and the products of one channel's taps inside the image. x: the window's corner at the group's first channel,
 * which may lie outside; w: the channel's. */
TW_INLINE int64_t tw_conv2d_sum_s16(int64_t sum, const int16_t *x, const int8_t *w, const tw_inside *inside,
                                    const tw_conv2d_s16_params *p) {
    const int32_t joined = p->dilation_w == 1 && p->depth == p->in_c; /* a row of taps is one run */
    const int32_t taps = joined ? inside->end - inside->first : 1;
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; kx += taps)
            sum = tw_dot_s16(sum, x + (ky * p->dilation_h * p->in_w + kx * p->dilation_w) * p->in_c,
                             w + (ky * p->k_w + kx) * p->depth, taps * p->depth);
    return sum;
}

TW_KERNEL(tw_conv2d_s16) {
    const tw_conv2d_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    const tw_ends_s16 e = tw_ends_s16_of(in, p.narrow, p.act_min, p.act_max);
    const int32_t group = p.out_c / (p.in_c / p.depth), size = p.k_h * p.k_w * p.depth;
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * p.in_w * p.in_c)
        for (int32_t oy = 0; oy < p.out_h; ++oy)
            for (int32_t ox = 0; ox < p.out_w; ++ox) {
                const int32_t y0 = oy * p.stride_h - p.pad_h, x0 = ox * p.stride_w - p.pad_w;
                const tw_inside inside = tw_inside_of(y0, x0, p.dilation_h, p.dilation_w, p.k_h, p.k_w, p.in_h, p.in_w);
                const int16_t *corner = x + (y0 * p.in_w + x0) * p.in_c;
                for (int32_t c = 0; c < p.out_c; ++c) {
                    const int64_t sum =
                        tw_conv2d_sum_s16(e.bias[c], corner + c / group * p.depth, w + c * size, &inside, &p);
                    *y++ = tw_end_s16(sum, e.mult[c], e.shift[c], &e);
                }
            }
}

#endif
