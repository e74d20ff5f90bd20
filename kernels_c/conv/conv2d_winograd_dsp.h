/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, of 3 x 3 taps one pixel apart, by Winograd's F(2 x 2, 3 x 3) on the DSP extension: a tile of 2 x 2
 * outputs takes 16 multiplications of an input channel instead of 36.
 *
 * d are the 4 x 4 inputs of a tile, g the taps. Rows and columns of d are transformed by (d0 - d2, d1 + d2, d2 - d1,
 * d3 - d1), those of g by (2 g0, g0 + g1 + g2, g0 - g1 + g2, 2 g2). Both are multiplied place by place and summed over
 * the input channels; rows and columns of the sums become (m0 + m1 + m2, m1 - m2 + m3). That is four times the
 * convolution, exactly: nothing was divided. Sums may wrap on the way, if four times the convolution fits 32 bits.
 *
 * Places are column by column, the rows of a column in the order 1, 2, 0, 3: then the sums of row 0 go on from m1 + m2,
 * those of row 3 from m1 - m2. */
#ifndef TW_CONV2D_WINOGRAD_DSP_H
#define TW_CONV2D_WINOGRAD_DSP_H

#include "../core/window.h"
#include "../isa/dsp/dsp_tile.h"

/* Tiles of a panel: words [16][c4 / 2][3], two int16 each, in the order of the packed weights. */
#define TW_WINOGRAD_TILES 3

/* Columns of inputs under the tiles of a panel, if these lie side by side. */
#define TW_WINOGRAD_COLUMNS (2 * TW_WINOGRAD_TILES + 2)

/* in: x, then words of weights [out / 2][16][c4 / 2][2] and ends (dsp_tile.h); the input zero point is folded into the
 * biases; padding holds in_zero. out: y. c4: in_c rounded up to 4. scratch: the panel, 96 * c4 bytes, then int8
 * [4][8][in_c] and 4 bytes. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t c4, in_zero;
} tw_conv2d_winograd_dsp_s8_params;

/* Four inputs of one column, rows apart, transformed: two channels, those of tw_odd or of tw_even. */
typedef struct {
    uint32_t row[4];
} tw_winograd_column;

TW_INLINE tw_winograd_column tw_winograd_column_of(const int8_t *from, int32_t apart, int32_t odd) {
    const uint32_t w0 = tw_word(from), w1 = tw_word(from + apart);
    from += 2 * apart;
    const uint32_t w2 = tw_word(from), w3 = tw_word(from + apart);
    const uint32_t d0 = odd ? tw_odd(w0) : tw_even(w0), d1 = odd ? tw_odd(w1) : tw_even(w1);
    const uint32_t d2 = odd ? tw_odd(w2) : tw_even(w2), d3 = odd ? tw_odd(w3) : tw_even(w3);
    const tw_winograd_column c = {{tw_plus(d1, d2), tw_minus(d2, d1), tw_minus(d0, d2), tw_minus(d3, d1)}};
    return c;
}

/* Two channels of tiles that lie side by side, transformed, from their first place on; to the next place: place words. */
TW_INLINE void tw_winograd_tiles(uint32_t *to, int32_t place, const int8_t *from, int32_t apart, int32_t pixel,
                                 int32_t tiles, int32_t odd) {
    tw_winograd_column c0 = tw_winograd_column_of(from, apart, odd);
    tw_winograd_column c1 = tw_winograd_column_of(from + pixel, apart, odd);
    for (const uint32_t *const end = to + tiles; to != end; ++to) {
        from += 2 * pixel;
        const tw_winograd_column c2 = tw_winograd_column_of(from, apart, odd);
        uint32_t *at = to;
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_minus(c0.row[i], c2.row[i]);
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_plus(c1.row[i], c2.row[i]);
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_minus(c2.row[i], c1.row[i]);
        const tw_winograd_column c3 = tw_winograd_column_of(from + pixel, apart, odd);
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_minus(c3.row[i], c1.row[i]);
        c0 = c2, c1 = c3;
    }
}

/* Tiles that lie side by side into a panel. from: their inputs; to the next row apart bytes, to the next pixel pixel. */
TW_INLINE void tw_winograd_transform(uint32_t *to, const int8_t *from, int32_t apart, int32_t pixel, int32_t c4,
                                     int32_t tiles) {
    const int32_t place = c4 / 2 * TW_WINOGRAD_TILES;
    for (const int8_t *const end = from + c4; from != end; from += 4) {
        tw_winograd_tiles(to, place, from, apart, pixel, tiles, 0);
        to += TW_WINOGRAD_TILES;
        tw_winograd_tiles(to, place, from, apart, pixel, tiles, 1);
        to += TW_WINOGRAD_TILES;
    }
}

/* The sums over all places of two output channels and the tiles of a panel: [4][2][2][3], of every column the lower row
 * and the upper one, of both channels. words: c4 / 2. Returns the weights that follow. */
static TW_NOINLINE const uint32_t *tw_winograd_sums(const uint32_t *v, const uint32_t *u, int32_t words,
                                                    int32_t *sums) {
    const uint32_t *const last = u + 32 * words;
#if defined(TW_DSP_LOOPS)
    register int32_t a0 __asm("r8"), a1 __asm("r9"), a2 __asm("r10"), b0 __asm("r11"), b1 __asm("r12"), b2 __asm("lr");
#define TW_WINOGRAD_SUMS [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2)
#if defined(__clang__) /* needs a register for itself */
#define TW_WINOGRAD_WORD                                                                                               \
    "ldr %[w], [%[u]], #4\n ldmia %[v]!, {r4, r5, r6}\n"                                                               \
    "smlad %[a0], %[w], r4, %[a0]\n smlad %[a1], %[w], r5, %[a1]\n smlad %[a2], %[w], r6, %[a2]\n"                     \
    "ldr %[w], [%[u]], #4\n"                                                                                           \
    "smlad %[b0], %[w], r4, %[b0]\n smlad %[b1], %[w], r5, %[b1]\n smlad %[b2], %[w], r6, %[b2]\n"
#define TW_WINOGRAD_TAKEN "r4", "r5", "r6", "cc", "memory"
#else
#define TW_WINOGRAD_WORD                                                                                               \
    "ldrd r3, %[w], [%[u]], #8\n ldmia %[v]!, {r4, r5, r6}\n"                                                          \
    "smlad %[a0], r3, r4, %[a0]\n smlad %[a1], r3, r5, %[a1]\n smlad %[a2], r3, r6, %[a2]\n"                           \
    "smlad %[b0], %[w], r4, %[b0]\n smlad %[b1], %[w], r5, %[b1]\n smlad %[b2], %[w], r6, %[b2]\n"
#define TW_WINOGRAD_TAKEN "r3", "r4", "r5", "r6", "cc", "memory"
#endif
/* The sums of one place go on from those that there are. */
#define TW_WINOGRAD_PLACE()                                                                                            \
    do {                                                                                                               \
        const uint32_t *end = u + 2 * words;                                                                           \
        int32_t w = words & 2; /* then the loop of four words begins at its half */                                    \
        TW_DSP_APART(end);                                                                                             \
        __asm volatile("cmp %[w], #0\n bne 2f\n"                                                                       \
                       "1:\n" TW_WINOGRAD_WORD TW_WINOGRAD_WORD "2:\n" TW_WINOGRAD_WORD TW_WINOGRAD_WORD               \
                       "cmp %[u], %[end]\n bne 1b\n"                                                                   \
                       : TW_WINOGRAD_SUMS, [v] "+r"(v), [u] "+r"(u), [w] "+r"(w)                                       \
                       : [end] "r"(end)                                                                                \
                       : TW_WINOGRAD_TAKEN);                                                                           \
    } while (0)
#define TW_WINOGRAD_MOVE(what, to)                                                                                     \
    __asm volatile(what " %[at], {r8, r9, r10, r11, r12, lr}\n" : TW_WINOGRAD_SUMS : [at] "r"(to) : "memory")
    for (; u != last; sums += 12) {
        int32_t *at = sums;
        a0 = a1 = a2 = b0 = b1 = b2 = 0;
        TW_WINOGRAD_PLACE(); /* row 1 */
        TW_WINOGRAD_MOVE("stmia", sums);
        TW_WINOGRAD_PLACE(); /* row 2; then m1 - m2 = 2 * m1 - (m1 + m2) */
        __asm volatile("ldmia %[at], {r4, r5, r6}\n rsb r4, r8, r4, lsl #1\n rsb r5, r9, r5, lsl #1\n"
                       "rsb r6, r10, r6, lsl #1\n stmia %[at]!, {r4, r5, r6}\n"
                       "ldmia %[at], {r4, r5, r6}\n rsb r4, r11, r4, lsl #1\n rsb r5, r12, r5, lsl #1\n"
                       "rsb r6, lr, r6, lsl #1\n stmia %[at]!, {r4, r5, r6}\n"
                       : TW_WINOGRAD_SUMS, [at] "+r"(at)
                       :
                       : "r4", "r5", "r6", "memory");
        TW_WINOGRAD_PLACE(); /* row 0 */
        TW_WINOGRAD_MOVE("stmia", sums + 6);
        TW_WINOGRAD_MOVE("ldmia", sums);
        TW_WINOGRAD_PLACE(); /* row 3 */
        TW_WINOGRAD_MOVE("stmia", sums);
    }
#undef TW_WINOGRAD_MOVE
#undef TW_WINOGRAD_PLACE
#undef TW_WINOGRAD_TAKEN
#undef TW_WINOGRAD_WORD
#undef TW_WINOGRAD_SUMS
#else
    for (; u != last; sums += 12) {
        int32_t m[4][2][TW_WINOGRAD_TILES];
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 2; ++j)
                for (int t = 0; t < TW_WINOGRAD_TILES; ++t) {
                    int32_t sum = 0;
                    for (int32_t k = 0; k < words; ++k)
                        sum = tw_dual(u[2 * (i * words + k) + j], v[TW_WINOGRAD_TILES * (i * words + k) + t], sum);
                    m[i][j][t] = sum;
                }
        u += 8 * words, v += 4 * TW_WINOGRAD_TILES * words;
        for (int j = 0; j < 2; ++j)
            for (int t = 0; t < TW_WINOGRAD_TILES; ++t) {
                int32_t *const to = sums + TW_WINOGRAD_TILES * j + t;
                to[0] = tw_add(tw_subtract(m[0][j][t], m[1][j][t]), m[3][j][t]);
                to[6] = tw_add(tw_add(m[0][j][t], m[1][j][t]), m[2][j][t]);
            }
    }
#endif
    return u;
}

/* Where the four outputs of a tile lie; right and below: 0 if there are none, so that those on the left and above
 * overwrite them. */
typedef struct {
    int8_t *y;
    int32_t right, below;
} tw_winograd_place;

/* Four times a sum of the convolution, and its bias, doubled, as an output. */
TW_INLINE int8_t tw_winograd_output(int32_t four, int32_t bias, const tw_dsp_channel *c) {
    return tw_dsp_output(tw_add(bias, four >> 1), c);
}

/* One channel of the tiles of a panel; m: their sums, columns 12 apart; bias: doubled. */
static TW_NOINLINE void tw_winograd_outputs(const int32_t *m, const tw_winograd_place *to, int32_t tiles,
                                            int32_t channel, int32_t bias, const tw_dsp_channel *end) {
    const tw_dsp_channel c = *end;
    for (const tw_winograd_place *const last = to + tiles; to != last; ++to, ++m) {
        int8_t *const y = to->y + channel, *const below = y + to->below;
        const int32_t right = to->right, p1 = m[18], p2 = m[30], q1 = m[12], q2 = m[24];
        below[right] = tw_winograd_output(tw_add(tw_subtract(q1, q2), m[36]), bias, &c);
        below[0] = tw_winograd_output(tw_add(tw_add(q1, q2), m[0]), bias, &c);
        y[right] = tw_winograd_output(tw_add(tw_subtract(p1, p2), m[42]), bias, &c);
        y[0] = tw_winograd_output(tw_add(tw_add(p1, p2), m[6]), bias, &c);
    }
}

/* All channels of the tiles of a panel. */
TW_INLINE void tw_winograd_panel(const uint32_t *panel, const tw_winograd_place *to, int32_t tiles,
                                 const tw_dsp_matrix *m) {
    int32_t sums[48];
    const uint32_t *u = m->weights;
    const int32_t *ends = m->ends;
    for (int32_t c = 0; c < m->out; c += 2, ends += TW_DSP_ENDS) {
        u = tw_winograd_sums(panel, u, m->words, sums);
        for (int j = 1; j >= 0; --j) {
            if (c + j == m->out) continue;
            const tw_dsp_channel end = tw_dsp_end(ends, j, m);
            tw_winograd_outputs(sums + TW_WINOGRAD_TILES * j, to, tiles, c + j, ends[j], &end);
        }
    }
}

/* Tiles that lie side by side, the first one's inputs at a pixel, into a panel: directly if they are whole words inside
 * the image, else by way of a copy. */
TW_INLINE void tw_winograd_fill(uint32_t *panel, int8_t *copy, const tw_pixel *at, int32_t tiles,
                                const tw_conv2d_winograd_dsp_s8_params *p) {
    tw_window w = p->window;
    w.k_h = 4, w.k_w = 2 * tiles + 2;
    int32_t width = w.in_w;
    const int8_t *from = (const int8_t *)tw_pixel_corner(at, &w);
    if (w.in_c % 4 != 0 || at->y < 0 || at->y + 4 > w.in_h || at->x < 0 || at->x + w.k_w > w.in_w) {
        const tw_gather g = {&w, w.in_c, p->in_zero, 0};
        tw_gather_window(copy, at, 0, &g);
        from = copy, width = w.k_w;
    }
    tw_winograd_transform(panel, from, width * w.in_c, w.in_c, p->c4, tiles);
}

TW_KERNEL(tw_conv2d_winograd_dsp_s8) {
    const tw_conv2d_winograd_dsp_s8_params p = *params;
    const int32_t out_c = p.window.out_c, out_w = p.window.out_w, rows = p.window.batches * p.window.out_h;
    const tw_dsp_matrix m = {(const uint32_t *)in[1], (const int32_t *)in[2], p.c4 / 2, out_c, out_c, p.end.zero};
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *copy = (int8_t *)scratch + 32 * TW_WINOGRAD_TILES * p.c4, *y = (int8_t *)out[0];
    tw_winograd_place to[TW_WINOGRAD_TILES];
    int32_t tiles = 0, row = 0;
    for (tw_pixel at = {(const int8_t *)in[0], 0, 0, 1}; row < rows;) {
        const int32_t columns = tw_min(out_w - at.x, 2 * (TW_WINOGRAD_TILES - tiles)), first = tiles;
        const int32_t below = at.y + 1 < p.window.out_h;
        const tw_pixel corner = {at.image, at.y - p.window.pad_h, at.x - p.window.pad_w, 1};
        for (int32_t x = at.x; x < at.x + columns; x += 2, ++tiles) {
            const tw_winograd_place place = {y + (row * out_w + x) * out_c, x + 1 < out_w ? out_c : 0,
                                             below ? out_w * out_c : 0};
            to[tiles] = place;
        }
        tw_winograd_fill(panel + first, copy, &corner, tiles - first, &p);
        at.x += columns;
        if (at.x == out_w) {
            at.x = 0, at.y += 1 + below, row += 1 + below;
            if (at.y == p.window.out_h) at.y = 0, at.image += tw_window_image(&p.window);
        }
        if (tiles < TW_WINOGRAD_TILES && row < rows) continue;
        tw_winograd_panel(panel, to, tiles, &m);
        tiles = 0;
    }
    tw_dsp_activation(y, tw_window_count(&p.window) * out_c, p.end.low, p.end.high);
}

#endif
