/* SPDX-License-Identifier: Apache-2.0 */
/* What recurrent operators of float values share: activations, and products of vectors with weights; the vectors are
 * quantised on the way if the weights are int8. */
#ifndef TW_VECTOR_H
#define TW_VECTOR_H

#include "../core/hybrid.h"
#include "cell.h"

/* tanh, or values are clamped to low..high (tw_boundf). */
typedef struct {
    int32_t tanh;
    float low, high;
} tw_activation;

/* A vector [size]. codes: null, or the same as int8. */
typedef struct {
    const float *values;
    const int8_t *codes;
    tw_hybrid_quant quant;
    int32_t size;
} tw_vector;

TW_INLINE float tw_activate(float x, const tw_activation *a) {
    return a->tanh ? tanhf(x) : tw_boundf(x, a->low, a->high);
}

/* codes: null, or room for the vector as int8. */
TW_INLINE tw_vector tw_vector_of(const float *values, int32_t size, int8_t *codes, int32_t symmetric) {
    tw_vector v = {values, codes, {1.0F, 0}, size};
    if (codes) v.quant = tw_hybrid_quantize(codes, values, size, symmetric);
    return v;
}

/* One row of weights [rows, size] times the vector; scale: that of int8 weights, null with float weights. (Compilers know
 * which of both it is, unlike for codes, and warn of no reads that cannot be.) */
TW_INLINE float tw_vector_times(const tw_vector *v, const void *weights, int32_t row, const float *scale) {
    const ptrdiff_t at = (ptrdiff_t)row * v->size;
    if (scale) {
        const int8_t *w = (const int8_t *)weights + at;
        int32_t sum = 0;
        for (int32_t i = 0; i < v->size; ++i) sum = tw_add(sum, w[i] * (v->codes[i] - v->quant.zero));
        return (float)sum * (*scale * v->quant.scale);
    }
    const float *w = (const float *)weights + at;
    float sum = 0.0F;
    for (int32_t i = 0; i < v->size; ++i) sum += v->values[i] * w[i];
    return sum;
}

/* Rows of float weights that are multiplied at once, so that a value is loaded once for all. */
#define TW_VECTOR_ROWS 4

/* sums: so many rows of float weights from row on, times the vector, each summed as by tw_vector_times. */
TW_INLINE void tw_vector_times_rows(float *sums, const tw_vector *v, const void *weights, int32_t row) {
    const float *w = (const float *)weights + (ptrdiff_t)row * v->size;
    float a = 0.0F, b = 0.0F, c = 0.0F, d = 0.0F;
    for (int32_t i = 0; i < v->size; ++i, ++w) {
        const float x = v->values[i];
        a += x * w[0];
        b += x * w[v->size];
        c += x * w[2 * (ptrdiff_t)v->size];
        d += x * w[3 * (ptrdiff_t)v->size];
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

#endif
