/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#ifndef DENSE_DATA_H
#define DENSE_DATA_H
#include "dense_place.h"

#include <stdalign.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For which code these are, and their CRC-32: they are compared by check. */
extern DENSE_SECTION_TABLES const uint32_t dense_structure, dense_crc;
alignas(4) extern DENSE_WEIGHTS(0) const int8_t dense_0_weights[36];
alignas(4) extern DENSE_WEIGHTS(0) const int32_t dense_0_bias[6];
alignas(4) extern DENSE_TABLES(0) const int32_t dense_0_multipliers[1];
alignas(4) extern DENSE_TABLES(0) const int8_t dense_0_shifts[1];
alignas(4) extern DENSE_WEIGHTS(1) const int8_t dense_1_weights[36];
alignas(4) extern DENSE_WEIGHTS(1) const int32_t dense_1_bias[6];
alignas(4) extern DENSE_TABLES(1) const int32_t dense_1_multipliers[1];
alignas(4) extern DENSE_TABLES(1) const int8_t dense_1_shifts[1];
alignas(4) extern DENSE_WEIGHTS(2) const int8_t dense_2_weights[36];
alignas(4) extern DENSE_WEIGHTS(2) const int32_t dense_2_bias[6];
alignas(4) extern DENSE_TABLES(2) const int32_t dense_2_multipliers[1];
alignas(4) extern DENSE_TABLES(2) const int8_t dense_2_shifts[1];

#ifdef __cplusplus
}
#endif
#endif
