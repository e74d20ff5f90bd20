/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL of int16 by int16 or int8 on the DSP extension: three rows by a column at a time. */
#ifndef TW_BATCH_MATMUL_DSP_S16_H
#define TW_BATCH_MATMUL_DSP_S16_H

#include "../isa/dsp/dsp_tile_s16.h"
#include "batch_matmul.h"

/* As tw_batch_matmul_s16, b of values of so many bytes, 1 or 2. words: depth / 4, rounded up, times 2. scratch: words
 * [rows / 3, rounded up][words][3], [words]. */
typedef struct {
    tw_matrices matrices;
    int32_t mult, right, words, bytes;
} tw_batch_matmul_dsp_s16_params;

/* Value i of a line of int16, or of int8. */
TW_INLINE uint32_t tw_dsp_value_s16(const void *line, int32_t i, int32_t bytes) {
    return (uint32_t)(bytes == 1 ? ((const int8_t *)line)[i] : ((const int16_t *)line)[i]);
}

/* Copies n values, apart from one another, as halves of words; pitch: from one word to the next. */
static TW_NOINLINE void tw_dsp_line_s16(uint32_t *TW_RESTRICT to, int32_t pitch, const void *TW_RESTRICT line,
                                        int32_t bytes, int32_t apart, int32_t n) {
    int32_t i = 0;
    for (; n > 1; n -= 2, i += 2 * apart, to += pitch)
        *to = tw_pack(tw_dsp_value_s16(line, i, bytes), tw_dsp_value_s16(line, i + apart, bytes));
    if (n > 0) *to = tw_dsp_value_s16(line, i, bytes) & 0xFFFFU;
}

/* sums [3] of a column w over three rows x. words: of a row, even and at least two. */
static TW_NOINLINE void tw_dsp_product_s16(const uint32_t *x, const uint32_t *w, int32_t words, int64_t *sums) {
    const uint32_t *end = w + words;
#if defined(TW_DSP_LOOPS) && !defined(__clang__) /* it finds no registers */
#define TW_DSP_WORD                                                                                                    \
    "ldr %[v], [%[w]], #4\n ldmia %[x]!, {r4, r5, r6}\n"                                                               \
    "smlald %[l0], %[h0], %[v], r4\n smlald %[l1], %[h1], %[v], r5\n smlald %[l2], %[h2], %[v], r6\n"
    uint32_t l0 = 0, h0 = 0, l1 = 0, h1 = 0, l2 = 0, h2 = 0, v;
    __asm volatile("1:\n" TW_DSP_WORD TW_DSP_WORD "cmp %[w], %[end]\n bne 1b\n"
                   : [l0] "+r"(l0), [h0] "+r"(h0), [l1] "+r"(l1), [h1] "+r"(h1), [l2] "+r"(l2), [h2] "+r"(h2),
                     [x] "+r"(x), [w] "+r"(w), [v] "=&r"(v)
                   : [end] "r"(end)
                   : "r4", "r5", "r6", "cc", "memory");
#undef TW_DSP_WORD
    sums[0] = (int64_t)((uint64_t)h0 << 32 | l0), sums[1] = (int64_t)((uint64_t)h1 << 32 | l1);
    sums[2] = (int64_t)((uint64_t)h2 << 32 | l2);
#else
    int64_t a0 = 0, a1 = 0, a2 = 0;
    for (; w != end; ++w, x += TW_DSP_PIXELS_S16)
        a0 = tw_dual64(*w, x[0], a0), a1 = tw_dual64(*w, x[1], a1), a2 = tw_dual64(*w, x[2], a2);
    sums[0] = a0, sums[1] = a1, sums[2] = a2;
#endif
}

/* One column, of all rows; y: its first output. */
TW_INLINE void tw_batch_matmul_dsp_column_s16(const uint32_t *rows, const uint32_t *column, int16_t *y,
                                              const tw_batch_matmul_dsp_s16_params *p) {
    for (int32_t left = p->matrices.rows; left > 0; left -= TW_DSP_PIXELS_S16) {
        int64_t sums[TW_DSP_PIXELS_S16];
        tw_dsp_product_s16(rows, column, p->words, sums);
        rows += TW_DSP_PIXELS_S16 * p->words;
#pragma GCC unroll 3
        for (int r = 0; r < TW_DSP_PIXELS_S16; ++r, y += p->matrices.cols) {
            if (r >= left) break;
            *y = tw_clamp_s16(tw_scaled64(sums[r], p->mult, p->right), INT16_MIN, INT16_MAX);
        }
    }
}

TW_KERNEL(tw_batch_matmul_dsp_s16) {
    const tw_batch_matmul_dsp_s16_params p = *params;
    const tw_matrices *m = &p.matrices;
    const int32_t panel = TW_DSP_PIXELS_S16 * p.words, panels = (m->rows + TW_DSP_PIXELS_S16 - 1) / TW_DSP_PIXELS_S16;
    uint32_t *rows = (uint32_t *)scratch, *column = rows + panels * panel;
    int16_t *y = (int16_t *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    memset(rows, 0, (size_t)(panels * panel + p.words) * sizeof *rows);
    for (int32_t batch = 0; batch < m->batches.rows; ++batch, y += m->rows * m->cols) {
        for (int32_t i = 0; i < m->rows; ++i)
            tw_dsp_line_s16(rows + i / TW_DSP_PIXELS_S16 * panel + i % TW_DSP_PIXELS_S16, TW_DSP_PIXELS_S16,
                            (const int16_t *)(const void *)at.a + i * m->a_row, 2, m->a_depth, m->depth);
        for (int32_t c = 0; c < m->cols; ++c) {
            tw_dsp_line_s16(column, 1, at.b + c * m->b_col * p.bytes, p.bytes, m->b_depth, m->depth);
            tw_batch_matmul_dsp_column_s16(rows, column, y + c, &p);
        }
        tw_next_row(&at, &params->matrices.batches, 2 * m->rows * m->depth, p.bytes * m->cols * m->depth);
    }
}

#endif
