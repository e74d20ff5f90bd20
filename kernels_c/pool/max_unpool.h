/* SPDX-License-Identifier: Apache-2.0 */
/* MaxUnpooling2D: puts each value where it was before a maximum was taken of its window; zeros elsewhere. */
#ifndef TW_MAX_UNPOOL_H
#define TW_MAX_UNPOOL_H

#include "../core/window.h"

/* in: x, and numbers of the same shape, from max_pool_argmax.h. out: y. window: from y to x. What a number puts outside
 * of its image is left out; where several values meet, the last one stays. */
typedef struct {
    tw_window window;
} tw_max_unpool_f32_params;

/* The same, but a number is a place in an image of y. */
typedef struct {
    int32_t batches, in_image, out_image;
} tw_max_unpool_places_f32_params;

TW_KERNEL(tw_max_unpool_f32) {
    const tw_max_unpool_f32_params p = *params;
    const tw_window *w = &p.window;
    const float *x = (const float *)in[0], *numbers = (const float *)in[1];
    float *y = (float *)out[0];
    const int32_t image = tw_window_image(w), most = w->k_h * w->k_w;
    for (int32_t i = 0; i < w->batches * image; ++i) y[i] = 0.0F;
    for (int32_t n = 0; n < w->batches; ++n, y += image)
        for (int32_t top = -w->pad_h, r = 0; r < w->out_h; ++r, top += w->stride_h)
            for (int32_t left = -w->pad_w, k = 0; k < w->out_w; ++k, left += w->stride_w)
                for (int32_t c = 0; c < w->in_c; ++c, ++x, ++numbers) {
                    const float given = *numbers;
                    if (!(given > -1.0F && given < (float)most)) continue; /* NaN, too */
                    const int32_t number = (int32_t)given;
                    const int32_t row = top + number / w->k_w, column = left + number % w->k_w;
                    if (tw_is_inside(row, w->in_h) && tw_is_inside(column, w->in_w))
                        y[(row * w->in_w + column) * w->in_c + c] = *x;
                }
}

TW_KERNEL(tw_max_unpool_places_f32) {
    const tw_max_unpool_places_f32_params p = *params;
    const float *x = (const float *)in[0];
    const int32_t *places = (const int32_t *)in[1];
    float *y = (float *)out[0];
    for (int32_t i = 0; i < p.batches * p.out_image; ++i) y[i] = 0.0F;
    for (int32_t n = 0; n < p.batches; ++n, y += p.out_image)
        for (int32_t i = 0; i < p.in_image; ++i, ++x, ++places)
            if (tw_is_inside(*places, p.out_image)) y[*places] = *x;
}

#endif
