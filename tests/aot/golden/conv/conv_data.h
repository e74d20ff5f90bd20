/* SPDX-License-Identifier: Apache-2.0 */
/* conv: made by twinfer VERSION for target host. Do not edit. */
#ifndef CONV_DATA_H
#define CONV_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const float conv_0_weights[288];
extern const float conv_0_bias[16];

#ifdef __cplusplus
}
#endif
#endif
