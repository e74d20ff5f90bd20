/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D of int8 on AVX2 and AVX512-VNNI: four taps of a column at once, for 64 channels or pixels side by
 * side. */
#ifndef TW_DEPTHWISE_CONV2D_AVX2_H
#define TW_DEPTHWISE_CONV2D_AVX2_H

#include "depthwise_ring.h"

/* An image x of the blocks that take turns, whose vectors have count bytes. x and y begin with the first one. */
TW_INLINE void tw_ring_image(uint8_t *ring, const int8_t *x, int8_t *y, int32_t count, const tw_ring_block *blocks,
                             const tw_ring *p) {
    const tw_window *window = &p->window;
    const int32_t covered = (window->k_h - 1) * window->dilation_h + 1, row = p->planes * p->plane;
    int32_t next = 0, slot = 0;
    memset(ring, p->in_zero, (size_t)(covered * row + TW_BLOCK));
    for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->out_c) {
        const int32_t top = oy * window->stride_h;
        tw_ring_rows rows;
        for (; next < top + covered; ++next) {
            if (next >= top) tw_ring_fill(ring + slot * row, x, next - window->pad_h, p->flat ? p->pitch : count, p);
            slot = slot + 1 < covered ? slot + 1 : 0;
        }
        for (int32_t ky = 0; ky < 4 * p->fours; ++ky) {
            const int32_t tap = slot + tw_ring_tap(ky, p) * window->dilation_h;
            rows.of[ky / 4].row[ky % 4] = ring + (tap < covered ? tap : tap - covered) * row;
        }
        for (int32_t k = 0; k < tw_ring_turns(p); ++k) tw_ring_row(&rows, y, count, blocks + k, p);
    }
}

/* The same of an image with one column, all of whose outputs lie side by side as those of a row. */
TW_INLINE void tw_ring_column_image(uint8_t *ring, const int8_t *x, int8_t *y, int32_t count,
                                    const tw_ring_block *block, const tw_ring *p) {
    const tw_window *window = &p->window;
    const int32_t seen = (window->out_h - 1) * window->stride_h + (window->k_h - 1) * window->dilation_h + 1;
    uint8_t *first = ring + window->pad_h * p->pitch;
    tw_ring_rows rows;
    if (window->pad_h > 0 || seen > window->in_h) memset(ring, p->in_zero, (size_t)p->plane);
    if (p->pitch == window->in_c)
        tw_bias128(first, x, window->in_h * window->in_c);
    else
        for (int32_t i = 0; i < window->in_h; ++i) tw_bias64(first + i * p->pitch, x + i * window->in_c, count);
    for (int32_t ky = 0; ky < 4 * p->fours; ++ky)
        rows.of[ky / 4].row[ky % 4] = ring + tw_ring_tap(ky, p) * window->dilation_h * p->pitch;
    tw_ring_row(&rows, y, count, block, p);
}

/* Block k of all, whose first vector is that many bytes behind the row's. */
TW_INLINE void tw_ring_begin(tw_ring_block *block, int32_t k, int32_t from, const void *const *in, const tw_ring *p) {
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p->fast, &p->end);
    const int32_t left = p->window.out_w * p->window.out_c - from, turn = TW_BLOCK * p->blocks;
    block->w = (const int8_t *)in[1] + k * p->fours * p->window.k_w * 4 * TW_BLOCK;
    block->bias = channels.bias + TW_BLOCK * k;
    tw_block_ends_load(&block->ends, &channels, TW_BLOCK * k);
    block->from = from;
    block->vectors = p->flat ? tw_max(left + turn - TW_BLOCK, 0) / turn : p->column ? p->window.out_h : p->window.out_w;
    block->rest = p->flat ? tw_max(left - block->vectors * turn, 0) : 0;
}

/* The blocks from k on that take turns. */
TW_INLINE void tw_ring_images(int32_t k, int32_t count, const void *const *in, void *const *out, void *scratch,
                              tw_ring p) {
    const tw_window *window = &p.window;
    uint8_t *ring = (uint8_t *)scratch + (-(uintptr_t)scratch & (TW_BLOCK - 1));
    const int8_t *x = (const int8_t *)in[0] + TW_BLOCK * k;
    int8_t *y = (int8_t *)out[0] + TW_BLOCK * k;
    tw_ring_block blocks[TW_RING_BLOCKS];
    for (int32_t i = 0; i < tw_ring_turns(&p); ++i) tw_ring_begin(blocks + i, k + i, TW_BLOCK * i, in, &p);
    for (int32_t b = 0; b < window->batches; ++b) {
        if (p.column)
            tw_ring_column_image(ring, x, y, count, blocks, &p);
        else
            tw_ring_image(ring, x, y, count, blocks, &p);
        x += tw_window_image(window);
        y += window->out_h * window->out_w * window->out_c;
    }
}

/* The same params, but the compiler knows that taps are in neighbouring columns and signs do not matter. */
TW_INLINE tw_ring tw_ring_known(const tw_ring *p, int32_t k_h, int32_t k_w, int32_t planes, int32_t flat) {
    tw_ring known = *p;
    known.window.k_h = k_h;
    known.window.k_w = k_w;
    known.window.dilation_h = known.window.dilation_w = 1;
    known.planes = planes;
    known.flat = flat;
    known.fours = (k_h + 3) / 4;
    known.twice = 0;
    known.column = 0;
    known.end.low = known.end.zero;
    known.fast = 1;
    if (flat)
        known.blocks = 1;
    else
        known.pitch = TW_BLOCK;
    return known;
}

/* Common windows have bodies of their own, for the sake of the shared instance; of a compiled layer one is left. */
TW_INLINE void tw_ring_choose(int32_t k, int32_t count, const void *const *in, void *const *out, void *scratch,
                              const tw_ring *p) {
    const tw_window *window = &p->window;
    tw_ring plain = *p;
    plain.column = 0;
    const int32_t three = window->k_h == 3 && window->k_w == 3, whole = TW_BLOCK;
    const int32_t known = !p->twice && window->dilation_h == 1 && window->dilation_w == 1 &&
                          tw_ring_ending(p) == TW_ENDS_RELU && count == whole &&
                          (p->flat ? p->blocks == 1 : p->pitch == whole);
    if (known && three && p->planes == 1 && p->flat)
        tw_ring_images(k, whole, in, out, scratch, tw_ring_known(p, 3, 3, 1, 1));
    else if (known && three && p->planes == 1)
        tw_ring_images(k, whole, in, out, scratch, tw_ring_known(p, 3, 3, 1, 0));
    else if (known && three && p->planes == 2 && p->flat)
        tw_ring_images(k, whole, in, out, scratch, tw_ring_known(p, 3, 3, 2, 1));
    else if (known && three && p->planes == 2)
        tw_ring_images(k, whole, in, out, scratch, tw_ring_known(p, 3, 3, 2, 0));
    else if (known && window->k_w == 1 && p->planes == 1 && !p->flat)
        tw_ring_images(k, whole, in, out, scratch, tw_ring_known(p, window->k_h, 1, 1, 0));
    else if (known && window->k_w == 5 && p->planes == 1 && !p->flat)
        tw_ring_images(k, whole, in, out, scratch, tw_ring_known(p, window->k_h, 5, 1, 0));
    else
        tw_ring_images(k, count, in, out, scratch, plain);
}

/* The same of a column, where the compiler knows whether signs matter. */
TW_INLINE void tw_ring_choose_column(int32_t k, int32_t count, const void *const *in, void *const *out, void *scratch,
                                     const tw_ring *p) {
    tw_ring known = *p;
    known.column = known.planes = known.window.k_w = known.window.dilation_w = 1;
    known.flat = 0;
    if (tw_ring_ending(p) != TW_ENDS_RELU) {
        tw_ring_images(k, count, in, out, scratch, known);
        return;
    }
    known.end.low = known.end.zero;
    known.fast = 1;
    tw_ring_images(k, count, in, out, scratch, known);
}

/* All blocks. */
TW_INLINE void tw_ring_blocks(const tw_ring *params, const void *const *in, void *const *out, void *scratch) {
    const tw_ring p = *params;
    for (int32_t k = 0; k < p.blocks; k += tw_ring_turns(&p)) {
        const int32_t count = p.flat ? TW_BLOCK : tw_min(p.window.in_c - TW_BLOCK * k, TW_BLOCK);
        if (p.column)
            tw_ring_choose_column(k, count, in, out, scratch, &p);
        else
            tw_ring_choose(k, count, in, out, scratch, &p);
    }
}

TW_KERNEL(tw_depthwise_conv2d_avx2_s8) { tw_ring_blocks(params, in, out, scratch); }

#endif
