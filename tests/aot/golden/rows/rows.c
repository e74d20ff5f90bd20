/* SPDX-License-Identifier: Apache-2.0 */
/* rows: made by twinfer VERSION for target generic, memory by rows. Do not edit. */
#include "rows.h"
#include "rows_data.h"
#include "kernels/core/tw.h"
#include "kernels/run/chain.h"
#include "kernels/conv/conv2d_f32.h"
#include "kernels/elementwise/add.h"
#include "kernels/pool/pool_2d.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Layer 0: CONV_2D, operator 0 of the model; tw_conv2d_f32, 2,160 MACs
 *   in  "x" FLOAT32[1, 6, 5, 2]: arena [0, 240)
 *   in  "constant_1" FLOAT32[4, 3, 3, 2]: rows_0_weights
 *   in  "constant_2" FLOAT32[4]: rows_0_bias
 *   out "conv_2d_3" FLOAT32[1, 6, 5, 4]: arena [80, 560) */
TW_INLINE void rows_0_conv_2d(const void *context, const tw_rows_part *part) {
    (void)context;
    const tw_conv2d_f32_params params = {
        .window = {
            .batches = 1, .in_h = part->high - part->low, .in_w = 5, .in_c = 2, .out_h = 1, .out_w = 5, .out_c = 4,
            .k_h = 3, .k_w = 3, .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
            .pad_h = tw_max(0, 1 - part->first), .pad_w = 1,
        },
        .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}, .depth = 2
    };
    const void *const in[] = {part->x[0], rows_0_weights, rows_0_bias};
    void *const out[] = {part->y};
    tw_conv2d_f32_body(&params, in, out, out[0]);
}

/* Layer 0, row by row, from the last to the first */
static const tw_rows_layer rows_0_chain_layers[] = {
    {NULL, NULL, 0, 40, 6, 0, 0, 0, 0, 0, 0, 0, {0}},
    {rows_0_conv_2d, NULL, 80, 80, 6, 1, 1, 1, 2, 0, 0, 1, {0}},
};
static const tw_chain rows_0_chain = {rows_0_chain_layers, 2, 1, 0};
TW_INLINE void rows_0_chain_1(tw_rows_progress *at, unsigned char *arena, const unsigned char *input, int32_t wanted) {
    while (at[1].done < wanted) {
        tw_chain_part(&rows_0_chain, at, 1, arena, input, 1);
    }
}
static TW_NOINLINE void rows_0_chain_run(unsigned char *arena) {
    tw_rows_progress at[2] = {{0, 0, 0}};
    rows_0_chain_1(at, arena, NULL, 6);
}

/* Layer 1: CONV_2D, operator 1 of the model; tw_conv2d_f32, 1,440 MACs
 *   in  "conv_2d_3" FLOAT32[1, 6, 5, 4]: arena [80, 560)
 *   in  "constant_4" FLOAT32[4, 3, 1, 4]: rows_1_weights
 *   in  "constant_5" FLOAT32[4]: rows_1_bias
 *   out "conv_2d_6" FLOAT32[1, 6, 5, 4]: row by row */
TW_INLINE void rows_1_conv_2d(const void *context, const tw_rows_part *part) {
    (void)context;
    const tw_conv2d_f32_params params = {
        .window = {
            .batches = 1, .in_h = part->high - part->low, .in_w = 5, .in_c = 4, .out_h = 1, .out_w = 5, .out_c = 4,
            .k_h = 3, .k_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
            .pad_h = tw_max(0, 1 - part->first), .pad_w = 0,
        },
        .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}, .depth = 4
    };
    const void *const in[] = {part->x[0], rows_1_weights, rows_1_bias};
    void *const out[] = {part->y};
    tw_conv2d_f32_body(&params, in, out, out[0]);
}

/* Layer 2: ADD, operator 2 of the model; tw_add_f32
 *   in  "conv_2d_3" FLOAT32[1, 6, 5, 4]: arena [80, 560)
 *   in  "conv_2d_6" FLOAT32[1, 6, 5, 4]: row by row
 *   out "add_7" FLOAT32[1, 6, 5, 4]: arena [0, 480) */
TW_INLINE void rows_2_add(const void *context, const tw_rows_part *part) {
    (void)context;
    static const tw_add_f32_params params = {
        .walk = {
            .size = 20, .tile = 1, .a_step = 1, .b_step = 1,
            .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
        },
        .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f
    };
    const void *const in[] = {part->x[0], part->x[1]};
    void *const out[] = {part->y};
    tw_add_f32_body(&params, in, out, out[0]);
}

/* Layers 1 to 2, row by row
 *   1 of 6 rows of "conv_2d_6": arena [560, 640) */
static const tw_rows_layer rows_2_chain_layers[] = {
    {NULL, NULL, 80, 80, 6, 0, 0, 0, 0, 0, 0, 0, {0}},
    {rows_1_conv_2d, NULL, 560, 80, 6, 1, 1, 1, 2, 1, 0, 1, {0}},
    {rows_2_add, NULL, 0, 80, 6, 1, 1, 0, 0, 0, 0, 2, {0, 1}},
};
static const tw_chain rows_2_chain = {rows_2_chain_layers, 3, 1, 0};
TW_INLINE void rows_2_chain_1(tw_rows_progress *at, unsigned char *arena, const unsigned char *input, int32_t wanted) {
    while (at[1].done < wanted) {
        tw_chain_part(&rows_2_chain, at, 1, arena, input, 0);
    }
}
TW_INLINE void rows_2_chain_2(tw_rows_progress *at, unsigned char *arena, const unsigned char *input, int32_t wanted) {
    while (at[2].done < wanted) {
        rows_2_chain_1(at, arena, input, tw_chain_wanted(&rows_2_chain, at, 2));
        tw_chain_part(&rows_2_chain, at, 2, arena, input, 0);
    }
}
static TW_NOINLINE void rows_2_chain_run(unsigned char *arena) {
    tw_rows_progress at[3] = {{0, 0, 0}};
    rows_2_chain_2(at, arena, NULL, 6);
}

/* Layer 3: MAX_POOL_2D, operator 3 of the model; tw_max_pool_2d_f32
 *   in  "add_7" FLOAT32[1, 6, 5, 4]: arena [0, 480)
 *   out "max_pool_2d_8" FLOAT32[1, 5, 4, 4]: arena [320, 640) */
TW_INLINE void rows_3_max_pool_2d(const void *context, const tw_rows_part *part) {
    (void)context;
    static const tw_max_pool_2d_f32_params params = {
        .window = {
            .batches = 1, .in_h = 2, .in_w = 5, .in_c = 4, .out_h = 1, .out_w = 4, .out_c = 4, .k_h = 2, .k_w = 2,
            .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 0, .pad_w = 0,
        },
        .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}
    };
    const void *const in[] = {part->x[0]};
    void *const out[] = {part->y};
    tw_max_pool_2d_f32_body(&params, in, out, out[0]);
}

/* Layer 3, row by row, from the last to the first */
static const tw_rows_layer rows_3_chain_layers[] = {
    {NULL, NULL, 0, 80, 6, 0, 0, 0, 0, 0, 0, 0, {0}},
    {rows_3_max_pool_2d, NULL, 320, 64, 5, 1, 1, 0, 1, 0, 0, 1, {0}},
};
static const tw_chain rows_3_chain = {rows_3_chain_layers, 2, 1, 0};
TW_INLINE void rows_3_chain_1(tw_rows_progress *at, unsigned char *arena, const unsigned char *input, int32_t wanted) {
    while (at[1].done < wanted) {
        tw_chain_part(&rows_3_chain, at, 1, arena, input, 1);
    }
}
static TW_NOINLINE void rows_3_chain_run(unsigned char *arena) {
    tw_rows_progress at[2] = {{0, 0, 0}};
    rows_3_chain_1(at, arena, NULL, 5);
}

/* Layer 4: AVERAGE_POOL_2D, operator 4 of the model; tw_average_pool_2d_f32
 *   in  "max_pool_2d_8" FLOAT32[1, 5, 4, 4]: arena [320, 640)
 *   out "average_pool_2d_9" FLOAT32[1, 5, 4, 4]: arena [0, 320) */
static const tw_average_pool_2d_f32_params rows_4_params = {
    .window = {
        .batches = 1, .in_h = 5, .in_w = 4, .in_c = 4, .out_h = 5, .out_w = 4, .out_c = 4, .k_h = 3, .k_w = 1,
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 1, .pad_w = 0,
    },
    .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f},
};
static TW_NOINLINE void rows_4_average_pool_2d(unsigned char *arena) {
    const void *const in[] = {arena + 320};
    void *const out[] = {arena + 0};
    tw_average_pool_2d_f32_body(&rows_4_params, in, out, out[0]);
}

/* Copies unless one side is absent or the value is in place already. */
static void rows_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

int rows_run(void *arena, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return 1;
    if ((uintptr_t)arena % ROWS_ARENA_ALIGN != 0) return 2;
    if (inputs != NULL) {
        rows_copy(base + ROWS_INPUT_0_OFFSET, inputs[0], ROWS_INPUT_0_BYTES);
    }
    rows_0_chain_run(base);
    rows_2_chain_run(base);
    rows_3_chain_run(base);
    rows_4_average_pool_2d(base);
    if (outputs != NULL) {
        rows_copy(outputs[0], base + ROWS_OUTPUT_0_OFFSET, ROWS_OUTPUT_0_BYTES);
    }
    return 0;
}
