/* SPDX-License-Identifier: Apache-2.0 */
/* rows: made by twinfer VERSION for target generic, memory by rows. Do not edit. */
#ifndef ROWS_DATA_H
#define ROWS_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const float rows_0_weights[72];
extern const float rows_0_bias[4];
extern const float rows_1_weights[48];
extern const float rows_1_bias[4];

#ifdef __cplusplus
}
#endif
#endif
