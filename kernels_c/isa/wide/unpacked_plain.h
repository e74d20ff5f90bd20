/* SPDX-License-Identifier: Apache-2.0 */
/* Four rows of bytes in plain C; part of unpacked.h, which includes this file. */
#ifndef TW_UNPACKED_PLAIN_H
#define TW_UNPACKED_PLAIN_H

#define TW_STRIP 64
#define TW_STRIPS_AT_ONCE 1

typedef struct {
    int8_t v[TW_STRIP];
} tw_strip_bytes;

typedef struct {
    int32_t of[4][TW_LANES];
} tw_strip_sums;

typedef struct {
    tw_channels_s8 channels;
} tw_block_ends;

TW_INLINE void tw_block_ends_load(tw_block_ends *ends, const tw_channels_s8 *channels, int32_t c) {
    ends->channels = *channels;
    ends->channels.mult += c;
    ends->channels.shift += c;
}

TW_INLINE void tw_bias64(uint8_t *to, const int8_t *x, int32_t count) { tw_bias128(to, x, count); }

TW_INLINE void tw_split64(uint8_t *even, uint8_t *odd, const int8_t *x, int32_t unit) {
    for (int32_t i = 0; i < TW_BLOCK / 2; i += unit, x += 2 * unit) {
        tw_bias128(even + i, x, unit);
        tw_bias128(odd + i, x + unit, unit);
    }
}

/* The byte of lane i of sums a. */
TW_INLINE int32_t tw_unpacked(int32_t a, int32_t i) { return 16 * (i / 4) + 4 * a + i % 4; }

TW_INLINE tw_strip_sums tw_strip_begin(const int32_t *bias, int strip) {
    tw_strip_sums sums;
    (void)strip;
    memcpy(sums.of, bias, sizeof sums.of);
    return sums;
}

TW_INLINE void tw_strip_add(tw_strip_sums *sums, const tw_four_rows *rows, ptrdiff_t at, const int8_t *w, int strip) {
    (void)strip;
    for (int32_t a = 0; a < 4; ++a)
        for (int32_t i = 0; i < TW_LANES; ++i, w += 4) {
            const ptrdiff_t x = at + tw_unpacked(a, i);
            for (int32_t r = 0; r < 4; ++r) sums->of[a][i] = tw_add(sums->of[a][i], rows->row[r][x] * w[r]);
        }
}

TW_INLINE tw_strip_bytes tw_strip_end(const tw_strip_sums *sums, const tw_block_ends *ends, int ending, int strip) {
    const tw_channels_s8 *channels = &ends->channels;
    tw_strip_bytes bytes;
    (void)ending;
    (void)strip;
    for (int32_t a = 0; a < 4; ++a)
        for (int32_t i = 0; i < TW_LANES; ++i) {
            const int32_t c = TW_LANES * a + i;
            const int32_t scaled = tw_requantize(sums->of[a][i], channels->mult[c], channels->shift[c]);
            bytes.v[tw_unpacked(a, i)] = tw_epilogue_s8_of(scaled, &channels->end);
        }
    return bytes;
}

TW_INLINE void tw_strip_store(int8_t *y, tw_strip_bytes bytes, int32_t count) {
    for (int32_t i = 0; i < tw_min(count, TW_STRIP); ++i) y[i] = bytes.v[i];
}

#endif
