/* SPDX-License-Identifier: Apache-2.0 */
/* rows: made by twinfer VERSION for target generic, interpreted, memory by rows. Do not edit. */
#include "rows.h"
#include "rows_place.h"
#include "rows_data.h"
#include "kernels/run/run.h"
#include "kernels/run/rows.h"
#include "kernels/conv/conv2d_f32.h"
#include "kernels/elementwise/add.h"
#include "kernels/pool/pool_2d.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TW_NEED_FLOATS;

/* Kernels that layers share, params read at run time. */
static ROWS_CODE(tw_conv2d_f32) TW_SHARED(tw_conv2d_f32, rows_tw_conv2d_f32)
static ROWS_CODE(tw_add_f32) TW_SHARED(tw_add_f32, rows_tw_add_f32)
static ROWS_CODE(tw_max_pool_2d_f32) TW_SHARED(tw_max_pool_2d_f32, rows_tw_max_pool_2d_f32)
static ROWS_CODE(tw_average_pool_2d_f32) TW_SHARED(tw_average_pool_2d_f32, rows_tw_average_pool_2d_f32)

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

static ROWS_TABLES(0) const tw_conv2d_f32_params rows_0_conv_2d_params = {
    .window = {
        .batches = 1, .in_h = 6, .in_w = 5, .in_c = 2, .out_h = 6, .out_w = 5, .out_c = 4, .k_h = 3, .k_w = 3,
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 1, .pad_w = 1,
    },
    .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}, .depth = 2,
};
static ROWS_TABLES(0) const tw_rows_member rows_0_conv_2d_members[] = {
    {.at = offsetof(tw_conv2d_f32_params, window.in_h), .low = 0, .high = 0, .each = TW_ROWS_IN},
    {.at = offsetof(tw_conv2d_f32_params, window.out_h), .low = 0, .high = 6, .each = 1},
    {.at = offsetof(tw_conv2d_f32_params, window.pad_h), .low = 1, .high = 1, .each = TW_ROWS_PAD},
};
static ROWS_ADDRESSES const void *const rows_0_conv_2d_in[] = {NULL, rows_0_weights, rows_0_bias};
static ROWS_ADDRESSES const tw_rows_call rows_0_conv_2d = {
    .kernel = rows_tw_conv2d_f32, .params = &rows_0_conv_2d_params, .in = rows_0_conv_2d_in,
    .members = rows_0_conv_2d_members, .bytes = sizeof rows_0_conv_2d_params, .inputs = 3, .member_count = 3,
    .scratch = 0, .sources = 1, .places = {0},
};
/* Layer 0, row by row, from the last to the first */
static ROWS_ADDRESSES const tw_rows_layer rows_0_chain_layers[] = {
    {
        .run = NULL, .context = NULL, .offset = 0, .row = 40, .height = 6, .band = 0, .stride = 0, .pad = 0,
        .reach = 0, .capacity = 0, .kept = 0, .sources = 0, .source = {0},
    },
    {
        .run = tw_run_rows, .context = &rows_0_conv_2d, .offset = 80, .row = 80, .height = 6, .band = 1, .stride = 1,
        .pad = 1, .reach = 2, .capacity = 0, .kept = 0, .sources = 1, .source = {0},
    },
};
static ROWS_ADDRESSES const tw_chain rows_0_chain = {.layers = rows_0_chain_layers, .count = 2, .given = 1, .wanted = 0};
static TW_LAYER ROWS_CODE(0) void rows_0_chain_run(unsigned char *arena) {
    tw_rows_progress at[2];
    tw_chain_back(&rows_0_chain, at, arena, NULL);
}

static ROWS_TABLES(1) const tw_conv2d_f32_params rows_1_conv_2d_params = {
    .window = {
        .batches = 1, .in_h = 6, .in_w = 5, .in_c = 4, .out_h = 6, .out_w = 5, .out_c = 4, .k_h = 3, .k_w = 1,
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 1, .pad_w = 0,
    },
    .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f}, .depth = 4,
};
static ROWS_TABLES(1) const tw_rows_member rows_1_conv_2d_members[] = {
    {.at = offsetof(tw_conv2d_f32_params, window.in_h), .low = 0, .high = 0, .each = TW_ROWS_IN},
    {.at = offsetof(tw_conv2d_f32_params, window.out_h), .low = 0, .high = 6, .each = 1},
    {.at = offsetof(tw_conv2d_f32_params, window.pad_h), .low = 1, .high = 1, .each = TW_ROWS_PAD},
};
static ROWS_ADDRESSES const void *const rows_1_conv_2d_in[] = {NULL, rows_1_weights, rows_1_bias};
static ROWS_ADDRESSES const tw_rows_call rows_1_conv_2d = {
    .kernel = rows_tw_conv2d_f32, .params = &rows_1_conv_2d_params, .in = rows_1_conv_2d_in,
    .members = rows_1_conv_2d_members, .bytes = sizeof rows_1_conv_2d_params, .inputs = 3, .member_count = 3,
    .scratch = 0, .sources = 1, .places = {0},
};
static ROWS_TABLES(2) const tw_add_f32_params rows_2_add_params = {
    .walk = {
        .size = 120, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static ROWS_TABLES(2) const tw_rows_member rows_2_add_members[] = {
    {.at = offsetof(tw_add_f32_params, walk.size), .low = 0, .high = 6, .each = 20},
};
static ROWS_ADDRESSES const void *const rows_2_add_in[] = {NULL, NULL};
static ROWS_ADDRESSES const tw_rows_call rows_2_add = {
    .kernel = rows_tw_add_f32, .params = &rows_2_add_params, .in = rows_2_add_in, .members = rows_2_add_members,
    .bytes = sizeof rows_2_add_params, .inputs = 2, .member_count = 1, .scratch = 0, .sources = 2, .places = {0, 1},
};
/* Layers 1 to 2, row by row
 *   1 of 6 rows of "conv_2d_6" at 560..640 */
static ROWS_ADDRESSES const tw_rows_layer rows_2_chain_layers[] = {
    {
        .run = NULL, .context = NULL, .offset = 80, .row = 80, .height = 6, .band = 0, .stride = 0, .pad = 0,
        .reach = 0, .capacity = 0, .kept = 0, .sources = 0, .source = {0},
    },
    {
        .run = tw_run_rows, .context = &rows_1_conv_2d, .offset = 560, .row = 80, .height = 6, .band = 1,
        .stride = 1, .pad = 1, .reach = 2, .capacity = 1, .kept = 0, .sources = 1, .source = {0},
    },
    {
        .run = tw_run_rows, .context = &rows_2_add, .offset = 0, .row = 80, .height = 6, .band = 1, .stride = 1,
        .pad = 0, .reach = 0, .capacity = 0, .kept = 0, .sources = 2, .source = {0, 1},
    },
};
static ROWS_ADDRESSES const tw_chain rows_2_chain = {.layers = rows_2_chain_layers, .count = 3, .given = 1, .wanted = 0};
static TW_LAYER ROWS_CODE(2) void rows_2_chain_run(unsigned char *arena) {
    tw_rows_progress at[3];
    tw_chain_run(&rows_2_chain, at, arena, NULL);
}

static ROWS_TABLES(3) const tw_max_pool_2d_f32_params rows_3_max_pool_2d_params = {
    .window = {
        .batches = 1, .in_h = 6, .in_w = 5, .in_c = 4, .out_h = 5, .out_w = 4, .out_c = 4, .k_h = 2, .k_w = 2,
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .pad_h = 0, .pad_w = 0,
    },
    .limits = {.low = -3.40282347e+38f, .high = 3.40282347e+38f},
};
static ROWS_TABLES(3) const tw_rows_member rows_3_max_pool_2d_members[] = {
    {.at = offsetof(tw_max_pool_2d_f32_params, window.in_h), .low = 0, .high = 0, .each = TW_ROWS_IN},
    {.at = offsetof(tw_max_pool_2d_f32_params, window.out_h), .low = 0, .high = 5, .each = 1},
    {.at = offsetof(tw_max_pool_2d_f32_params, window.pad_h), .low = 0, .high = 1, .each = TW_ROWS_PAD},
};
static ROWS_ADDRESSES const void *const rows_3_max_pool_2d_in[] = {NULL};
static ROWS_ADDRESSES const tw_rows_call rows_3_max_pool_2d = {
    .kernel = rows_tw_max_pool_2d_f32, .params = &rows_3_max_pool_2d_params, .in = rows_3_max_pool_2d_in,
    .members = rows_3_max_pool_2d_members, .bytes = sizeof rows_3_max_pool_2d_params, .inputs = 1, .member_count = 3,
    .scratch = 0, .sources = 1, .places = {0},
};
/* Layer 3, row by row, from the last to the first */
static ROWS_ADDRESSES const tw_rows_layer rows_3_chain_layers[] = {
    {
        .run = NULL, .context = NULL, .offset = 0, .row = 80, .height = 6, .band = 0, .stride = 0, .pad = 0,
        .reach = 0, .capacity = 0, .kept = 0, .sources = 0, .source = {0},
    },
    {
        .run = tw_run_rows, .context = &rows_3_max_pool_2d, .offset = 320, .row = 64, .height = 5, .band = 1,
        .stride = 1, .pad = 0, .reach = 1, .capacity = 0, .kept = 0, .sources = 1, .source = {0},
    },
};
static ROWS_ADDRESSES const tw_chain rows_3_chain = {.layers = rows_3_chain_layers, .count = 2, .given = 1, .wanted = 0};
static TW_LAYER ROWS_CODE(3) void rows_3_chain_run(unsigned char *arena) {
    tw_rows_progress at[2];
    tw_chain_back(&rows_3_chain, at, arena, NULL);
}

static ROWS_ADDRESSES const void *const rows_constants[] = {
    NULL,
};
/* Of every layer the inputs, then the outputs: bytes of the arena, below 0 constants. */
static ROWS_SECTION_TABLES const int32_t rows_pointers[] = {
    320, 0,
};
/* Kernel, params, pointers, scratch, how many inputs and outputs. */
static ROWS_ADDRESSES const tw_step rows_table[] = {
    {rows_tw_average_pool_2d_f32, &rows_4_params, rows_pointers + 0, 0, 1, 1},
};

static TW_LAYER ROWS_SECTION_CODE void rows_layer(unsigned char *arena, int32_t i) {
    const tw_memory memory = {arena, NULL, INT32_MAX};
    const void *in[1];
    void *out[1];
    tw_run_step(&rows_table[i], rows_constants, &memory, in, out);
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
    rows_0_chain_run(base);
    if (ROWS_HOOK(2)) return TW_CANCELLED;
    rows_2_chain_run(base);
    if (ROWS_HOOK(3)) return TW_CANCELLED;
    rows_3_chain_run(base);
    if (ROWS_HOOK(4)) return TW_CANCELLED;
    rows_layer(base, 0);
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
        case 0: rows_0_chain_run(base); break;
        case 2: rows_2_chain_run(base); break;
        case 3: rows_3_chain_run(base); break;
        case 4: rows_layer(base, 0); break;
        default: break; /* it runs with a later layer */
        }
    }
    return TW_OK;
}
#endif
