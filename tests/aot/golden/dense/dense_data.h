/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#ifndef DENSE_DATA_H
#define DENSE_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const int8_t dense_0_in1[36];
extern const int32_t dense_0_in2[6];
extern const int32_t dense_0_in3[1];
extern const int8_t dense_0_in4[1];
extern const int8_t dense_1_in1[36];
extern const int32_t dense_1_in2[6];
extern const int32_t dense_1_in3[1];
extern const int8_t dense_1_in4[1];
extern const int8_t dense_2_in1[36];
extern const int32_t dense_2_in2[6];
extern const int32_t dense_2_in3[1];
extern const int8_t dense_2_in4[1];

#ifdef __cplusplus
}
#endif
#endif
