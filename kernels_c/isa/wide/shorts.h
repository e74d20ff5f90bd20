/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of int16, one input channel in each lane, and sums over 16 lanes of products of int16. */
#ifndef TW_SHORTS_H
#define TW_SHORTS_H

#include "lanes.h"

#if defined(__AVX2__)
#define TW_SHORTS 16
#else
#define TW_SHORTS 8
#endif

/* Tiles whose sums are computed at once, and as many at the end of a panel: so no more than a multiple of six. */
#if TW_CONV_PIXELS >= 6
#define TW_SHORTS_TILES 6
#define TW_SHORTS_FEW 4
#else
#define TW_SHORTS_TILES 4
#define TW_SHORTS_FEW 2
#endif

typedef int16_t tw_shorts __attribute__((vector_size(2 * TW_SHORTS)));

TW_INLINE tw_shorts tw_shorts_load(const int8_t *x) {
#if defined(__AVX2__)
    return (tw_shorts)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)x));
#elif defined(TW_WIDE_NEON)
    return (tw_shorts)vmovl_s8(vld1_s8(x));
#else
    tw_shorts halves = {0};
    for (int i = 0; i < TW_SHORTS; ++i) halves[i] = x[i];
    return halves;
#endif
}

TW_INLINE void tw_shorts_store(int16_t *to, tw_shorts halves) { memcpy(to, &halves, sizeof halves); }

#if defined(TW_WIDE_NEON)
/* Channels 2 * i and 2 * i + 1 of x times their weights [16][2], which LD2 takes apart. */
#define TW_SHORTS_PAIR(i)                                                                                              \
    do {                                                                                                               \
        const int16x8x2_t low = vld2q_s16(u + 32 * (i)), high = vld2q_s16(u + 32 * (i) + 16);                          \
        for (int t = 0; t < tiles; ++t) {                                                                              \
            acc[t].v[0] = vmlal_laneq_s16(acc[t].v[0], vget_low_s16(low.val[0]), x[t], 2 * (i));                       \
            acc[t].v[1] = vmlal_high_laneq_s16(acc[t].v[1], low.val[0], x[t], 2 * (i));                                \
            acc[t].v[2] = vmlal_laneq_s16(acc[t].v[2], vget_low_s16(high.val[0]), x[t], 2 * (i));                      \
            acc[t].v[3] = vmlal_high_laneq_s16(acc[t].v[3], high.val[0], x[t], 2 * (i));                               \
            acc[t].v[0] = vmlal_laneq_s16(acc[t].v[0], vget_low_s16(low.val[1]), x[t], 2 * (i) + 1);                   \
            acc[t].v[1] = vmlal_high_laneq_s16(acc[t].v[1], low.val[1], x[t], 2 * (i) + 1);                            \
            acc[t].v[2] = vmlal_laneq_s16(acc[t].v[2], vget_low_s16(high.val[1]), x[t], 2 * (i) + 1);                  \
            acc[t].v[3] = vmlal_high_laneq_s16(acc[t].v[3], high.val[1], x[t], 2 * (i) + 1);                           \
        }                                                                                                              \
    } while (0)
#endif

/* sums [t * step], for each of so many tiles = depth shorts of it . weights [depth / 2][16][2]. v: [depth / TW_SHORTS][of]
 * [TW_SHORTS]; depth: a multiple of 8; tiles: a constant. */
TW_INLINE void tw_shorts_sums(tw_acc *sums, int step, const int16_t *v, const int8_t *w, int32_t depth, int32_t of,
                              int tiles) {
    tw_acc acc[TW_SHORTS_TILES];
    for (int t = 0; t < tiles; ++t) acc[t] = tw_acc_zero();
#if defined(TW_WIDE_NEON)
    const int16_t *u = (const int16_t *)(const void *)w;
    int16x8_t x[TW_SHORTS_TILES];
    TW_ROLLED
    for (; depth > 0; depth -= 8, v += 8 * of, u += 8 * TW_LANES) {
        for (int t = 0; t < tiles; ++t) x[t] = vld1q_s16(v + 8 * t);
        TW_SHORTS_PAIR(0);
        TW_SHORTS_PAIR(1);
        TW_SHORTS_PAIR(2);
        TW_SHORTS_PAIR(3);
    }
#else
    for (; depth > 0; depth -= TW_SHORTS, v += TW_SHORTS * of) {
        const int16_t *x = v, *const end = v + tw_min(depth, TW_SHORTS);
        TW_ROLLED
        for (; x != end; x += 2, w += 4 * TW_LANES) {
#if defined(TW_WIDE_VNNI)
            const tw_acc row = tw_kept(_mm512_loadu_si512(w));
            for (int t = 0; t < tiles; ++t)
                acc[t] = tw_acc_dot2_kept(acc[t], (const uint8_t *)(const void *)(x + TW_SHORTS * t), row);
#else
            for (int t = 0; t < tiles; ++t)
                acc[t] = tw_acc_dot2(acc[t], (const uint8_t *)(const void *)(x + TW_SHORTS * t), w);
#endif
        }
    }
#endif
    for (int t = 0; t < tiles; ++t) sums[t * step] = acc[t];
}

#endif
