/* SPDX-License-Identifier: LicenseRef-model */
/* passing: made by twinfer VERSION for target host. Do not edit. */
#include "passing_data.h"
#include "passing.h"

#include <stdalign.h>

const char passing_model_sha256[65] = "0000000000000000000000000000000000000000000000000000000000000000";

/* "odd floats": float32[3, 3], 36 bytes */
alignas(64) const float passing_1_weights[9] = {
    __builtin_nanf("0x0"), -__builtin_nanf("0x1"), __builtin_nansf("0x1"), __builtin_inff(), -__builtin_inff(),
    -0.0f, 1.40129846e-45f, 3.40282347e+38f, 0.100000001f
};
