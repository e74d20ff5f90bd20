/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over 16 lanes of products of int16 and int8, two at once: SIMD128 of WebAssembly multiplies halves, and takes bytes
 * as halves when it loads them. */
#ifndef TW_PAIRS_H
#define TW_PAIRS_H

#include "lanes.h"

/* The most pixels of a tile that share weights. */
#define TW_PAIRS_PIXELS 4

#if defined(TW_WIDE_WASM)
/* Four lanes of weights: of int8, or (size 2) of int16. */
TW_INLINE v128_t tw_pairs_taps(const int8_t *w, int size) {
    return size == 2 ? wasm_v128_load(w) : wasm_i16x8_load8x8(w);
}

/* Half a block: eight lanes of weights, and pixels that lie as far behind x. Eight vectors of sums fill the registers. */
TW_INLINE void tw_pairs_half(tw_acc *sums, int step, const uint8_t *const *x, int32_t behind, const int32_t *steps,
                             int32_t count, const tw_acc *start, const int8_t *w, int pixels, int size, int half) {
    v128_t acc[TW_PAIRS_PIXELS][2];
    w += half * 16 * size;
    for (int r = 0; r < pixels; ++r)
        for (int j = 0; j < 2; ++j) acc[r][j] = start->v[2 * half + j];
    TW_ROLLED
    for (int32_t k = 0; k < count; ++k, w += 2 * TW_LANES * size) {
        const int32_t at = behind + steps[k];
        const v128_t first = tw_pairs_taps(w, size), second = tw_pairs_taps(w + 8 * size, size);
        for (int r = 0; r < pixels; ++r) {
            const v128_t two = tw_four_once128(x[r] + at);
            acc[r][0] = wasm_i32x4_add(acc[r][0], wasm_i32x4_dot_i16x8(two, first));
            acc[r][1] = wasm_i32x4_add(acc[r][1], wasm_i32x4_dot_i16x8(two, second));
        }
    }
    for (int r = 0; r < pixels; ++r)
        for (int j = 0; j < 2; ++j) sums[r * step].v[2 * half + j] = acc[r][j];
}

TW_INLINE void tw_pairs_block(tw_acc *sums, int step, const uint8_t *const *x, int32_t behind, const int32_t *steps,
                              int32_t count, const tw_acc *start, const int8_t *w, int pixels, int size) {
    tw_pairs_half(sums, step, x, 0, steps, count, start, w, pixels, size, 0);
    tw_pairs_half(sums, step, x, behind, steps, count, start, w, pixels, size, 1);
}

/* acc[r][lane] += two int16 of lane at x + r * next . two weights of it, for four lanes, quarter j of all. */
TW_INLINE void tw_pairs_add(tw_acc *acc, int pixels, const int16_t *x, int32_t next, const int8_t *w, int j) {
    const v128_t taps = tw_pairs_taps(w + 8 * j, 1);
    for (int r = 0; r < pixels; ++r) {
        const v128_t pairs = wasm_v128_load(x + r * next + 8 * j);
        acc[r].v[j] = wasm_i32x4_add(acc[r].v[j], wasm_i32x4_dot_i16x8(pairs, taps));
    }
}

/* Sixteen int16. */
typedef struct {
    v128_t v[2];
} tw_halves16;

TW_INLINE tw_halves16 tw_halves16_zero(void) {
    const tw_halves16 zero = {{wasm_i16x8_const_splat(0), wasm_i16x8_const_splat(0)}};
    return zero;
}

/* Sixteen int8, less zero. */
TW_INLINE tw_halves16 tw_halves16_load(const int8_t *x, int32_t zero) {
    const v128_t less = wasm_i16x8_splat((int16_t)zero);
    const tw_halves16 halves = {
        {wasm_i16x8_sub(wasm_i16x8_load8x8(x), less), wasm_i16x8_sub(wasm_i16x8_load8x8(x + 8), less)}};
    return halves;
}

/* to [16][2] = those of a and b. */
TW_INLINE void tw_halves16_pair(int16_t *to, tw_halves16 a, tw_halves16 b) {
    for (int j = 0; j < 2; ++j) {
        wasm_v128_store(to + 16 * j, wasm_i16x8_shuffle(a.v[j], b.v[j], 0, 8, 1, 9, 2, 10, 3, 11));
        wasm_v128_store(to + 16 * j + 8, wasm_i16x8_shuffle(a.v[j], b.v[j], 4, 12, 5, 13, 6, 14, 7, 15));
    }
}
#else
/* The same in plain C. */
TW_INLINE void tw_pairs_block(tw_acc *sums, int step, const uint8_t *const *x, int32_t behind, const int32_t *steps,
                              int32_t count, const tw_acc *start, const int8_t *w, int pixels, int size) {
    for (int r = 0; r < pixels; ++r) {
        int32_t lanes[TW_LANES];
        memcpy(lanes, start, sizeof lanes);
        for (int32_t i = 0; i < 2 * TW_LANES * count; ++i) {
            const int32_t k = i / (2 * TW_LANES), lane = i / 2 % TW_LANES;
            int16_t value, weight = w[i];
            memcpy(&value, x[r] + (lane < TW_LANES / 2 ? 0 : behind) + steps[k] + 2 * (i % 2), sizeof value);
            if (size == 2) memcpy(&weight, w + 2 * i, sizeof weight);
            lanes[lane] = tw_add(lanes[lane], value * weight);
        }
        memcpy(&sums[r * step], lanes, sizeof lanes);
    }
}

TW_INLINE void tw_pairs_add(tw_acc *acc, int pixels, const int16_t *x, int32_t next, const int8_t *w, int j) {
    for (int r = 0; r < pixels; ++r) {
        int32_t lanes[TW_LANES];
        memcpy(lanes, &acc[r], sizeof lanes);
        for (int32_t i = 8 * j; i < 8 * j + 8; ++i) lanes[i / 2] = tw_add(lanes[i / 2], x[r * next + i] * w[i]);
        memcpy(&acc[r], lanes, sizeof lanes);
    }
}

typedef struct {
    int16_t v[TW_LANES];
} tw_halves16;

TW_INLINE tw_halves16 tw_halves16_zero(void) {
    const tw_halves16 zero = {{0}};
    return zero;
}

TW_INLINE tw_halves16 tw_halves16_load(const int8_t *x, int32_t zero) {
    tw_halves16 halves;
    for (int i = 0; i < TW_LANES; ++i) halves.v[i] = (int16_t)(x[i] - zero);
    return halves;
}

TW_INLINE void tw_halves16_pair(int16_t *to, tw_halves16 a, tw_halves16 b) {
    for (int i = 0; i < TW_LANES; ++i) {
        to[2 * i] = a.v[i];
        to[2 * i + 1] = b.v[i];
    }
}
#endif

/* sums [pixels][blocks] = start of each block + the halves at x . its weights [k / 2][16][2]; count twos of halves, whose
 * places behind x are in steps. The upper eight lanes take those that lie as far behind. size: bytes of a weight. */
TW_INLINE void tw_pairs_sums(tw_acc *sums, const uint8_t *const *x, int32_t behind, const int32_t *steps, int32_t count,
                             const tw_acc *start, const int8_t *w, int pixels, int blocks, int size) {
    for (int b = 0; b < blocks; ++b)
        tw_pairs_block(sums + b, blocks, x, behind, steps, count, start + b, w + 2 * TW_LANES * size * b * count,
                       pixels, size);
}

#endif
