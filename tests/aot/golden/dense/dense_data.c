/* SPDX-License-Identifier: LicenseRef-model */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense_data.h"
#include "dense.h"

const char dense_model_sha256[65] = "0000000000000000000000000000000000000000000000000000000000000000";
DENSE_SECTION_TABLES const uint32_t dense_structure = 0x476b1a38u, dense_crc = 0x3fbae8f5u;

/* weights of "w0": int8[6, 6], 36 bytes */
alignas(4) const int8_t dense_0_weights[36] = {
    -7, 3, 65, 115, -119, -91, 82, 114, -64, -48, 94, -20, -58, 84, -62, -23, 37, 13, -106, -120, 93, 65, 86, 10, 81,
    -43, -12, 74, -96, -50, -96, -12, 122, -93, -30, -25
};

/* bias of "b0": int32[6], 24 bytes */
alignas(4) const int32_t dense_0_bias[6] = {
    641, -1403, 65, -434, -159, 1188
};

/* multipliers of operator 0 FULLY_CONNECTED: int32[1], 4 bytes */
alignas(4) const int32_t dense_0_multipliers[1] = {
    1374389504
};

/* shifts of operator 0 FULLY_CONNECTED: int8[1], 1 bytes */
alignas(4) const int8_t dense_0_shifts[1] = {
    -7
};

/* weights of "w1": int8[6, 6], 36 bytes */
alignas(4) const int8_t dense_1_weights[36] = {
    -112, -56, 0, -4, -98, 123, 64, 118, -104, 57, -53, 11, 108, -57, 58, -87, -45, 120, -20, 4, -53, -98, -19, 31,
    -11, 71, -35, 29, 70, 106, -19, -117, 56, 7, 95, -10
};

/* bias of "b1": int32[6], 24 bytes */
alignas(4) const int32_t dense_1_bias[6] = {
    -573, -159, 248, -324, 960, 388
};

/* multipliers of operator 1 FULLY_CONNECTED: int32[1], 4 bytes */
alignas(4) const int32_t dense_1_multipliers[1] = {
    1374389504
};

/* shifts of operator 1 FULLY_CONNECTED: int8[1], 1 bytes */
alignas(4) const int8_t dense_1_shifts[1] = {
    -6
};

/* weights of "w2": int8[6, 6], 36 bytes */
alignas(4) const int8_t dense_2_weights[36] = {
    -73, 24, 78, -61, -40, 87, 21, 2, 44, 3, 123, 65, -114, -90, 11, 82, -110, 47, 66, 73, 95, -79, 14, 77, -36, -79,
    -5, -107, -71, 91, 43, 92, 87, 96, -48, -7
};

/* bias of "b2": int32[6], 24 bytes */
alignas(4) const int32_t dense_2_bias[6] = {
    162, 548, -103, 245, -283, 934
};

/* multipliers of operator 2 FULLY_CONNECTED: int32[1], 4 bytes */
alignas(4) const int32_t dense_2_multipliers[1] = {
    1374389504
};

/* shifts of operator 2 FULLY_CONNECTED: int8[1], 1 bytes */
alignas(4) const int8_t dense_2_shifts[1] = {
    -6
};
