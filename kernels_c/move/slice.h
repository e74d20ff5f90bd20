/* SPDX-License-Identifier: Apache-2.0 */
/* Picks equally spaced elements: SLICE, STRIDED_SLICE and any TRANSPOSE. */
#ifndef TW_SLICE_H
#define TW_SLICE_H

#include "move.h"

#define TW_MAX_SLICE 6

/* in: x, read from byte start on; neighbours along axis i are step[i] bytes apart, negative to run backwards.
 * out: y [n[0], ..., n[5]], contiguous elements of size bytes. An element is a contiguous run of any length. */
typedef struct {
    int32_t start, size;
    int32_t n[TW_MAX_SLICE], step[TW_MAX_SLICE];
} tw_slice_params;

TW_KERNEL(tw_slice) {
    const tw_slice_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0] + p.start;
    uint8_t *y = (uint8_t *)out[0];
    (void)scratch;
    for (int32_t a = 0; a < p.n[0]; ++a)
        for (int32_t b = 0; b < p.n[1]; ++b)
            for (int32_t c = 0; c < p.n[2]; ++c)
                for (int32_t d = 0; d < p.n[3]; ++d)
                    for (int32_t e = 0; e < p.n[4]; ++e) {
                        const int32_t at =
                            a * p.step[0] + b * p.step[1] + c * p.step[2] + d * p.step[3] + e * p.step[4];
                        tw_move(y, p.size, x + at, p.step[5], p.n[5], p.size);
                        y += p.n[5] * p.size;
                    }
}

#endif
