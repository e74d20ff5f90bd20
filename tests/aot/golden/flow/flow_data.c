/* SPDX-License-Identifier: LicenseRef-model */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#include "flow_data.h"
#include "flow.h"

#include <stdalign.h>

const char flow_model_sha256[65] = "0000000000000000000000000000000000000000000000000000000000000000";

/* "init_1": float32[2], 8 bytes */
alignas(4) const float flow_9_weights[2] = {
    1.0f, 2.0f
};

/* "main_3": float32[1], 4 bytes */
alignas(4) const float flow_3_weights[1] = {
    0.0f
};

/* "test_4": float32[1], 4 bytes */
alignas(4) const float flow_4_weights[1] = {
    3.0f
};

/* "body_4": float32[1], 4 bytes */
alignas(4) const float flow_5_weights[1] = {
    1.0f
};
