/* SPDX-License-Identifier: Apache-2.0 */
/* Int8 matrix products on the DSP extension with weights of 16 bits: twice the flash of those in dsp_tile.h, but none is
 * unpacked, and a sum ends in three instructions instead of six.
 *
 * A channel's weights and bias are multiplied by 2^k, 2 <= k <= 8. What tw_scaled does with the sum s, its multiplier m
 * and a right shift of r is one floor of s * m + 2^30 + 2^(30 + r) over 2^(31 + r), plus the zero point. Times 2^k, with
 * k = 1 + shift - r, that is 2^32 times a whole number which one SMMLA adds to the upper half of the product
 * of 2^k * s and m; then a shift follows that is the same for all channels, and SSAT does it. A negative sum has 2^(k - 1)
 * less, unless it ends at the zero point whatever it is. */
#ifndef TW_DSP_HALVES_H
#define TW_DSP_HALVES_H

#include "dsp_tile.h"

/* rows: words [out / 2][2 + 2 * words + 6]: what the sums of two channels start with; for every two inputs the weights of
 * one channel, then those of the other; of each channel the multiplier, what is added to products, and what negative sums
 * have less. signs: whether these have. shift: of all outputs; 12, or 15 without signs. words: of one channel, even. out:
 * even. */
typedef struct {
    const uint32_t *rows;
    int32_t words, out, pitch, signs, shift;
} tw_dsp_halves;

#if defined(TW_DSP_LOOPS) && !defined(__clang__)

/* r0: x, r1: rows, r2: where x ends; r4 to r9: sums. */
#define TW_HALVES_WORD                                                                                                 \
    "ldrd r3, lr, [r1], #8\n\tldmia r0!, {r10, r11, r12}\n\tsmlad r4, r3, r10, r4\n\tsmlad r5, r3, r11, r5\n\t"        \
    "smlad r6, r3, r12, r6\n\tsmlad r7, lr, r10, r7\n\tsmlad r8, lr, r11, r8\n\tsmlad r9, lr, r12, r9\n\t"
#define TW_HALVES_FOUR TW_HALVES_WORD TW_HALVES_WORD TW_HALVES_WORD TW_HALVES_WORD
/* Sixteen words a round, 32 bytes of code each; if their number is no multiple, the first round begins behind skip. */
#define TW_HALVES_SUMS                                                                                                 \
    "1:\n\tldr r3, %[skip]\n\tldrd r4, r7, [r1], #8\n\tmov r5, r4\n\tmov r6, r4\n\tmov r8, r7\n\tmov r9, r7\n\t"       \
    "add pc, r3\n\tnop\n2:\n\t" TW_HALVES_FOUR TW_HALVES_FOUR TW_HALVES_FOUR TW_HALVES_FOUR "cmp r0, r2\n\tbne 2b\n\t"
#define TW_HALVES_12(sum) "smmla " sum ", " sum ", r10, r11\n\tssat " sum ", #8, " sum ", asr #12\n\t"
#define TW_HALVES_15(sum) "smmla " sum ", " sum ", r10, r11\n\tssat " sum ", #8, " sum ", asr #15\n\t"
#define TW_HALVES_SIGNED(sum)                                                                                          \
    "and r2, r12, " sum ", asr #31\n\tsmmla " sum ", " sum ", r10, r11\n\tsub " sum ", " sum ", r2\n\t"                \
    "ssat " sum ", #8, " sum ", asr #12\n\t"
#define TW_HALVES_CHANNEL(OUTPUT, s0, s1, s2)                                                                          \
    "ldmia r1!, {r10, r11, r12}\n\t" OUTPUT(s2) "strb " s2 ", [r0, lr]\n\t" OUTPUT(                                    \
        s1) "strb " s1 ", [r0, r3]\n\t" OUTPUT(s0) "strb " s0 ", [r0], #1\n\t"
#define TW_HALVES_PANEL(OUTPUT, MORE)                                                                                  \
    __asm volatile(TW_HALVES_SUMS                                                                                      \
                   "ldr r0, %[y]\n\tldrd r3, lr, %[next]\n\t" TW_HALVES_CHANNEL(OUTPUT, "r4", "r5", "r6")              \
                       TW_HALVES_CHANNEL(OUTPUT, "r7", "r8", "r9") "str r0, %[y]\n\tldrd r3, r0, %[again]\n\t" MORE    \
                                                                   "cmp r1, r3\n\tbne 1b"                              \
                   : "+r"(x), "+r"(w), "+r"(end), [y] "+m"(y)                                                          \
                   : [skip] "m"(skip), [next] "m"(next), [again] "m"(again), [words] "m"(stop)                         \
                   : "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory")

TW_INLINE void tw_dsp_halves_panel_of(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_halves *m, int signs,
                                      int32_t shift) {
    const uint32_t *const again[2] = {m->rows + m->out / 2 * (2 * m->words + 8), panel};
    const uint32_t *const stop = panel + TW_DSP_PIXELS * m->words;
    /* From a pixel's output to the others'; those that are not there lie where the first is, which comes last. */
    const int32_t next[2] = {rows > 1 ? m->pitch : 0, rows > 2 ? 2 * m->pitch : 0};
    const int32_t skip = (-m->words & 15) * 32;
    register const uint32_t *x __asm("r0") = panel;
    register const uint32_t *w __asm("r1") = m->rows;
    register const uint32_t *end __asm("r2") = stop;
    if (signs)
        TW_HALVES_PANEL(TW_HALVES_SIGNED, "ldr r2, %[words]\n\t");
    else if (shift == 15)
        TW_HALVES_PANEL(TW_HALVES_15, "");
    else
        TW_HALVES_PANEL(TW_HALVES_12, "");
}

#else

TW_INLINE void tw_dsp_halves_panel_of(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_halves *m, int signs,
                                      int32_t shift) {
    const uint32_t *w = m->rows;
    for (int32_t left = m->out; left > 0; left -= 2) {
        int32_t sums[2][TW_DSP_PIXELS];
        for (int j = 0; j < 2; ++j)
            for (int r = 0; r < TW_DSP_PIXELS; ++r) {
                int32_t sum = (int32_t)w[j];
                for (int32_t k = 0; k < m->words; ++k)
                    sum = tw_dual(w[2 + 2 * k + j], panel[TW_DSP_PIXELS * k + r], sum);
                sums[j][r] = sum;
            }
        w += 2 + 2 * m->words;
        for (int j = 0; j < 2; ++j, w += 3, ++y)
            for (int r = 0; r < rows; ++r) {
                const int32_t top = tw_add(tw_high32(sums[j][r], (int32_t)w[0]), (int32_t)w[1]);
                const int32_t less = signs ? (int32_t)w[2] & sums[j][r] >> 31 : 0;
                y[r * m->pitch] = (int8_t)tw_clamp8(tw_subtract(top, less) >> shift);
            }
    }
}

#endif

static TW_NOINLINE void tw_dsp_halves_12(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_halves *m) {
    tw_dsp_halves_panel_of(panel, y, rows, m, 0, 12);
}
static TW_NOINLINE void tw_dsp_halves_15(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_halves *m) {
    tw_dsp_halves_panel_of(panel, y, rows, m, 0, 15);
}
static TW_NOINLINE void tw_dsp_halves_signs(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_halves *m) {
    tw_dsp_halves_panel_of(panel, y, rows, m, 1, 12);
}

/* y [rows, out], rows 1..3, from a panel. */
TW_INLINE void tw_dsp_halves_panel(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_halves *m) {
    if (m->signs)
        tw_dsp_halves_signs(panel, y, rows, m);
    else if (m->shift == 15)
        tw_dsp_halves_15(panel, y, rows, m);
    else
        tw_dsp_halves_12(panel, y, rows, m);
}

#endif
