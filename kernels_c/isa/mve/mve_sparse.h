/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of four channels on Helium without blocks of 4 x 4 weights, four channels by four inputs, that are zero.
 *
 * Four blocks of inputs, wherever they lie, are gathered as words into one vector, which every channel's weights of them
 * are multiplied by: as with dense weights, but for the offsets. */
#ifndef TW_MVE_SPARSE_H
#define TW_MVE_SPARSE_H

#include "mve_tile.h"

/* Bytes of four blocks: where they lie in a window, int16 [4], then weights int8 [4 channels][16]. Four channels are
 * biases int32 [4], how many of these there are (at least one), these, multipliers int32 [4], and shifts int8 [4]. */
#define TW_SPARSE_FOUR 72

/* The words behind four channels' last blocks. */
#define TW_SPARSE_BEHIND 5

#if defined(TW_MVE)
#define TW_SPARSE_BOTH                                                                                                 \
    "vldrh.u32 %q[w], [%[f]], #8\n\tvldrw.u32 %q[a], [%[x0], %q[w]]\n\tvldrw.u32 %q[b], [%[x1], %q[w]]\n\t"            \
    "vldrb.8 %q[w], [%[f]], #64\n\tvmladava.s8 r0, %q[a], %q[w]\n\tvmladava.s8 r8, %q[b], %q[w]\n\t"                   \
    "vldrb.8 %q[w], [%[f], #-48]\n\tvmladava.s8 r2, %q[a], %q[w]\n\tvmladava.s8 r10, %q[b], %q[w]\n\t"                 \
    "vldrb.8 %q[w], [%[f], #-32]\n\tvmladava.s8 r4, %q[a], %q[w]\n\tvmladava.s8 r12, %q[b], %q[w]\n\t"                 \
    "vldrb.8 %q[w], [%[f], #-16]\n\tvmladava.s8 r6, %q[a], %q[w]\n\tvmladava.s8 lr, %q[b], %q[w]\n\t"

/* Four channels of both windows of a pair, and the next four; behind the inner loop the registers of the sums are free.
 * Windows begin at multiples of 4. */
static TW_NOINLINE __attribute__((unused)) void tw_mve_run_sparse(tw_mve_pair *s, const int32_t *f, int32_t low,
                                                                  int32_t high) {
    int32x4_t a, b, w, shift;
    const int8_t *x0, *x1;
    int32_t n;
    __asm volatile("0:\n\t"
                   "ldrd %[x0], %[x1], [%[s]]\n\t"
                   "ldm %[f], {r0, r2, r4, r6}\n\tldm %[f]!, {r8, r10, r12, lr}\n\t"
                   "ldr %[n], [%[f]], #4\n\t"
                   "lsrs %[n], %[n], #1\n\tbcc 1f\n\t" TW_SPARSE_BOTH "beq 2f\n"
                   "1:\n\t" TW_SPARSE_BOTH TW_SPARSE_BOTH "subs %[n], #1\n\tbne 1b\n"
                   "2:\n\t"
                   "vmov %q[a][2], %q[a][0], r0, r4\n\tvmov %q[a][3], %q[a][1], r2, r6\n\t"
                   "vmov %q[b][2], %q[b][0], r8, r12\n\tvmov %q[b][3], %q[b][1], r10, lr\n\t"
                   "vldrw.32 %q[w], [%[f]], #16\n\t"
                   "vldrb.s32 %q[shift], [%[f]], #4\n\t"
                   "ldrd r0, r2, [%[s], #8]\n\tldrd r4, r6, [%[s], #20]\n\t"
                   "mov r8, #1\n\t"
                   "vqrdmulh.s32 %q[a], %q[a], %q[w]\n\tvqrdmulh.s32 %q[b], %q[b], %q[w]\n\t"
                   "vqdmlah.s32 %q[a], %q[a], r8\n\tvqdmlah.s32 %q[b], %q[b], r8\n\t"
                   "vrshl.s32 %q[a], %q[a], %q[shift]\n\tvrshl.s32 %q[b], %q[b], %q[shift]\n\t"
                   "vadd.i32 %q[a], %q[a], r4\n\tvadd.i32 %q[b], %q[b], r4\n\t"
                   "vmax.s32 %q[a], %q[a], %q[low]\n\tvmax.s32 %q[b], %q[b], %q[low]\n\t"
                   "vmin.s32 %q[a], %q[a], %q[high]\n\tvmin.s32 %q[b], %q[b], %q[high]\n\t"
                   "vctp.32 r6\n\tvpstt\n\t"
                   "vstrbt.32 %q[a], [r0], #4\n\tvstrbt.32 %q[b], [r2], #4\n\t"
                   "subs r6, #4\n\t"
                   "strd r0, r2, [%[s], #8]\n\t"
                   "str r6, [%[s], #24]\n\t"
                   "bgt 0b"
                   : [a] "=&w"(a), [b] "=&w"(b), [w] "=&w"(w), [shift] "=&w"(shift), [x0] "=&r"(x0), [x1] "=&r"(x1),
                     [n] "=&r"(n), [f] "+&l"(f)
                   : [s] "r"(s), [low] "w"(vdupq_n_s32(low)), [high] "w"(vdupq_n_s32(high))
                   : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", TW_PREDICATE, "cc", "memory");
}
#endif

/* The sums of four channels over one window; f goes to their multipliers. */
TW_INLINE tw_v4 tw_mve_sparse_four(const int8_t *x, const int32_t **f) {
    const int32_t *four = *f;
#if defined(TW_MVE)
    tw_v4 s, v;
    int32_t n;
    __asm volatile("ldm %[f]!, {r0, r2, r4, r6}\n\t"
                   "ldr %[n], [%[f]], #4\n\t"
                   "dls lr, %[n]\n"
                   "1:\n\t"
                   "vldrh.u32 %q[v], [%[f]], #8\n\t"
                   "vldrw.u32 %q[s], [%[x], %q[v]]\n\t"
                   "vldrb.8 %q[v], [%[f]], #64\n\t"
                   "vmladava.s8 r0, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [%[f], #-48]\n\t"
                   "vmladava.s8 r2, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [%[f], #-32]\n\t"
                   "vmladava.s8 r4, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [%[f], #-16]\n\t"
                   "vmladava.s8 r6, %q[s], %q[v]\n\t"
                   "le lr, 1b\n\t"
                   "vmov %q[s][2], %q[s][0], r0, r4\n\t"
                   "vmov %q[s][3], %q[s][1], r2, r6"
                   : [s] "=&w"(s), [v] "=&w"(v), [n] "=&r"(n), [f] "+&l"(four)
                   : [x] "r"(x)
                   : "r0", "r2", "r4", "r6", "lr", "cc", "memory");
#else
    tw_v4 s = tw_v4_load(four, 4);
    int32_t n = four[4];
    for (four += 5; n > 0; --n, four += TW_SPARSE_FOUR / 4) {
        uint16_t at[4];
        const int8_t *w = (const int8_t *)(four + 2);
        memcpy(at, four, sizeof at);
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 16; ++i, ++w) s.lane[j] = tw_add(s.lane[j], x[at[i / 4] + i % 4] * *w);
    }
#endif
    *f = four;
    return s;
}

/* y [out] of one window, from its fours f. */
TW_INLINE void tw_mve_sparse_one(const int8_t *x, const int32_t *f, int8_t *y, int32_t out, const tw_epilogue_s8 *end) {
#pragma GCC unroll 1
    for (; out > 0; out -= 4, y += 4, f += TW_SPARSE_BEHIND) {
        const tw_v4 sums = tw_mve_sparse_four(x, &f);
        const tw_v4 mult = tw_v4_load(f, 4), shift = tw_v4_load_s8((const int8_t *)(f + 4), 4);
        tw_v4_store_s8(y, tw_v4_scaled(sums, mult, shift), end->zero, end->low, end->high, out);
    }
}

#if !defined(TW_MVE)
static TW_NOINLINE __attribute__((unused)) void tw_mve_run_sparse(tw_mve_pair *s, const int32_t *f, int32_t low,
                                                                  int32_t high) {
    const tw_epilogue_s8 end = {s->zero, low, high};
    tw_mve_sparse_one(s->x0, f, s->y0, s->out, &end);
    tw_mve_sparse_one(s->x1, f, s->y1, s->out, &end);
}
#endif

#endif
