/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D of int8 on AVX512-VNNI: four taps of a column at once, for 64 channels or pixels side by side. */
#ifndef TW_DEPTHWISE_CONV2D_VNNI_H
#define TW_DEPTHWISE_CONV2D_VNNI_H

#include "../core/window.h"
#include "../isa/wide/wide.h"

/* Bytes of a vector. */
#define TW_VNNI_BYTES 64

/* The most rows of taps. */
#define TW_VNNI_ROWS 16

/* Outputs side by side whose sums are computed at once, in vectors. */
#define TW_VNNI_OUTPUTS 4

/* Multiplier 1, weights without a zero point, fast channels. A block is the bytes that a vector of outputs has: 64
 * channels, the channels that are left, or, where pixels lie side by side as their outputs do (flat), 64 / in_c pixels of
 * all channels. Its 64 bytes are in the order in which unpacking leaves them: lane i of sums a is byte
 * 16 * (i / 4) + 4 * a + i % 4.
 * in: x, w int8 [blocks][k_h / 4 rounded up][k_w][4 sums][16 lanes][4 rows], zeros below row k_h; bias int32 with the
 * zero point + 128 folded in, mult int32 and shift int8 [blocks][4 sums][16]. in_zero: the zero point + 128, which fills
 * padding. out: y. pitch: bytes from pixel to pixel of a ring's row: in_c if that is at most 64, else 64. columns: pixels
 * of such a row. scratch: uint8 [rows that a window covers][columns][pitch], and 64 bytes. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t in_zero, pitch, columns, flat;
} tw_depthwise_conv2d_vnni_s8_params;

/* Four rows of taps, at the first column of a row of outputs; below the window's last row, any row. */
typedef struct {
    const uint8_t *row[4];
} tw_four_rows;

/* The sums of 64 outputs: four vectors of 16. */
typedef struct {
    tw_acc of[4];
} tw_sums64;

#if defined(TW_WIDE_VNNI)
typedef struct {
    tw_ends of[4];
} tw_ends64;

TW_INLINE tw_ends64 tw_ends64_load(const tw_channels_s8 *channels, int32_t c) {
    tw_ends64 ends;
    for (int a = 0; a < 4; ++a) ends.of[a] = tw_ends_load(channels, c + TW_LANES * a);
    return ends;
}

/* sums += four taps of a column. at: bytes from the rows' first ones. w: [4 sums][16][4]. */
TW_INLINE void tw_vnni_column(tw_sums64 *sums, const tw_four_rows *rows, int32_t at, const int8_t *w) {
    const __m512i r0 = _mm512_loadu_si512(rows->row[0] + at), r1 = _mm512_loadu_si512(rows->row[1] + at);
    const __m512i r2 = _mm512_loadu_si512(rows->row[2] + at), r3 = _mm512_loadu_si512(rows->row[3] + at);
    const __m512i low01 = _mm512_unpacklo_epi8(r0, r1), high01 = _mm512_unpackhi_epi8(r0, r1);
    const __m512i low23 = _mm512_unpacklo_epi8(r2, r3), high23 = _mm512_unpackhi_epi8(r2, r3);
    sums->of[0] = _mm512_dpbusd_epi32(sums->of[0], _mm512_unpacklo_epi16(low01, low23), _mm512_loadu_si512(w));
    sums->of[1] = _mm512_dpbusd_epi32(sums->of[1], _mm512_unpackhi_epi16(low01, low23), _mm512_loadu_si512(w + 64));
    sums->of[2] = _mm512_dpbusd_epi32(sums->of[2], _mm512_unpacklo_epi16(high01, high23), _mm512_loadu_si512(w + 128));
    sums->of[3] = _mm512_dpbusd_epi32(sums->of[3], _mm512_unpackhi_epi16(high01, high23), _mm512_loadu_si512(w + 192));
}

/* The first count outputs of 64: packing undoes what unpacking did to their order. */
TW_INLINE void tw_end64(int8_t *y, const tw_sums64 *sums, const tw_ends64 *ends, int32_t count) {
    __m512i of[4];
    for (int a = 0; a < 4; ++a) of[a] = tw_acc_requantize_fast(sums->of[a], &ends->of[a]);
    const __m512i low = _mm512_set1_epi8((char)ends->of[0].end.low),
                  high = _mm512_set1_epi8((char)ends->of[0].end.high);
    const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(of[0], of[1]), _mm512_packs_epi32(of[2], of[3]));
    const __m512i clamped = _mm512_min_epi8(_mm512_max_epi8(packed, low), high);
    if (count >= TW_VNNI_BYTES)
        _mm512_storeu_si512(y, clamped);
    else
        _mm512_mask_storeu_epi8(y, ((__mmask64)1 << count) - 1, clamped);
}
#else
typedef struct {
    tw_channels_s8 channels;
} tw_ends64;

TW_INLINE tw_ends64 tw_ends64_load(const tw_channels_s8 *channels, int32_t c) {
    tw_ends64 ends = {*channels};
    ends.channels.mult += c;
    ends.channels.shift += c;
    return ends;
}

/* The byte of lane i of sums a. */
TW_INLINE int32_t tw_unpacked(int32_t a, int32_t i) { return 16 * (i / 4) + 4 * a + i % 4; }

TW_INLINE void tw_vnni_column(tw_sums64 *sums, const tw_four_rows *rows, int32_t at, const int8_t *w) {
    for (int32_t a = 0; a < 4; ++a)
        for (int32_t i = 0; i < TW_LANES; ++i) {
            const int32_t x = at + tw_unpacked(a, i);
            for (int32_t r = 0; r < 4; ++r)
                sums->of[a].v[i] = tw_add(sums->of[a].v[i], rows->row[r][x] * w[4 * (TW_LANES * a + i) + r]);
        }
}

TW_INLINE void tw_end64(int8_t *y, const tw_sums64 *sums, const tw_ends64 *ends, int32_t count) {
    const tw_channels_s8 *channels = &ends->channels;
    for (int32_t a = 0; a < 4; ++a)
        for (int32_t i = 0; i < TW_LANES; ++i) {
            const int32_t c = TW_LANES * a + i;
            if (tw_unpacked(a, i) >= count) continue;
            const int32_t scaled = tw_requantize(sums->of[a].v[i], channels->mult[c], channels->shift[c]);
            y[tw_unpacked(a, i)] = tw_epilogue_s8_of(scaled, &channels->end);
        }
}
#endif

/* A block: its weights, how its sums begin and end, and how many bytes its vectors of outputs have. */
typedef struct {
    const int8_t *w;
    const int32_t *bias;
    tw_ends64 ends;
    int32_t bytes;
} tw_vnni_block;

/* outputs vectors of a row of outputs (1 or TW_VNNI_OUTPUTS), count bytes of each. at: bytes of the first one's windows
 * from the rows' first ones. */
TW_INLINE void tw_vnni_outputs(int outputs, const tw_four_rows *fours, int32_t at, int8_t *y, int32_t count,
                               const tw_vnni_block *block, const tw_depthwise_conv2d_vnni_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t step = p->flat ? TW_VNNI_BYTES : window->stride_w * p->pitch;
    const int32_t step_y = p->flat ? TW_VNNI_BYTES : window->out_c, tap = window->dilation_w * p->pitch;
    const int8_t *w = block->w;
    tw_sums64 sums[TW_VNNI_OUTPUTS];
    for (int i = 0; i < outputs; ++i)
        for (int a = 0; a < 4; ++a) sums[i].of[a] = tw_acc_load(block->bias + TW_LANES * a);
    for (int32_t ky = 0; ky < window->k_h; ky += 4, ++fours)
        for (int32_t kx = 0; kx < window->k_w; ++kx, w += 4 * TW_VNNI_BYTES)
            for (int i = 0; i < outputs; ++i) tw_vnni_column(&sums[i], fours, at + i * step + kx * tap, w);
    for (int i = 0; i < outputs; ++i) tw_end64(y + i * step_y, &sums[i], &block->ends, count);
}

/* A row of outputs. */
TW_INLINE void tw_vnni_row(const tw_four_rows *fours, int8_t *y, const tw_vnni_block *block,
                           const tw_depthwise_conv2d_vnni_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t step = p->flat ? TW_VNNI_BYTES : window->stride_w * p->pitch;
    const int32_t step_y = p->flat ? TW_VNNI_BYTES : window->out_c;
    const int32_t whole = p->flat ? window->out_w * window->out_c / TW_VNNI_BYTES : window->out_w;
    const int32_t rest = p->flat ? window->out_w * window->out_c % TW_VNNI_BYTES : 0;
    int32_t v = 0;
    for (; v + TW_VNNI_OUTPUTS <= whole; v += TW_VNNI_OUTPUTS)
        tw_vnni_outputs(TW_VNNI_OUTPUTS, fours, v * step, y + v * step_y, block->bytes, block, p);
    for (; v < whole; ++v) tw_vnni_outputs(1, fours, v * step, y + v * step_y, block->bytes, block, p);
    if (rest) tw_vnni_outputs(1, fours, v * step, y + v * step_y, rest, block, p);
}

/* Fills a row of the ring, but for its padding, with row iy of the image, plus 128, or with padding if there is none. */
TW_INLINE void tw_vnni_fill(uint8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT x, int32_t iy, int32_t first,
                            int32_t bytes, const tw_depthwise_conv2d_vnni_s8_params *p) {
    const tw_window *window = &p->window;
    to += window->pad_w * p->pitch;
    if (!tw_is_inside(iy, window->in_h)) {
        memset(to, p->in_zero, (size_t)(window->in_w * p->pitch));
        return;
    }
    x += iy * window->in_w * window->in_c;
    if (p->pitch == window->in_c) {
        for (int32_t i = 0; i < window->in_w * window->in_c; ++i) to[i] = (uint8_t)(x[i] ^ 0x80);
        return;
    }
    for (int32_t ix = 0; ix < window->in_w; ++ix, to += p->pitch, x += window->in_c)
        for (int32_t i = 0; i < bytes; ++i) to[i] = (uint8_t)(x[first + i] ^ 0x80);
}

/* A block of an image. y: the output of its first channel. */
TW_INLINE void tw_vnni_block_of(uint8_t *ring, const int8_t *x, int8_t *y, int32_t first, const tw_vnni_block *block,
                                const tw_depthwise_conv2d_vnni_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t rows = (window->k_h - 1) * window->dilation_h + 1, row = p->columns * p->pitch;
    int32_t next = 0;
    memset(ring, p->in_zero, (size_t)(rows * row + TW_VNNI_BYTES));
    for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->out_c) {
        const int32_t top = oy * window->stride_h;
        tw_four_rows fours[TW_VNNI_ROWS / 4];
        for (next = tw_max(next, top); next < top + rows; ++next)
            tw_vnni_fill(ring + next % rows * row, x, next - window->pad_h, first, block->bytes, p);
        for (int32_t ky = 0; ky < (window->k_h + 3) / 4 * 4; ++ky) {
            const int32_t tap = tw_min(ky, window->k_h - 1) * window->dilation_h;
            fours[ky / 4].row[ky % 4] = ring + (top + tap) % rows * row;
        }
        tw_vnni_row(fours, y, block, p);
    }
}

TW_KERNEL(tw_depthwise_conv2d_vnni_s8) {
    const tw_depthwise_conv2d_vnni_s8_params p = *params;
    const tw_window *window = &p.window;
    const int32_t size = (window->k_h + 3) / 4 * window->k_w * 4 * TW_VNNI_BYTES;
    const int32_t blocks = p.flat ? 1 : (window->in_c + TW_VNNI_BYTES - 1) / TW_VNNI_BYTES;
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, 1, &p.end);
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < window->batches; ++b, x += tw_window_image(window))
        for (int32_t k = 0; k < blocks; ++k) {
            const int32_t c = TW_VNNI_BYTES * k;
            const tw_vnni_block block = {(const int8_t *)in[1] + k * size, channels.bias + c,
                                         tw_ends64_load(&channels, c),
                                         p.flat ? TW_VNNI_BYTES : tw_min(window->in_c - c, TW_VNNI_BYTES)};
            tw_vnni_block_of((uint8_t *)scratch, x, y + b * window->out_h * window->out_w * window->out_c + c, c,
                             &block, &p);
        }
}

#endif
