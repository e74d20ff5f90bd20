/* SPDX-License-Identifier: Apache-2.0 */
/* Helium: sixteen int8 lanes and their sums in int32, or the same in plain C where it is absent.
 *
 * Products of even or of odd bytes fill a vector of int16; its even or odd halves fill a vector of int32; narrowing
 * undoes that order. In assembly, because sums take four of the eight registers, and gcc reorders loads until it has to
 * spill. Bytes are loaded as words, whose offsets reach farther: addresses are multiples of 4. */
#ifndef TW_MVE_S8_H
#define TW_MVE_S8_H

#include "mve.h"

#if defined(TW_MVE)
typedef int8x16_t tw_b16;
#else
typedef struct {
    int8_t lane[16];
} tw_b16;
#endif

/* The sums of bytes 4 i + 0, 2, 1, 3. */
typedef struct {
    tw_v4 a, b, c, d;
} tw_sum16;

/* Where the constants of a block of 16 channels lie, in bytes: shift int8 [16] at 0, bias and mult int32 [16], weights
 * int8 [taps][16]. shift, bias and mult are in the order of tw_sum16. */
#define TW_BLOCK_BIAS 16
#define TW_BLOCK_MULT 80
#define TW_BLOCK_TAPS 144

/* min(count, 16) int8 of any alignment, zeros in the other lanes; their memory is not touched. */
TW_INLINE tw_b16 tw_b16_load(const int8_t *p, int32_t count) {
#if defined(TW_MVE)
    return count >= 16 ? vldrbq_s8(p) : vldrbq_z_s8(p, vctp8q((uint32_t)count));
#else
    tw_b16 v = {{0}};
    memcpy(v.lane, p, (size_t)tw_min(count, 16));
    return v;
#endif
}

TW_INLINE void tw_b16_store(int8_t *p, tw_b16 v, int32_t count) {
#if defined(TW_MVE)
    if (count >= 16)
        vstrbq_s8(p, v);
    else
        vstrbq_p_s8(p, v, vctp8q((uint32_t)count));
#else
    memcpy(p, v.lane, (size_t)tw_min(count, 16));
#endif
}

/* Copies count bytes, a multiple of 16. */
TW_INLINE void tw_b16_fill(int8_t *p, int32_t value, int32_t count) {
#if defined(TW_MVE)
    const int8x16_t v = vdupq_n_s8((int8_t)value);
    for (uint32_t i = (uint32_t)count / 16; i > 0; --i, p += 16) vstrbq_s8(p, v);
#else
    memset(p, value, (size_t)count);
#endif
}

TW_INLINE tw_b16 tw_b16_clamp(tw_b16 v, int32_t low, int32_t high) {
#if defined(TW_MVE)
    return vminq_s8(vmaxq_s8(v, vdupq_n_s8((int8_t)low)), vdupq_n_s8((int8_t)high));
#else
    for (int i = 0; i < 16; ++i) v.lane[i] = (int8_t)tw_clamp(v.lane[i], low, high);
    return v;
#endif
}

/* Clamps count bytes where they lie. */
TW_INLINE void tw_b16_clamp_all(int8_t *p, int32_t low, int32_t high, int32_t count) {
    for (; count > 0; count -= 16, p += 16) tw_b16_store(p, tw_b16_clamp(tw_b16_load(p, count), low, high), count);
}

#if defined(TW_MVE)
/* The sums' first values. */
#define TW_SUM16_BIAS                                                                                                  \
    "vldrw.32 %q[a], [%[k], #16]\n\tvldrw.32 %q[b], [%[k], #32]\n\t"                                                   \
    "vldrw.32 %q[c], [%[k], #48]\n\tvldrw.32 %q[d], [%[k], #64]\n\t"
/* Even and odd products (e, o) of the 16 bytes at x and at w. */
#define TW_SUM16_FIRST(x, w)                                                                                           \
    "vldrw.32 %q[t], [" x "]\n\tvldrw.32 %q[o], [" w "]\n\t"                                                           \
    "vmullb.s8 %q[e], %q[t], %q[o]\n\tvmullt.s8 %q[o], %q[t], %q[o]\n\t"
/* Adds more products; w is read twice for lack of a register. */
#define TW_SUM16_MORE(x, w)                                                                                            \
    "vldrw.32 %q[t], [" x "]\n\tvldrw.32 %q[u], [" w "]\n\t"                                                           \
    "vmullb.s8 %q[u], %q[t], %q[u]\n\tvadd.i16 %q[e], %q[e], %q[u]\n\t"                                                \
    "vldrw.32 %q[u], [" w "]\n\t"                                                                                      \
    "vmullt.s8 %q[u], %q[t], %q[u]\n\tvadd.i16 %q[o], %q[o], %q[u]\n\t"
/* e and o added to the sums. */
#define TW_SUM16_WIDEN                                                                                                 \
    "vmovlb.s16 %q[t], %q[e]\n\tvadd.i32 %q[a], %q[a], %q[t]\n\t"                                                      \
    "vmovlt.s16 %q[e], %q[e]\n\tvadd.i32 %q[b], %q[b], %q[e]\n\t"                                                      \
    "vmovlb.s16 %q[t], %q[o]\n\tvadd.i32 %q[c], %q[c], %q[t]\n\t"                                                      \
    "vmovlt.s16 %q[o], %q[o]\n\tvadd.i32 %q[d], %q[d], %q[o]\n\t"
#define TW_SUM16_TAP(x, w) TW_SUM16_FIRST(x, w) TW_SUM16_WIDEN
#define TW_SUM16_PAIR(x, x_w, y, y_w) TW_SUM16_FIRST(x, x_w) TW_SUM16_MORE(y, y_w) TW_SUM16_WIDEN
/* Nine taps from x, y and z on, with the weights of block k. */
#define TW_SUM16_NINE                                                                                                  \
    TW_SUM16_PAIR("%[x]", "%[k], #144", "%[x], #16", "%[k], #160")                                                     \
    TW_SUM16_PAIR("%[x], #32", "%[k], #176", "%[y]", "%[k], #192")                                                     \
    TW_SUM16_PAIR("%[y], #16", "%[k], #208", "%[y], #32", "%[k], #224")                                                \
    TW_SUM16_PAIR("%[z]", "%[k], #240", "%[z], #16", "%[k], #256")                                                     \
    TW_SUM16_TAP("%[z], #32", "%[k], #272")
#define TW_SUM16_REGISTERS                                                                                             \
    [a] "+&w"(s->a), [b] "+&w"(s->b), [c] "+&w"(s->c), [d] "+&w"(s->d), [e] "=&w"(even), [o] "=&w"(odd),               \
        [t] "=&w"(tap), [u] "=&w"(more)
/* Less 1 in the lanes of a quarter that are negative, as tw_v4_scaled does it. */
#define TW_SUM16_SIGN(s) "vqdmlah.s32 %q" s ", %q" s ", %[one]\n\t"
/* The same, but not in lanes whose shift is 0. */
#define TW_SUM16_SIGN_SHIFTED(s)                                                                                       \
    "vand %q[u], %q" s ", %q[t]\n\tvshr.s32 %q[u], %q[u], #31\n\tvqadd.s32 %q" s ", %q" s ", %q[u]\n\t"
#define TW_SUM16_NO_SIGN(s)
/* A quarter rescaled, rounded half away from zero if SIGN says so, else half up. */
#define TW_SUM16_SCALE(s, mult, shift, SIGN)                                                                           \
    "vldrw.32 %q[t], [%[k], #" mult "]\n\tvqrdmulh.s32 %q" s ", %q" s ", %q[t]\n\t"                                    \
    "vldrb.s32 %q[t], [%[k], #" shift "]\n\t" SIGN(s) "vrshl.s32 %q" s ", %q" s ", %q[t]\n\t"
/* All quarters; the bytes go to t. */
#define TW_SUM16_SCALES(SIGN)                                                                                          \
    TW_SUM16_SCALE("[a]", "80", "0", SIGN)                                                                             \
    TW_SUM16_SCALE("[b]", "96", "4", SIGN)                                                                             \
    TW_SUM16_SCALE("[c]", "112", "8", SIGN)                                                                            \
    TW_SUM16_SCALE("[d]", "128", "12", SIGN)                                                                           \
    "vqmovnb.s32 %q[a], %q[a]\n\tvqmovnt.s32 %q[a], %q[b]\n\tvqadd.s16 %q[a], %q[a], %[zero]\n\t"                      \
    "vqmovnb.s32 %q[c], %q[c]\n\tvqmovnt.s32 %q[c], %q[d]\n\tvqadd.s16 %q[c], %q[c], %[zero]\n\t"                      \
    "vqmovnb.s16 %q[t], %q[a]\n\tvqmovnt.s16 %q[t], %q[c]\n\t"
#else
/* The number of the sum of byte i, which is also its place in bias, mult and shift. */
TW_INLINE int32_t *tw_sum16_lane(tw_sum16 *s, int i) {
    tw_v4 *const quarters[4] = {&s->a, &s->c, &s->b, &s->d};
    return quarters[i % 4]->lane + i / 4;
}

TW_INLINE int tw_sum16_place(int i) { return i % 2 * 8 + i / 2 % 2 * 4 + i / 4; }
#endif

/* The sums' first values: the bias of block k. */
TW_INLINE tw_sum16 tw_sum16_bias(const int8_t *k) {
    tw_sum16 s;
#if defined(TW_MVE)
    __asm volatile(TW_SUM16_BIAS
                   : [a] "=&w"(s.a), [b] "=&w"(s.b), [c] "=&w"(s.c), [d] "=&w"(s.d)
                   : [k] "r"(k)
                   : "memory");
#else
    int32_t bias[16];
    memcpy(bias, k + TW_BLOCK_BIAS, sizeof bias);
    s.a = tw_v4_load(bias, 4);
    s.b = tw_v4_load(bias + 4, 4);
    s.c = tw_v4_load(bias + 8, 4);
    s.d = tw_v4_load(bias + 12, 4);
#endif
    return s;
}

/* s + x * w, 16 bytes each. */
TW_INLINE void tw_sum16_tap(tw_sum16 *s, const int8_t *x, const int8_t *w) {
#if defined(TW_MVE)
    int8x16_t even, odd, tap, more;
    __asm volatile(TW_SUM16_TAP("%[x]", "%[w]") : TW_SUM16_REGISTERS : [x] "r"(x), [w] "r"(w) : "memory");
#else
    for (int i = 0; i < 16; ++i) *tw_sum16_lane(s, i) = tw_add(*tw_sum16_lane(s, i), x[i] * w[i]);
#endif
}

/* s + x * w + y * w[16..]. Two products fit int16 unless both weights of a lane are -128, which they never are. */
TW_INLINE void tw_sum16_pair(tw_sum16 *s, const int8_t *x, const int8_t *y, const int8_t *w) {
#if defined(TW_MVE)
    int8x16_t even, odd, tap, more;
    __asm volatile(TW_SUM16_PAIR("%[x]", "%[w]", "%[y]", "%[w], #16")
                   : TW_SUM16_REGISTERS
                   : [x] "r"(x), [y] "r"(y), [w] "r"(w)
                   : "memory");
#else
    tw_sum16_tap(s, x, w);
    tw_sum16_tap(s, y, w + 16);
#endif
}

/* The sums rescaled by block k's mult and shift (-31..0), plus zero, clamped to -128..127 and in order. The rescaled
 * ones are less than 2^31 - 128. */
TW_INLINE tw_b16 tw_sum16_requantize(tw_sum16 s, const int8_t *k, int32_t zero) {
#if defined(TW_MVE)
    int8x16_t tap, more;
    __asm volatile(TW_SUM16_SCALES(TW_SUM16_SIGN_SHIFTED)
                   : [a] "+&w"(s.a), [b] "+&w"(s.b), [c] "+&w"(s.c), [d] "+&w"(s.d), [t] "=&w"(tap), [u] "=&w"(more)
                   : [k] "l"(k), [zero] "r"(zero)
                   : "memory");
    return tap;
#else
    tw_b16 v;
    int32_t mult[16];
    memcpy(mult, k + TW_BLOCK_MULT, sizeof mult);
    for (int i = 0; i < 16; ++i) {
        const int at = tw_sum16_place(i);
        const int32_t q = tw_requantize(*tw_sum16_lane(&s, i), mult[at], k[at]);
        v.lane[i] = (int8_t)tw_clamp(tw_add(q, zero), INT8_MIN, INT8_MAX);
    }
    return v;
#endif
}

/* A row of windows of 3 x 3 over block k: the first window's rows lie at x, y and z, pixels 16 bytes apart; those of
 * the next window step bytes further. The first lanes bytes (1..16) of each result go to out, jump bytes apart. */
typedef struct {
    const int8_t *x, *y, *z, *k;
    int8_t *out;
    int32_t step, jump, count, lanes, zero;
} tw_nine_row;

#if defined(TW_MVE)
#define TW_SUM16_NINE_ROW(name, SIGN)                                                                                  \
    static TW_NOINLINE __attribute__((unused)) void name(const tw_nine_row *row) {                                     \
        const int8_t *x = row->x, *y = row->y, *z = row->z;                                                            \
        int8_t *to = row->out;                                                                                         \
        int32x4_t a, b, c, d;                                                                                          \
        int8x16_t even, odd, tap, more;                                                                                \
        __asm volatile("vctp.8 %[lanes]\n\tdls lr, %[count]\n"                                                         \
                       "1:\n\t" TW_SUM16_BIAS TW_SUM16_NINE TW_SUM16_SCALES(                                           \
                           SIGN) "vpst\n\tvstrbt.8 %q[t], [%[to]]\n\t"                                                 \
                                 "add %[x], %[x], %[step]\n\tadd %[y], %[y], %[step]\n\tadd %[z], %[z], %[step]\n\t"   \
                                 "add %[to], %[to], %[jump]\n\tle lr, 1b"                                              \
                       : [x] "+&r"(x), [y] "+&r"(y), [z] "+&r"(z), [to] "+&r"(to), [a] "=&w"(a), [b] "=&w"(b),         \
                         [c] "=&w"(c), [d] "=&w"(d), [e] "=&w"(even), [o] "=&w"(odd), [t] "=&w"(tap), [u] "=&w"(more)  \
                       : [k] "l"(row->k), [step] "r"(row->step), [jump] "r"(row->jump), [count] "r"(row->count),       \
                         [lanes] "r"(row->lanes), [zero] "r"(row->zero), [one] "r"(1)                                  \
                       : "lr", TW_PREDICATE, "memory");                                                                \
    }
TW_SUM16_NINE_ROW(tw_sum16_nine_any, TW_SUM16_SIGN)
TW_SUM16_NINE_ROW(tw_sum16_nine_above, TW_SUM16_NO_SIGN)
#endif

/* The same as with tw_sum16_pair and tw_sum16_requantize, but for shifts of -31..-1. A function of its own: it takes all
 * registers, and layers share it. What is below a zero point of -128 is clamped away, so its last step does not
 * matter; where the compiler knows of it, as two such functions take more flash than that is worth. */
TW_INLINE void tw_sum16_nine(const tw_nine_row *row) {
#if defined(TW_MVE)
    if (__builtin_constant_p(row->zero) && row->zero == INT8_MIN)
        tw_sum16_nine_above(row);
    else
        tw_sum16_nine_any(row);
#else
    for (int32_t i = 0; i < row->count; ++i) {
        const int8_t *const rows[3] = {row->x + i * row->step, row->y + i * row->step, row->z + i * row->step};
        tw_sum16 s = tw_sum16_bias(row->k);
        for (int t = 0; t < 9; ++t) tw_sum16_tap(&s, rows[t / 3] + t % 3 * 16, row->k + TW_BLOCK_TAPS + 16 * t);
        tw_b16_store(row->out + i * row->jump, tw_sum16_requantize(s, row->k, row->zero), row->lanes);
    }
#endif
}

#endif
