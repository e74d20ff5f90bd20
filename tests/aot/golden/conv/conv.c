/* SPDX-License-Identifier: Apache-2.0 */
/* conv: made by twinfer VERSION for target host. Do not edit. */
#include "conv.h"
#include "conv_place.h"
#include "conv_data.h"
#include "kernels/core/tw.h"
#include "kernels/conv/conv2d_f32.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TW_NEED_FLOATS;

/* Layer 0: CONV_2D, operator 0 of the model; tw_conv2d_wide_f32, 216 MACs
 *   in  "x" FLOAT32 [1, 4, 4, 2] at 0..128
 *   out "y" FLOAT32 [1, 2, 2, 3] at 128..176
 *   scratch at 176..296 */
static CONV_TABLES(0) const tw_conv2d_wide_f32_params conv_0_params = {
    .window = {
        .batches = 1, .in_h = 4, .in_w = 4, .in_c = 2, .out_h = 2, .out_w = 2, .out_c = 3, .k_h = 3, .k_w = 3,
        .stride_h = 2, .stride_w = 2, .dilation_h = 1, .dilation_w = 1, .pad_h = 0, .pad_w = 0,
    },
    .limits = {.low = 0.0f, .high = 6.0f}, .columns = 5,
};
static TW_LAYER CONV_CODE(0) void conv_0_conv_2d(unsigned char *arena) {
    const void *const in[] = {arena, conv_0_weights, conv_0_bias};
    void *const out[] = {arena + 128};
    tw_conv2d_wide_f32_body(&conv_0_params, in, out, arena + 176);
}

/* Copies unless one side is absent or the value is in place already. */
static CONV_SECTION_CODE void conv_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

CONV_SECTION_CODE int conv_run(void *arena, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % CONV_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (inputs != NULL) {
        conv_copy(base + CONV_INPUT_0_OFFSET, inputs[0], CONV_INPUT_0_BYTES);
    }
    if (CONV_HOOK(0)) return TW_CANCELLED;
    conv_0_conv_2d(base);
    if (outputs != NULL) {
        conv_copy(outputs[0], base + CONV_OUTPUT_0_OFFSET, CONV_OUTPUT_0_BYTES);
    }
    return TW_OK;
}

#ifdef TW_RUN_LAYERS
CONV_SECTION_CODE int conv_run_layers(void *arena, int32_t from, int32_t to) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % CONV_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (from < 0 || to > 1 || from > to) return TW_NO_LAYER;
    for (int32_t i = from; i < to; ++i) {
        if (CONV_HOOK(i)) return TW_CANCELLED;
        switch (i) {
        case 0: conv_0_conv_2d(base); break;
        default: break; /* it runs with a later layer */
        }
    }
    return TW_OK;
}
#endif
