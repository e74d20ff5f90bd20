/* SPDX-License-Identifier: Apache-2.0 */
/* rows: made by twinfer VERSION for target generic, memory by rows. Do not edit. */
#include "rows.h"
#include "rows_place.h"
#include "rows_data.h"
#include "kernels/core/tw.h"
#include "kernels/conv/conv2d_f32.h"
#include "kernels/elementwise/add.h"
#include "kernels/pool/pool_2d.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TW_NEED_FLOATS;

/* Layer 0: CONV_2D, operator 0 of the model; tw_conv2d_f32, 2,160 MACs
 *   in  "x" FLOAT32 [1, 6, 5, 2] at 0..240
 *   out "conv_2d_3" FLOAT32 [1, 6, 5, 4] at 80..560 */
static TW_LAYER ROWS_CODE(0) void rows_0_conv_2d(unsigned char *arena) {
    for (int32_t y = 5; y >= 0; --y) {
        const int32_t low = tw_max(0, y - 1), high = tw_min(6, y + 2);
        const tw_conv2d_f32_params params = {
            .window = {
                .batches = 1, .in_h = high - low, .in_w = 5, .in_c = 2, .out_h = 1, .out_w = 5, .out_c = 4, .k_h = 3,
                .k_w = 3, .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = tw_max(0, 1 - y),
                .pad_w = 1,
            },
            .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}, .depth = 2
        };
        const void *const in[] = {arena + 40 * low, rows_0_weights, rows_0_bias};
        void *const out[] = {arena + 80 + 80 * y};
        tw_conv2d_f32_body(&params, in, out, out[0]);
    }
}

/* Layer 1: CONV_2D, operator 1 of the model; tw_conv2d_f32, 1,440 MACs
 *   in  "conv_2d_3" FLOAT32 [1, 6, 5, 4] at 80..560
 *   out "conv_2d_6" FLOAT32 [1, 6, 5, 4] row by row */
TW_INLINE void rows_1_conv_2d(int32_t y, int32_t low, int32_t high, const unsigned char *from, unsigned char *to) {
    const tw_conv2d_f32_params params = {
        .window = {
            .batches = 1, .in_h = high - low, .in_w = 5, .in_c = 4, .out_h = 1, .out_w = 5, .out_c = 4, .k_h = 3,
            .k_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = tw_max(0, 1 - y),
            .pad_w = 0,
        },
        .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}, .depth = 4
    };
    const void *const in[] = {from, rows_1_weights, rows_1_bias};
    void *const out[] = {to};
    tw_conv2d_f32_body(&params, in, out, out[0]);
}

/* Layer 2: ADD, operator 2 of the model; tw_add_f32
 *   in  "conv_2d_3" FLOAT32 [1, 6, 5, 4] at 80..560
 *   in  "conv_2d_6" FLOAT32 [1, 6, 5, 4] row by row
 *   out "add_7" FLOAT32 [1, 6, 5, 4] at 0..480 */
TW_INLINE void rows_2_add(const unsigned char *from_0, const unsigned char *from_1, unsigned char *to) {
    static ROWS_TABLES(2) const tw_add_f32_params params = {
        .walk = {
            .size = 20, .tile = 1, .a_step = 1, .b_step = 1,
            .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
        },
        .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f
    };
    const void *const in[] = {from_0, from_1};
    void *const out[] = {to};
    tw_add_f32_body(&params, in, out, out[0]);
}

/* Layers 1 to 2, row by row
 *   1 of 6 rows of "conv_2d_6" at 560..640; the first is row first1 */
static TW_LAYER ROWS_CODE(2) void rows_1_to_2(unsigned char *arena) {
    int32_t y1 = 0, first1 = 0;
    for (int32_t y2 = 0; y2 < 6; ++y2) {
        for (; y1 < y2 + 1; ++y1) {
            const int32_t low1 = tw_max(0, y1 - 1), high1 = tw_min(6, y1 + 2);
            if (y1 + 1 - first1 > 1) {
                first1 = y1;
            }
            rows_1_conv_2d(y1, low1, high1, arena + 80 + 80 * low1, arena + 560 + 80 * (y1 - first1));
        }
        rows_2_add(arena + 80 + 80 * y2, arena + 560 + 80 * (y2 - first1), arena + 80 * y2);
    }
}

/* Layer 3: MAX_POOL_2D, operator 3 of the model; tw_max_pool_2d_f32
 *   in  "add_7" FLOAT32 [1, 6, 5, 4] at 0..480
 *   out "max_pool_2d_8" FLOAT32 [1, 5, 4, 4] at 320..640 */
static TW_LAYER ROWS_CODE(3) void rows_3_max_pool_2d(unsigned char *arena) {
    for (int32_t y = 4; y >= 0; --y) {
        static ROWS_TABLES(3) const tw_max_pool_2d_f32_params params = {
            .window = {
                .batches = 1, .in_h = 2, .in_w = 5, .in_c = 4, .out_h = 1, .out_w = 4, .out_c = 4, .k_h = 2, .k_w = 2,
                .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 0, .pad_w = 0,
            },
            .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}
        };
        const void *const in[] = {arena + 80 * y};
        void *const out[] = {arena + 320 + 64 * y};
        tw_max_pool_2d_f32_body(&params, in, out, out[0]);
    }
}

/* Layer 4: AVERAGE_POOL_2D, operator 4 of the model; tw_average_pool_2d_f32
 *   in  "max_pool_2d_8" FLOAT32 [1, 5, 4, 4] at 320..640
 *   out "average_pool_2d_9" FLOAT32 [1, 5, 4, 4] at 0..320 */
static ROWS_TABLES(4) const tw_average_pool_2d_f32_params rows_4_params = {
    .window = {
        .batches = 1, .in_h = 5, .in_w = 4, .in_c = 4, .out_h = 5, .out_w = 4, .out_c = 4, .k_h = 3, .k_w = 1,
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 1, .pad_w = 0,
    },
    .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f},
};
static TW_LAYER ROWS_CODE(4) void rows_4_average_pool_2d(unsigned char *arena) {
    const void *const in[] = {arena + 320};
    void *const out[] = {arena};
    tw_average_pool_2d_f32_body(&rows_4_params, in, out, out[0]);
}

/* Copies unless one side is absent or the value is in place already. */
static ROWS_SECTION_CODE void rows_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

ROWS_SECTION_CODE int rows_run(void *arena, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % ROWS_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (inputs != NULL) {
        rows_copy(base + ROWS_INPUT_0_OFFSET, inputs[0], ROWS_INPUT_0_BYTES);
    }
    if (ROWS_HOOK(0)) return TW_CANCELLED;
    rows_0_conv_2d(base);
    if (ROWS_HOOK(2)) return TW_CANCELLED;
    rows_1_to_2(base);
    if (ROWS_HOOK(3)) return TW_CANCELLED;
    rows_3_max_pool_2d(base);
    if (ROWS_HOOK(4)) return TW_CANCELLED;
    rows_4_average_pool_2d(base);
    if (outputs != NULL) {
        rows_copy(outputs[0], base + ROWS_OUTPUT_0_OFFSET, ROWS_OUTPUT_0_BYTES);
    }
    return TW_OK;
}

#ifdef TW_RUN_LAYERS
ROWS_SECTION_CODE int rows_run_layers(void *arena, int32_t from, int32_t to) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % ROWS_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (from < 0 || to > 5 || from > to) return TW_NO_LAYER;
    for (int32_t i = from; i < to; ++i) {
        if (ROWS_HOOK(i)) return TW_CANCELLED;
        switch (i) {
        case 0: rows_0_conv_2d(base); break;
        case 2: rows_1_to_2(base); break;
        case 3: rows_3_max_pool_2d(base); break;
        case 4: rows_4_average_pool_2d(base); break;
        default: break; /* it runs with a later layer */
        }
    }
    return TW_OK;
}
#endif
