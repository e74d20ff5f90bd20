/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of int16 activations and int8 weights on Helium: tiles of four channels for CONV_2D and
 * FULLY_CONNECTED.
 *
 * VMLADAVA sums eight products into an even-numbered register of 32 bits. The data of every four channels lie together,
 * one four after another: biases int32 [4], weights int8 [blocks][4][8], multipliers int32 [4] as tw_v4_top takes them.
 * Padding has weights of zero, so activations may hold anything there. */
#ifndef TW_MVE_TILE_S16_H
#define TW_MVE_TILE_S16_H

#include "mve.h"
#include "../../core/sums_s16.h"

/* Activations that one VMLADAVA takes. */
#define TW_MVE_BLOCK_S16 8

/* x * mult / 2^32 rounded half up, in every lane. */
TW_INLINE tw_v4 tw_v4_top(tw_v4 x, tw_v4 mult) {
#if defined(TW_MVE)
    return vrmulhq_s32(x, mult);
#else
    for (int i = 0; i < 4; ++i)
        x.lane[i] = (int32_t)(((uint64_t)((int64_t)x.lane[i] * mult.lane[i]) + 0x80000000U) >> 32);
    return x;
#endif
}

/* x clamped to low..high, as count int16. */
TW_INLINE void tw_v4_store_s16(int16_t *y, tw_v4 x, int32_t low, int32_t high, int32_t count) {
#if defined(TW_MVE)
    const int32x4_t clamped = vminq_s32(vmaxq_s32(x, vdupq_n_s32(low)), vdupq_n_s32(high));
    if (count >= 4)
        vstrhq_s32(y, clamped);
    else
        vstrhq_p_s32(y, clamped, vctp32q((uint32_t)count));
#else
    for (int i = 0; i < tw_min(count, 4); ++i) y[i] = (int16_t)tw_clamp(x.lane[i], low, high);
#endif
}

/* s plus n (at least one) activations times the blocks of four channels. */
TW_INLINE tw_v4 tw_mve_sums4_s16(tw_v4 s, const int16_t *x, const int8_t *w, int32_t n) {
#if defined(TW_MVE)
    int16x8_t a, b;
    __asm volatile("vmov r6, r10, %q[s][2], %q[s][0]\n\tvmov r8, r12, %q[s][3], %q[s][1]\n\t"
                   "dlstp.16 lr, %[n]\n"
                   "1:\n\t"
                   "vldrh.16 %q[a], [%[x]], #16\n\t"
                   "vldrb.s16 %q[b], [%[w]], #32\n\tvmladava.s16 r6, %q[a], %q[b]\n\t"
                   "vldrb.s16 %q[b], [%[w], #-24]\n\tvmladava.s16 r8, %q[a], %q[b]\n\t"
                   "vldrb.s16 %q[b], [%[w], #-16]\n\tvmladava.s16 r10, %q[a], %q[b]\n\t"
                   "vldrb.s16 %q[b], [%[w], #-8]\n\tvmladava.s16 r12, %q[a], %q[b]\n\t"
                   "letp lr, 1b\n\t"
                   "vmov %q[s][2], %q[s][0], r6, r10\n\tvmov %q[s][3], %q[s][1], r8, r12"
                   : [s] "+&w"(s), [a] "=&w"(a), [b] "=&w"(b), [x] "+&r"(x), [w] "+&l"(w)
                   : [n] "r"(n)
                   : "r6", "r8", "r10", "r12", "lr", "cc", "memory");
#else
    for (int32_t i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j)
            s.lane[j] =
                tw_add(s.lane[j], x[i] * w[(i / TW_MVE_BLOCK_S16 * 4 + j) * TW_MVE_BLOCK_S16 + i % TW_MVE_BLOCK_S16]);
#endif
    return s;
}

/* How long a four of channels over n activations is in words, without multipliers. */
TW_INLINE int32_t tw_mve_four_words_s16(int32_t n) {
    return 4 + (n + TW_MVE_BLOCK_S16 - 1) / TW_MVE_BLOCK_S16 * TW_MVE_BLOCK_S16;
}

/* The sums of a four of channels, biases included, over n activations. */
TW_INLINE tw_v4 tw_mve_four_s16(const int16_t *x, const int32_t *four, int32_t n) {
    return tw_mve_sums4_s16(tw_v4_load(four, 4), x, (const int8_t *)(four + 4), n);
}

/* The same in 64 bits: a total begins as the biases, gets the sums of every chunk of activations (a multiple of 8) and is
 * saturated to 32 bits. */
static TW_NOINLINE TW_COLD tw_v4 tw_mve_long_s16(const int16_t *x, const int32_t *four, int32_t n, int32_t chunk) {
    const int8_t *w = (const int8_t *)(four + 4);
    int64_t whole[4] = {four[0], four[1], four[2], four[3]};
    for (; n > 0; n -= chunk, x += chunk, w += 4 * chunk) {
        int32_t part[4];
        tw_v4_store(part, tw_mve_sums4_s16(tw_v4_all(0), x, w, tw_min(n, chunk)));
        for (int j = 0; j < 4; ++j) whole[j] += part[j];
    }
    return tw_v4_of(tw_saturate(whole[0]), tw_saturate(whole[1]), tw_saturate(whole[2]), tw_saturate(whole[3]));
}

/* How a layer's rows of n activations become out outputs each. blocks: n / 8, rounded up. chunk: activations after
 * which sums are added to the total, a multiple of 8; n or more if whole sums fit 32 bits. */
typedef struct {
    int32_t n, blocks, chunk, out;
    tw_limits limits;
} tw_mve_matrix_s16;

/* y [out] of one row. */
TW_INLINE void tw_mve_row_s16(const int16_t *x, const int32_t *four, int16_t *y, const tw_mve_matrix_s16 *m) {
#pragma GCC unroll 1
    for (int32_t left = m->out; left > 0; left -= 4, y += 4) {
        const tw_v4 sums = m->chunk >= m->n ? tw_mve_four_s16(x, four, m->n) : tw_mve_long_s16(x, four, m->n, m->chunk);
        four += 4 + TW_MVE_BLOCK_S16 * m->blocks;
        tw_v4_store_s16(y, tw_v4_top(sums, tw_v4_load(four, 4)), m->limits.low, m->limits.high, left);
        four += 4;
    }
}

/* Two pixels to compute: windows x0 and x1, int16 [8 * blocks] each, outputs y0 and y1 [out]; out is counted down. */
typedef struct {
    const int16_t *x0, *x1;
    int16_t *y0, *y1;
    int32_t blocks, out;
} tw_mve_pair_s16;

#if defined(TW_MVE)
/* A block of four channels times a block of x0 and of x1. r0..r6 sum x0, r8..lr x1. */
#define TW_MVE_BOTH_S16                                                                                                \
    "vldrh.16 %q[a], [%[x0]], #16\n\tvldrb.s16 %q[w], [%[f]], #32\n\t"                                                 \
    "vmladava.s16 r0, %q[a], %q[w]\n\t"                                                                                \
    "vldrh.16 %q[b], [%[x1]], #16\n\t"                                                                                 \
    "vmladava.s16 r8, %q[b], %q[w]\n\t"                                                                                \
    "vldrb.s16 %q[w], [%[f], #-24]\n\t"                                                                                \
    "vmladava.s16 r2, %q[a], %q[w]\n\tvmladava.s16 r10, %q[b], %q[w]\n\t"                                              \
    "vldrb.s16 %q[w], [%[f], #-16]\n\t"                                                                                \
    "vmladava.s16 r4, %q[a], %q[w]\n\tvmladava.s16 r12, %q[b], %q[w]\n\t"                                              \
    "vldrb.s16 %q[w], [%[f], #-8]\n\t"                                                                                 \
    "vmladava.s16 r6, %q[a], %q[w]\n\tvmladava.s16 lr, %q[b], %q[w]\n\t"

/* Two blocks a round, an odd one before (mve_tile.h). Behind the inner loop the registers of the sums are free. One
 * function for all layers, as it takes long anyway. */
static TW_NOINLINE void tw_mve_run_pair_s16(tw_mve_pair_s16 *s, const int32_t *f, int32_t low, int32_t high) {
    int16x8_t a, b, w;
    const int16_t *x0, *x1;
    int32_t n;
    __asm volatile(
        "0:\n\t"
        "ldrd %[x0], %[x1], [%[s]]\n\t"
        "ldr %[n], [%[s], #16]\n\t"
        "ldm %[f], {r0, r2, r4, r6}\n\tldm %[f]!, {r8, r10, r12, lr}\n"
        "lsrs %[n], %[n], #1\n\tbcc 1f\n\t" TW_MVE_BOTH_S16 "beq 2f\n"
        "1:\n\t" TW_MVE_BOTH_S16 TW_MVE_BOTH_S16 "subs %[n], #1\n\tbne 1b\n"
        "2:\n\t"
        "vmov %q[a][2], %q[a][0], r0, r4\n\tvmov %q[a][3], %q[a][1], r2, r6\n\t"
        "vmov %q[b][2], %q[b][0], r8, r12\n\tvmov %q[b][3], %q[b][1], r10, lr\n\t"
        "vldrw.32 %q[w], [%[f]], #16\n\t"
        "ldrd r0, r2, [%[s], #8]\n\tldr r4, [%[s], #20]\n\t"
        "vrmulh.s32 %q[a], %q[a], %q[w]\n\tvrmulh.s32 %q[b], %q[b], %q[w]\n\t"
        "vmax.s32 %q[a], %q[a], %q[low]\n\tvmax.s32 %q[b], %q[b], %q[low]\n\t"
        "vmin.s32 %q[a], %q[a], %q[high]\n\tvmin.s32 %q[b], %q[b], %q[high]\n\t"
        "vctp.32 r4\n\tvpstt\n\t"
        "vstrht.32 %q[a], [r0], #8\n\tvstrht.32 %q[b], [r2], #8\n\t"
        "subs r4, #4\n\t"
        "strd r0, r2, [%[s], #8]\n\t"
        "str r4, [%[s], #20]\n\t"
        "bgt 0b"
        : [a] "=&w"(a), [b] "=&w"(b), [w] "=&w"(w), [x0] "=&r"(x0), [x1] "=&r"(x1), [n] "=&r"(n), [f] "+&l"(f)
        : [s] "r"(s), [low] "w"(vdupq_n_s32(low)), [high] "w"(vdupq_n_s32(high))
        : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", TW_PREDICATE, "cc", "memory");
}
#else
TW_INLINE void tw_mve_run_pair_s16(tw_mve_pair_s16 *s, const int32_t *f, int32_t low, int32_t high) {
    const int32_t n = TW_MVE_BLOCK_S16 * s->blocks;
    const tw_mve_matrix_s16 m = {n, s->blocks, n, s->out, {low, high}};
    tw_mve_row_s16(s->x0, f, s->y0, &m);
    tw_mve_row_s16(s->x1, f, s->y1, &m);
}
#endif

#endif
