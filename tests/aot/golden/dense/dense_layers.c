/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"

static const int32_t dense_shapes[] = {
    1, 6, 1, 6, 1, 6,
};
/* Operator, kernel, output, multiply-accumulates, type and shape of the output, the layer that it runs with. */
const tw_layer dense_layers[DENSE_LAYER_COUNT] = {
    {"FULLY_CONNECTED", "tw_fully_connected_s8", "y0", 36u, "INT8", dense_shapes + 0, 2, 0},
    {"FULLY_CONNECTED", "tw_fully_connected_s8", "y1", 36u, "INT8", dense_shapes + 2, 2, 1},
    {"FULLY_CONNECTED", "tw_fully_connected_s8", "y2", 36u, "INT8", dense_shapes + 4, 2, 2},
};
