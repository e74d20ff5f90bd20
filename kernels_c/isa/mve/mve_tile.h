/* SPDX-License-Identifier: Apache-2.0 */
/* Int8 matrix products on Helium: tiles of four channels for CONV_2D and FULLY_CONNECTED.
 *
 * VMLADAVA sums 16 products into an even-numbered register; a tile has as many sums as there are such registers: four
 * channels of two pixels, or of one if the loop's counter (LR) or other weights take the rest. */
#ifndef TW_MVE_TILE_H
#define TW_MVE_TILE_H

#include "mve.h"
#include "../../core/epilogue.h"

/* Bytes that one VMLADAVA takes of each operand. */
#define TW_MVE_BLOCK 16

/* Two pixels to compute: windows x0 and x1, int8 [16 * blocks] each, outputs y0 and y1 [out]. The layer's channels come
 * in fours, one after another: biases int32 [4], weights int8 [blocks][4][16], multipliers int32 [4], shifts int8 [4],
 * -31..-1 as tw_v4_scaled takes them. Two fours are the even and the odd ones of eight channels; less than eight channels
 * behind these come in order. Padding has weights of zero, so x may hold anything there. */
typedef struct {
    const int8_t *x0, *x1;
    int8_t *y0, *y1;
    int32_t blocks, zero, out;
} tw_mve_pair;

#if defined(TW_MVE)
/* A block of four channels times a block of x0 and of x1. r0..r6 sum x0, r8..lr x1. */
#define TW_MVE_BOTH_BLOCK                                                                                              \
    "vldrb.8 %q[a], [%[x0]], #16\n\tvldrb.8 %q[w], [%[f]], #64\n\t"                                                    \
    "vmladava.s8 r0, %q[a], %q[w]\n\t"                                                                                 \
    "vldrb.8 %q[b], [%[x1]], #16\n\t"                                                                                  \
    "vmladava.s8 r8, %q[b], %q[w]\n\t"                                                                                 \
    "vldrb.8 %q[w], [%[f], #-48]\n\t"                                                                                  \
    "vmladava.s8 r2, %q[a], %q[w]\n\tvmladava.s8 r10, %q[b], %q[w]\n\t"                                                \
    "vldrb.8 %q[w], [%[f], #-32]\n\t"                                                                                  \
    "vmladava.s8 r4, %q[a], %q[w]\n\tvmladava.s8 r12, %q[b], %q[w]\n\t"                                                \
    "vldrb.8 %q[w], [%[f], #-16]\n\t"                                                                                  \
    "vmladava.s8 r6, %q[a], %q[w]\n\tvmladava.s8 lr, %q[b], %q[w]\n\t"
/* n blocks, two a round, an odd one before; behind the loop, q[a] and q[b] hold the sums. Blocks leave the flags as they
 * are. */
#define TW_MVE_BOTH(n, a, b)                                                                                           \
    "lsrs %[n], " n ", #1\n\tbcc 1f\n\t" TW_MVE_BOTH_BLOCK "beq 2f\n"                                                  \
    "1:\n\t" TW_MVE_BOTH_BLOCK TW_MVE_BOTH_BLOCK "subs %[n], #1\n\tbne 1b\n"                                           \
    "2:\n\t"                                                                                                           \
    "vmov %q" a "[2], %q" a "[0], r0, r4\n\tvmov %q" a "[3], %q" a "[1], r2, r6\n\t"                                   \
    "vmov %q" b "[2], %q" b "[0], r8, r12\n\tvmov %q" b "[3], %q" b "[1], r10, lr\n\t"
/* The blocks of a pair, in a register of their own where there is one: clang keeps r7 for itself. */
#if defined(__clang__)
#define TW_MVE_BLOCKS "%[n]"
#define TW_MVE_LOAD_BLOCKS "ldr %[n], [%[s], #16]\n\t"
#define TW_MVE_PAIR(s) [s] "r"(s)
#else
#define TW_MVE_BLOCKS "%[blocks]"
#define TW_MVE_LOAD_BLOCKS
#define TW_MVE_PAIR(s) [s] "r"(s), [blocks] "r"((s)->blocks)
#endif
/* Four channels of both pixels, rescaled; SIGN: nothing, or less 1 in the lanes that are negative, by r8 = 1. */
#define TW_MVE_FOUR(a, b, SIGN)                                                                                        \
    TW_MVE_LOAD_BLOCKS                                                                                                 \
    "ldrd %[x0], %[x1], [%[s]]\n\t"                                                                                    \
    "ldm %[f], {r0, r2, r4, r6}\n\tldm %[f]!, {r8, r10, r12, lr}\n\t" TW_MVE_BOTH(                                     \
        TW_MVE_BLOCKS, a, b) "vldrw.32 %q[w], [%[f]], #16\n\t"                                                         \
                             "vqrdmulh.s32 %q" a ", %q" a ", %q[w]\n\tvqrdmulh.s32 %q" b ", %q" b ", %q[w]\n\t"        \
                             "vldrb.s32 %q[w], [%[f]], #4\n\t" SIGN(a, b) "vrshl.s32 %q" a ", %q" a                    \
                                                                          ", %q[w]\n\tvrshl.s32 %q" b ", %q" b         \
                                                                          ", %q[w]\n\t"
#define TW_MVE_SIGN(a, b) "mov r8, #1\n\tvqdmlah.s32 %q" a ", %q" a ", r8\n\tvqdmlah.s32 %q" b ", %q" b ", r8\n\t"
#define TW_MVE_NO_SIGN(a, b)
/* Eights of channels, at least one; returns where their constants end. Without SIGN sums below 0 may be one step off: for
 * layers that clamp these away. Behind the inner loop the registers of the sums are free. One function for all layers, as
 * it takes long anyway. */
#define TW_MVE_RUN_EIGHTS(name, SIGN)                                                                                  \
    static TW_NOINLINE __attribute__((unused)) const int32_t *name(tw_mve_pair *s, const int32_t *f) {                 \
        int32x4_t a, b, c, d, w;                                                                                       \
        const int8_t *x0, *x1;                                                                                         \
        int32_t n;                                                                                                     \
        __asm volatile("0:\n\t" TW_MVE_FOUR("[c]", "[d]", SIGN) TW_MVE_FOUR(                                           \
                           "[a]", "[b]", SIGN) "ldrd r0, r2, [%[s], #8]\n\tldrd r4, r6, [%[s], #20]\n\t"               \
                                               "vqmovnb.s32 %q[c], %q[c]\n\tvqmovnb.s32 %q[d], %q[d]\n\t"              \
                                               "vqmovnt.s32 %q[c], %q[a]\n\tvqmovnt.s32 %q[d], %q[b]\n\t"              \
                                               "vqadd.s16 %q[c], %q[c], r4\n\tvqadd.s16 %q[d], %q[d], r4\n\t"          \
                                               "vqmovnb.s16 %q[c], %q[c]\n\tvqmovnb.s16 %q[d], %q[d]\n\t"              \
                                               "vstrb.16 %q[c], [r0], #8\n\tvstrb.16 %q[d], [r2], #8\n\t"              \
                                               "subs r6, #8\n\t"                                                       \
                                               "strd r0, r2, [%[s], #8]\n\t"                                           \
                                               "str r6, [%[s], #24]\n\t"                                               \
                                               "bgt 0b"                                                                \
                       : [a] "=&w"(a), [b] "=&w"(b), [c] "=&w"(c), [d] "=&w"(d), [w] "=&w"(w), [x0] "=&r"(x0),         \
                         [x1] "=&r"(x1), [n] "=&r"(n), [f] "+&l"(f)                                                    \
                       : TW_MVE_PAIR(s)                                                                                \
                       : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");                            \
        return f;                                                                                                      \
    }
TW_MVE_RUN_EIGHTS(tw_mve_run_eights, TW_MVE_SIGN)
TW_MVE_RUN_EIGHTS(tw_mve_run_eights_above, TW_MVE_NO_SIGN)

/* One to seven channels, fours of them. */
static TW_NOINLINE __attribute__((unused)) void tw_mve_run_fours(tw_mve_pair *s, const int32_t *f) {
    int32x4_t a, b, w;
    const int8_t *x0, *x1;
    int32_t n;
    __asm volatile(
        "0:\n\t" TW_MVE_FOUR("[a]", "[b]", TW_MVE_SIGN) "ldrd r0, r2, [%[s], #8]\n\tldrd r4, r6, [%[s], #20]\n\t"
                                                        "vadd.i32 %q[a], %q[a], r4\n\tvadd.i32 %q[b], %q[b], r4\n\t"
                                                        "vqmovnb.s32 %q[a], %q[a]\n\tvqmovnb.s32 %q[b], %q[b]\n\t"
                                                        "vqmovnb.s16 %q[a], %q[a]\n\tvqmovnb.s16 %q[b], %q[b]\n\t"
                                                        "vctp.32 r6\n\tvpstt\n\t"
                                                        "vstrbt.32 %q[a], [r0], #4\n\tvstrbt.32 %q[b], [r2], #4\n\t"
                                                        "subs r6, #4\n\t"
                                                        "strd r0, r2, [%[s], #8]\n\t"
                                                        "str r6, [%[s], #24]\n\t"
                                                        "bgt 0b"
        : [a] "=&w"(a), [b] "=&w"(b), [w] "=&w"(w), [x0] "=&r"(x0), [x1] "=&r"(x1), [n] "=&r"(n), [f] "+&l"(f)
        : TW_MVE_PAIR(s)
        : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", TW_PREDICATE, "cc", "memory");
}
#else
/* The sums of four channels over one window: biases plus weights times x. */
TW_INLINE tw_v4 tw_mve_four(const int8_t *x, const int32_t *four, int32_t blocks) {
    tw_v4 s = tw_v4_load(four, 4);
    const int8_t *w = (const int8_t *)(four + 4);
    for (; blocks > 0; --blocks, x += TW_MVE_BLOCK) {
        TW_ROLLED
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < TW_MVE_BLOCK; ++i, ++w) s.lane[j] = tw_add(s.lane[j], x[i] * *w);
    }
    return s;
}

/* Four channels of both pixels, step bytes apart in y. Returns where their constants end. */
TW_INLINE const int32_t *tw_mve_run_four(const tw_mve_pair *s, const int32_t *f, int32_t first, int32_t step,
                                         int32_t count) {
    const tw_v4 a = tw_mve_four(s->x0, f, s->blocks), b = tw_mve_four(s->x1, f, s->blocks);
    f += 4 + TW_MVE_BLOCK * s->blocks;
    const tw_v4 mult = tw_v4_load(f, 4), shift = tw_v4_load_s8((const int8_t *)(f + 4), 4);
    int8_t both[2][4];
    tw_v4_store_s8(both[0], tw_v4_scaled(a, mult, shift), s->zero, INT8_MIN, INT8_MAX, count);
    tw_v4_store_s8(both[1], tw_v4_scaled(b, mult, shift), s->zero, INT8_MIN, INT8_MAX, count);
    for (int32_t i = 0; i < tw_min(count, 4); ++i) {
        s->y0[first + i * step] = both[0][i];
        s->y1[first + i * step] = both[1][i];
    }
    return f + 5;
}

static TW_NOINLINE __attribute__((unused)) const int32_t *tw_mve_run_eights(tw_mve_pair *s, const int32_t *f) {
    for (; s->out > 0; s->out -= 8, s->y0 += 8, s->y1 += 8)
        f = tw_mve_run_four(s, tw_mve_run_four(s, f, 0, 2, 4), 1, 2, 4);
    return f;
}
#define tw_mve_run_eights_above tw_mve_run_eights

static TW_NOINLINE __attribute__((unused)) void tw_mve_run_fours(tw_mve_pair *s, const int32_t *f) {
    for (; s->out > 0; s->out -= 4, s->y0 += 4, s->y1 += 4) f = tw_mve_run_four(s, f, 0, 1, s->out);
}
#endif

/* All out channels of two pixels, clamped to -128..127. above: what is less than zero is clamped to it later. */
TW_INLINE void tw_mve_run_pair(tw_mve_pair *s, const int32_t *f, int32_t out, int32_t above) {
    if (out >= 8) {
        s->out = out & -8;
        f = above ? tw_mve_run_eights_above(s, f) : tw_mve_run_eights(s, f);
    }
    if (out % 8) {
        s->out = out % 8;
        tw_mve_run_fours(s, f);
    }
}

/* Copies n bytes (at least one), apart (1..9362) from one another, into blocks of 16 that lie pitch apart, with zeros
 * behind them. Returns their sum. */
TW_INLINE int32_t tw_mve_line(int8_t *to, int32_t pitch, const int8_t *from, int32_t apart, int32_t n) {
    int32_t sum = 0;
#if defined(TW_MVE)
    const uint16x8_t at = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)apart);
    for (; n > 0; n -= TW_MVE_BLOCK, to += pitch, from += TW_MVE_BLOCK * apart) {
        if (apart == 1) {
            const int8x16_t v = vldrbq_z_s8(from, vctp8q((uint32_t)n));
            vstrbq_s8(to, v);
            sum = vaddvaq_s8(sum, v);
            continue;
        }
        const int16x8_t v = vldrbq_gather_offset_z_s16(from, at, vctp16q((uint32_t)n));
        const int16x8_t w = vldrbq_gather_offset_z_s16(from + 8 * apart, at, vctp16q((uint32_t)tw_max(n - 8, 0)));
        vstrbq_s16(to, v);
        vstrbq_s16(to + 8, w);
        sum = vaddvaq_s16(vaddvaq_s16(sum, v), w);
    }
#else
    for (; n > 0; n -= TW_MVE_BLOCK, to += pitch) {
        for (int i = 0; i < TW_MVE_BLOCK; ++i, from += apart) {
            to[i] = i < n ? *from : 0;
            sum += to[i];
        }
    }
#endif
    return sum;
}

/* The sums of four channels over two windows. */
typedef struct {
    tw_v4 first, second;
} tw_mve_two;

/* The biases of a four plus its weights times x0, and times x1; behind the weights nothing is read. */
TW_INLINE tw_mve_two tw_mve_two_rows(const int8_t *x0, const int8_t *x1, const int32_t *four, int32_t blocks) {
    tw_mve_two sums;
#if defined(TW_MVE)
    int8x16_t w;
    __asm volatile("ldm %[f], {r0, r2, r4, r6}\n\tldm %[f]!, {r8, r10, r12, lr}\n\t" TW_MVE_BOTH("%[n]", "[a]", "[b]")
                   : [a] "=&w"(sums.first), [b] "=&w"(sums.second), [w] "=&w"(w), [x0] "+&r"(x0), [x1] "+&r"(x1),
                     [n] "+&r"(blocks), [f] "+&r"(four)
                   :
                   : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
#else
    sums.first = tw_mve_four(x0, four, blocks);
    sums.second = tw_mve_four(x1, four, blocks);
#endif
    return sums;
}

/* Where four of count rows of n weights lie: the distances of the second to fourth from the first, then n. Rows beyond the
 * last are the last. */
typedef struct {
    int32_t at[4];
} tw_mve_four_rows;

TW_INLINE tw_mve_four_rows tw_mve_four_rows_of(int32_t n, int32_t count) {
    const int32_t most = count - 1;
    const tw_mve_four_rows rows = {{tw_min(1, most) * n, tw_min(2, most) * n, tw_min(3, most) * n, n}};
    return rows;
}

/* bias [4] + x . four rows of w; rows: the distances of the other three from the first, then the length of a row. */
TW_INLINE tw_v4 tw_mve_tile1(const int8_t *x, const int8_t *w, const int32_t *rows, const int32_t *bias) {
#if defined(TW_MVE)
    tw_v4 s;
    int8x16_t v;
    __asm volatile("ldm %[rows], {r8, r10, r12, lr}\n\t"
                   "add r8, %[w]\n\t"
                   "add r10, %[w]\n\t"
                   "add r12, %[w]\n\t"
                   "ldm %[bias], {r0, r2, r4, r6}\n\t"
                   "wlstp.8 lr, lr, 2f\n"
                   "1:\n\t"
                   "vldrb.8 %q[s], [%[x]], #16\n\t"
                   "vldrb.8 %q[v], [%[w]], #16\n\t"
                   "vmladava.s8 r0, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [r8], #16\n\t"
                   "vmladava.s8 r2, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [r10], #16\n\t"
                   "vmladava.s8 r4, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [r12], #16\n\t"
                   "vmladava.s8 r6, %q[s], %q[v]\n\t"
                   "letp lr, 1b\n"
                   "2:\n\t"
                   "vmov %q[s][2], %q[s][0], r0, r4\n\t"
                   "vmov %q[s][3], %q[s][1], r2, r6"
                   : [s] "=&w"(s), [v] "=&w"(v), [x] "+&r"(x), [w] "+&r"(w)
                   : [bias] "r"(bias), [rows] "r"(rows)
                   : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
    return s;
#else
    tw_v4 s = tw_v4_load(bias, 4);
    for (int j = 0; j < 4; ++j) {
        const int8_t *row = w + (j > 0 ? rows[j - 1] : 0);
        for (int32_t i = 0; i < rows[3]; ++i) s.lane[j] = tw_add(s.lane[j], x[i] * row[i]);
    }
    return s;
#endif
}

/* The sums of eight channels, the even and the odd ones. */
typedef struct {
    tw_v4 even, odd;
} tw_mve_eight;

/* Biases int32 [8] plus weights int8 [blocks][8][16] times x, both in the order of channels 0, 2, 4, 6, 1, 3, 5, 7. */
TW_INLINE tw_mve_eight tw_mve_tile8(const int8_t *x, const int8_t *w, const int32_t *bias, int32_t blocks) {
    tw_mve_eight s;
#if defined(TW_MVE)
    int8x16_t v;
#define TW_MVE_EIGHT_BLOCK                                                                                             \
    "vldrb.8 %q[a], [%[x]], #16\n\t"                                                                                   \
    "vldrb.8 %q[v], [%[w]], #16\n\tvmladava.s8 r0, %q[a], %q[v]\n\tvldrb.8 %q[b], [%[w]], #16\n\t"                     \
    "vmladava.s8 r2, %q[a], %q[b]\n\tvldrb.8 %q[v], [%[w]], #16\n\tvmladava.s8 r4, %q[a], %q[v]\n\t"                   \
    "vldrb.8 %q[b], [%[w]], #16\n\tvmladava.s8 r6, %q[a], %q[b]\n\tvldrb.8 %q[v], [%[w]], #16\n\t"                     \
    "vmladava.s8 r8, %q[a], %q[v]\n\tvldrb.8 %q[b], [%[w]], #16\n\tvmladava.s8 r10, %q[a], %q[b]\n\t"                  \
    "vldrb.8 %q[v], [%[w]], #16\n\tvmladava.s8 r12, %q[a], %q[v]\n\tvldrb.8 %q[b], [%[w]], #16\n\t"                    \
    "vmladava.s8 lr, %q[a], %q[b]\n\t"
    __asm volatile("ldm %[bias], {r0, r2, r4, r6, r8, r10, r12, lr}\n\t"
                   "lsrs %[n], %[n], #1\n\tbcc 1f\n\t" TW_MVE_EIGHT_BLOCK "beq 2f\n"
                   "1:\n\t" TW_MVE_EIGHT_BLOCK TW_MVE_EIGHT_BLOCK "subs %[n], #1\n\tbne 1b\n"
                   "2:\n\t"
                   "vmov %q[a][2], %q[a][0], r0, r4\n\tvmov %q[a][3], %q[a][1], r2, r6\n\t"
                   "vmov %q[b][2], %q[b][0], r8, r12\n\tvmov %q[b][3], %q[b][1], r10, lr\n\t"
                   : [a] "=&w"(s.even), [b] "=&w"(s.odd), [v] "=&w"(v), [x] "+&r"(x), [w] "+&r"(w), [n] "+&r"(blocks)
                   : [bias] "r"(bias)
                   : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
#else
    s.even = tw_v4_load(bias, 4);
    s.odd = tw_v4_load(bias + 4, 4);
    for (; blocks > 0; --blocks, x += TW_MVE_BLOCK)
        for (int j = 0; j < 8; ++j)
            for (int i = 0; i < TW_MVE_BLOCK; ++i, ++w) {
                int32_t *const lane = (j < 4 ? s.even.lane : s.odd.lane) + j % 4;
                *lane = tw_add(*lane, x[i] * *w);
            }
#endif
    return s;
}

/* The channels in order, plus zero, between low and high, as eight bytes. */
TW_INLINE void tw_mve_store8(int8_t *y, tw_mve_eight v, int32_t zero, int32_t low, int32_t high) {
#if defined(TW_MVE)
    int16x8_t all = vqmovntq_s32(vqmovnbq_s32(vuninitializedq_s16(), v.even), v.odd);
    all = vqaddq_n_s16(all, (int16_t)zero);
    vstrbq_s16(y, vminq_s16(vmaxq_s16(all, vdupq_n_s16((int16_t)low)), vdupq_n_s16((int16_t)high)));
#else
    for (int i = 0; i < 4; ++i) {
        y[2 * i] = (int8_t)tw_clamp(tw_add(v.even.lane[i], zero), low, high);
        y[2 * i + 1] = (int8_t)tw_clamp(tw_add(v.odd.lane[i], zero), low, high);
    }
#endif
}

/* Copies rows (at least one) of count bytes (at least one), each from its first byte on: a row may move to lower
 * addresses over itself. Both sides have a pitch of their own. */
TW_INLINE void tw_mve_rows(int8_t *to, int32_t to_pitch, const int8_t *from, int32_t from_pitch, int32_t rows,
                           int32_t count) {
#if defined(TW_MVE)
    const int32_t moved = (count + 15) & -16;
    int8x16_t v;
    __asm volatile("1:\n\t"
                   "dlstp.8 lr, %[n]\n"
                   "2:\n\t"
                   "vldrb.8 %q[v], [%[from]], #16\n\t"
                   "vstrb.8 %q[v], [%[to]], #16\n\t"
                   "letp lr, 2b\n\t"
                   "add %[from], %[from_step]\n\t"
                   "add %[to], %[to_step]\n\t"
                   "subs %[rows], #1\n\t"
                   "bne 1b"
                   : [v] "=&w"(v), [from] "+&r"(from), [to] "+&r"(to), [rows] "+&r"(rows)
                   : [n] "r"(count), [from_step] "r"(from_pitch - moved), [to_step] "r"(to_pitch - moved)
                   : "lr", "cc", "memory");
#else
    for (; rows > 0; --rows, to += to_pitch, from += from_pitch) memmove(to, from, (size_t)count);
#endif
}

/* count bytes. */
TW_INLINE void tw_mve_fill(int8_t *to, int32_t value, int32_t count) {
#if defined(TW_MVE)
    __asm volatile("wlstp.8 lr, %[n], 2f\n"
                   "1:\n\t"
                   "vstrb.8 %q[v], [%[to]], #16\n\t"
                   "letp lr, 1b\n"
                   "2:"
                   : [to] "+&r"(to)
                   : [n] "r"(count), [v] "w"(vdupq_n_s8((int8_t)value))
                   : "lr", "memory");
#else
    memset(to, value, (size_t)count);
#endif
}

#endif
