/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on cores that multiply one value at a time. */
#ifndef TW_CONV2D_WINOGRAD_WORDS_H
#define TW_CONV2D_WINOGRAD_WORDS_H

#include "winograd.h"
#include "../core/sums.h"

/* Four inputs of one column, rows apart, transformed: one channel. */
typedef struct {
    int32_t row[4];
} tw_winograd_line;

TW_INLINE tw_winograd_line tw_winograd_line_of(const int8_t *from, int32_t apart) {
    const int32_t d0 = from[0], d1 = from[apart], d2 = from[2 * apart], d3 = from[3 * apart];
    const tw_winograd_line line = {{d1 + d2, d2 - d1, d0 - d2, d3 - d1}};
    return line;
}

/* A tw_winograd_transform: int32 [16][depth][3], which LDM loads three at a time. */
TW_INLINE void tw_winograd_words_transform(void *panel, int32_t first, const int8_t *from, int32_t apart, int32_t pixel,
                                           int32_t depth, int32_t tiles) {
    const int32_t place = depth * TW_WINOGRAD_TILES;
    int32_t *to = (int32_t *)panel + first;
    for (int32_t c = 0; c < depth; ++c, to += TW_WINOGRAD_TILES) {
        const int8_t *at = from + c;
        tw_winograd_line c0 = tw_winograd_line_of(at, apart), c1 = tw_winograd_line_of(at + pixel, apart);
        for (int32_t t = 0; t < tiles; ++t) {
            at += 2 * pixel;
            const tw_winograd_line c2 = tw_winograd_line_of(at, apart);
            int32_t *v = to + t;
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = c0.row[i] - c2.row[i];
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = c1.row[i] + c2.row[i];
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = c2.row[i] - c1.row[i];
            const tw_winograd_line c3 = tw_winograd_line_of(at + pixel, apart);
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = c3.row[i] - c1.row[i];
            c0 = c2, c1 = c3;
        }
    }
}

/* m[2][3] += the sums of one place: two output channels, the tiles of a panel. */
TW_INLINE void tw_winograd_words_place(const int32_t *v, const int16_t *u, int32_t depth, int32_t *m) {
#if TW_THUMB == 1
    const int16_t *const end = u + 2 * depth;
    int32_t *const to = m;
    int32_t a = depth & 1, b; /* then the loop of two channels begins at its half */
    /* A product overwrites a factor. */
#define TW_WINOGRAD_TILE(x, of_a, of_b)                                                                                \
    "movs %[t], " x "\n muls %[t], %[a]\n add " of_a ", %[t]\n muls " x ", %[b]\n add " of_b ", " x "\n"
#define TW_WINOGRAD_STEP                                                                                               \
    "ldmia %[u]!, {%[a]}\n ldmia %[v]!, {r4, r5, r6}\n asrs %[b], %[a], #16\n sxth %[a], %[a]\n" TW_WINOGRAD_TILE(     \
        "r4", "r8", "r11") TW_WINOGRAD_TILE("r5", "r9", "r12") TW_WINOGRAD_TILE("r6", "r10", "lr")
    __asm volatile(".syntax unified\n"
                   "ldmia %[t]!, {r4, r5, r6}\n mov r8, r4\n mov r9, r5\n mov r10, r6\n"
                   "ldmia %[t]!, {r4, r5, r6}\n mov r11, r4\n mov r12, r5\n mov lr, r6\n"
                   "cmp %[a], #0\n bne 2f\n"
                   "1:\n" TW_WINOGRAD_STEP "2:\n" TW_WINOGRAD_STEP "ldr %[t], %[end]\n cmp %[u], %[t]\n bne 1b\n"
                   "ldr %[t], %[to]\n mov r4, r8\n mov r5, r9\n mov r6, r10\n stmia %[t]!, {r4, r5, r6}\n"
                   "mov r4, r11\n mov r5, r12\n mov r6, lr\n stmia %[t]!, {r4, r5, r6}\n"
                   : [v] "+l"(v), [u] "+l"(u), [t] "+l"(m), [a] "+l"(a), [b] "=&l"(b)
                   : [end] "m"(end), [to] "m"(to)
                   : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#undef TW_WINOGRAD_STEP
#undef TW_WINOGRAD_TILE
#else
    int32_t a0 = m[0], a1 = m[1], a2 = m[2], b0 = m[3], b1 = m[4], b2 = m[5];
#if TW_THUMB == 2 && !defined(TW_DSP)
    int32_t n = depth, w, z;
    __asm volatile(TW_LOOP("ldrsh %[w], [%[u]], #2\n ldrsh %[z], [%[u]], #2\n ldmia %[v]!, {r4, r5, r6}\n"
                           "mla %[a0], %[w], r4, %[a0]\n mla %[a1], %[w], r5, %[a1]\n mla %[a2], %[w], r6, %[a2]\n"
                           "mla %[b0], %[z], r4, %[b0]\n mla %[b1], %[z], r5, %[b1]\n mla %[b2], %[z], r6, %[b2]\n")
                   : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2),
                     [v] "+r"(v), [u] "+r"(u), [n] "+r"(n), [w] "=&r"(w), [z] "=&r"(z)
                   :
                   : "r4", "r5", "r6", "cc", "memory");
#else
#pragma GCC unroll 4
    for (const int16_t *const end = u + 2 * depth; u != end; v += TW_WINOGRAD_TILES, u += 2) {
        const int32_t a = u[0], b = u[1]; /* tiles beyond the last hold anything: their products wrap */
        a0 = tw_add(a0, tw_times(a, v[0])), a1 = tw_add(a1, tw_times(a, v[1])), a2 = tw_add(a2, tw_times(a, v[2]));
        b0 = tw_add(b0, tw_times(b, v[0])), b1 = tw_add(b1, tw_times(b, v[1])), b2 = tw_add(b2, tw_times(b, v[2]));
    }
#endif
    m[0] = a0, m[1] = a1, m[2] = a2, m[3] = b0, m[4] = b1, m[5] = b2;
#endif
}

/* What tw_winograd_sums does, of so many columns. */
TW_INLINE const void *tw_winograd_words_columns(const void *panel, const void *weights, int32_t depth, int32_t columns,
                                                int32_t *sums) {
    const int32_t *v = (const int32_t *)panel;
    const int16_t *u = (const int16_t *)weights;
#if TW_THUMB == 1 /* compilers for size do not save these */
    int32_t r8, r9, r10, r11;
    __asm volatile("mov %0, r8\n mov %1, r9\n mov %2, r10\n mov %3, r11" : "=l"(r8), "=l"(r9), "=l"(r10), "=l"(r11));
#endif
    for (int column = 0; column < columns; ++column, sums += 12) {
        int32_t *const m = sums + 6;
        memset(m, 0, 6 * sizeof *m);
        /* Rows 1, 2, 0, 3; behind row 2 m1 - m2 = 2 * m1 - (m1 + m2). */
        TW_ROLLED
        for (int row = 0; row < 4; ++row, v += TW_WINOGRAD_TILES * depth, u += 2 * depth) {
            tw_winograd_words_place(v, u, depth, row == 3 ? sums : m);
            if (row > 1) continue;
            for (int i = 0; i < 6; ++i) sums[i] = row ? tw_subtract(tw_shift_left(sums[i], 1), m[i]) : m[i];
        }
    }
#if TW_THUMB == 1
    __asm volatile("mov r8, %0\n mov r9, %1\n mov r10, %2\n mov r11, %3"
                   :
                   : "l"(r8), "l"(r9), "l"(r10), "l"(r11)
                   : "r8", "r9", "r10", "r11");
#endif
    return u;
}

/* A tw_winograd_sums. */
static TW_NOINLINE const void *tw_winograd_words_sums(const void *panel, const void *weights, int32_t depth,
                                                      int32_t *sums) {
    return tw_winograd_words_columns(panel, weights, depth, 4, sums);
}

/* weights: int16 [out / 2][16][depth][2]; depth: in_c. */
typedef tw_winograd_s8_params tw_conv2d_winograd_words_s8_params;

TW_KERNEL(tw_conv2d_winograd_words_s8) {
    tw_winograd_s8(params, in, out, scratch, tw_winograd_words_transform, tw_winograd_words_sums);
}

#endif
