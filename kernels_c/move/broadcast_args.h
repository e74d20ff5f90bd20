/* SPDX-License-Identifier: Apache-2.0 */
/* BROADCAST_ARGS: the shape that two shapes have together. */
#ifndef TW_BROADCAST_ARGS_H
#define TW_BROADCAST_ARGS_H

#include "../core/tw.h"

/* in: a [a], b [b], extents. out: y [the longer of both]; the shorter shape counts as having ones in front. Where extents
 * differ, the one that is not 1 counts, that of a if neither is. */
typedef struct {
    int32_t a, b;
} tw_broadcast_args_s32_params;
typedef tw_broadcast_args_s32_params tw_broadcast_args_s64_params;

#define TW_BROADCAST_ARGS(type)                                                                                        \
    const int32_t rank = tw_max(params->a, params->b);                                                                 \
    const type *a = (const type *)in[0], *b = (const type *)in[1];                                                     \
    for (int32_t i = 0; i < rank; ++i) {                                                                               \
        const int32_t of_a = i - (rank - params->a), of_b = i - (rank - params->b);                                    \
        const type m = of_a < 0 ? 1 : a[of_a], n = of_b < 0 ? 1 : b[of_b];                                             \
        ((type *)out[0])[i] = m == 1 ? n : m;                                                                          \
    }

TW_KERNEL(tw_broadcast_args_s32) { TW_BROADCAST_ARGS(int32_t); }
TW_KERNEL(tw_broadcast_args_s64) { TW_BROADCAST_ARGS(int64_t); }

#endif
