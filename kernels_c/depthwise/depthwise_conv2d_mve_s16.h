/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, int16 activations and int8 weights on Helium: eight channels at a time. */
#ifndef TW_DEPTHWISE_CONV2D_MVE_S16_H
#define TW_DEPTHWISE_CONV2D_MVE_S16_H

#include "../core/window.h"
#include "../isa/mve/mve_tile_s16.h"

/* in: x, then per eight channels bias int32 [2][4] (of even, then of odd ones), mult int32 [2][4] as tw_v4_top takes
 * it, weights int8 [k_h * k_w][8]. out: y. All sums fit 32 bits; no dilation. scratch: int16 [k_h][columns that windows
 * see][8]. */
typedef struct {
    tw_window window;
    tw_limits limits;
} tw_depthwise_conv2d_mve_s16_params;

/* Rows of eight channels of the image go to scratch with their padding, so that no window meets a border. Scratch holds
 * k_h rows of row elements; the image's next row takes the place of the oldest. taps: the channels' weights; the ends
 * lie before them. count: channels, 8 or more if all lanes are used. */
typedef struct {
    int16_t *rows, *oldest;
    const int8_t *taps;
    int32_t row, count;
} tw_depthwise_eight_s16;

/* Sums of even and of odd channels. */
typedef struct {
    tw_v4 even, odd;
} tw_sum8;

/* s + x * w, eight each. */
TW_INLINE tw_sum8 tw_sum8_tap(tw_sum8 s, const int16_t *x, const int8_t *w) {
#if defined(TW_MVE)
    const int16x8_t tap = vldrhq_s16(x), k = vldrbq_s16(w);
    s.even = vaddq_s32(s.even, vmullbq_int_s16(tap, k));
    s.odd = vaddq_s32(s.odd, vmulltq_int_s16(tap, k));
#else
    for (int i = 0; i < 4; ++i) {
        s.even.lane[i] = tw_add(s.even.lane[i], x[2 * i] * w[2 * i]);
        s.odd.lane[i] = tw_add(s.odd.lane[i], x[2 * i + 1] * w[2 * i + 1]);
    }
#endif
    return s;
}

/* The sums' first values. taps: weights; the ends lie before them. */
TW_INLINE tw_sum8 tw_sum8_bias(const int8_t *taps) {
    const int32_t *ends = (const int32_t *)(const void *)taps - 16;
    const tw_sum8 s = {tw_v4_load(ends, 4), tw_v4_load(ends + 4, 4)};
    return s;
}

/* The sums as outputs: count int16, in order. */
TW_INLINE void tw_sum8_end(int16_t *y, tw_sum8 s, const int8_t *taps, int32_t low, int32_t high, int32_t count) {
    const int32_t *mults = (const int32_t *)(const void *)taps - 8;
    s.even = tw_v4_top(s.even, tw_v4_load(mults, 4));
    s.odd = tw_v4_top(s.odd, tw_v4_load(mults + 4, 4));
#if defined(TW_MVE)
    int16x8_t v = vqmovntq_s32(vqmovnbq_s32(vuninitializedq_s16(), s.even), s.odd);
    v = vminq_s16(vmaxq_s16(v, vdupq_n_s16((int16_t)low)), vdupq_n_s16((int16_t)high));
    if (count >= 8)
        vstrhq_s16(y, v);
    else
        vstrhq_p_s16(y, v, vctp16q((uint32_t)count));
#else
    for (int i = 0; i < tw_min(count, 8); ++i)
        y[i] = (int16_t)tw_clamp((i % 2 ? s.odd : s.even).lane[i / 2], low, high);
#endif
}

/* The row that follows one. */
TW_INLINE int16_t *tw_depthwise_after_s16(int16_t *row, const tw_depthwise_eight_s16 *k,
                                          const tw_depthwise_conv2d_mve_s16_params *p) {
    return row + k->row < k->rows + p->window.k_h * k->row ? row + k->row : k->rows;
}

/* Copies row i of the image x to scratch, with zeros in unused lanes. */
TW_INLINE void tw_depthwise_keep_s16(tw_depthwise_eight_s16 *k, const int16_t *x, int32_t i,
                                     const tw_depthwise_conv2d_mve_s16_params *p) {
    int16_t *to = k->oldest + 8 * p->window.pad_w;
    x += i * p->window.in_w * p->window.in_c;
    if (!tw_row_inside(i, &p->window))
        memset(k->oldest, 0, 2 * (size_t)k->row);
    else
        for (int32_t left = p->window.in_w; left > 0; --left, x += p->window.in_c, to += 8) {
#if defined(TW_MVE)
            vstrhq_s16(to, vldrhq_z_s16(x, vctp16q((uint32_t)k->count)));
#else
            memcpy(to, x, 2 * (size_t)tw_min(k->count, 8));
#endif
        }
    k->oldest = tw_depthwise_after_s16(k->oldest, k, p);
}

/* A row of outputs by windows of 3 x 3: the first window's rows lie at x, y and z, those of the next step bytes
 * further. The first lanes of each result go to out, jump bytes apart. */
typedef struct {
    const int16_t *x, *y, *z;
    const int8_t *taps;
    int16_t *out;
    int32_t step, jump, count, lanes;
} tw_nine_row_s16;

/* A function of its own: it takes all registers, and layers share it. */
static TW_NOINLINE void tw_sum8_nine(const tw_nine_row_s16 *row, int32_t low, int32_t high) {
#if defined(TW_MVE)
    const int16_t *x = row->x, *y = row->y, *z = row->z;
    int16_t *to = row->out;
    int32x4_t even, odd;
    int16x8_t tap, k, product;
#define TW_SUM8_TAP(x, w)                                                                                              \
    "vldrh.16 %q[t], [" x "]\n\tvldrb.s16 %q[u], [%[w], #" w "]\n\tvmullb.s16 %q[v], %q[t], %q[u]\n\t"                 \
    "vmullt.s16 %q[t], %q[t], %q[u]\n\tvadd.i32 %q[e], %q[e], %q[v]\n\tvadd.i32 %q[o], %q[o], %q[t]\n\t"
    __asm volatile(
        "vctp.16 %[lanes]\n\tdls lr, %[count]\n"
        "1:\n\tvldrw.32 %q[e], [%[w], #-64]\n\tvldrw.32 %q[o], [%[w], #-48]\n\t" TW_SUM8_TAP("%[x]", "0") TW_SUM8_TAP(
            "%[x], #16", "8") TW_SUM8_TAP("%[x], #32", "16") TW_SUM8_TAP("%[y]", "24") TW_SUM8_TAP("%[y], #16", "32")
            TW_SUM8_TAP("%[y], #32", "40") TW_SUM8_TAP("%[z]", "48") TW_SUM8_TAP("%[z], #16", "56") TW_SUM8_TAP(
                "%[z], #32", "64") "vldrw.32 %q[t], [%[w], #-32]\n\tvrmulh.s32 %q[e], %q[e], %q[t]\n\t"
                                   "vldrw.32 %q[t], [%[w], #-16]\n\tvrmulh.s32 %q[o], %q[o], %q[t]\n\t"
                                   "vqmovnb.s32 %q[t], %q[e]\n\tvqmovnt.s32 %q[t], %q[o]\n\t"
                                   "vmax.s16 %q[t], %q[t], %q[low]\n\tvmin.s16 %q[t], %q[t], %q[high]\n\t"
                                   "vpst\n\tvstrht.16 %q[t], [%[to]]\n\t"
                                   "add %[x], %[x], %[step]\n\tadd %[y], %[y], %[step]\n\tadd %[z], %[z], %[step]\n\t"
                                   "add %[to], %[to], %[jump]\n\tle lr, 1b"
        : [x] "+&r"(x), [y] "+&r"(y), [z] "+&r"(z), [to] "+&r"(to), [e] "=&w"(even), [o] "=&w"(odd), [t] "=&w"(tap),
          [u] "=&w"(k), [v] "=&w"(product)
        : [w] "l"(row->taps), [step] "r"(row->step), [jump] "r"(row->jump), [count] "r"(row->count),
          [lanes] "r"(row->lanes), [low] "w"(vdupq_n_s16((int16_t)low)), [high] "w"(vdupq_n_s16((int16_t)high))
        : "lr", TW_PREDICATE, "memory");
#undef TW_SUM8_TAP
#else
    for (int32_t i = 0; i < row->count; ++i) {
        const int16_t *const rows[3] = {row->x + i * row->step / 2, row->y + i * row->step / 2,
                                        row->z + i * row->step / 2};
        tw_sum8 s = tw_sum8_bias(row->taps);
        for (int t = 0; t < 9; ++t) s = tw_sum8_tap(s, rows[t / 3] + t % 3 * 8, row->taps + 8 * t);
        tw_sum8_end(row->out + i * row->jump / 2, s, row->taps, low, high, row->lanes);
    }
#endif
}

/* A row of outputs. */
TW_INLINE void tw_depthwise_line_s16(const tw_depthwise_eight_s16 *k, int16_t *y,
                                     const tw_depthwise_conv2d_mve_s16_params *p) {
    if (p->window.k_h == 3 && p->window.k_w == 3) {
        int16_t *second = tw_depthwise_after_s16(k->oldest, k, p), *third = tw_depthwise_after_s16(second, k, p);
        const tw_nine_row_s16 row = {k->oldest,
                                     second,
                                     third,
                                     k->taps,
                                     y,
                                     16 * p->window.stride_w,
                                     2 * p->window.out_c,
                                     p->window.out_w,
                                     tw_min(k->count, 8)};
        tw_sum8_nine(&row, p->limits.low, p->limits.high);
        return;
    }
    for (int32_t ox = 0; ox < p->window.out_w; ++ox, y += p->window.out_c) {
        tw_sum8 s = tw_sum8_bias(k->taps);
        const int8_t *w = k->taps;
        int16_t *row = k->oldest;
        for (int32_t ky = 0; ky < p->window.k_h; ++ky, row = tw_depthwise_after_s16(row, k, p)) {
            const int16_t *x = row + 8 * ox * p->window.stride_w;
            for (int32_t left = p->window.k_w; left > 0; --left, x += 8, w += 8) s = tw_sum8_tap(s, x, w);
        }
        tw_sum8_end(y, s, k->taps, p->limits.low, p->limits.high, k->count);
    }
}

/* All outputs of eight channels; x and y point to the first of them. */
TW_INLINE void tw_depthwise_images_s16(tw_depthwise_eight_s16 *k, const int16_t *x, int16_t *y,
                                       const tw_depthwise_conv2d_mve_s16_params *p) {
    memset(k->rows, 0, 2 * (size_t)(p->window.k_h * k->row));
    for (int32_t b = 0; b < p->window.batches; ++b, x += tw_window_image(&p->window)) {
        int32_t kept = -p->window.pad_h; /* the first row that is not in scratch */
        for (int32_t oy = 0; oy < p->window.out_h; ++oy, y += p->window.out_w * p->window.out_c) {
            const int32_t top = oy * p->window.stride_h - p->window.pad_h;
            for (kept = tw_max(kept, top); kept < top + p->window.k_h; ++kept) tw_depthwise_keep_s16(k, x, kept, p);
            tw_depthwise_line_s16(k, y, p);
        }
    }
}

TW_KERNEL(tw_depthwise_conv2d_mve_s16) {
    const tw_depthwise_conv2d_mve_s16_params p = *params;
    const int8_t *taps = (const int8_t *)in[1] + 64;
    int16_t *rows = (int16_t *)scratch;
    const int32_t row =
        8 * tw_max(p.window.pad_w + p.window.in_w, (p.window.out_w - 1) * p.window.stride_w + p.window.k_w);
    for (int32_t c = 0; c < p.window.in_c; c += 8, taps += 64 + 8 * p.window.k_h * p.window.k_w) {
        tw_depthwise_eight_s16 k = {rows, rows, taps, row, p.window.in_c - c};
        tw_depthwise_images_s16(&k, (const int16_t *)in[0] + c, (int16_t *)out[0] + c, &p);
    }
}

#endif
