/* SPDX-License-Identifier: Apache-2.0 */
/* passing: made by twinfer VERSION for target host. Do not edit. */
#ifndef PASSING_DATA_H
#define PASSING_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const float passing_1_weights[9];

#ifdef __cplusplus
}
#endif
#endif
