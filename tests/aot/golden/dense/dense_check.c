/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"
#include "dense_data.h"
#include "kernels/run/crc.h"

static DENSE_ADDRESSES const tw_stored dense_stored[] = {
    {dense_0_weights, sizeof dense_0_weights, sizeof *dense_0_weights},
    {dense_0_bias, sizeof dense_0_bias, sizeof *dense_0_bias},
    {dense_0_multipliers, sizeof dense_0_multipliers, sizeof *dense_0_multipliers},
    {dense_0_shifts, sizeof dense_0_shifts, sizeof *dense_0_shifts},
    {dense_1_weights, sizeof dense_1_weights, sizeof *dense_1_weights},
    {dense_1_bias, sizeof dense_1_bias, sizeof *dense_1_bias},
    {dense_1_multipliers, sizeof dense_1_multipliers, sizeof *dense_1_multipliers},
    {dense_1_shifts, sizeof dense_1_shifts, sizeof *dense_1_shifts},
    {dense_2_weights, sizeof dense_2_weights, sizeof *dense_2_weights},
    {dense_2_bias, sizeof dense_2_bias, sizeof *dense_2_bias},
    {dense_2_multipliers, sizeof dense_2_multipliers, sizeof *dense_2_multipliers},
    {dense_2_shifts, sizeof dense_2_shifts, sizeof *dense_2_shifts},
};

DENSE_SECTION_CODE int dense_check(void) {
    uint32_t crc = 0;
    if (dense_structure != DENSE_STRUCTURE) return TW_OTHER_WEIGHTS;
    for (int32_t i = 0; i < 12; ++i) crc = tw_crc(crc, dense_stored + i);
    return crc == dense_crc ? TW_OK : TW_BAD_WEIGHTS;
}
