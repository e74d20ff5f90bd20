/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of outputs of a float convolution, by tiles of pixels whose sums stay in registers. */
#ifndef TW_TILE_F32_H
#define TW_TILE_F32_H

#include "../../core/window.h"
#include "wide_f32.h"

/* The rows of the image that a row of outputs sees, row floats each: row iy is rows' place iy % places. count rows of
 * taps, the first of them at place. next: the first row that was not copied. */
typedef struct {
    const float *rows;
    int32_t row, places, place, count, first, next;
} tw_f32_rows;

/* A layer: weights packed [out_c / 16][k_h * k_w * in_c][16], bias [out_c padded to 16]. fused: a constant (madd.h). */
typedef struct {
    const float *w, *bias;
    tw_window window;
    tw_limits_f32 limits;
    int fused;
} tw_f32_layer;

/* sums [pixels][TW_F32_VECTORS] of the windows from float x of the rows on and a block of weights. pixels is a
 * constant. */
TW_INLINE void tw_f32_sums(tw_f32v *sums, const tw_f32_rows *from, int32_t x, const float *w, int pixels,
                           const tw_f32_layer *layer) {
    const tw_window *window = &layer->window;
    const int32_t runs = window->dilation_w > 1 ? window->k_w : 1, run = window->k_w / runs * window->in_c;
    const int32_t pixel = window->stride_w * window->in_c, tap = window->dilation_w * window->in_c;
    tw_f32v acc[TW_F32_PIXELS][TW_F32_VECTORS];
    const tw_f32v zero = {0};
    int32_t place = from->place, ky = from->count;
    for (int r = 0; r < pixels; ++r)
        for (int v = 0; v < TW_F32_VECTORS; ++v) acc[r][v] = zero;
    w += TW_LANES * from->first * window->k_w * window->in_c;
    TW_ROLLED
    do {
        const float *at = from->rows + place * from->row + x;
        int32_t kx = runs;
        do {
            int32_t i = 0;
            do {
                for (int r = 0; r < pixels; ++r)
                    for (int v = 0; v < TW_F32_VECTORS; ++v)
                        acc[r][v] = tw_f32v_madd(tw_f32v_all(at[r * pixel + i]), tw_f32v_load(w + TW_F32_LANES * v),
                                                 acc[r][v], layer->fused);
                w += TW_LANES;
            } while (++i < run);
            at += tap;
        } while (--kx > 0);
        place += window->dilation_h;
        if (place >= from->places) place -= from->places;
    } while (--ky > 0);
    for (int r = 0; r < pixels; ++r)
        for (int v = 0; v < TW_F32_VECTORS; ++v) sums[r * TW_F32_VECTORS + v] = acc[r][v];
}

/* Outputs from channel c on of so many pixels, a constant, the first of them first. y: the row of outputs. */
TW_INLINE void tw_f32_tile(const tw_f32_rows *from, int32_t first, int32_t c, float *y, int pixels,
                           const tw_f32_layer *layer) {
    const tw_window *window = &layer->window;
    const int32_t out_c = window->out_c, k = window->k_h * window->k_w * window->in_c;
    tw_f32v sums[TW_F32_PIXELS * TW_F32_VECTORS];
    tw_f32_sums(sums, from, first * window->stride_w * window->in_c, layer->w + c * k, pixels, layer);
    for (int v = 0; v < TW_F32_VECTORS; ++v) {
        const int32_t at = c + TW_F32_LANES * v;
        const tw_f32v bias = tw_f32v_load(layer->bias + at);
        for (int r = 0; r < pixels; ++r)
            tw_f32v_store(y + (first + r) * out_c + at,
                          tw_f32v_clamp(sums[r * TW_F32_VECTORS + v] + bias, &layer->limits), out_c - at);
    }
}

/* A row of outputs y, by tiles of so many pixels: a constant. */
TW_INLINE void tw_f32_tiles(const tw_f32_rows *from, float *y, int pixels, const tw_f32_layer *layer) {
    const int32_t out_w = layer->window.out_w;
    for (int32_t next = 0; next < out_w; next += pixels)
        for (int32_t c = 0; c < layer->window.out_c; c += TW_LANES)
            tw_f32_tile(from, tw_min(next, out_w - pixels), c, y, pixels, layer);
}

#define TW_TILES(n)                                                                                                    \
    case n: tw_f32_tiles(from, y, n, layer); break;

/* A row of outputs y, by tiles that suit its width. */
TW_INLINE void tw_f32_row(const tw_f32_rows *from, float *y, const tw_f32_layer *layer) {
    switch (tw_f32_pixels(layer->window.out_w, TW_F32_PIXELS)) {
        TW_TILES(1)
        TW_TILES(2)
        TW_TILES(3)
#if TW_F32_PIXELS >= 6
        TW_TILES(4)
        TW_TILES(5)
        TW_TILES(6)
#endif
#if TW_F32_PIXELS >= 16
        TW_TILES(7)
        TW_TILES(8)
        TW_TILES(9)
        TW_TILES(10)
        TW_TILES(11)
        TW_TILES(12)
        TW_TILES(13)
        TW_TILES(14)
        TW_TILES(15)
        TW_TILES(16)
#endif
    }
}

#undef TW_TILES

#endif
